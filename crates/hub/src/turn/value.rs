//! A step in parts as data: what is open, the request for one value, and how its answer is read.

use std::collections::{BTreeMap, VecDeque};

use ifc::{ArgumentPath, Arguments, History, Label, Labeled, REDACTED};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::schema::{fits, inlined};
use crate::{AnswerShape, Completion, ProposedCall, StopReason};

/// The note to a model that fills one value of a call: the last message of its prompt begins with it. The call follows,
/// as a JSON object with `tool` and `arguments`.
pub const FILL_NOTE: &str = "(The runtime, not the user, says this: the call below is about to be made. One value \
in it is open and stands as \"[open]\"; what stands as [redacted] is hidden from this request. Answer with \
{\"value\": …} alone: what belongs in the open place, by what you can see here. If it can only be made from what is \
hidden, the value is \"[redacted]\".)\n";

/// The mark of the value that is to be filled in.
pub const OPEN: &str = "[open]";

/// A step that is made in parts, as far as it is made.
pub(super) struct Fill {
    pub(super) draft: Completion,
    /// The label of the draft.
    pub(super) draft_label: Label,
    /// For each call of the draft, what need not be in its control part.
    pub(super) open: Vec<OpenCall>,
    /// The limit of the control parts, and the label of all that it admits.
    pub(super) limit: Label,
    pub(super) admitted: Label,
    /// The same with the limits of the data arguments that the draft exceeds: they cannot be below their control part.
    pub(super) blocking: Label,
    /// The step with the draft's control parts that has the lowest label, and this label.
    pub(super) step: Completion,
    pub(super) label: Label,
    /// The value under way; none while the control parts are.
    pub(super) gap: Option<Gap>,
    pub(super) queue: VecDeque<Gap>,
    pub(super) done: Vec<Gap>,
    /// The labels that were tried for the part under way.
    pub(super) attempts: Vec<Label>,
    /// The label of the next prompt, and the schema of the value that it is to make.
    pub(super) next: Label,
    pub(super) schema: Value,
    pub(super) requests: usize,
}

impl Fill {
    /// Whether the control parts are under way.
    pub(super) fn is_control(&self) -> bool {
        self.gap.is_none()
    }

    pub(super) fn open_call(&self, gap: &Gap) -> Option<&OpenCall> {
        self.open.get(gap.call)
    }

    /// Whether a step has the control parts of the draft.
    pub(super) fn has_controls(&self, step: &Completion) -> bool {
        let draft = &self.draft.calls;
        let mut pairs = step.calls.iter().zip(draft).zip(&self.open);
        step.calls.len() == draft.len()
            && pairs.all(|((call, drafted), open)| open.is_control(call, drafted))
    }

    /// The values that the control parts have not made.
    pub(super) fn gaps(&self) -> Option<Vec<Gap>> {
        let mut gaps = Vec::new();
        let calls = self.step.calls.iter().zip(&self.draft.calls);
        for (at, ((call, drafted), open)) in calls.zip(&self.open).enumerate() {
            let arguments = Arguments::parse(&call.arguments, &Label::bottom()).ok()?;
            let others = Arguments::parse(&drafted.arguments, &Label::bottom()).ok()?;
            for path in open.paths() {
                let values = arguments.at(path)?.into_iter().zip(others.at(path)?);
                for (nth, (value, drafted)) in values.enumerate() {
                    // The same without what is above: it does not depend on that.
                    if value.reveal_tcb() == drafted.reveal_tcb() {
                        continue;
                    }
                    let limit = open.data.get(path);
                    // A data argument with a limit below the draft is made anew, under that limit.
                    let is_anew = limit.is_some_and(|limit| !self.draft_label.flows_to(limit));
                    let drafted = drafted.reveal_tcb().to_owned();
                    gaps.push(Gap {
                        call: at,
                        path: path.clone(),
                        nth,
                        limit: limit.cloned(),
                        made: (!is_anew).then(|| (drafted.clone(), self.draft_label.clone())),
                        drafted,
                    });
                }
            }
        }
        Some(gaps)
    }

    /// The call that a value is asked for: as its control part has it, without its data.
    pub(super) fn note(&self, gap: &Gap) -> Labeled {
        let call = self.step.calls.get(gap.call);
        let hidden = self.open_call(gap).map(|call| call.data.keys());
        let hidden = hidden.into_iter().flatten();
        let call = call.and_then(|call| opened(call, hidden, (&gap.path, gap.nth)));
        let note = note(&call.unwrap_or_default());
        Labeled::label_tcb(note, self.label.clone())
    }
}

/// The arguments of a call that may be filled by themselves.
pub(super) struct OpenCall {
    pub(super) tool: String,
    /// The data arguments, each with the label of all that it may depend on.
    pub(super) data: BTreeMap<ArgumentPath, Label>,
    /// The arguments without data in them. They are of the control part, and asked about under labels of their own.
    pub(super) control: Vec<ArgumentPath>,
}

impl OpenCall {
    pub(super) fn paths(&self) -> impl Iterator<Item = &ArgumentPath> + Clone {
        self.data.keys().chain(&self.control)
    }

    /// Whether a call has the control part of the drafted one. An argument of it may be hidden; one with another value
    /// makes it another call.
    pub(super) fn is_control(&self, call: &ProposedCall, drafted: &ProposedCall) -> bool {
        let read = |call: &ProposedCall| Arguments::parse(&call.arguments, &Label::bottom());
        let (Ok(arguments), Ok(others)) = (read(call), read(drafted)) else {
            return false;
        };
        let value = |arguments: &Arguments, path: &ArgumentPath| {
            let value = arguments.get(path.argument());
            value.map(|value| value.reveal_tcb().to_owned())
        };
        let mut control = self.control.iter();
        let is_open = |made: &str| made.contains(REDACTED);
        call.same_but(drafted, self.paths())
            && control.all(|path| {
                let made = value(&arguments, path);
                made == value(&others, path) || made.as_deref().is_some_and(is_open)
            })
    }
}

/// A value of a call that its control part has not made.
pub(super) struct Gap {
    pub(super) call: usize,
    pub(super) path: ArgumentPath,
    /// Which of the values at this path.
    pub(super) nth: usize,
    /// The label of all that a data argument may depend on.
    pub(super) limit: Option<Label>,
    /// As the draft has it.
    pub(super) drafted: String,
    /// The value and its label, once a prompt has made it.
    pub(super) made: Option<(String, Label)>,
}

/// A call of the step with these values in it.
pub(super) fn with_values<'v>(
    call: &ProposedCall,
    values: impl IntoIterator<Item = (&'v Gap, &'v str)>,
) -> Option<Arguments> {
    let mut arguments = Arguments::parse(&call.arguments, &Label::bottom()).ok()?;
    for (gap, value) in values {
        arguments = arguments.with_value(&gap.path, gap.nth, value)?;
    }
    Some(arguments)
}

/// The note that a call follows, as JSON text.
pub(super) fn note(call: &str) -> String {
    format!("{FILL_NOTE}{call}")
}

/// A call with one of its values open, and without those at the `hidden` paths; `None` if there is no such path.
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

/// The part of a tool's parameters about the value at a path; without one, any value fits.
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
    // By a mark a model says that it cannot make the value here; an app must not get the mark as a value.
    let is_marked = value.contains(REDACTED) || value.contains(OPEN);
    let is_whole = answer.stop == StopReason::End && arguments.len() == 1;
    let read = serde_json::from_str(value).ok()?;
    (is_whole && !is_marked && fits(&read, schema)).then(|| value.to_owned())
}

/// Words and numbers of a value that are looked for; the others of a long text would cost time and say little more.
const MAX_LOOKED_FOR: usize = 32;

/// Shorter words occur anywhere.
const MIN_WORD: usize = 4;

/// A guess at the label of the prompt that makes a value again, given as JSON. It chooses which label is tried first, and
/// no more: a value has the label of the prompt that has made it. It is the label of the texts that have the value word
/// for word: for each string and number the first text above `floor` that has all of it, and if none has, the same for
/// each of its longer words.
pub(super) fn quoted(history: &History, value: &str, floor: &Label) -> Label {
    let leaves = leaves(value);
    // What flows to `floor` is shown in any case, and needs no higher label.
    let first = |text: &str| {
        let mut above = history.regions().filter(|it| !it.label.flows_to(floor));
        above
            .find(|region| region.reveal_tcb().contains(text))
            .map(|region| region.label)
    };
    let mut left = MAX_LOOKED_FOR;
    let mut found = floor.clone();
    for leaf in &leaves {
        let words = leaf
            .split_whitespace()
            .map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()));
        let words = words.filter(|word| word.chars().count() >= MIN_WORD);
        // First all of it: a word of it alone may come from anywhere.
        let full = Some(first(leaf)).filter(|_| left > 0);
        left = left.saturating_sub(1);
        match full.flatten() {
            Some(label) => found = found.join(label),
            None => {
                for word in words.take(left) {
                    left = left.saturating_sub(1);
                    found = first(word).map_or(found.clone(), |label| found.join(label));
                }
            }
        }
    }
    found
}

/// The strings and numbers in a value, given as JSON, but for empty strings.
pub(super) fn leaves(value: &str) -> Vec<String> {
    let value: Value = serde_json::from_str(value).unwrap_or_default();
    let mut leaves = Vec::new();
    collect(&value, &mut leaves);
    leaves
}

fn collect(value: &Value, leaves: &mut Vec<String>) {
    match value {
        Value::String(text) if !text.is_empty() => leaves.push(text.clone()),
        Value::Number(number) => leaves.push(number.to_string()),
        Value::Array(items) => items.iter().for_each(|item| collect(item, leaves)),
        Value::Object(members) => members.values().for_each(|it| collect(it, leaves)),
        Value::String(_) | Value::Bool(_) | Value::Null => {}
    }
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
