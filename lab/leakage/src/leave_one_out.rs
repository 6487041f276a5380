//! Leave one out: what a step depends on is what it is not the same without.
//!
//! For each taint in sight the drafted step is taken once more from everything that does not have it, with the note of the
//! product's check, so that a model leaves open what it cannot see. What then differs depends on the taint. RTBAS §2 cites
//! this idea as too expensive where every region, or every set of regions, is left out; taints are few. It needs no ground
//! truth, and a model that says the same to the same prompt. A text that stands under two taints seems to depend on neither:
//! the step is then taken again without both, which is safe, and may fail.

use std::collections::BTreeMap;

use hub::{AnswerShape, CHECK_NOTE, Completion, CompletionRequest, Purpose};
use ifc::{Arguments, Draft, DraftCall, History, Label, Lattice, redact};
use llm::{Broker, NoDeltas};

/// Generated tokens of one step, as the product allows them.
const MAX_TOKENS: u32 = 1024;

/// What the calls of a draft depend on.
#[derive(Debug, Clone)]
pub(crate) struct Attribution {
    /// All of them.
    pub(crate) label: Label,
    /// Completions that it took.
    pub(crate) completions: u32,
    calls: Vec<(String, BTreeMap<String, Label>)>,
}

impl Attribution {
    /// Of nothing.
    pub(crate) fn none() -> Self {
        Self {
            label: Label::bottom(),
            completions: 0,
            calls: Vec::new(),
        }
    }

    /// What an argument of a call depends on; `None` if there was no such call.
    pub(crate) fn of(&self, tool: &str, name: &str) -> Option<&Label> {
        let mut calls = self.calls.iter().filter(|(known, _)| known == tool);
        calls.find_map(|(_, arguments)| arguments.get(name))
    }
}

/// Finds what a draft depends on.
///
/// # Errors
/// The model fails.
pub(crate) async fn attribute(
    history: &History,
    draft: &Draft,
    lattice: &Lattice,
    broker: &Broker,
) -> Result<Attribution, String> {
    let whole = history.label();
    let taints: Vec<Label> = lattice
        .taints()
        .map(|(_, taint)| taint)
        .filter(|taint| taint.flows_to(&whole))
        .collect();
    let arguments = |call: &DraftCall| {
        let read = Arguments::parse(&call.arguments, &Label::bottom()).unwrap_or_default();
        let names = read
            .iter()
            .map(|(name, _)| (name.to_owned(), Label::bottom()));
        (call.tool.clone(), names.collect())
    };
    let mut found = Attribution {
        calls: draft.calls.iter().map(arguments).collect(),
        ..Attribution::none()
    };
    for taint in &taints {
        // The prompt at the join of all other taints is the history without what has this one.
        let others = taints.iter().filter(|other| *other != taint);
        let without: Label = others.collect();
        let request = CompletionRequest {
            prompt: redact(history, &without).with_note(CHECK_NOTE),
            purpose: Purpose::Step,
            shape: AnswerShape::TextOrCalls,
            max_tokens: MAX_TOKENS,
        };
        let answer = broker.complete(&request, &mut NoDeltas).await;
        let completion = answer.map_err(|error| error.to_string())?.completion;
        found.completions += 1;
        found.compare(draft, &completion, taint);
    }
    Ok(found)
}

impl Attribution {
    /// What differs depends on the taint: a value, or all of a call that is not made, or made otherwise.
    fn compare(&mut self, draft: &Draft, completion: &Completion, taint: &Label) {
        // With another number of calls nobody can say which belongs to which, so all of them differ.
        let same_count = completion.calls.len() == draft.calls.len();
        for (at, (call, (_, found))) in draft.calls.iter().zip(&mut self.calls).enumerate() {
            let other = completion
                .calls
                .get(at)
                .filter(|other| same_count && other.tool == call.tool);
            let read = |text: &str| Arguments::parse(text, &Label::bottom()).unwrap_or_default();
            let drafted = read(&call.arguments);
            let other = other.map(|other| read(&other.arguments));
            let has_same_names = |other: &Arguments| {
                let names = |of: &Arguments| {
                    of.iter()
                        .map(|(name, _)| name.to_owned())
                        .collect::<Vec<_>>()
                };
                names(other) == names(&drafted)
            };
            let other = other.filter(has_same_names);
            if other.is_none() {
                self.label = self.label.join(taint);
            }
            for (name, label) in found {
                let value =
                    |of: &Arguments| of.get(name).map(|value| value.reveal_tcb().to_owned());
                let is_same = other
                    .as_ref()
                    .is_some_and(|other| value(other) == value(&drafted));
                if !is_same {
                    *label = label.join(taint);
                    self.label = self.label.join(taint);
                }
            }
        }
    }
}
