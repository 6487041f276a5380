//! The check before a question ([`Screening::LazyChecked`]): can the step do without what stands in
//! its way?
//!
//! A screener that errs would have the user asked about flows that are none. The agent's own model
//! knows better: whatever it also does without a text does not depend on that text.

use ifc::{Label, Message, Relevance};

use super::Agent;
use super::state::Phase;
use crate::{Completion, Event, Mode, ProposedCall, Screening};

impl Agent {
    /// The label of everything that all calls of a draft may depend on, if calls are checked and
    /// would all be allowed under it.
    pub(super) fn allowed_label(&self, draft: &Completion) -> Option<Label> {
        if self.settings.mode != Mode::Rtbas(Screening::LazyChecked) || draft.calls.is_empty() {
            return None;
        }
        let coarse = self.history.label();
        let known = draft.calls.iter().filter(|call| self.knows(&call.tool));
        let limit = |call| self.policy.rule(&self.proposed(call, &coarse));
        let limits = known
            .map(|call| limit(call).map(|rule| rule.limit))
            .collect::<Result<Vec<Label>, _>>()
            .ok()?;
        let shown = self
            .history
            .regions()
            .filter(|region| limits.iter().all(|limit| region.label.flows_to(limit)))
            .map(|region| region.id);
        let label = self.history.label_of(&Relevance::Only(shown.collect()));
        (!self.violates(draft, &label)).then_some(label)
    }

    /// Compares a draft with the step that was taken without what stands in the draft's way. What
    /// was made from less is safe under its own label in any case. But it must be the very same
    /// calls, because a model that lacks what it needs makes something up; or what the model knows
    /// only from a step above this label, read anew.
    pub(super) fn checked(
        &mut self,
        draft: Completion,
        label: Label,
        provider: &str,
        completion: Completion,
    ) {
        self.told(provider, &completion);
        let taken = completion.calls == draft.calls || self.reads_anew(&completion, &label);
        self.events.push(Event::Checked {
            step: self.turn.step,
            label: label.clone(),
            taken,
        });
        if taken {
            self.take(completion, label);
        } else {
            self.stands(draft);
        }
    }

    /// Whether all calls of a completion under this label are reads that this turn has made above
    /// the label, and not yet below it.
    fn reads_anew(&self, completion: &Completion, label: &Label) -> bool {
        let calls = &completion.calls;
        let is_new = |call| {
            let [above, below] = [false, true].map(|below| self.has_made(call, label, below));
            self.reads(call) && above && !below
        };
        !calls.is_empty() && calls.iter().all(is_new)
    }

    /// Whether some step of this turn, above a label or below it, made this very call. The history
    /// knows it also of a turn that was taken over.
    fn has_made(&self, proposed: &ProposedCall, label: &Label, below: bool) -> bool {
        let messages: Vec<_> = self.history.messages().collect();
        let of_turn = messages.rsplit(|(_, message)| matches!(message, Message::User(_)));
        let mut of_turn = of_turn.into_iter().next().into_iter().flatten();
        of_turn.any(|(at, message)| match message {
            Message::Assistant { calls, .. } if at.flows_to(label) == below => {
                calls.iter().any(|call| {
                    call.tool == proposed.tool && call.arguments.reveal_tcb() == proposed.arguments
                })
            }
            _ => false,
        })
    }

    /// The draft is the step, under the label that it was made under.
    pub(super) fn stands(&mut self, draft: Completion) {
        let coarse = self.history.label();
        self.accept(Phase::Final, draft, &coarse);
    }
}
