//! Late refinement: did a read of this turn depend on what made it coarse?
//!
//! A lazy step has the label of everything before it, and so have the results of its reads: a mail that was
//! read after a product review counts as influenced by the review. When that stands in the way of a draft,
//! the step that read is taken once more, from what stood before it and flows to the draft's limits. If the
//! same calls come out, they did not depend on the rest: the step has the label of that second prompt, the
//! results have what they came with, and everything made from them is labelled anew
//! ([`ifc::History::refine_tcb`]).
//!
//! Only a completion decides. Where the second prompt would show all that the step was made from, the step
//! has a label below the limit already, so there is no cheaper case.

use ifc::{Effect, Label, Labeled, Message, PastCall, Remade, redact};

use super::machine::{Refinement, TurnMachine};
use super::state::{Refining, State, same_calls};
use crate::trace::Event;
use crate::{Completion, CompletionRequest, ProposedCall, Screening, StopReason};

/// Reads that are made once more in one step, so that a question waits for few completions.
const PER_STEP: usize = 3;

/// A step of the turn, as the history has it.
struct Step<'a> {
    /// Its number in the turn.
    number: usize,
    at: usize,
    label: &'a Label,
    text: &'a Labeled,
    calls: &'a [PastCall],
}

impl TurnMachine {
    /// The steps that were taken once more, in the order in which they were.
    pub fn refinements(&self) -> &[Refinement] {
        &self.refinements
    }

    /// What a history that was taken over has been refined by. No step of these is taken once more.
    pub fn recall_refinements(&mut self, refinements: Vec<Refinement>) {
        self.refinements = refinements;
    }

    /// Takes the earliest read of this turn once more that stands in a draft's way; where there is none,
    /// the draft is made in parts, or checked.
    pub(super) fn held(&mut self, draft: Completion) {
        match self.next_read(&draft) {
            Some((at, label)) => {
                self.turn.refined += 1;
                self.state = State::AskRefinement(Refining { draft, at, label });
            }
            None => {
                let Err(draft) = self.fill(draft) else { return };
                match self.check(draft) {
                    Ok(check) => self.state = State::AskCheck(check),
                    // Nothing more can be tried, and the draft is asked about as it is.
                    Err(draft) => self.stands(draft),
                }
            }
        }
    }

    /// Where the earliest read is that stands in a draft's way and was not made once more before, and the
    /// label of its second prompt.
    fn next_read(&self, draft: &Completion) -> Option<(usize, Label)> {
        if self.settings.screening != Screening::CHECKED || self.turn.refined >= PER_STEP {
            return None;
        }
        let limit = self.way(draft, &self.coarse())?.limit;
        let mut steps = self.steps();
        steps.find_map(|step| Some((step.at, self.second_label(&step, &limit)?)))
    }

    /// The steps of this turn.
    fn steps(&self) -> impl Iterator<Item = Step<'_>> {
        let messages = || self.history.messages().enumerate();
        let begin = messages().filter(|(_, (_, message))| matches!(message, Message::User(_)));
        let begin = begin.last().map_or(0, |(at, _)| at);
        let steps = messages().skip(begin).filter_map(|(at, (label, message))| {
            let Message::Assistant { text, calls } = message else {
                return None;
            };
            Some((at, label, text, calls.as_slice()))
        });
        let numbered = steps.zip(1..);
        numbered.map(|((at, label, text, calls), number)| Step {
            number,
            at,
            label,
            text,
            calls,
        })
    }

    /// The label under which a step could be taken once more, if it only reads, and is in the way of
    /// something under `limit`: some of its results came with a label below, and only its own is above.
    fn second_label(&self, step: &Step<'_>, limit: &Label) -> Option<Label> {
        let is_needed = |call: &PastCall| {
            !call.label(step.label).flows_to(limit) && self.history.has_own_below(call.id, limit)
        };
        // The completion alone is made once more, and no call: a read that changes what it reads is no other here.
        let is_read = |call: &PastCall| {
            let effect = self.effect(&ProposedCall::from(call), step.label);
            effect.is_some_and(Effect::reads)
        };
        let mut before = self.refinements.iter();
        if step.label.flows_to(limit)
            || !step.calls.iter().any(is_needed)
            || !step.calls.iter().all(is_read)
            // Where it is not known what a step was made from, as of one that a client made up, there is nothing to
            // compare.
            || !self.history.is_from_prompt(step.at)
            || before.any(|refinement| refinement.at == step.at)
        {
            return None;
        }
        let before = self.history.part(0..step.at, &Labeled::trusted_tcb(""));
        // Below the step's own label too: a second prompt that shows more than the first proves nothing.
        let label = self.above_request(before.label_below(&limit.meet(step.label)));
        let knows = |call: &PastCall| before.tool_at(&label, &call.tool).is_some();
        let is_possible = label.flows_to(limit) && step.calls.iter().all(knows);
        (is_possible && self.before(step.at, &label).is_some()).then_some(label)
    }

    /// The request for a step that is taken once more.
    pub(super) fn refinement_request(&mut self, refining: &Refining) -> Option<CompletionRequest> {
        let Refining { at, label, .. } = refining;
        let prompt = redact(&self.before(*at, label)?, label);
        Some(self.second_request(prompt))
    }

    /// No completion: the step keeps its label.
    pub(super) fn unrefined(&mut self, refining: Refining) {
        let Refining { draft, at, label } = refining;
        self.remember_refinement(at, label, None);
        self.judge(draft);
    }

    /// Compares a step with the one that was made from less.
    pub(super) fn refined(&mut self, refining: Refining, provider: &str, completion: &Completion) {
        self.told(provider, completion);
        let Refining { draft, at, label } = refining;
        let step = self.steps().find(|step| step.at == at);
        let (of, remade) = step.map_or((0, None), |step| {
            let calls = step.calls.iter().map(ProposedCall::from);
            let same = same_calls(&calls.collect::<Vec<_>>(), &completion.calls);
            // A text that was cut off is equal by accident.
            let whole =
                completion.stop == StopReason::End && completion.text == step.text.reveal_tcb();
            let remade = match whole {
                true => Remade::Whole,
                false => Remade::Calls,
            };
            (step.number, same.then_some(remade))
        });
        self.events.push(Event::Refined {
            step: self.turn.step,
            of,
            label: self.names(&label),
            taken: remade.is_some(),
            whole: remade == Some(Remade::Whole),
        });
        if let Some(remade) = remade {
            // The regions get other numbers.
            let relevant = self.history.pieces_of(&self.turn.relevance);
            let floor = self.above_request(Label::bottom());
            self.history.refine_tcb(at, &label, &floor, remade);
            self.turn.relevance = self.history.regions_of(&relevant);
        }
        self.remember_refinement(at, label, remade);
        self.judge(draft);
    }

    /// Whatever came out: another attempt would come out the same.
    fn remember_refinement(&mut self, at: usize, label: Label, remade: Option<Remade>) {
        self.refinements.push(Refinement {
            at,
            after: self.history.messages().len(),
            label,
            remade,
        });
    }
}
