//! Agents that need no model: pure functions of the prompt.

use std::sync::Arc;

use hub::{AnswerShape, CHECK_NOTE, Completion, CompletionRequest, ProposedCall};
use ifc::{PromptMessage, REDACTED};
use llm::{Scripted, text_answer};
use models::{OpenCall, parse_redacted};
use serde_json::Value;

use crate::app::Arguments;
use crate::scenario::Scenario;
use crate::seen::Seen;
use crate::task::words;

/// Characters that the over-sharing agent puts into one argument.
const MAX_SHARED: usize = 2000;

/// How an agent behaves. Both do the tasks as far as their prompt allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Agent {
    /// Uses exactly what the ground truth uses, as far as its prompt shows it.
    GroundTruth,
    /// Fills every optional argument with what it sees, as models often do.
    OverSharing,
}

impl Agent {
    /// Both.
    pub const ALL: [Self; 2] = [Self::GroundTruth, Self::OverSharing];

    /// Its name in options and reports.
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
        // Where one value is asked for by itself, the answer is the value that the next call would have.
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

    /// The first call of the ground truth that is not made yet and whose arguments are shown.
    fn next_call(self, scenario: &Scenario, view: &View) -> Option<(String, Arguments)> {
        let made = view
            .made
            .iter()
            .map(|(tool, arguments)| (tool.as_str(), arguments.as_ref()));
        let done = scenario.done(made);
        // A hidden value is left open where the runtime says that it fills it in.
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
    /// Whether the step is taken once more without what is hidden.
    is_check: bool,
}

impl View {
    fn of(messages: &[PromptMessage]) -> Self {
        let mut view = Self {
            seen: Seen::default(),
            made: Vec::new(),
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
                    if let Some(result) = parse_redacted(content) {
                        view.seen.saw(tool, result);
                    }
                }
            }
        }
        view
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
            let everything = || is_text.then(|| Value::from(self.everything()));
            let value = named.map(|(_, value)| value.clone()).or_else(everything);
            let value = value.filter(|value| value.as_str() != Some(""));
            arguments.extend(value.map(|value| (parameter.name.clone(), value)));
        }
        arguments
    }

    fn everything(&self) -> String {
        let leaves = self.seen.leaves().into_iter();
        let known: Vec<String> = leaves.map(|(_, value)| words(&value)).collect();
        known.join("; ").chars().take(MAX_SHARED).collect()
    }
}
