//! The request for one value of a call, and what its answer is.

use ifc::{ArgumentPath, Arguments, Label, REDACTED};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::schema::{fits, inlined};
use crate::{AnswerShape, Completion, ProposedCall, StopReason};

/// What a model is told that fills one value of a call: the last message of its prompt begins with it. The call
/// follows, as a JSON object with `tool` and `arguments`.
pub const FILL_NOTE: &str = "(The runtime, not the user, says this: the call below is about to be made. One value \
in it is open and stands as \"[open]\"; what stands as [redacted] is hidden from this request. Answer with \
{\"value\": …} alone: what belongs in the open place, by what you can see here. If it can only be made from what is \
hidden, the value is \"[redacted]\".)\n";

/// What stands for the value that is to be filled in.
pub const OPEN: &str = "[open]";

/// The note that a call follows, as JSON text.
pub(super) fn note(call: &str) -> String {
    format!("{FILL_NOTE}{call}")
}

/// A call with one of its values open, and without what stands at the `hidden` places; `None` if that is no place.
pub(super) fn opened<'p>(
    call: &ProposedCall,
    hidden: impl Iterator<Item = &'p ArgumentPath>,
    (open, nth): (&ArgumentPath, usize),
) -> Option<String> {
    let mut arguments = Arguments::parse(&call.arguments, &Label::bottom()).ok()?;
    let mark = |mark: &str| json!(mark).to_string();
    for path in hidden {
        // Data arguments may be above the label of this request. Their number is of the control part.
        for nth in 0..arguments.at(path)?.len() {
            arguments = arguments.with_value(path, nth, &mark(REDACTED))?;
        }
    }
    let arguments = arguments.with_value(open, nth, &mark(OPEN))?.to_json();
    // The text itself: a reader would round its numbers, and the model is to see the call that is made.
    let arguments = RawValue::from_string(arguments).ok()?;
    let tool = &call.tool;
    serde_json::to_string(&Opened { tool, arguments }).ok()
}

/// What follows the note.
#[derive(Serialize)]
struct Opened<'a> {
    tool: &'a str,
    arguments: Box<RawValue>,
}

/// What a tool's parameters say of the value at a path; anything, where they say nothing.
pub(super) fn schema_at(path: &ArgumentPath, parameters: &str) -> Value {
    let all: Value = serde_json::from_str(parameters).unwrap_or_default();
    // A reference leads to a part of the schema that is not sent along.
    let all = inlined(&all);
    let found = path.follow(&all, |schema, member| match member {
        Some(name) => schema.get("properties")?.get(name),
        None => schema.get("items"),
    });
    let found = found.filter(|schema| schema.is_object());
    found.cloned().unwrap_or_else(|| json!({}))
}

/// The form of the answer: an object with a value of this schema.
pub(super) fn shape(schema: &Value) -> AnswerShape {
    // In an object, since structured output of many servers has one at its root.
    let schema = json!({
        "type": "object",
        "properties": {"value": schema},
        "required": ["value"],
        "additionalProperties": false,
    });
    AnswerShape::Json {
        schema: schema.to_string(),
    }
}

/// The value that an answer is, in canonical form; `None` if it is none, does not fit its schema, or has a mark of
/// ours in it.
pub(super) fn read(answer: &Completion, schema: &Value) -> Option<String> {
    // Where a provider knows no schemas, the value may come as a call's only argument.
    let text = match answer.calls.as_slice() {
        [] => answer.text.trim(),
        [call] => &call.arguments,
        _ => return None,
    };
    let arguments = Arguments::parse(text, &Label::bottom()).ok()?;
    let value = arguments.get("value")?.reveal_tcb();
    // A model says by a mark that it cannot make the value here; an app must not get it as one.
    let is_marked = value.contains(REDACTED) || value.contains(OPEN);
    let is_whole = answer.stop == StopReason::End && arguments.len() == 1;
    let read = serde_json::from_str(value).ok()?;
    (is_whole && !is_marked && fits(&read, schema)).then(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_call_is_the_one_that_is_made() {
        let call = ProposedCall {
            tool: "pay".to_owned(),
            arguments: r#"{"to": "a", "account": 21000418450200051332, "rate": 1e0, "note": "n"}"#
                .to_owned(),
        };
        let note = ArgumentPath::of("note");
        assert_eq!(
            opened(&call, std::iter::empty(), (&note, 0)).as_deref(),
            Some(
                r#"{"tool":"pay","arguments":{"account":21000418450200051332,"note":"[open]","rate":1e0,"to":"a"}}"#
            )
        );
    }
}
