//! What follows once the user has vouched for the texts that stand in the way of a call.
//!
//! The answer is no permit. The labels of all that was made from these texts are computed anew, and the
//! waiting call is decided on again; if more than them stands in its way, the step is taken once more
//! without that (the check), or the user is asked about the rest.

use ifc::{Arguments, Call, CallId, Labeled, Message, Question, Until};

use super::machine::TurnMachine;
use super::state::{Calls, State};
use crate::trace::{self, Cause, Event};
use crate::{Completion, Execution, Filling, ProposedCall, StopReason, Usage};

impl TurnMachine {
    /// Endorses what the user has vouched for in this conversation: it may have come in again.
    pub(super) fn endorse(&mut self) {
        // Regions that have one label now may be one region.
        let relevant = self.history.pieces_of(&self.turn.relevance);
        self.monitor.endorse(&mut self.history, &self.apps.names());
        self.turn.relevance = self.history.regions_of(&relevant);
    }

    /// The user trusts what a question offers.
    pub(super) fn trusted(&mut self, calls: Calls, id: CallId, asked: Question, until: Until) {
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
            until: until.name().to_owned(),
        });
        let vouched = self.monitor.vouch_tcb(asked, until, &self.apps.names());
        match vouched {
            Ok(call) => {
                self.events.extend(event);
                // Labels fall first, in all of the history: the call is decided on by what its step was really made
                // from.
                self.endorse();
                self.decide_again(calls, id, call);
            }
            Err(denial) => {
                self.events.push(Event::Answered {
                    flow,
                    answer: ifc::Answer::Trust(until).name().to_owned(),
                    allowed: false,
                });
                self.refuse(calls, id, &denial.to_string());
            }
        }
    }

    /// Decides once more on a call of a step whose labels may have fallen.
    fn decide_again(&mut self, mut calls: Calls, id: CallId, call: Call) {
        // A step whose earlier calls have run or been handed out has had effects; it is not taken again.
        let is_first = calls.queue.len() + 1 == calls.count && calls.allowed.is_empty();
        let Some((step, call)) = self.relabelled(&mut calls, id, call) else {
            return self.refuse(calls, id, "its step is not known any more");
        };
        // A step that was made in parts has as low labels as it gets.
        if !is_first || self.may_call(&call) || self.settings.arguments != Filling::Lazy {
            return self.decide_call(calls, id, call);
        }
        // Nothing of the step has happened yet, so it can be taken again.
        let whole = self.history.clone();
        self.history.take_back();
        match self.check(step) {
            Ok(check) => {
                self.turn.steps.pop();
                self.turn.proposed.pop();
                self.state = State::AskCheck(check);
            }
            Err(_) => {
                self.history = whole;
                self.decide_call(calls, id, call);
            }
        }
    }

    /// The step that made a call, and the call, under the labels that they have now.
    fn relabelled(&self, calls: &mut Calls, id: CallId, call: Call) -> Option<(Completion, Call)> {
        let mut steps = self
            .history
            .messages()
            .filter_map(|(label, message)| match message {
                Message::Assistant { calls, .. } => Some((label, calls)),
                _ => None,
            });
        let (label, made) = steps.find(|(_, made)| made.iter().any(|past| past.id == id))?;
        let past = made.iter().find(|past| past.id == id)?;
        let arguments = Arguments::parse_labeled(&past.arguments).ok()?;
        calls.label = label.clone();
        calls.text = Labeled::label_tcb(calls.text.reveal_tcb(), label.clone());
        let proposed = made.iter().map(|past| ProposedCall {
            tool: past.tool.clone(),
            arguments: past.arguments.reveal_tcb().to_owned(),
        });
        let step = Completion {
            text: calls.text.reveal_tcb().to_owned(),
            calls: proposed.collect(),
            usage: Usage::default(),
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
}
