//! The calls of a step: lines 7 to 13 of Algorithm 4.

use ifc::{Answer, Call, CallId, Decision, Label, Labeled, Permit, Question};

use super::Agent;
use super::bounded::bounded;
use super::state::{Calls, State};
use crate::{CallOutcome, Event, Execution, HandOver, ProposedCall, Stop, Verdict};

impl Agent {
    /// Lines 7 to 11: decides on the next call. When none is left, the allowed ones are handed
    /// over, if calls run elsewhere, or the next step begins.
    pub(super) fn next_call(&mut self, mut calls: Calls) {
        let Some((id, proposed)) = calls.queue.pop_front() else {
            self.state = match calls.allowed.is_empty() {
                true => State::Step,
                false => State::HandOver(HandOver {
                    text: calls.text,
                    calls: calls.allowed,
                }),
            };
            return;
        };
        let call = self.proposed(&proposed, &calls.label);
        self.turn.proposed.push(call.clone());
        if self.turn.times_proposed(&call) > self.settings.limits.repeats {
            let tool = proposed.tool.clone();
            calls.queue.push_front((id, proposed));
            self.state = State::Calls(calls);
            return self.abort(Stop::Repetition(tool));
        }
        if !self.knows(&proposed.tool) {
            return self.reject(calls, id, &proposed, "there is no such tool");
        }
        if calls.queue.len() >= self.settings.limits.calls_per_step {
            return self.reject(calls, id, &proposed, "too many calls in one step");
        }
        let decision = self
            .monitor
            .decide(self.policy.as_ref(), &self.history, call.clone());
        match decision {
            Decision::Allow(permit) => {
                self.decided(call, Verdict::Allowed(permit.basis().clone()));
                self.allow(calls, id, permit);
            }
            Decision::Ask(_) if self.turn.is_refused(&call) => {
                self.reject(calls, id, &proposed, "refused before in this turn");
            }
            Decision::Ask(question) => {
                self.decided(call, Verdict::of_question(&question));
                self.state = State::AskUser(calls, id, question);
            }
            Decision::Deny(denial) => {
                let reason = denial.to_string();
                self.decided(call, Verdict::Denied(reason.clone()));
                self.refuse(calls, id, &reason);
            }
        }
    }

    /// The user's word on a call.
    pub(super) fn confirmed(&mut self, calls: Calls, id: CallId, asked: Question, answer: Answer) {
        let call = asked.call().clone();
        let settled = self.monitor.settle_tcb(asked, answer);
        let refused = call.clone();
        self.events.push(Event::Answered {
            call,
            answer,
            allowed: settled.is_ok(),
        });
        match settled {
            Ok(permit) => self.allow(calls, id, permit),
            Err(denial) => {
                self.turn.refusals.push(refused);
                self.refuse(calls, id, &denial.to_string());
            }
        }
    }

    /// Lines 12 and 13: what became of a call, labelled by policy.
    pub(super) fn executed(&mut self, calls: Calls, id: CallId, call: Call, outcome: CallOutcome) {
        match outcome {
            CallOutcome::Returned { text, is_error } => {
                self.returned(id, call, text, is_error, &calls.label);
                self.state = State::Calls(calls);
            }
            CallOutcome::Failed(reason) => {
                // That a call failed is something the app decides: as sensitive as its results.
                let label = self.policy.label_result(&call, String::new(), true).label();
                let note = Labeled::label_tcb(format!("the call failed: {reason}"), label);
                self.events.push(Event::CallFailed { call, reason });
                self.history.push_result(&calls.label, id, note);
                self.state = State::Calls(calls);
            }
            CallOutcome::Lost(reason) => {
                self.events.push(Event::CallFailed {
                    call: call.clone(),
                    reason: reason.clone(),
                });
                self.state = State::AwaitResult(calls, id, call);
                self.abort(Stop::Spoke(reason));
            }
        }
    }

    fn allow(&mut self, mut calls: Calls, id: CallId, permit: Permit) {
        self.state = match self.settings.execution {
            Execution::Here => State::AskExecution(calls, id, permit),
            Execution::Elsewhere => {
                calls.allowed.push((id, permit));
                State::Calls(calls)
            }
        };
    }

    /// A call that policy or the user refused: the model is told, under the step's label.
    fn refuse(&mut self, calls: Calls, id: CallId, reason: &str) {
        self.turn.refused += 1;
        let note = format!("not executed, {reason}. Do not try it again; go on without it.");
        self.note(&calls.label, id, &note);
        self.state = State::Calls(calls);
    }

    /// A call that makes no sense.
    fn reject(&mut self, calls: Calls, id: CallId, proposed: &ProposedCall, reason: &str) {
        self.note(&calls.label, id, &format!("not executed: {reason}"));
        let call = self.proposed(proposed, &calls.label);
        self.decided(call, Verdict::Denied(reason.to_owned()));
        self.state = State::Calls(calls);
    }

    pub(super) fn decided(&mut self, call: Call, verdict: Verdict) {
        self.events.push(Event::Decided {
            step: self.turn.step,
            call,
            verdict,
        });
    }

    /// Our own words in place of a result: nothing in them comes from the app.
    pub(super) fn note(&mut self, label: &Label, id: CallId, note: &str) {
        self.history.push_note(label, id, note);
    }

    fn returned(&mut self, id: CallId, call: Call, text: String, is_error: bool, label: &Label) {
        let bytes = text.len();
        let content = self.policy.label_result(&call, text, is_error);
        let content = bounded(content, self.settings.limits.result_bytes);
        self.events.push(Event::Returned {
            bytes,
            is_error,
            label: content.label().join(label),
            regions: content.regions().len(),
            call: call.clone(),
        });
        self.history.push_result(label, id, content);
    }
}
