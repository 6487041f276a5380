//! The calls of a step: lines 7 to 13 of Algorithm 4.

use ifc::{
    Answer, Arguments, Call, CallId, Collaboration, Content, Decision, Denial, Flow, Image, Label,
    Labeled, Permit, Question, Sink,
};

use super::bounded::bounded;
use super::machine::TurnMachine;
use super::state::{Calls, Rejection, State, StepCall};
use crate::trace::{self, Event};
use crate::{CallOutcome, Execution, HandOver, ProposedCall, Stop};

/// What the model is told of a call that was sent and not answered. Never that it did not run.
const UNKNOWN: &str = "it is not known whether this call ran: it was sent, and no answer came. Do not \
make it again unless the user says so.";

impl TurnMachine {
    /// Lines 7 to 11: decides on the next call. When none is left, the allowed ones are handed
    /// over, if calls run elsewhere, or the next step begins.
    pub(super) fn next_call(&mut self, mut calls: Calls) {
        let Some((id, call)) = calls.queue.pop_front() else {
            self.state = match calls.allowed.is_empty() {
                true => State::Step,
                false => State::HandOver(HandOver {
                    text: self.inert(calls.text),
                    stop: self.turn.stop,
                    calls: calls.allowed,
                }),
            };
            return;
        };
        let whole = call.label(&calls.label);
        // Counted before it is decided on: a model that insists on what is rejected or denied ends its turn as well.
        let past = (whole.clone(), call.proposed.clone());
        self.turn.proposed.push(past);
        let times = self.turn.times_proposed(&call.proposed, &whole);
        if times > self.settings.limits.repeats {
            // Back among the others: the end of the turn answers all that have not run.
            calls.queue.push_front((id, call));
            self.state = State::Calls(calls);
            return self.abort(Stop::Repetition);
        }
        // Before anything else is decided: what is no call needs no rule, and no rule is asked for
        // what a model has made up.
        let limit = self.settings.limits.calls_per_step;
        let functionality = self.asks.named(&call.proposed.tool).cloned();
        if let Some(functionality) = functionality.filter(|_| calls.count <= limit) {
            return self.ask(calls, id, call.proposed, functionality);
        }
        // All of them or none: which of too many would run is nothing that a model should get to choose by their order.
        let read = match calls.count > limit {
            true => Err(Rejection::TooMany(limit)),
            false => self.read_step(&call, &calls.label),
        };
        // No policy decision, but a mistake that the model can mend. The words depend on all of the call, and the
        // history labels them so (`History::push_note`).
        let read = read.and_then(|call| match self.policy.check_arguments(&call) {
            Ok(()) => Ok(call),
            Err(why) => Err(Rejection::Parameters(why)),
        });
        match read {
            Ok(call) => self.decide_call(calls, id, call),
            Err(rejection) => self.reject(calls, id, call, &rejection),
        }
    }

    pub(super) fn decide_call(&mut self, mut calls: Calls, id: CallId, call: Call) {
        let step = self.turn.step;
        let flow = trace::Flow::Call(self.shown(&call));
        let decision = match (&calls.exchange, self.serves()) {
            (Some(exchange), _) => self.decide_requested(call, exchange.parties().asking()),
            (None, Some(collaboration)) => self.decide_served(call, collaboration),
            (None, None) => self.decide(call),
        };
        match decision {
            Decision::Allow(permit) => {
                let by = permit.basis().to_string();
                self.events.push(Event::Allowed { step, flow, by });
                self.allow(calls, id, permit);
            }
            // After the decision: what the limits admit runs, whatever was refused before.
            Decision::Ask(question) if self.is_withheld(&question) => {
                self.turn_down(calls, id, flow);
            }
            Decision::Ask(question) => {
                self.trace_question(flow, &question);
                self.state = State::AskUser(calls, id, question);
            }
            Decision::Deny(denial) => {
                let reason = denial.to_string();
                self.trace_denial(flow, &reason);
                if let Some(exchange) = calls.exchange.take() {
                    return self.refuse_exchange(calls, id, exchange, &reason);
                }
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

    /// The monitor's decision on a call by which another app's request is served.
    fn decide_requested(&self, call: Call, collaboration: Collaboration) -> Decision {
        let (policy, relevance) = (self.policy.as_ref(), &self.turn.relevance);
        self.monitor
            .decide_requested(policy, &self.history, relevance, call, collaboration)
    }

    /// The same on a call of a conversation that serves another app's request.
    fn decide_served(&self, call: Call, collaboration: Collaboration) -> Decision {
        let (policy, relevance) = (self.policy.as_ref(), &self.turn.relevance);
        self.monitor
            .decide_served(policy, &self.history, relevance, call, collaboration)
    }

    /// The user's word on a call.
    pub(super) fn confirmed(
        &mut self,
        mut calls: Calls,
        id: CallId,
        asked: Question,
        answer: Answer,
    ) {
        if let Answer::Trust(until) = answer {
            return self.trusted(calls, id, asked, until);
        }
        let flow = trace::Flow::Call(self.shown(asked.call()));
        let settled = self.monitor.settle_tcb(asked, answer);
        self.events.push(Event::Answered {
            flow,
            answer: answer.name().to_owned(),
            allowed: settled.is_ok(),
        });
        match (settled, calls.exchange.take()) {
            (Ok(permit), exchange) => {
                calls.exchange = exchange;
                self.approve(id, &permit);
                self.allow(calls, id, permit);
            }
            (Err(denial), Some(exchange)) => {
                self.refuse_exchange(calls, id, exchange, &denial.to_string());
            }
            (Err(denial), None) => self.refuse(calls, id, &denial.to_string()),
        }
    }

    /// Endorses a call that the user has just said yes to: that it was made is the user's own word now. The step's
    /// other calls are decided on under the step's label, as ever.
    fn approve(&mut self, id: CallId, permit: &Permit) {
        let is_endorsed = |approval| self.history.approve(id, approval);
        if permit.approval().is_some_and(is_endorsed) {
            let call = self.as_made(id, permit.call().clone());
            self.events.push(Event::Endorsed {
                step: self.turn.step,
                call: self.shown(&call),
            });
        }
    }

    /// A call with the labels that it has in the history, if the user has endorsed it.
    pub(super) fn as_made(&self, id: CallId, call: Call) -> Call {
        let past = self.history.call(id);
        let past = past.filter(|past| past.approval.is_some());
        let arguments = past.and_then(|past| Arguments::parse_labeled(&past.arguments).ok());
        match arguments {
            Some(arguments) => Call {
                arguments,
                label: self.made_at(id, &call.label),
                ..call
            },
            None => call,
        }
    }

    /// The label of a call of a step at this label, which the user may have endorsed.
    pub(super) fn made_at(&self, id: CallId, step: &Label) -> Label {
        let call = self.history.call(id);
        call.map_or_else(|| step.clone(), |call| call.label(step))
    }

    /// Lines 12 and 13: what became of a call, labelled by policy.
    pub(super) fn executed(
        &mut self,
        mut calls: Calls,
        id: CallId,
        call: Call,
        outcome: CallOutcome,
    ) {
        if let Some(exchange) = calls.exchange.take() {
            return self.responded(calls, id, call, exchange, outcome);
        }
        let call = self.as_made(id, call);
        let label = self.made_at(id, &calls.label);
        match outcome {
            CallOutcome::Returned {
                text,
                is_error,
                claims,
                images,
            } => {
                let claimed = self.policy.claimed(&call, &claims);
                // No rule looks into an image. It has the label that any result of this call may have at most.
                let opaque = self.worst_label(&call).join(&claimed);
                // The trace says of a result how restricted all of it is.
                let traced = match images.is_empty() {
                    true => label.clone(),
                    false => label.join(&opaque),
                };
                let content = self.labelled(&call, text, is_error, &claims, &traced);
                self.returned(id, content, images, &opaque, &label);
                self.state = State::Calls(calls);
            }
            CallOutcome::Failed(reason) => {
                let note = format!("the call failed: {reason}");
                let note = Labeled::label_tcb(note, self.worst_label(&call));
                self.events.push(Event::CallFailed {
                    call: self.shown(&call),
                    reason: reason.into(),
                });
                self.history.push_result(&label, id, note);
                self.state = State::Calls(calls);
            }
            CallOutcome::Unknown(reason) => {
                self.unknown(&label, id, call, reason);
                self.state = State::Calls(calls);
            }
            CallOutcome::Lost(reason) => {
                // The words are shown to the user at once, and not by way of the history, which would have added the
                // label of the call.
                let of_words = self.worst_label(&call).join(&Sink::Call(&call).label());
                let words = Labeled::label_tcb(reason.clone(), of_words);
                self.unknown(&label, id, call, reason);
                self.state = State::Calls(calls);
                self.abort(Stop::Spoke(words));
            }
        }
    }

    /// The call was sent, and nobody knows whether it ran.
    pub(super) fn unknown(&mut self, label: &Label, id: CallId, call: Call, reason: String) {
        self.turn.unknown += 1;
        let note = Labeled::label_tcb(UNKNOWN, self.worst_label(&call));
        self.events.push(Event::CallUnknown {
            call: self.shown(&call),
            reason: reason.into(),
        });
        self.history.push_result(label, id, note);
    }

    /// That a call failed or was not answered is something the app decides: as sensitive as its
    /// results.
    pub(super) fn worst_label(&self, call: &Call) -> Label {
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
    pub(super) fn refuse(&mut self, calls: Calls, id: CallId, reason: &str) {
        self.turn.refused += 1;
        let note = format!("not executed, {reason}. Do not try it again; go on without it.");
        self.note(&calls.label, id, &note);
        self.state = State::Calls(calls);
    }

    /// A call that makes no sense.
    pub(super) fn reject(
        &mut self,
        calls: Calls,
        id: CallId,
        call: impl Into<StepCall>,
        why: &Rejection,
    ) {
        let call: StepCall = call.into();
        let whole = call.label(&calls.label);
        let proposed = call.proposed;
        let reason = why.to_string();
        self.note(&calls.label, id, &format!("not executed: {reason}"));
        self.trace_rejection(&whole, proposed, &reason);
        self.state = State::Calls(calls);
    }

    /// The trace's entry for a call that makes no sense.
    pub(super) fn trace_rejection(&mut self, label: &Label, proposed: ProposedCall, reason: &str) {
        self.events.push(Event::Rejected {
            step: self.turn.step,
            tool: proposed.tool.into(),
            arguments: proposed.arguments.into(),
            label: self.names(label),
            reason: reason.into(),
        });
    }

    /// The trace's entry for a question to the user.
    pub(super) fn trace_question<F: Flow>(&mut self, flow: trace::Flow, question: &Question<F>) {
        let rule = question.rule();
        self.events.push(Event::Asked {
            step: self.turn.step,
            flow,
            rule: rule.name.clone(),
            limit: self.names(question.limit()),
            effect: rule.effect.name().to_owned(),
            excess: self.names(question.excess()),
            causes: self.causes_of(question),
            ran: question.ran().map(|ran| ran.name().to_owned()),
        });
    }

    /// The trace's entry for what may not flow.
    pub(super) fn trace_denial(&mut self, flow: trace::Flow, reason: &str) {
        self.events.push(Event::Denied {
            step: self.turn.step,
            flow,
            reason: reason.into(),
        });
    }

    /// Our own words in place of a result: nothing in them comes from the app. Whoever sees a call that the user has
    /// endorsed sees what became of it.
    pub(super) fn note(&mut self, label: &Label, id: CallId, note: &str) {
        let label = self.made_at(id, label);
        self.history.push_note(&label, id, note);
    }

    fn returned(
        &mut self,
        id: CallId,
        content: Labeled,
        images: Vec<Image>,
        opaque: &Label,
        label: &Label,
    ) {
        let content = bounded(content, self.settings.limits.result_bytes);
        let mut content = Content::from(content);
        for image in images {
            content.attach(image, opaque);
        }
        self.history.push_result(label, id, content);
        // The same text may have come in again: what the user has vouched for counts wherever it stands.
        self.endorse();
    }

    /// What a call under this label returned, labelled by policy, and no lower than its app claims.
    pub(super) fn labelled(
        &mut self,
        call: &Call,
        text: String,
        is_error: bool,
        claims: &[String],
        label: &Label,
    ) -> Labeled {
        let bytes = text.len();
        let content = self.policy.label_result(call, text, is_error);
        // An app that says of its own result that it is secret is believed; that it is public, never.
        let content = content.restrict(&self.policy.claimed(call, claims));
        let whole = label.join(&Sink::Call(call).label());
        self.events.push(Event::Returned {
            bytes,
            is_error,
            label: self.names(&content.label().join(&whole)),
            regions: content.regions().len(),
            call: self.shown(call),
        });
        content
    }
}
