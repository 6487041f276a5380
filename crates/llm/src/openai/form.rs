//! The ways in which a server is asked for JSON of a schema.
//!
//! `response_format` holds a model to the schema. Some compatible servers refuse it, others pass over it; these are
//! asked for the call of a tool that has the schema, and those that know no such calls in words. Whoever asks reads
//! the answer by the schema, in whichever way it was asked for.

use std::sync::{Mutex, MutexGuard, PoisonError};

use ifc::Label;
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

/// Models of which is remembered what they know, for each label of prompts. A proxy's clients name the models, and
/// there are more of them than anybody uses with one server.
const MAX_MODELS: usize = 16;

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
    const ALL: [Self; 3] = [Self::Format, Self::Call, Self::Words];
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

/// Whether a provider can hold an answer to a schema to the letter: each part has a type, each object names all of its
/// members, and needs them. One that is told to hold to another schema refuses the request; not told to, it takes the
/// schema for a hint. Whoever asks reads the answer by the schema either way.
fn is_closed(schema: &Value) -> bool {
    let kind = schema.get("type").and_then(Value::as_str);
    match kind {
        Some("object") => {
            let members = schema.get("properties").and_then(Value::as_object);
            let required = schema.get("required").and_then(Value::as_array);
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

/// The ways that the models of a server have been found not to know.
///
/// What an answer shows of them has the label of its prompt: a mail can ask a model to answer in prose. So it counts
/// where that label flows to the prompt's, and no prompt below it is sent in another way because of it.
#[derive(Debug, Default)]
pub(super) struct Unknown(Mutex<Vec<Found>>);

/// A way that a model was found not to know.
#[derive(Debug, PartialEq)]
struct Found {
    label: Label,
    model: String,
    form: Form,
}

impl Unknown {
    /// The ways that are left for a prompt with this label. The last one always is.
    pub(super) fn left(&self, label: &Label, model: &str) -> Vec<Form> {
        let found = self.lock();
        let is_unknown = |form: Form| {
            let mut found = found.iter();
            found.any(|it| it.form == form && it.model == model && it.label.flows_to(label))
        };
        let left = Form::ALL.into_iter();
        left.filter(|form| *form == Form::Words || !is_unknown(*form))
            .collect()
    }

    /// Remembers that a model does not know a way, as an answer to a prompt with this label has shown.
    pub(super) fn remember(&self, label: &Label, model: &str, form: Form) {
        let mut found = self.lock();
        let new = Found {
            label: label.clone(),
            model: model.to_owned(),
            form,
        };
        // Counted by label: that there was no room tells nothing of other labels.
        let same = found.iter().filter(|it| it.label == *label).count();
        if same < MAX_MODELS * Form::ALL.len() && !found.contains(&new) {
            found.push(new);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Found>> {
        // Nothing that holds it can stop half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use ifc::Lattice;

    use super::*;

    /// What a prompt that a stranger's words are in has shown changes nothing for one that has none.
    #[test]
    fn what_a_prompt_has_shown_counts_for_none_below_it() {
        let lattice = Lattice::four_point();
        let [mail, secret] = ["untrusted", "secret"].map(|name| lattice.label(name).unwrap());
        let (bottom, both) = (Label::bottom(), mail.join(&secret));
        let unknown = Unknown::default();
        unknown.remember(&mail, "m", Form::Format);
        assert_eq!(unknown.left(&bottom, "m"), Form::ALL);
        assert_eq!(unknown.left(&secret, "m"), Form::ALL);
        assert_eq!(unknown.left(&mail, "other"), Form::ALL);
        for label in [&mail, &both] {
            assert_eq!(unknown.left(label, "m"), [Form::Call, Form::Words]);
        }
        unknown.remember(&bottom, "m", Form::Call);
        assert_eq!(unknown.left(&secret, "m"), [Form::Format, Form::Words]);
        assert_eq!(unknown.left(&both, "m"), [Form::Words]);
        unknown.remember(&bottom, "m", Form::Words);
        assert_eq!(unknown.left(&both, "m"), [Form::Words]);
    }

    /// A client that names a new model with each request fills no memory, and only that of its label.
    #[test]
    fn what_is_remembered_is_bounded_for_each_label() {
        let (bottom, top) = (Label::bottom(), Label::top());
        let unknown = Unknown::default();
        for n in 0..10_000 {
            unknown.remember(&top, &format!("m{n}"), Form::Format);
        }
        assert!(unknown.lock().len() <= 100);
        unknown.remember(&bottom, "m", Form::Format);
        assert_eq!(unknown.left(&bottom, "m"), [Form::Call, Form::Words]);
    }
}
