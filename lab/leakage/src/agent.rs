//! Agents that need no model: pure functions of the prompt.

use std::sync::Arc;

use hub::{AnswerShape, CHECK_NOTE, Completion, CompletionRequest, ProposedCall};
use ifc::{PromptMessage, REDACTED};
use llm::{Scripted, text_answer};
use models::{OpenCall, parse_redacted};
use serde_json::Value;

use crate::app::Arguments;
use crate::scenario::{Injected, Scenario, fits};
use crate::seen::Seen;
use crate::task::words;

/// Characters that the over-sharing agent puts into one argument.
const MAX_SHARED: usize = 2000;

/// What an agent is like. Both are competent, and obey a stranger's order where their prompt shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Agent {
    /// Uses exactly what the ground truth uses, as far as its prompt shows it.
    GroundTruth,
    /// Fills every optional argument with whatever it can see: the real fault of real models.
    OverSharing,
}

impl Agent {
    /// Both.
    pub const ALL: [Self; 2] = [Self::GroundTruth, Self::OverSharing];

    /// Its name in options and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::GroundTruth => "ground-truth",
            Self::OverSharing => "over-sharing",
        }
    }

    /// A provider that answers as this agent would in a task.
    #[must_use]
    pub fn provider(self, scenario: Arc<Scenario>) -> Scripted {
        Scripted::new(self.name(), move |request| self.answer(&scenario, request))
    }

    fn answer(self, scenario: &Scenario, request: &CompletionRequest) -> Completion {
        // One value is asked for by itself. The answer is what the next call would have in its place.
        if let Some((open, before)) = OpenCall::of(request.prompt.messages()) {
            let view = View {
                is_check: true,
                ..View::of(before)
            };
            let call = self.next_call(scenario, &view).map(proposed);
            return open.answer(call.as_slice());
        }
        let view = View::of(request.prompt.messages());
        let may_call = matches!(request.shape, AnswerShape::TextOrCalls | AnswerShape::Calls);
        let call = may_call.then(|| self.next_call(scenario, &view)).flatten();
        match call {
            Some(call) => Completion {
                calls: vec![proposed(call)],
                ..Completion::default()
            },
            None => text_answer(match view.seen.text(&scenario.task.answer) {
                Some(text) => words(&text),
                None => "I cannot tell: what I need for it is hidden from me.".to_owned(),
            }),
        }
    }

    /// A stranger's order first, then the first call of the ground truth that is not made yet and that it
    /// can make.
    fn next_call(self, scenario: &Scenario, view: &View) -> Option<(String, Arguments)> {
        if let Some(injected) = scenario
            .injected
            .as_ref()
            .filter(|it| view.is_ordered(it, scenario))
        {
            return Some((injected.tool.clone(), view.obey(injected)));
        }
        let made = view
            .made
            .iter()
            .map(|(tool, arguments)| (tool.as_str(), arguments.as_ref()));
        let done = scenario.done(made);
        // What is hidden is left open where the runtime says that it fills it in.
        let instead = view.is_check.then_some(REDACTED);
        let open = scenario
            .task
            .calls
            .iter()
            .zip(done)
            .filter(|(_, done)| !done);
        open.map(|(call, _)| call).find_map(|call| {
            let wanted = view.seen.wants(call)?;
            let arguments = view.seen.arguments(call, instead).filter(|_| wanted)?;
            let arguments = match self {
                Self::GroundTruth => arguments,
                Self::OverSharing => view.share(scenario, &call.tool, arguments),
            };
            Some((call.tool.clone(), arguments))
        })
    }
}

fn proposed((tool, arguments): (String, Arguments)) -> ProposedCall {
    let arguments = Value::Object(arguments).to_string();
    ProposedCall { tool, arguments }
}

/// What a prompt shows.
struct View {
    seen: Seen,
    /// The calls of the turn, with their arguments as far as they can be read.
    made: Vec<(String, Option<Arguments>)>,
    /// All results, as text.
    results: String,
    /// Whether the step is taken once more without what is hidden.
    is_check: bool,
}

impl View {
    fn of(messages: &[PromptMessage]) -> Self {
        let mut view = Self {
            seen: Seen::default(),
            made: Vec::new(),
            results: String::new(),
            is_check: false,
        };
        for message in messages {
            match message {
                PromptMessage::System(_) => {}
                // The runtime's note begins no task: the calls made so far still count.
                PromptMessage::User(text) if text == CHECK_NOTE => view.is_check = true,
                PromptMessage::User(_) => view.made.clear(),
                PromptMessage::Assistant { calls, .. } => {
                    view.made.extend(calls.iter().map(|call| {
                        let arguments = serde_json::from_str(&call.arguments).ok();
                        (call.tool.clone(), arguments)
                    }))
                }
                PromptMessage::Tool { tool, content, .. } => {
                    view.results.push_str(content);
                    if let Some(result) = parse_redacted(content) {
                        view.seen.saw(tool, result);
                    }
                }
            }
        }
        view
    }

    /// Whether a stranger's order is in sight and was not obeyed yet.
    fn is_ordered(&self, injected: &Injected, scenario: &Scenario) -> bool {
        // A call of this tool that is not the task's own is the one that the stranger ordered.
        let obeyed = self.made.iter().any(|(tool, arguments)| {
            let is_own = |call| fits(call, tool, arguments.as_ref());
            *tool == injected.tool && !scenario.task.calls.iter().any(is_own)
        });
        self.results.contains(&injected.text) && !obeyed
    }

    fn obey(&self, injected: &Injected) -> Arguments {
        let mut arguments = injected.fixed.clone();
        // The order itself is in sight too, and is no secret.
        let known = self.everything(|text| text != injected.text);
        arguments.insert(injected.carries.clone(), Value::from(known));
        arguments
    }

    /// Fills the optional arguments: what has the argument's name, or everything that is seen.
    fn share(&self, scenario: &Scenario, tool: &str, mut arguments: Arguments) -> Arguments {
        let leaves = self.seen.leaves();
        let Some(tool) = scenario.domain.app.tool(tool) else {
            return arguments;
        };
        let open = tool
            .parameters
            .iter()
            .filter(|parameter| !parameter.required);
        for parameter in open {
            // What the ground truth fills stays as it is, so that the task is done as well.
            if arguments.contains_key(&parameter.name) {
                continue;
            }
            let is_text = parameter.kind == "string";
            let named = leaves
                .iter()
                .find(|(name, value)| *name == parameter.name && value.is_string() == is_text);
            let everything = || is_text.then(|| Value::from(self.everything(|_| true)));
            let value = named.map(|(_, value)| value.clone()).or_else(everything);
            let value = value.filter(|value| value.as_str() != Some(""));
            arguments.extend(value.map(|value| (parameter.name.clone(), value)));
        }
        arguments
    }

    fn everything(&self, keep: impl Fn(&str) -> bool) -> String {
        let leaves = self
            .seen
            .leaves()
            .into_iter()
            .map(|(_, value)| words(&value));
        let known: Vec<String> = leaves.filter(|text| keep(text)).collect();
        known.join("; ").chars().take(MAX_SHARED).collect()
    }
}
