//! What comes back of a request to another app, and whether it arrives.

use ifc::{Call, CallId, Delivery, Label, Labeled};

use super::machine::TurnMachine;
use super::state::{Calls, Message, State};
use crate::CallOutcome;
use crate::isc::{Exchange, Parties, Pending, Response};
use crate::trace::{Event, MessageKind};

/// What the model is told where an answer is of no use, whoever is to blame.
pub(super) const NO_ANSWER: &str = "no usable answer came. Go on without it.";

impl TurnMachine {
    /// What became of the call of an exchange. The asking app's turn outlives the serving app.
    pub(super) fn responded(
        &mut self,
        calls: Calls,
        id: CallId,
        call: Call,
        exchange: Exchange<Pending>,
        outcome: CallOutcome,
    ) {
        match outcome {
            // A response is of the agreed form, which has no images.
            CallOutcome::Returned {
                text,
                is_error,
                claims,
                ..
            } => {
                let content = self.labelled(&call, text, is_error, &claims, &calls.label);
                if !is_error {
                    return self.respond(calls, id, exchange, &content);
                }
                // An error is words, and of no agreed form.
                let (parties, reason) = (exchange.end().0, "the app calls it an error");
                self.drop_response(&calls, id, &parties, content.label(), reason);
                self.state = State::Calls(calls);
            }
            CallOutcome::Failed(reason) => {
                let label = self.worst_label(&call);
                self.drop_response(&calls, id, &exchange.end().0, label, "the call failed");
                self.events.push(Event::CallFailed {
                    call: self.shown(&call),
                    reason: reason.into(),
                });
                self.state = State::Calls(calls);
            }
            CallOutcome::Unknown(reason) | CallOutcome::Lost(reason) => {
                let label = self.worst_label(&call);
                let (parties, _) = exchange.end();
                self.trace_message(&parties, MessageKind::Dropped, &label, "no answer came");
                // It was sent, so it may have run: the model is told that, and not that nothing came.
                self.unknown(&calls.label, id, call, reason);
                self.state = State::Calls(calls);
            }
        }
    }

    /// What the serving app says is a response, if it is of its form.
    pub(super) fn respond(
        &mut self,
        calls: Calls,
        id: CallId,
        exchange: Exchange<Pending>,
        content: &Labeled,
    ) {
        match exchange.respond(content) {
            Ok(response) => {
                let response = self.decided_whole(response);
                self.deliver(calls, id, Message::Response(response));
            }
            Err(dropped) => {
                // The reason is for the trace. To say it to the model would be a way around the form.
                let (parties, malformed) = *dropped;
                let reason = malformed.to_string();
                self.drop_response(&calls, id, &parties, content.label(), &reason);
                self.state = State::Calls(calls);
            }
        }
    }

    /// Where a limit or the user decides whether a response arrives, that it did tells of all of it: so
    /// every character has the label of the whole. What arrives whatever its label keeps its own.
    fn decided_whole(&self, mut response: Response) -> Response {
        // If even the most restrictive response would pass unasked, nothing is decided by what this one says.
        let worst = Delivery {
            message: Labeled::label_tcb("", Label::top()),
            ..response.delivery.clone()
        };
        if !self
            .monitor
            .would_allow(self.policy.as_ref(), &self.history, &worst)
        {
            let message = response.delivery.message;
            let whole = message.label();
            response.delivery.message = message.restrict(&whole);
        }
        response
    }

    /// Nothing of a response is shown. That there is none is as secret as all that it would have said.
    pub(super) fn drop_response(
        &mut self,
        calls: &Calls,
        id: CallId,
        parties: &Parties,
        label: Label,
        reason: &str,
    ) {
        self.trace_message(parties, MessageKind::Dropped, &label, reason);
        let note = Labeled::label_tcb(NO_ANSWER, label);
        self.history.push_result(&calls.label, id, note);
    }
}
