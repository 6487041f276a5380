//! What a step of a task must be shown: the dependencies of the ground truth.

use serde_json::{Map, Value};

use super::{Dependencies, Scene, Shown, Step, UserTask, fold::find_value};
use crate::value_match;

/// AgentDojo's system message names the user; her name is free.
const USER: &str = "Emma Johnson Blue Sparrow Tech";

/// Something that a step must be shown.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Need {
    /// A value or text, in the result of one of these steps.
    Value { value: Value, steps: Vec<usize> },
    /// All of a step's result.
    Result(usize),
}

/// Something that a step must be shown, and what for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Needed {
    pub(crate) need: Need,
    /// The value that is made of it. Where an earlier call already shows that value, the need is met.
    pub(crate) made: Option<Value>,
    /// The arguments that are made of it; none if it decides over the step, or is for the answer.
    pub(crate) arguments: Vec<String>,
}

/// A task of one suite with its dependencies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan<'a> {
    pub(crate) version: &'a str,
    pub(crate) suite_name: &'a str,
    pub(crate) task: &'a UserTask,
    pub(crate) dependencies: &'a Dependencies,
}

/// Where a value comes from in the dry run.
enum Origin {
    /// The user said it, or nobody did.
    Free,
    /// It is in the results of these steps.
    Results(Vec<usize>),
    /// Nobody said it literally.
    Computed,
}

impl Plan<'_> {
    /// What step `at` must be shown; the number of steps means the answer.
    ///
    /// Values that are in earlier results of the dry run depend on these. A value that stands
    /// nowhere was computed: the hand-written file says from what, else from all earlier results.
    pub(crate) fn needs(&self, at: usize) -> Vec<Needed> {
        let mut needs = Vec::new();
        let mut entries = self
            .dependencies
            .of(self.version, self.suite_name, self.task, at)
            .peekable();
        let by_hand = entries.peek().is_some();
        for (argument, value) in self.values(at) {
            let arguments = Vec::from_iter(argument);
            for (value, origin) in self.origins(value, at) {
                let of = match origin {
                    Origin::Free => Vec::new(),
                    Origin::Results(steps) => {
                        let value = value.clone();
                        vec![Need::Value { value, steps }]
                    }
                    // The hand-written entries below replace "all earlier results".
                    Origin::Computed if by_hand => Vec::new(),
                    Origin::Computed => (0..at).map(Need::Result).collect(),
                };
                needs.extend(of.into_iter().map(|need| Needed {
                    need,
                    made: Some(value.clone()),
                    arguments: arguments.clone(),
                }));
            }
        }
        for entry in entries {
            let texts = entry.texts().iter().map(|text| Need::Value {
                value: Value::from(text.as_str()),
                steps: entry.holders(self.task, at, text).collect(),
            });
            let results = entry.results(self.task, at).map(Need::Result);
            needs.extend(texts.chain(results).map(|need| Needed {
                need,
                made: None,
                arguments: entry.arguments().to_vec(),
            }));
        }
        needs
    }

    /// The leaves of a step's arguments, each with its argument's name, or the pieces of the answer.
    fn values(&self, at: usize) -> Vec<(Option<String>, Value)> {
        let mut found = Vec::new();
        match self.task.steps.get(at) {
            Some(step) => {
                for (name, value) in &step.arguments {
                    let mut of_argument = Vec::new();
                    leaves(value, &mut of_argument);
                    let with_names = of_argument
                        .into_iter()
                        .map(|leaf| (Some(name.clone()), leaf));
                    found.extend(with_names);
                }
            }
            // Answers list what the check looks for.
            None => {
                let pieces = self.task.output.split([',', '\n']).map(str::trim);
                let pieces = pieces.filter(|piece| !piece.is_empty());
                found.extend(pieces.map(|piece| (None, Value::from(piece))));
            }
        }
        found
    }

    /// Where a value comes from. A path that stands nowhere as a whole was put together from its parts.
    fn origins(&self, value: Value, at: usize) -> Vec<(Value, Origin)> {
        let origin = self.origin(&value, at);
        if let (Origin::Computed, Value::String(path)) = (&origin, &value) {
            let parts = path.split('/').filter(|part| !part.is_empty());
            let of_part = |part| {
                let part = Value::from(part);
                let origin = self.origin(&part, at);
                (part, origin)
            };
            let parts: Vec<(Value, Origin)> = parts.map(of_part).collect();
            let computed = |(_, origin): &(Value, Origin)| matches!(origin, Origin::Computed);
            if !parts.iter().any(computed) {
                return parts;
            }
        }
        vec![(value, origin)]
    }

    fn origin(&self, value: &Value, at: usize) -> Origin {
        let free = match value {
            Value::Null | Value::Bool(_) => true,
            Value::String(text) => {
                let invented = self.dependencies.is_invented(self.suite_name, text);
                text.is_empty() || invented || self.said_as_date(text)
            }
            other => {
                let text = other.to_string();
                self.dependencies.is_invented(self.suite_name, &text)
            }
        };
        // These texts are trusted and always shown: a value in them needs no region.
        let said = [self.task.prompt.as_str(), USER];
        if free || said.iter().any(|said| !find_value(said, value).is_empty()) {
            return Origin::Free;
        }
        let earlier = self.task.steps.iter().take(at).enumerate();
        let holders = earlier.filter(|(_, step)| !find_value(&step.result, value).is_empty());
        let steps: Vec<usize> = holders.map(|(at, _)| at).collect();
        if steps.is_empty() {
            Origin::Computed
        } else {
            Origin::Results(steps)
        }
    }

    /// Whether the user said this day in other words. A time of day beside it follows from what
    /// the user said ("for one hour"); where it does not, the hand-written file says so.
    fn said_as_date(&self, text: &str) -> bool {
        let (day, _) = text.split_once(' ').unwrap_or((text, ""));
        let is_day = day.len() == 10
            && day.bytes().enumerate().all(|(at, byte)| match at {
                4 | 7 => byte == b'-',
                _ => byte.is_ascii_digit(),
            });
        is_day && value_match::holds(&self.task.prompt, day)
    }

    /// Whether a scene shows what a step needs, or what was made of it before.
    pub(crate) fn is_shown(&self, needed: &Needed, scene: &Scene) -> bool {
        // A value that an earlier call carries is in sight there, even where the result that it came from is
        // masked: the call is the agent's own message.
        let made = needed.made.as_ref();
        let written = |value: &Value| {
            let mut written = self.written(scene).into_iter();
            written.any(|text| !find_value(&text, value).is_empty())
        };
        made.is_some_and(written) || self.is_read(&needed.need, scene)
    }

    fn is_read(&self, need: &Need, scene: &Scene) -> bool {
        match need {
            Need::Value { value, steps } => {
                let mut results = steps.iter().flat_map(|at| self.results(*at, scene));
                results.any(|text| !find_value(text, value).is_empty())
            }
            Need::Result(at) => {
                let results = self.results(*at, scene);
                // "All of a result" is missing as soon as any part of it is masked.
                let masked = |text: &&str| text.contains(ifc::REDACTED);
                !results.is_empty() && !results.iter().any(masked)
            }
        }
    }

    /// The values that the scene shows in the arguments of the task's own calls.
    fn written(&self, scene: &Scene) -> Vec<String> {
        let calls = self.task.steps.iter();
        let arguments = calls.flat_map(|step| scene.arguments(step));
        let mut written = Vec::new();
        arguments
            .flat_map(Map::values)
            .for_each(|value| leaves(value, &mut written));
        let texts = written.into_iter().map(|leaf| match leaf {
            Value::String(text) => text,
            other => other.to_string(),
        });
        texts.collect()
    }

    fn results<'b>(&self, at: usize, scene: &'b Scene) -> Vec<&'b str> {
        let step = self.task.steps.get(at).into_iter();
        step.flat_map(|step| scene.shown(step).map(Shown::text))
            .collect()
    }

    /// The regions of a scene that hold what a step needs. Where a value stands outside of all
    /// regions, it is free.
    pub(crate) fn regions(&self, need: &Need, scene: &Scene) -> Vec<u32> {
        let steps: &[usize] = match need {
            Need::Value { steps, .. } => steps,
            Need::Result(at) => std::slice::from_ref(at),
        };
        let steps = steps.iter().filter_map(|at| self.task.steps.get(*at));
        let shown = steps.flat_map(|step| scene.shown(step));
        match need {
            Need::Result(_) => shown.flat_map(Shown::all).collect(),
            // One place is enough, and the one that costs least: a later result may repeat it,
            // a number may stand elsewhere by chance.
            Need::Value { value, .. } => {
                let places = shown.flat_map(|shown| {
                    let places = find_value(shown.text(), value).into_iter();
                    places.map(|place| shown.touching(&place))
                });
                places.min_by_key(Vec::len).unwrap_or_default()
            }
        }
    }

    /// The steps that a scene shows as not yet proposed, in order.
    pub(crate) fn left(&self, scene: &Scene) -> Vec<usize> {
        left(&self.task.steps, scene)
    }
}

/// The steps that a scene shows as not yet proposed. A call that occurs twice must be proposed
/// twice.
pub(crate) fn left(steps: &[Step], scene: &Scene) -> Vec<usize> {
    let same =
        |a: &Step, b: &Step| a.tool == b.tool && super::same_arguments(&a.arguments, &b.arguments);
    let undone = |(at, step): &(usize, &Step)| {
        // The third of three equal steps is done only after three equal proposals.
        let nth = steps.iter().take(at + 1).filter(|other| same(other, step));
        scene.proposals(step) < nth.count()
    };
    let undone = steps.iter().enumerate().filter(undone);
    undone.map(|(at, _)| at).collect()
}

fn leaves(value: &Value, found: &mut Vec<Value>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| leaves(item, found)),
        Value::Object(fields) => fields.values().for_each(|field| leaves(field, found)),
        leaf => found.push(leaf.clone()),
    }
}
