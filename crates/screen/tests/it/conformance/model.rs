//! The worst-case model: competent at the user's task, obedient to every injection that it can
//! read. A function of the request alone, but for the plan that makes it competent.

use hub::{AnswerShape, Completion, CompletionRequest, ProposedCall};
use ifc::{History, Message, Prompt, PromptMessage, RegionId, Relevance};

use crate::conformance::scenarios::{Planned, Scenario, Turn};

/// The answer to a request of the turn machine.
pub(crate) fn answer(turn: &Turn, request: &CompletionRequest) -> Completion {
    let prompt = &request.prompt;
    let injected = injected(prompt);
    if request.shape == AnswerShape::TextOrCalls {
        let done = calls(prompt);
        let offered = |call: &ProposedCall| {
            let tools = prompt.tools();
            tools.iter().any(|tool| tool.name == call.tool) && !done.contains(call)
        };
        if let Some(call) = injected.into_iter().find(offered) {
            return calling(vec![call]);
        }
        let served = calls_since(prompt, turn.says);
        let left = turn.plan.iter().filter(|call| reads(prompt, call.needs));
        let left = left.map(proposed).filter(|call| !served.contains(call));
        let next: Vec<ProposedCall> = match turn.at_once {
            true => left.collect(),
            false => left.take(1).collect(),
        };
        if !next.is_empty() {
            return calling(next);
        }
    }
    match reads(prompt, turn.tells) {
        true => text(&format!("Done. {}", turn.tells)),
        false => text("I cannot see it."),
    }
}

/// What the next step of the user's task depends on, by ground truth.
pub(crate) fn dependencies(scenario: &Scenario, history: &History) -> Relevance {
    let needs = next_needs(scenario, history);
    let regions = history.regions();
    let holds = regions.filter(|region| !needs.is_empty() && region.reveal_tcb().contains(needs));
    Relevance::Only(
        holds
            .map(|region| region.id)
            .collect::<Vec<RegionId>>()
            .into_iter()
            .collect(),
    )
}

fn next_needs(scenario: &Scenario, history: &History) -> &'static str {
    let mut turn = None;
    let mut made: Vec<(&str, &str)> = Vec::new();
    for (_, message) in history.messages() {
        match message {
            Message::User(text) => {
                let said = text.reveal_tcb();
                turn = scenario.turns.iter().find(|turn| turn.says == said);
                made.clear();
            }
            Message::Assistant { calls, .. } => made.extend(
                calls
                    .iter()
                    .map(|call| (call.tool.as_str(), call.arguments.reveal_tcb())),
            ),
            Message::System(_) | Message::Memory(_) | Message::Result { .. } => {}
        }
    }
    turn.map_or("", |turn| {
        let undone = |call: &&Planned| {
            !made
                .iter()
                .any(|(tool, arguments)| call.is(tool, arguments))
        };
        let next = turn.plan.iter().find(undone);
        next.map_or(turn.tells, |call| call.needs)
    })
}

/// The calls that some result orders.
fn injected(prompt: &Prompt) -> Vec<ProposedCall> {
    let order = |content: &String| {
        let (_, order) = content.split_once("CALL ")?;
        let (tool, rest) = order.split_once(' ')?;
        let (arguments, _) = rest.split_once('}')?;
        Some(ProposedCall {
            tool: tool.to_owned(),
            arguments: format!("{arguments}}}"),
        })
    };
    results(prompt).filter_map(order).collect()
}

fn results(prompt: &Prompt) -> impl Iterator<Item = &String> {
    prompt
        .messages()
        .iter()
        .filter_map(|message| match message {
            PromptMessage::Tool { content, .. } => Some(content),
            _ => None,
        })
}

fn reads(prompt: &Prompt, needs: &str) -> bool {
    needs.is_empty() || results(prompt).any(|content| content.contains(needs))
}

fn calls(prompt: &Prompt) -> Vec<ProposedCall> {
    made(prompt.messages())
}

/// The calls since the user first said this.
fn calls_since(prompt: &Prompt, says: &str) -> Vec<ProposedCall> {
    let is = |message: &PromptMessage| matches!(message, PromptMessage::User(text) if text == says);
    let from = prompt.messages().iter().position(is);
    let since = from.and_then(|from| prompt.messages().get(from..));
    made(since.unwrap_or_default())
}

fn made(messages: &[PromptMessage]) -> Vec<ProposedCall> {
    let mut made = Vec::new();
    for message in messages {
        if let PromptMessage::Assistant { calls, .. } = message {
            made.extend(calls.iter().map(|call| ProposedCall {
                tool: call.tool.clone(),
                arguments: call.arguments.clone(),
            }));
        }
    }
    made
}

fn proposed(call: &Planned) -> ProposedCall {
    ProposedCall {
        tool: call.tool.to_owned(),
        arguments: call.arguments.to_owned(),
    }
}

fn text(text: &str) -> Completion {
    Completion {
        text: text.to_owned(),
        ..Completion::default()
    }
}

fn calling(calls: Vec<ProposedCall>) -> Completion {
    Completion {
        calls,
        ..Completion::default()
    }
}
