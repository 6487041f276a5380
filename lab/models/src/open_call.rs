//! Requests to fill in one value of a call ([`hub::Filling::Eager`]).

use hub::{Completion, FILL_NOTE, OPEN, ProposedCall};
use ifc::{PromptMessage, REDACTED};
use llm::text_answer;
use serde_json::{Value, json};

/// The call that such a request is about.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenCall {
    tool: Value,
    arguments: Value,
}

impl OpenCall {
    /// The request at the end of a prompt, and what stands before it; `None` if there is none.
    pub fn of(messages: &[PromptMessage]) -> Option<(Self, &[PromptMessage])> {
        let (PromptMessage::User(last), before) = messages.split_last()? else {
            return None;
        };
        let call: Value = serde_json::from_str(last.strip_prefix(FILL_NOTE)?).ok()?;
        let open = Self {
            tool: call.get("tool")?.clone(),
            arguments: call.get("arguments")?.clone(),
        };
        Some((open, before))
    }

    /// The answer of an agent that would make these calls: the value that its call of this form has in the open
    /// place, or [`REDACTED`] if there is no such call.
    pub fn answer(&self, calls: &[ProposedCall]) -> Completion {
        let value = calls.iter().find_map(|call| self.value(call));
        let value = value.unwrap_or_else(|| Value::from(REDACTED));
        text_answer(json!({ "value": value }).to_string())
    }

    fn value(&self, call: &ProposedCall) -> Option<Value> {
        let made: Value = serde_json::from_str(&call.arguments).ok()?;
        let mut found = None;
        let same = self.tool == call.tool && has_form(&made, &self.arguments, &mut found);
        found.filter(|_| same)
    }
}

/// Whether `made` has the form of `form`, where any value fits what is hidden or open. The value in the open place
/// goes to `found`.
fn has_form(made: &Value, form: &Value, found: &mut Option<Value>) -> bool {
    match (made, form) {
        (_, Value::String(mark)) if mark == OPEN => {
            *found = Some(made.clone());
            true
        }
        (_, Value::String(mark)) if mark == REDACTED => true,
        (Value::Object(made), Value::Object(form)) => {
            // A field more or less would be a call of another form.
            made.len() == form.len()
                && form.iter().all(|(name, form)| {
                    made.get(name)
                        .is_some_and(|made| has_form(made, form, found))
                })
        }
        (Value::Array(made), Value::Array(form)) => {
            made.len() == form.len()
                && made
                    .iter()
                    .zip(form)
                    .all(|(made, form)| has_form(made, form, found))
        }
        (made, form) => made == form,
    }
}
