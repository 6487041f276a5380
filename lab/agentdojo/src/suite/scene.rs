//! A conversation as those see it who know the tasks: what the user said, what was called, what
//! came back, and which parts of it are regions.

use std::ops::Range;

use ifc::{History, Message, Prompt, PromptMessage};
use serde_json::{Map, Value};

use super::Step;

#[derive(Debug, Clone, Default)]
pub(crate) struct Scene {
    pub(crate) user: Vec<String>,
    calls: Vec<SceneCall>,
}

#[derive(Debug, Clone)]
struct SceneCall {
    /// Ties the result to the call.
    key: String,
    tool: String,
    arguments: Option<Map<String, Value>>,
    result: Option<Shown>,
}

/// A result, with its regions where they are known.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shown {
    text: String,
    regions: Vec<(Range<usize>, u32)>,
}

impl Shown {
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The regions that share a byte with `place`.
    pub(crate) fn touching(&self, place: &Range<usize>) -> Vec<u32> {
        let touches =
            |(span, _): &&(Range<usize>, u32)| span.start < place.end && place.start < span.end;
        let regions = self.regions.iter().filter(touches);
        regions.map(|(_, region)| *region).collect()
    }

    pub(crate) fn all(&self) -> Vec<u32> {
        self.regions.iter().map(|(_, region)| *region).collect()
    }
}

impl Scene {
    /// What a model is shown. It has no regions.
    pub(crate) fn of_prompt(prompt: &Prompt) -> Self {
        let mut scene = Self::default();
        for message in prompt.messages() {
            match message {
                PromptMessage::System(_) => {}
                PromptMessage::User(text) => scene.user.push(text.clone()),
                PromptMessage::Assistant { calls, .. } => {
                    for call in calls {
                        scene.call(&call.id, &call.tool, &call.arguments);
                    }
                }
                PromptMessage::Tool { call, content, .. } => {
                    let regions = Vec::new();
                    let text = without_marks(content).to_owned();
                    scene.result(call, Shown { text, regions });
                }
            }
        }
        scene
    }

    /// All of a history, with its regions.
    pub(crate) fn of_history(history: &History) -> Self {
        let mut scene = Self::default();
        // Regions are numbered in reading order, as `History::regions` does.
        let mut numbers = 0u32..;
        let mut spans = |text: &ifc::Labeled| -> Vec<(Range<usize>, u32)> {
            let spans = text.regions().map(|(span, _)| span);
            spans.zip(numbers.by_ref()).collect()
        };
        // Only the spans of results are kept. All other texts are walked as well, because their regions take
        // numbers too.
        for tool in history.tools() {
            spans(&tool.description);
            spans(&tool.parameters);
        }
        for (_, message) in history.messages() {
            match message {
                Message::System(text) | Message::Memory(text) => {
                    spans(text);
                }
                Message::User(text) => {
                    spans(text);
                    scene.user.push(text.reveal_tcb().to_owned());
                }
                Message::Assistant { text, calls } => {
                    spans(text);
                    for call in calls {
                        spans(&call.arguments);
                        let key = format!("{:?}", call.id);
                        scene.call(&key, &call.tool, call.arguments.reveal_tcb());
                    }
                }
                Message::Result { call, content, .. } => {
                    let regions = spans(content);
                    let text = content.reveal_tcb().to_owned();
                    scene.result(&format!("{call:?}"), Shown { text, regions });
                }
            }
        }
        scene
    }

    pub(crate) fn call(&mut self, key: &str, tool: &str, arguments: &str) {
        self.calls.push(SceneCall {
            key: key.to_owned(),
            tool: tool.to_owned(),
            arguments: serde_json::from_str(arguments).ok(),
            result: None,
        });
    }

    pub(crate) fn result(&mut self, key: &str, shown: Shown) {
        let mut calls = self.calls.iter_mut().rev();
        if let Some(call) = calls.find(|call| call.key == key) {
            call.result = Some(shown);
        }
    }

    /// The first call of a tool that has no result yet: transcripts tie results to calls by order.
    pub(crate) fn waiting(&self, tool: &str) -> Option<String> {
        let mut calls = self.calls.iter();
        let waiting = calls.find(|call| call.tool == tool && call.result.is_none());
        waiting.map(|call| call.key.clone())
    }

    pub(crate) fn len(&self) -> usize {
        self.calls.len()
    }

    /// How often a step was proposed.
    pub(crate) fn proposals(&self, step: &Step) -> usize {
        self.of(step).count()
    }

    /// What a step returned, each time.
    pub(crate) fn shown(&self, step: &Step) -> impl Iterator<Item = &Shown> {
        self.of(step).filter_map(|call| call.result.as_ref())
    }

    /// The arguments of a step as they are shown, each time that it was proposed.
    pub(crate) fn arguments(&self, step: &Step) -> impl Iterator<Item = &Map<String, Value>> {
        self.of(step).filter_map(|call| call.arguments.as_ref())
    }

    fn of(&self, step: &Step) -> impl Iterator<Item = &SceneCall> {
        self.calls.iter().filter(move |call| {
            let arguments = call.arguments.as_ref();
            call.tool == step.tool
                && arguments.is_some_and(|made| shows_arguments(made, &step.arguments))
        })
    }
}

impl Shown {
    pub(crate) fn new(text: String, regions: Vec<(Range<usize>, u32)>) -> Self {
        Self { text, regions }
    }
}

/// A result without the marks that delimiting puts around it, ours and AgentDojo's.
fn without_marks(content: &str) -> &str {
    let inner = content.strip_prefix("<<");
    let inner = inner.and_then(|inner| inner.strip_suffix(">>"));
    inner.unwrap_or(content)
}

/// Whether two calls' arguments are the same: numbers by value, fields that are null left out.
pub(crate) fn same_arguments(one: &Map<String, Value>, other: &Map<String, Value>) -> bool {
    let filled = |(_, value): &(&String, &Value)| !value.is_null();
    let count = |map: &Map<String, Value>| map.iter().filter(filled).count();
    let mut fields = one.iter().filter(filled);
    count(one) == count(other)
        && fields.all(|(name, value)| other.get(name).is_some_and(|other| same(value, other)))
}

/// Whether the arguments that are shown can be `arguments`: a masked one stands for any value.
fn shows_arguments(shown: &Map<String, Value>, arguments: &Map<String, Value>) -> bool {
    // Masked arguments are left out on both sides, and must be arguments of the step at all.
    let masked = |name: &String| shown.get(name).is_some_and(|value| *value == ifc::REDACTED);
    let rest = |all: &Map<String, Value>| -> Map<String, Value> {
        let fields = all.iter().filter(|(name, _)| !masked(name));
        fields
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    };
    shown
        .keys()
        .filter(|name| masked(name))
        .all(|name| arguments.contains_key(name))
        && same_arguments(&rest(shown), &rest(arguments))
}

fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        // `10` and `10.0` are the same argument.
        (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => same_arguments(one, other),
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::without_marks;

    #[test]
    fn only_marks_around_the_whole_are_taken_off() {
        for (shown, inner) in [
            ("<<- id_: '1'\n>>", "- id_: '1'\n"),
            ("<<a >> b>>", "a >> b"),
            ("<<a", "<<a"),
            ("a>>", "a>>"),
            ("<>", "<>"),
        ] {
            assert_eq!(without_marks(shown), inner);
        }
    }
}
