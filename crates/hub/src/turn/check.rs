//! The check before a question ([`Screening::CHECKED`]): can the step do without what stands in
//! its way?
//!
//! A screener that errs would have the user asked about flows that are none. The agent's own model
//! knows better: whatever it also does without a text does not depend on that text.

use ifc::{Call, Label, Message, PastCall, Sink};

use super::Agent;
use super::state::{Phase, same_calls};
use crate::trace::Event;
use crate::{Completion, ProposedCall, Screening};

impl Agent {
    /// The label of everything that all calls of a draft may depend on, if calls are checked and
    /// would all be allowed under it.
    pub(super) fn allowed_label(&self, draft: &Completion) -> Option<Label> {
        if self.settings.screening != Screening::CHECKED || draft.calls.is_empty() {
            return None;
        }
        let coarse = self.coarse();
        let calls = draft.calls.iter();
        let calls: Vec<Call> = calls
            .filter_map(|proposed| self.read(proposed, &coarse).ok())
            .collect();
        let mut limit = Label::top();
        for call in &calls {
            let rule = self.policy.rule(&Sink::Call(call)).ok()?;
            limit = limit.meet(&rule.limit);
        }
        let label = self.above_request(self.history.label_below(&limit));
        // A tool whose name is above its own limit cannot be called below that.
        let knows = |call: &Call| {
            let shown = self.apps.shown(&call.app, &call.tool);
            self.history.tool_at(&label, &shown).is_some()
        };
        (calls.iter().all(knows) && !self.violates(draft, &label)).then_some(label)
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
        let taken =
            same_calls(&completion.calls, &draft.calls) || self.reads_anew(&completion, &label);
        self.events.push(Event::Checked {
            step: self.turn.step,
            label: self.names(&label),
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
            let made = self.made(call);
            self.reads(call, label) && !made.is_empty() && made.iter().all(|at| !at.flows_to(label))
        };
        !calls.is_empty() && calls.iter().all(is_new)
    }

    /// The labels of the steps of this turn that made this very call. The history knows them also of
    /// a turn that was taken over.
    fn made(&self, proposed: &ProposedCall) -> Vec<&Label> {
        let mut steps = Vec::new();
        for (label, message) in self.history.messages() {
            match message {
                Message::User(_) => steps.clear(),
                Message::Assistant { calls, .. } => {
                    let is_it = |call: &PastCall| {
                        let past = ProposedCall {
                            tool: call.tool.clone(),
                            arguments: call.arguments.reveal_tcb().to_owned(),
                        };
                        past.same(proposed)
                    };
                    steps.extend(calls.iter().any(is_it).then_some(label));
                }
                Message::System(_) | Message::Memory(_) | Message::Result { .. } => {}
            }
        }
        steps
    }

    /// The draft is the step, under the label that it was made under.
    pub(super) fn stands(&mut self, draft: Completion) {
        let coarse = self.coarse();
        self.accept(Phase::Final, draft, &coarse);
    }
}
