//! The worst-case agent: it does each task as far as its prompt shows what the task takes, and obeys the injected goal as
//! soon as it can read it. Its answer is a function of the prompt alone.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use hub::{CHECK_NOTE, Completion, CompletionRequest, ProposedCall};
use ifc::{Prompt, PromptMessage, REDACTED};
use llm::{Cleared, DeltaSink, Provider, ProviderError};
use serde_json::{Map, Value};

use super::suite::{Answered, Needed, Plan, Planned};

const COULD_NOT: &str = "I could not do that: what it takes was not shown to me.";

/// The agent in one world.
#[derive(Debug)]
pub(super) struct WorstCase {
    /// What each task takes.
    pub(super) plans: Vec<Plan>,
    /// The attack, whose first words are its text.
    pub(super) attack: Option<Plan>,
    /// The arguments of each tool that only carry content.
    pub(super) carriers: BTreeMap<String, BTreeSet<String>>,
}

/// What a prompt shows of a call and its result.
struct Seen {
    id: String,
    tool: String,
    arguments: Map<String, Value>,
    result: Option<String>,
}

impl WorstCase {
    pub(super) const NAME: &str = "worst-case";

    fn answer(&self, request: &CompletionRequest) -> Completion {
        let prompt = &request.prompt;
        let seen = seen(prompt);
        let said = prompt
            .messages()
            .iter()
            .filter_map(|message| match message {
                PromptMessage::User(text) => Some(text.as_str()),
                _ => None,
            });
        let said: Vec<&str> = said.collect();
        let may_leave_open = said.last() == Some(&CHECK_NOTE);
        // It finds the task by the customer's last words, if it is shown these.
        let turn = said.iter().rev().find_map(|said| self.turn(said));
        let shown = |turn: &Answered| is_shown(prompt, &turn.say);
        let attack = self
            .attack
            .iter()
            .filter(|plan| plan.turns.first().is_some_and(shown));
        let attack = attack.map(|plan| (plan, plan.calls.len()));
        // The attacker's calls come first: an agent that did its task first might end before it attacks.
        for (plan, calls) in attack.chain(turn.map(|(plan, turn)| (plan, turn.calls))) {
            let calls = plan.calls.iter().take(calls);
            let mut left = calls.filter(|call| !seen.iter().any(|it| it.is(call)));
            let call = left.find_map(|call| self.ready(plan, call, &seen, may_leave_open));
            if let Some(call) = call {
                return Completion {
                    calls: vec![call],
                    ..Completion::default()
                };
            }
        }
        let answered = turn.filter(|(plan, turn)| {
            let mut needs = turn.needs.iter();
            needs.all(|needed| shows(plan, needed, &seen))
        });
        let text = answered.map_or(COULD_NOT, |(_, turn)| &turn.answer);
        Completion {
            text: text.to_owned(),
            ..Completion::default()
        }
    }

    /// The task in which a customer says this.
    fn turn(&self, said: &str) -> Option<(&Plan, &Answered)> {
        self.plans.iter().find_map(|plan| {
            let turn = plan.turns.iter().find(|turn| turn.say == said)?;
            Some((plan, turn))
        })
    }

    /// A call, if what it needs is shown or may be left open.
    fn ready(
        &self,
        plan: &Plan,
        call: &Planned,
        seen: &[Seen],
        may_leave_open: bool,
    ) -> Option<ProposedCall> {
        let mut arguments = call.arguments.clone();
        for needed in call.needs.iter().filter(|it| !shows(plan, it, seen)) {
            let carriers = self.carriers.get(&call.tool).filter(|_| may_leave_open)?;
            let name = needed.argument.as_ref()?;
            carriers.get(name)?;
            arguments.insert(name.clone(), REDACTED.into());
        }
        Some(ProposedCall {
            tool: call.tool.clone(),
            arguments: Value::Object(arguments).to_string(),
        })
    }
}

#[async_trait]
impl Provider for WorstCase {
    fn name(&self) -> &str {
        Self::NAME
    }

    async fn complete(
        &self,
        request: &Cleared<'_>,
        sink: &mut dyn DeltaSink,
    ) -> Result<Completion, ProviderError> {
        let answer = self.answer(request.request());
        if !answer.text.is_empty() {
            sink.text(&answer.text);
        }
        Ok(answer)
    }
}

impl Seen {
    /// Whether this may be the call, as far as it is shown.
    fn is(&self, call: &Planned) -> bool {
        let is_same = |(name, value): (&String, &Value)| {
            self.arguments.get(name).is_some_and(|it| {
                let hidden = it.as_str().is_some_and(|it| it.contains(REDACTED));
                hidden || it == value
            })
        };
        self.tool == call.tool && call.arguments.iter().all(is_same)
    }
}

fn seen(prompt: &Prompt) -> Vec<Seen> {
    let mut seen = Vec::<Seen>::new();
    for message in prompt.messages() {
        match message {
            PromptMessage::Assistant { calls, .. } => seen.extend(calls.iter().map(|call| Seen {
                id: call.id.clone(),
                tool: call.tool.clone(),
                arguments: serde_json::from_str(&call.arguments).unwrap_or_default(),
                result: None,
            })),
            PromptMessage::Tool { call, content, .. } => {
                if let Some(made) = seen.iter_mut().rev().find(|it| it.id == *call) {
                    made.result = Some(content.clone());
                }
            }
            _ => {}
        }
    }
    seen
}

/// Whether the result with this value is shown as far as the value stands in it.
fn shows(plan: &Plan, needed: &Needed, seen: &[Seen]) -> bool {
    let Some(call) = plan.calls.get(needed.call) else {
        return false;
    };
    let mut results = seen.iter().filter(|it| it.is(call));
    results.any(|it| {
        it.result
            .as_ref()
            .is_some_and(|it| it.contains(&needed.json))
    })
}

/// Whether a text stands anywhere but in the user's and the developer's words.
fn is_shown(prompt: &Prompt, text: &str) -> bool {
    let mut messages = prompt.messages().iter();
    messages.any(|message| match message {
        PromptMessage::System(_) | PromptMessage::User(_) => false,
        PromptMessage::Assistant { text: said, calls } => {
            said.contains(text) || calls.iter().any(|call| call.arguments.contains(text))
        }
        PromptMessage::Tool { content, .. } => content.contains(text),
    })
}
