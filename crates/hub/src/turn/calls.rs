//! The calls of a step: lines 7 to 13 of Algorithm 4.

use ifc::{Answer, Call, CallId, Decision, Denial, Flow, Label, Labeled, Permit, Question};

use super::Agent;
use super::bounded::bounded;
use super::state::{Calls, Rejection, State};
use crate::{Asked, CallOutcome, Event, Execution, HandOver, ProposedCall, Stop, Subject, Verdict};

/// What the model is told of a call that was sent and not answered. Never that it did not run.
const UNKNOWN: &str = "it is not known whether this call ran: it was sent, and no answer came. Do not \
make it again unless the user says so.";

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
        let past = (calls.label.clone(), proposed.clone());
        self.turn.proposed.push(past);
        let times = self.turn.times_proposed(&proposed, &calls.label);
        if times > self.settings.limits.repeats {
            calls.queue.push_front((id, proposed));
            self.state = State::Calls(calls);
            return self.abort(Stop::Repetition);
        }
        // Before anything else is decided: what is no call needs no rule, and no rule is asked for
        // what a model has made up.
        let limit = self.settings.limits.calls_per_step;
        let read = match calls.count > limit {
            true => Err(Rejection::TooMany(limit)),
            false => self.read(&proposed, &calls.label),
        };
        match read {
            Ok(call) => self.decide_call(calls, id, call),
            Err(rejection) => self.reject(calls, id, proposed, &rejection),
        }
    }

    fn decide_call(&mut self, calls: Calls, id: CallId, call: Call) {
        let subject = Subject::Call(call.clone());
        match self.decide(call) {
            Decision::Allow(permit) => {
                self.decided(subject, Verdict::Allowed(permit.basis().clone()));
                self.allow(calls, id, permit);
            }
            Decision::Ask(question) => {
                let asked = Asked::Call(question);
                self.decided(subject, Verdict::of_question(&asked));
                if let Asked::Call(question) = asked {
                    self.state = State::AskUser(calls, id, question);
                }
            }
            Decision::Deny(denial) => {
                let reason = denial.to_string();
                self.decided(subject, Verdict::Denied(reason.clone()));
                // One refusal counts once, however often the model insists.
                if denial == Denial::RefusedBefore {
                    self.note(&calls.label, id, &format!("not executed: {reason}"));
                    self.state = State::Calls(calls);
                } else {
                    self.refuse(calls, id, &reason);
                }
            }
        }
    }

    /// The monitor's decision, on whatever it is.
    pub(super) fn decide<F: Flow>(&self, flow: F) -> Decision<F> {
        self.monitor
            .decide(self.policy.as_ref(), &self.history, flow)
    }

    /// The user's word on a call.
    pub(super) fn confirmed(&mut self, calls: Calls, id: CallId, asked: Question, answer: Answer) {
        let subject = Subject::Call(asked.call().clone());
        let settled = self.monitor.settle_tcb(asked, answer);
        self.events.push(Event::Answered {
            subject,
            answer,
            allowed: settled.is_ok(),
        });
        match settled {
            Ok(permit) => self.allow(calls, id, permit),
            Err(denial) => self.refuse(calls, id, &denial.to_string()),
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
                let label = self.worst_label(&call);
                let note = Labeled::label_tcb(format!("the call failed: {reason}"), label);
                self.events.push(Event::CallFailed { call, reason });
                self.history.push_result(&calls.label, id, note);
                self.state = State::Calls(calls);
            }
            CallOutcome::Unknown(reason) => {
                self.unknown(&calls.label, id, call, reason);
                self.state = State::Calls(calls);
            }
            CallOutcome::Lost(reason) => {
                let label = self.worst_label(&call).join(&calls.label);
                let words = Labeled::label_tcb(reason.clone(), label);
                self.unknown(&calls.label, id, call, reason);
                self.state = State::Calls(calls);
                self.abort(Stop::Spoke(words));
            }
        }
    }

    /// The call was sent, and nobody knows whether it ran.
    pub(super) fn unknown(&mut self, label: &Label, id: CallId, call: Call, reason: String) {
        self.turn.unknown += 1;
        let note = Labeled::label_tcb(UNKNOWN, self.worst_label(&call));
        self.events.push(Event::CallUnknown { call, reason });
        self.history.push_result(label, id, note);
    }

    /// That a call failed or was not answered is something the app decides: as sensitive as its
    /// results.
    fn worst_label(&self, call: &Call) -> Label {
        self.policy.label_result(call, String::new(), true).label()
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
    fn reject(&mut self, calls: Calls, id: CallId, proposed: ProposedCall, why: &Rejection) {
        let reason = why.to_string();
        self.note(&calls.label, id, &format!("not executed: {reason}"));
        self.events.push(Event::Rejected {
            step: self.turn.step,
            proposed,
            label: calls.label.clone(),
            reason,
        });
        self.state = State::Calls(calls);
    }

    pub(super) fn decided(&mut self, subject: Subject, verdict: Verdict) {
        self.events.push(Event::Decided {
            step: self.turn.step,
            subject,
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
