//! The ways in which a server is asked for JSON of a schema.
//!
//! `response_format` holds a model to the schema. Some compatible servers refuse it, others pass over it; these are
//! asked for the call of a tool that has the schema, and those that know no such calls in words. Whoever asks reads
//! the answer by the schema, in whichever way it was asked for.

use serde::Serialize;
use serde_json::Value;

/// What the tool is called whose arguments are the answer.
pub(super) const ANSWER_TOOL: &str = "answer";

/// What is said of that tool.
pub(super) const ANSWER_TOOL_WORDS: &str =
    "Takes the answer. Call it once, with all of the answer.";

/// What a model is told in words; the schema follows.
const WORDS: &str = "Answer with one JSON value alone, with no words and no code fence around it. It must be valid \
by this JSON Schema:\n";

/// A way to ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// `response_format` with the schema.
    Format,
    /// The schema is the parameters of the only tool, which is to be called.
    Call,
    /// The schema stands at the end of the last message.
    Words,
}

impl Form {
    /// The strictest first.
    pub(super) const ALL: [Self; 3] = [Self::Format, Self::Call, Self::Words];
}

/// JSON that is asked for in one way.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    /// The schema as it was given, and what it says.
    pub(super) text: &'a str,
    pub(super) schema: &'a Value,
    pub(super) form: Form,
}

impl<'a> Wanted<'a> {
    pub(super) fn response_format(&self) -> Option<ResponseFormat<'a>> {
        (self.form == Form::Format).then(|| ResponseFormat {
            r#type: "json_schema",
            json_schema: JsonSchema {
                name: "answer",
                strict: is_closed(self.schema),
                schema: self.schema,
            },
        })
    }

    /// What is added to the last message.
    pub(super) fn words(&self) -> Option<String> {
        (self.form == Form::Words).then(|| format!("{WORDS}{}", self.text))
    }
}

#[derive(Serialize)]
pub(super) struct ResponseFormat<'a> {
    r#type: &'static str,
    json_schema: JsonSchema<'a>,
}

#[derive(Serialize)]
struct JsonSchema<'a> {
    name: &'static str,
    strict: bool,
    schema: &'a Value,
}

/// Whether `strict` may be set: each part has a type, and each object lists all of its members, requires them and
/// admits no others. With `strict`, a provider refuses any other schema; without it, the schema is a hint. The caller
/// checks the answer against the schema in both cases.
fn is_closed(schema: &Value) -> bool {
    let kind = schema.get("type").and_then(Value::as_str);
    match kind {
        Some("object") => {
            let members = schema.get("properties").and_then(Value::as_object);
            let required = schema.get("required").and_then(Value::as_array);
            // Strict mode wants every member required; optional ones are written as nullable there.
            let is_needed = |name: &String| {
                required
                    .is_some_and(|names| names.iter().any(|it| it.as_str() == Some(name.as_str())))
            };
            let mut members = members.into_iter().flatten();
            schema.get("additionalProperties") == Some(&Value::Bool(false))
                && members.all(|(name, member)| is_needed(name) && is_closed(member))
        }
        Some("array") => schema.get("items").is_some_and(is_closed),
        Some(_) => true,
        None => schema.get("enum").is_some(),
    }
}
