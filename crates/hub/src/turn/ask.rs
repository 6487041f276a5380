//! A step asks for a functionality of another app (SecGPT §4.3; the messages are in [`crate::isc`]).
//!
//! The model's call of `ask__NAME` becomes a call of the serving app's tool, decided on as any other, or
//! the query of a conversation of that app ([`super::serve`]), and each message before and after it is
//! decided on as well ([`super::deliver`], [`super::respond`]). The conversation keeps the name of the
//! functionality alone: not who serves it, by which tool, or under which rule it was denied.

use std::sync::Arc;

use ifc::CallId;

use super::machine::TurnMachine;
use super::read::{call_of, request_of};
use super::respond::NO_ANSWER;
use super::state::{Asking, Calls, Message, Rejection, State};
use crate::ProposedCall;
use crate::isc::{Exchange, ExchangeId, Functionality, Parties, Pending};
use crate::trace::MessageKind;

/// What the model is told where policy or the user said no.
const DENIED: &str = "not executed, denied. Do not try it again; go on without it.";

impl TurnMachine {
    /// A call of `ask__NAME`: nothing is decided before the request is of its form.
    pub(super) fn ask(
        &mut self,
        calls: Calls,
        id: CallId,
        proposed: ProposedCall,
        functionality: Arc<Functionality>,
    ) {
        let arguments = match request_of(&functionality, &proposed, &calls.label) {
            Ok(arguments) => arguments,
            Err(rejection) => return self.reject(calls, id, proposed, &rejection),
        };
        // An app that waits for this conversation is no candidate: requests in a circle would never end. Found before
        // an id is drawn or the user has to choose.
        if self.reachable(&functionality).next().is_none() {
            let reason = self.unreachable(&functionality).to_string();
            return self.unanswered(calls, id, proposed, &reason);
        }
        let asking = Asking {
            functionality,
            arguments,
        };
        self.state = State::AskExchange(calls, id, asking);
    }

    /// The exchange has its id, and the app that the user chose where several serve it.
    pub(super) fn opened(
        &mut self,
        calls: Calls,
        id: CallId,
        asking: Asking,
        exchange: ExchangeId,
        chosen: Option<&str>,
    ) {
        let Asking {
            functionality,
            arguments,
        } = asking;
        let Some(offer) = self.offer_by(&functionality, chosen).cloned() else {
            // The user chose none of them.
            return self.turned_away(calls, id);
        };
        let name = functionality.name.clone();
        // For the conversation: the user is not asked anew for each request, and no model chooses.
        self.settled.insert(name, offer.app.clone());
        let parties = Parties {
            id: exchange,
            from: self.asks.app().to_owned(),
            functionality,
            offer,
        };
        let call = call_of(
            &parties.functionality,
            &parties.offer,
            &arguments,
            &calls.label,
        );
        // Before the probe: the other app is not even asked about what the user has refused.
        if self.monitor.is_refused(&call) {
            self.trace_message(
                &parties,
                MessageKind::Denied,
                &calls.label,
                "refused before in this turn",
            );
            return self.turned_away(calls, id);
        }
        let label = calls.label.clone();
        let probe = Exchange::new(parties, arguments, label);
        self.deliver(calls, id, Message::Probe(probe));
    }

    /// The request goes nowhere: the model is told, and not why.
    pub(super) fn turned_away(&mut self, calls: Calls, id: CallId) {
        self.turn.refused += 1;
        self.note(&calls.label, id, DENIED);
        self.state = State::Calls(calls);
    }

    /// The call of an exchange may not run.
    pub(super) fn refuse_exchange(
        &mut self,
        calls: Calls,
        id: CallId,
        exchange: Exchange<Pending>,
        reason: &str,
    ) {
        // The trace says who was asked and why not; the model is told neither.
        let (parties, _) = exchange.end();
        self.trace_message(&parties, MessageKind::Denied, &calls.label, reason);
        self.turned_away(calls, id);
    }

    /// A request that no app can serve: the model is told what it is told of any that fails, so that it
    /// learns nothing of who could.
    fn unanswered(&mut self, calls: Calls, id: CallId, proposed: ProposedCall, reason: &str) {
        self.note(&calls.label, id, NO_ANSWER);
        self.trace_rejection(&calls.label, proposed, reason);
        self.state = State::Calls(calls);
    }

    /// Why no app can serve it.
    fn unreachable(&self, functionality: &Functionality) -> Rejection {
        let hops = self.settings.limits.hops;
        match functionality.offers.is_empty() {
            true => Rejection::NoFunctionality,
            false if self.waiting().len() >= hops => Rejection::TooFar(hops),
            false => Rejection::Circle,
        }
    }

    /// The same request is not put to the user again in this turn.
    pub(super) fn refuse_request<S>(&self, calls: &Calls, exchange: Exchange<S>) {
        let (parties, arguments) = exchange.end();
        let call = call_of(
            &parties.functionality,
            &parties.offer,
            &arguments,
            &calls.label,
        );
        self.monitor.recall_refusals([call]);
    }
}
