//! The calls of a step: lines 7 to 13 of Algorithm 4.

use std::collections::BTreeSet;

use ifc::{
    Answer, Arguments, Author, Call, CallId, Decision, Denial, Effect, Flow, Label, Labeled,
    Message, Permit, Principal, Question, Sink, Until,
};

use super::machine::TurnMachine;
use super::state::{Calls, State, Strategy, Waiting};
use super::step::{Rejection, StepCall};
use crate::isc::{Functionality, Offer};
use crate::trace::{self, Cause, Event, Text};
use crate::{
    Apps, Asked, CallOutcome, Completion, Execution, Filling, HandOver, Need, ProposedCall,
    Requested, Stop, StopReason, Usage,
};

/// Most calls that one answer allows beside the one that is asked about. A user reads each of them.
const MOST_AT_ONCE: usize = 8;

/// How the note on a refused call ends.
const GO_ON: &str = ". Do not try it again; go on without it.";

/// How it ends where the rules themselves deny the call: another call may be missing before it.
const NOT_NOW: &str = ". Do not try it again before this has changed.";

impl TurnMachine {
    /// Lines 7 to 11: decides on the next call. When none is left, the allowed ones are handed over, if calls run
    /// elsewhere, or the next step begins.
    pub(super) fn next_call(&mut self, mut calls: Calls) {
        let Some((id, call)) = calls.queue.pop_front() else {
            if let Some(has_result) = self.turn.own_call {
                return self.end_call(has_result);
            }
            if calls.allowed.is_empty() {
                self.state = State::Begin;
                return;
            }
            let hand_over = HandOver {
                text: self.inert(calls.text),
                stop: self.turn.stop,
                calls: calls.allowed,
            };
            return self.wait(State::Idle(None), Need::HandOver(hand_over));
        };
        let full = call.label(&calls.label);
        // Counted before it is decided on: a model that insists on a call which is rejected or denied ends its turn too.
        let past = (full.clone(), call.proposed.clone());
        self.turn.proposed.push(past);
        let times = self.turn.times_proposed(&call.proposed, &full);
        let changes = || {
            self.is_polled(&call.proposed, &full) || self.may_have_changed(calls.count, &full, 1)
        };
        let may_repeat = || self.reads(&call.proposed, &full) && changes();
        if times > self.settings.limits.repeats && !may_repeat() {
            // Back in the queue: the end of the turn answers all calls that have not run.
            calls.queue.push_front((id, call));
            self.state = State::Calls(calls);
            return self.abort(Stop::Repetition);
        }
        // Before anything else is decided: what is no call needs no rule, and no rule is asked about a call that makes
        // no sense.
        let limit = self.settings.limits.calls_per_step;
        let functionality = self.asks.named(&call.proposed.tool).cloned();
        if let Some(functionality) = functionality.filter(|_| calls.count <= limit) {
            return self.ask(calls, id, call, functionality);
        }
        // All of them or none: a model must not choose by their order which of too many run.
        let read = match calls.count > limit {
            true => Err(Rejection::TooMany(limit)),
            false => self.read_step(&call, &calls.label),
        };
        // No policy decision, but a mistake that the model can mend. The words depend on all of the call, and the
        // history labels them so (`History::push_note`).
        let read = read.and_then(|call| match self.guard.check_arguments(&call) {
            Ok(()) => Ok(call),
            Err(why) => Err(Rejection::Parameters(why)),
        });
        match read {
            Ok(call) => self.decide_call(calls, id, call),
            Err(rejection) => self.reject(calls, id, call, &rejection),
        }
    }

    /// A call with the label under which it is decided on: that of its step, and for another app's tool of a client what
    /// is known to be behind it.
    fn behind(&self, mut call: Call) -> Call {
        if let Apps::Client(own, _) = &self.apps
            && call.app != *own
        {
            let rule = self.guard.rule(&Sink::Call(&call));
            let [reads, others] = &self.behind_others;
            call.label = call
                .label
                .join(match rule.is_ok_and(|rule| rule.effect.reads()) {
                    true => reads,
                    false => others,
                });
        }
        call
    }

    pub(super) fn decide_call(&mut self, mut calls: Calls, id: CallId, call: Call) {
        let call = self.behind(call);
        let step = self.turn.step;
        let flow = trace::Flow::Call(self.shown(&call));
        let principal = match &calls.exchange {
            Some(exchange) => Principal::Request(exchange.parties.asking()),
            None => self.principal(),
        };
        match self.guard.decide_as(&self.turn.relevance, call, &principal) {
            Decision::Allow(permit) => {
                let by = permit.basis().to_string();
                self.events.push(Event::Allowed { step, flow, by });
                self.allow(calls, id, permit);
            }
            // After the decision: a call that the limits admit runs, even after a refusal.
            Decision::Ask(question) if let Some(reason) = self.denied_unasked(&question) => {
                self.trace_denial(flow, Some(&question.rule().name), reason);
                match calls.exchange.take() {
                    Some(exchange) => self.refuse_exchange(calls, id, &exchange, reason),
                    None => self.refuse(calls, id, reason),
                }
            }
            Decision::Ask(question) if calls.allows(id, &question) => {
                self.confirmed(calls, id, question, Answer::Each);
            }
            Decision::Ask(question) => {
                let waiting = self.waiting_with(&calls, &principal, &question);
                let question = question.with_waiting(waiting.into_iter().map(|it| it.1).collect());
                self.trace_question(flow, &question);
                self.ask_user(calls, id, question);
            }
            Decision::Deny(denial) => {
                let reason = denial.to_string();
                self.trace_denial(flow, denial.rule(), &reason);
                if let Some(exchange) = calls.exchange.take() {
                    return self.refuse_exchange(calls, id, &exchange, &reason);
                }
                // One refusal counts once, however often the model insists.
                if denial == Denial::RefusedBefore {
                    self.note(&calls.label, id, &format!("not executed: {reason}"));
                    self.state = State::Calls(calls);
                } else {
                    let end = match denial {
                        Denial::Policy(_) => NOT_NOW,
                        _ => GO_ON,
                    };
                    self.refuse_until(calls, id, &reason, end);
                }
            }
        }
    }

    /// The calls behind this one in the step that the user would be asked about too, for reasons that this question names.
    /// Each comes with what is in its way.
    fn waiting_with(
        &self,
        calls: &Calls,
        principal: &Principal,
        asked: &Question,
    ) -> Vec<(CallId, Call, Label)> {
        // What serves another app's request is asked about by itself.
        if calls.exchange.is_some() || !matches!(principal, Principal::User) {
            return Vec::new();
        }
        let would_ask = |(id, step): &(CallId, StepCall)| {
            let is_request = self.asks.named(&step.proposed.tool).is_some();
            let call = self.read_step(step, &calls.label).ok()?;
            let call = self.behind(call);
            let is_call = !is_request && self.guard.check_arguments(&call).is_ok();
            // Whether an equal call has run may be another answer when its turn comes.
            if !is_call || self.guard.would_allow(&call) {
                return None;
            }
            let (policy, history) = (self.guard.policy.as_ref(), &self.guard.history);
            let relevance = &self.turn.relevance;
            // Not by the guard, since it would count a call that is allowed.
            let monitor = &self.guard.monitor;
            match monitor.decide_as(policy, history, relevance, call, principal) {
                Decision::Ask(question) if self.denied_unasked(&question).is_none() => {
                    let is_short = question.endorses().is_some() && question.ran().is_none();
                    // Calls with approvers are asked about one by one.
                    let is_own =
                        question.rule().approvers.is_none() && asked.rule().approvers.is_none();
                    let (call, excess) = (question.call().clone(), question.excess().clone());
                    (is_short && is_own && names(asked, &question)).then_some((*id, call, excess))
                }
                _ => None,
            }
        };
        let waiting = calls.queue.iter().filter_map(would_ask);
        waiting.take(MOST_AT_ONCE).collect()
    }

    fn ask_user(&mut self, calls: Calls, id: CallId, question: Question) {
        let call = question.call().clone();
        let requested = match &calls.exchange {
            Some(exchange) => Some(Requested {
                waiting: self.waiting().to_vec(),
                ..Requested::from(&exchange.parties)
            }),
            None => self.serving.as_ref().map(|service| service.requested()),
        };
        let asked = match requested {
            Some(requested) => Asked::Request(Box::new(requested), question),
            None => Asked::Call(question),
        };
        let state = State::AwaitCall(calls, id, Waiting::User(call));
        self.wait(state, Need::Confirm(asked));
    }

    /// The user's answer about a call.
    pub(super) fn confirmed(
        &mut self,
        mut calls: Calls,
        id: CallId,
        asked: Question,
        answer: Answer,
    ) {
        if let Answer::Trust(_) | Answer::TrustValue | Answer::TrustSource = answer {
            return self.trusted(calls, id, asked, answer);
        }
        if answer == Answer::Each && calls.answered.is_empty() {
            calls.answered = self.waiting_with(&calls, &Principal::User, &asked);
            // Nothing but what the question listed.
            let listed = |call: &Call| asked.waiting().iter().any(|it| it.same(call));
            calls.answered.retain(|(_, call, _)| listed(call));
        }
        let flow = trace::Flow::Call(self.shown(asked.call()));
        let settled = self.guard.permit(asked, answer);
        self.trace_answer(flow, answer, settled.is_ok());
        match (settled, calls.exchange.take()) {
            (Ok(permit), exchange) => {
                calls.exchange = exchange;
                self.approve(id, &permit);
                self.allow(calls, id, permit);
            }
            (Err(denial), Some(exchange)) => {
                self.refuse_exchange(calls, id, &exchange, &denial.to_string());
            }
            (Err(denial), None) => self.refuse(calls, id, &denial.to_string()),
        }
    }

    /// Endorses a call that the user has just allowed: that it is made is the user's own word now. The step's other calls
    /// are decided on under the step's label.
    fn approve(&mut self, id: CallId, permit: &Permit) {
        let is_endorsed = |approval| self.guard.history.approve(id, approval);
        if permit.approval().is_some_and(is_endorsed) {
            let call = self.as_made(id, permit.call().clone());
            self.events.push(Event::Endorsed {
                step: self.turn.step,
                call: self.shown(&call),
            });
        }
    }

    /// A call with the labels that it has in the history, if the user has endorsed it.
    fn as_made(&self, id: CallId, call: Call) -> Call {
        let past = self.guard.history.call(id);
        let past = past.filter(|past| past.approval.is_some());
        let arguments = past.and_then(|past| Arguments::parse_labeled(&past.arguments).ok());
        match arguments {
            Some(arguments) => Call {
                arguments,
                label: self.guard.label_of_call(id, &call.label),
                ..call
            },
            None => call,
        }
    }

    fn allow(&mut self, mut calls: Calls, id: CallId, permit: Permit) {
        match self.settings.execution {
            Execution::Here => {
                let waiting = Waiting::Result(permit.call().clone(), permit.receipt());
                self.wait(State::AwaitCall(calls, id, waiting), Need::Execute(permit));
            }
            Execution::Elsewhere => {
                calls.allowed.push((id, permit));
                self.state = State::Calls(calls);
            }
        }
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
        let has_result = matches!(&outcome, CallOutcome::Returned { is_error, .. } if !is_error);
        self.turn.own_call = self.turn.own_call.map(|_| has_result);
        let lost = match &outcome {
            // The words are shown to the user at once, and not by way of the history, which would have added the label
            // of the call.
            CallOutcome::Lost(reason) => {
                let label = self.label_of_words(&self.as_made(id, call.clone()));
                Some(Labeled::label_tcb(reason.clone(), label))
            }
            _ => None,
        };
        self.receive(id, call, outcome);
        self.state = State::Calls(calls);
        if let Some(words) = lost {
            self.abort(Stop::Spoke(words));
        }
    }

    /// Appends what became of a call to the history, and to the trace.
    pub(super) fn receive(&mut self, id: CallId, call: Call, outcome: CallOutcome) {
        let call = self.as_made(id, call);
        let shown = self.shown(&call);
        let limit = self.settings.limits.result_bytes;
        let event = match &outcome {
            CallOutcome::Returned { text, is_error, .. } => {
                let (bytes, is_error) = (text.len(), *is_error);
                let refused = is_error.then(|| Text::refused(text)).flatten();
                let received = self.guard.receive(id, &call, outcome, limit);
                let event = Event::Returned {
                    bytes,
                    is_error,
                    label: self.names(&received.label),
                    regions: received.regions,
                    call: shown,
                    refused,
                };
                self.events.push(event);
                // The same text may have come in again: what the user has vouched for counts wherever it is.
                return self.endorse();
            }
            CallOutcome::Failed(reason) => {
                let reason = reason.as_str().into();
                Event::CallFailed {
                    call: shown,
                    reason,
                }
            }
            CallOutcome::Unknown(reason) | CallOutcome::Lost(reason) => {
                self.turn.unknown += 1;
                let reason = reason.as_str().into();
                Event::CallUnknown {
                    call: shown,
                    reason,
                }
            }
        };
        self.events.push(event);
        self.guard.receive(id, &call, outcome, limit);
    }

    /// A call that the policy or the user refused: the model gets a note under the step's label.
    pub(super) fn refuse(&mut self, calls: Calls, id: CallId, reason: &str) {
        self.refuse_until(calls, id, reason, GO_ON);
    }

    fn refuse_until(&mut self, calls: Calls, id: CallId, reason: &str, end: &str) {
        self.turn.refused += 1;
        let note = match self.turn.own_call {
            Some(_) => format!("not executed, {reason}"),
            None => format!("not executed, {reason}{end}"),
        };
        self.note(&calls.label, id, &note);
        self.state = State::Calls(calls);
    }

    /// The calls of this turn that were refused, with the reasons, as far as a step under `label` may know.
    pub(super) fn refusals_below(&self, label: &Label) -> String {
        let mut refused = Vec::new();
        for (own, message) in self.guard.history.messages() {
            match message {
                Message::User(_) => refused.clear(),
                Message::Result {
                    tool,
                    content,
                    author: Author::Hub,
                    ..
                } if own.join(&content.label()).flows_to(label) => {
                    let note = content.reveal_tcb();
                    let note = [GO_ON, NOT_NOW]
                        .iter()
                        .find_map(|end| note.strip_suffix(end));
                    refused.extend(note.map(|why| format!("{tool} was {why}")));
                }
                _ => {}
            }
        }
        refused.join("; ")
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
        let full = call.label(&calls.label);
        let reason = why.to_string();
        self.note(&calls.label, id, &format!("not executed: {reason}"));
        self.trace_rejection(&full, call.proposed, &reason);
        self.state = State::Calls(calls);
    }

    /// The hub's own words in place of a result: nothing in them comes from the app. A step that sees a call which the
    /// user has endorsed sees what became of it.
    pub(super) fn note(&mut self, label: &Label, id: CallId, note: &str) {
        let label = self.guard.label_of_call(id, label);
        self.guard.history.push_note(&label, id, note);
    }

    // ---- Trust ----

    /// Endorses what the user has vouched for in this conversation: it may have come in again.
    pub(super) fn endorse(&mut self) {
        // Regions that have one label now may be one region.
        let relevant = self.guard.history.pieces_of(&self.turn.relevance);
        self.guard.endorse(&self.apps.names());
        self.turn.relevance = self.guard.history.regions_of(&relevant);
    }

    /// The user vouches for the texts that a question offers. The answer is no permit: the labels of all that was made
    /// from these texts are computed anew, and the call is decided on again.
    fn trusted(&mut self, calls: Calls, id: CallId, asked: Question, answer: Answer) {
        let flow = trace::Flow::Call(self.shown(asked.call()));
        let event = asked.offer().map(|offer| Event::Trusted {
            step: self.turn.step,
            texts: {
                let causes = asked.causes().iter();
                let causes: Vec<_> = causes.filter(|it| offer.is_of(it)).cloned().collect();
                Cause::all(&causes, &self.lattice)
            },
            app: offer.app().to_owned(),
            effect: offer.effect().name().to_owned(),
            until: match answer {
                Answer::Trust(until) => until.name().to_owned(),
                other => format!("{} {}", Until::Task.name(), other.name()),
            },
        });
        let apps = self.apps.names();
        match self.guard.monitor.vouch_tcb(asked, answer, &apps) {
            Ok(call) => {
                self.events.extend(event);
                // Labels fall in all of the history first: the call is decided on by what its step was really made from.
                self.endorse();
                self.decide_again(calls, id, call);
            }
            Err(denial) => {
                self.trace_answer(flow, answer, false);
                self.refuse(calls, id, &denial.to_string());
            }
        }
    }

    /// Decides once more on a call of a step whose labels may have fallen. If it is still blocked and nothing of the step
    /// has happened yet, the step is re-run without what blocks it.
    fn decide_again(&mut self, mut calls: Calls, id: CallId, call: Call) {
        let is_first = calls.queue.len() + 1 == calls.count && calls.allowed.is_empty();
        let Some((step, call)) = self.relabelled(&mut calls, id, call) else {
            return self.refuse(calls, id, "its step is not known any more");
        };
        // A step that was made in parts has as low labels as it gets, and no model has made the user's own call.
        if !is_first
            || self.turn.own_call.is_some()
            || self.may_call(&call)
            || self.settings.arguments != Filling::Lazy
        {
            return self.decide_call(calls, id, call);
        }
        let history = self.guard.history.clone();
        self.guard.history.take_back();
        match self.checkable(&step) {
            Some((label, retained)) => {
                self.turn.steps.pop();
                self.turn.proposed.pop();
                self.state = State::Make(Strategy::Check(step, label, retained));
            }
            None => {
                self.guard.history = history;
                self.decide_call(calls, id, call);
            }
        }
    }

    /// The step that made a call, and the call, under the labels that they have now.
    fn relabelled(&self, calls: &mut Calls, id: CallId, call: Call) -> Option<(Completion, Call)> {
        let messages = self.guard.history.messages();
        let mut steps = messages
            .enumerate()
            .filter_map(|(at, (label, message))| match message {
                Message::Assistant { calls, .. } => Some((at, label, calls)),
                _ => None,
            });
        let (at, label, made) = steps.find(|(.., made)| made.iter().any(|past| past.id == id))?;
        let past = made.iter().find(|past| past.id == id)?;
        let arguments = Arguments::parse_labeled(&past.arguments).ok()?;
        calls.label = label.clone();
        calls.text = Labeled::label_tcb(calls.text.reveal_tcb(), label.clone());
        let step = Completion {
            text: calls.text.reveal_tcb().to_owned(),
            calls: made.iter().map(ProposedCall::from).collect(),
            usage: Usage::default(),
            unread: self.guard.history.unread(at).cloned(),
            stop: match self.settings.execution {
                Execution::Elsewhere => self.turn.stop,
                // Where it was cut off, its text says so.
                Execution::Here => StopReason::End,
            },
        };
        let call = Call {
            arguments,
            label: label.clone(),
            ..call
        };
        Some((step, call))
    }

    // ---- Reading a proposed call ----

    /// A call of a step as the monitor decides on it.
    pub(super) fn read_step(&self, step: &StepCall, label: &Label) -> Result<Call, Rejection> {
        let call = self.read(&step.proposed, label)?;
        Ok(Call {
            arguments: step.retained.restrict(call.arguments),
            ..call
        })
    }

    /// A proposed call as the monitor decides on it. A tool whose name is above the step's label does not exist for it,
    /// wherever the model has the name from: a call depends on the name of its tool.
    pub(super) fn read(&self, proposed: &ProposedCall, label: &Label) -> Result<Call, Rejection> {
        if let Some(functionality) = self.asks.named(&proposed.tool) {
            let offer = self.offer(functionality);
            let offer = offer.ok_or(Rejection::NoFunctionality)?;
            let arguments = request_of(functionality, proposed, label)?;
            return Ok(call_of(functionality, offer, &arguments, label));
        }
        let known = self.apps.resolve(&proposed.tool);
        // Before any rule is asked for: that there is one would reveal that there is such a tool.
        let history = &self.guard.history;
        let is_named =
            self.turn.own_call.is_some() || history.tool_at(label, &proposed.tool).is_some();
        let known = known.filter(|_| is_named);
        let (app, tool) = known.ok_or(Rejection::UnknownTool)?;
        Ok(Call {
            app,
            tool,
            arguments: Arguments::parse(&proposed.arguments, label)?,
            label: label.clone(),
        })
    }

    /// Whether a call under this label only reads, so that it can be made again.
    pub(super) fn reads(&self, proposed: &ProposedCall, label: &Label) -> bool {
        self.effect(proposed, label) == Some(Effect::Read)
    }

    /// Whether the user's rules say that the result of a call changes by itself.
    pub(super) fn is_polled(&self, proposed: &ProposedCall, label: &Label) -> bool {
        let call = self.read(proposed, label);
        call.is_ok_and(|call| self.guard.policy.is_polled(&call))
    }

    /// The effect of a call under this label; `None` if there is no rule for it.
    pub(super) fn effect(&self, proposed: &ProposedCall, label: &Label) -> Option<Effect> {
        let call = self.read(proposed, label).ok()?;
        let rule = self.guard.rule(&Sink::Call(&call)).ok()?;
        Some(rule.effect)
    }

    // ---- The trace's entries ----

    /// A call that makes no sense.
    pub(super) fn trace_rejection(&mut self, label: &Label, proposed: ProposedCall, reason: &str) {
        self.events.push(Event::Rejected {
            step: self.turn.step,
            tool: proposed.tool.into(),
            arguments: proposed.arguments.into(),
            label: self.names(label),
            reason: reason.into(),
        });
    }

    /// A question to the user.
    pub(super) fn trace_question<F: Flow>(&mut self, flow: trace::Flow, question: &Question<F>) {
        let rule = question.rule();
        let asked = (question.flow().sink().label(), rule.name.clone());
        self.turn.asked.push(asked);
        let mut causes = self.causes_of(question);
        causes.iter_mut().for_each(Cause::keep_recorded);
        self.events.push(Event::Asked {
            step: self.turn.step,
            flow,
            rule: rule.name.clone(),
            limit: self.names(question.limit()),
            effect: rule.effect.name().to_owned(),
            excess: self.names(question.excess()),
            causes,
            ran: question.ran().map(|ran| ran.name().to_owned()),
        });
    }

    /// The user's answer.
    pub(super) fn trace_answer(&mut self, flow: trace::Flow, answer: Answer, allowed: bool) {
        self.events.push(Event::Answered {
            flow,
            answer: answer.name().to_owned(),
            allowed,
        });
    }

    /// A flow that is denied.
    pub(super) fn trace_denial(&mut self, flow: trace::Flow, rule: Option<&str>, reason: &str) {
        self.events.push(Event::Denied {
            step: self.turn.step,
            flow,
            rule: rule.map(str::to_owned),
            reason: reason.into(),
        });
    }
}

impl Calls {
    /// Whether the user has allowed this call with an earlier one of the step, and the question shows nothing more now.
    fn allows(&self, id: CallId, question: &Question) -> bool {
        self.answered.iter().any(|(own, call, excess)| {
            let is_it = *own == id && call.same(question.call());
            is_it && question.ran().is_none() && question.excess().flows_to(excess)
        })
    }
}

/// Whether a question names all reasons of another one: its taints, their causes, whether they reach the control part, and
/// what the call can do. A listed call is shown without its own reasons, and a text can choose which call comes first.
fn names(asked: &Question, other: &Question) -> bool {
    let regions: BTreeSet<_> = asked
        .causes()
        .iter()
        .flat_map(ifc::Cause::regions)
        .collect();
    let mut causes = other.causes().iter().flat_map(ifc::Cause::regions);
    other.excess().flows_to(asked.excess())
        // Without an excess the reason is the rule, which asks about each call.
        && other.excess().is_bottom() == asked.excess().is_bottom()
        && causes.all(|region| regions.contains(&region))
        && (asked.argument().is_none() || other.argument().is_some())
        && other.rule().effect <= asked.rule().effect
}

/// The call that a request is.
pub(super) fn call_of(
    functionality: &Functionality,
    offer: &Offer,
    arguments: &Arguments,
    label: &Label,
) -> Call {
    Call {
        app: offer.app.clone(),
        tool: functionality.tool_of(offer),
        arguments: arguments.clone(),
        label: label.clone(),
    }
}

/// The arguments of a request, if they are of its form.
pub(super) fn request_of(
    functionality: &Functionality,
    proposed: &ProposedCall,
    label: &Label,
) -> Result<Arguments, Rejection> {
    let arguments = Arguments::parse(&proposed.arguments, label)?;
    let form = functionality.request.check(&arguments.to_json());
    // Before anything is decided: the app that serves it gets only what the user's schema has room for.
    form.map_err(Rejection::Request)?;
    Ok(arguments)
}
