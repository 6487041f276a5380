//! How a server is asked for JSON of a schema, and how its answer is read.
//!
//! Each dialect has a member that constrains a model to the schema (`response_format` in chat completions), and most servers
//! know it. [`JsonForm`] names two other ways for those that refuse or ignore it. The caller checks the answer against the schema whichever way was used.

use hub::Completion;
use serde_json::{Value, json};

/// The name of the tool whose arguments are the answer.
pub(super) const ANSWER_TOOL: &str = "answer";
/// The description of that tool.
pub(super) const ANSWER_TOOL_WORDS: &str =
    "Takes the answer. Call it once, with all of the answer.";

/// What the last message says before the schema.
const WORDS: &str = "Answer with one JSON value alone, with no words and no code fence around it. It must be valid \
by this JSON Schema:\n";

/// How a server is asked for JSON of a schema.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum JsonForm {
    /// The dialect's own member with the schema.
    #[default]
    Schema,
    /// The schema is the parameters of the only tool, which must be called. A schema of anything but an object is asked
    /// for in words, since the API allows no other parameters.
    Call,
    /// The schema is at the end of the last message.
    Words,
}

/// A request for JSON in one of the forms.
pub(super) struct Wanted<'a> {
    /// The schema as text.
    pub(super) text: &'a str,
    schema: Value,
    form: JsonForm,
}

impl<'a> Wanted<'a> {
    /// # Errors
    /// The schema is not JSON.
    pub(super) fn new(form: JsonForm, text: &'a str) -> Result<Self, String> {
        let schema: Value = serde_json::from_str(text)
            .map_err(|error| format!("the schema of the answer is not JSON: {error}"))?;
        let is_object = schema.get("type").and_then(Value::as_str) == Some("object");
        let form = match form {
            JsonForm::Call if !is_object => JsonForm::Words,
            form => form,
        };
        Ok(Self { text, schema, form })
    }

    pub(super) fn by_call(&self) -> bool {
        self.form == JsonForm::Call
    }

    fn by_schema(&self) -> Option<&Value> {
        (self.form == JsonForm::Schema).then_some(&self.schema)
    }

    /// `response_format` of chat completions.
    pub(super) fn response_format(&self) -> Option<Value> {
        let schema = self.by_schema()?;
        let strict = is_closed(schema);
        let schema = json!({"name": "answer", "strict": strict, "schema": schema});
        Some(json!({"type": "json_schema", "json_schema": schema}))
    }

    /// `output_config.format` of messages.
    pub(super) fn output_format(&self) -> Option<Value> {
        Some(json!({"type": "json_schema", "schema": self.by_schema()?}))
    }

    /// `text.format` of responses.
    pub(super) fn text_format(&self) -> Option<Value> {
        let schema = self.by_schema()?;
        let strict = is_closed(schema);
        Some(json!({"type": "json_schema", "name": "answer", "strict": strict, "schema": schema}))
    }

    /// The text to add to the last message.
    pub(super) fn words(&self) -> Option<String> {
        (self.form == JsonForm::Words).then(|| format!("{WORDS}{}", self.text))
    }
}

/// Whether `strict` may be set: each part has a type, and each object lists all of its members, requires them and
/// admits no others. With `strict`, a provider refuses any other schema; without it, the schema is a hint.
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

/// The answer with its JSON as the text: out of the answer's tool, and without a code fence, which models add in spite
/// of instructions. Anything else stays as it is, for the caller to evaluate.
pub(super) fn as_text(mut completion: Completion) -> Completion {
    if let [call] = completion.calls.as_slice()
        && call.tool == ANSWER_TOOL
    {
        completion.text = call.arguments.clone();
        completion.calls.clear();
    }
    let text = completion.text.trim();
    let inside = text
        .strip_prefix("```")
        .and_then(|it| it.strip_suffix("```"));
    let text = inside.map_or(text, |it| it.strip_prefix("json").unwrap_or(it).trim());
    completion.text = text.to_owned();
    completion
}
