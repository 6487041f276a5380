//! The final answer: a sink with a limit of its own.

use std::collections::BTreeSet;

use ifc::{Answer, Call, Decision, Label, Labeled, Question, Relevance};

use super::Agent;
use super::state::{Phase, State};
use crate::{Event, Stop, Verdict};

impl Agent {
    /// The final answer as the monitor sees it.
    pub(super) fn release(&self, text: &str, label: &Label) -> Call {
        Call::answer(self.app.clone(), text, label.clone())
    }

    /// Decides whether the final answer may be shown.
    pub(super) fn answered(&mut self, phase: Phase, said: Labeled, label: &Label) {
        let call = self.release(said.reveal_tcb(), label);
        let decision = self
            .monitor
            .decide(self.policy.as_ref(), &self.history, call.clone());
        match decision {
            Decision::Allow(permit) => {
                permit.spend();
                self.show(said, label);
            }
            // It was made from what may be shown, and may not be shown: the policy contradicts
            // itself.
            Decision::Ask(question) if phase == Phase::Fallback => {
                let rule = &question.rule().name;
                let reason = format!("no answer may be shown under the rule {rule}");
                self.withhold(call, reason);
            }
            Decision::Ask(question) => {
                self.decided(call, Verdict::of_question(&question));
                self.state = State::AskRelease(said, question);
            }
            Decision::Deny(denial) => self.withhold(call, denial.to_string()),
        }
    }

    /// The user's word on the answer. After a no, the model answers once more from what may be
    /// shown anyway.
    pub(super) fn release_confirmed(&mut self, said: Labeled, question: Question, answer: Answer) {
        let call = question.call().clone();
        let limit = question.rule().limit.clone();
        let settled = self.monitor.settle_tcb(question, answer);
        let label = call.label.clone();
        self.events.push(Event::Answered {
            call,
            answer,
            allowed: settled.is_ok(),
        });
        match settled {
            Ok(permit) => {
                permit.spend();
                self.show(said, &label);
            }
            Err(_) => {
                self.turn.refused += 1;
                let regions = self.history.regions();
                let below = regions.filter(|region| region.label.flows_to(&limit));
                let below: BTreeSet<_> = below.map(|region| region.id).collect();
                let label = self.history.label_of(&Relevance::Only(below));
                self.state = State::AskCompletion(Phase::Fallback, label);
            }
        }
    }

    fn show(&mut self, said: Labeled, label: &Label) {
        self.history.push_assistant(label, said.clone(), []);
        self.end(Ok(said));
    }

    fn withhold(&mut self, call: Call, reason: String) {
        self.turn.refused += 1;
        self.decided(call, Verdict::Denied(reason.clone()));
        self.end(Err(Stop::Withheld(reason)));
    }
}
