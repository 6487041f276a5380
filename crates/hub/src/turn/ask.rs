//! A step asks for a functionality of another app (SecGPT §4.3; the messages are in [`crate::isc`]).
//!
//! The model's call of `ask__NAME` becomes a call of the serving app's tool, decided on as any other, or
//! the query of a conversation of that app ([`super::serve`]), and each message before and after it is decided on as well. The conversation keeps the name
//! of the functionality alone: not who serves it, by which tool, or under which rule it was denied.

use std::sync::Arc;

use ifc::{
    Answer, Arguments, Call, CallId, Collaboration, Decision, Delivery, Direction, Label, Labeled,
    Permit, Question, Sink, Stage,
};

use super::Agent;
use super::bounded::bounded;
use super::message::{Asking, Message};
use super::state::{Calls, Rejection, State};
use crate::isc::{
    self, Exchange, ExchangeId, Functionality, Offer, Parties, Pending, Response, ServedBy,
};
use crate::trace::{self, Event, MessageKind};
use crate::{CallOutcome, ProposedCall};

/// What the model is told where an answer is of no use, whoever is to blame.
const NO_ANSWER: &str = "no usable answer came. Go on without it.";

/// What it is told where policy or the user said no.
const DENIED: &str = "not executed, denied. Do not try it again; go on without it.";

impl Agent {
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
        self.settled.insert(name, offer.app.clone());
        let parties = Parties {
            id: exchange,
            from: self.asks.app().to_owned(),
            functionality,
            offer,
        };
        let call = call(
            &parties.functionality,
            &parties.offer,
            &arguments,
            &calls.label,
        );
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

    /// Decides whether a message may be delivered.
    fn deliver(&mut self, calls: Calls, id: CallId, message: Message) {
        let delivery = message.delivery();
        let flow = trace::Flow::message(&delivery, &self.lattice);
        match self.decide(delivery) {
            Decision::Allow(permit) => self.delivered(calls, id, message, permit),
            Decision::Ask(question) => {
                self.trace_question(flow, &question);
                self.state = State::AskDelivery(calls, id, message, question);
            }
            Decision::Deny(denial) => {
                let reason = denial.to_string();
                self.trace_denial(flow, &reason);
                self.undelivered(calls, id, message, &reason);
            }
        }
    }

    /// The user's word on a message.
    pub(super) fn delivery_confirmed(
        &mut self,
        calls: Calls,
        id: CallId,
        message: Message,
        question: Question<Delivery>,
        answer: Answer,
    ) {
        let flow = trace::Flow::message(question.delivery(), &self.lattice);
        let settled = self.monitor.settle_tcb(question, answer);
        self.events.push(Event::Answered {
            flow,
            answer: answer.name().to_owned(),
            allowed: settled.is_ok(),
        });
        match settled {
            Ok(permit) => self.delivered(calls, id, message, permit),
            Err(denial) => self.undelivered(calls, id, message, &denial.to_string()),
        }
    }

    /// A message was delivered; the exchange goes on.
    fn delivered(
        &mut self,
        mut calls: Calls,
        id: CallId,
        message: Message,
        permit: Permit<Delivery>,
    ) {
        let by = permit.basis().to_string();
        let label = permit.flow().message.label();
        match message {
            Message::Probe(exchange) => {
                self.trace_message(exchange.parties(), MessageKind::Probe, &label, &by);
                let exchange = exchange.formats(permit);
                // The formats are the user's own words: they flow to everybody.
                let bottom = Label::bottom();
                self.trace_message(exchange.parties(), MessageKind::Formats, &bottom, "");
                self.deliver(calls, id, Message::Request(exchange));
            }
            Message::Request(exchange) => {
                self.trace_message(exchange.parties(), MessageKind::Request, &label, &by);
                match exchange.parties().offer.by.clone() {
                    ServedBy::Tool(tool) => {
                        let (exchange, call) = exchange.call(tool, permit);
                        calls.exchange = Some(exchange);
                        self.decide_call(calls, id, call);
                    }
                    ServedBy::Conversation => {
                        let (exchange, request) = exchange.query(permit);
                        self.serve(calls, id, exchange, request);
                    }
                }
            }
            Message::Response(response) => {
                let Response {
                    parties, left_out, ..
                } = response;
                let message = bounded(permit.spend().message, self.settings.limits.result_bytes);
                let by = match left_out {
                    0 => by,
                    count => format!("{by}; values not of the agreed form, left out: {count}"),
                };
                self.trace_message(&parties, MessageKind::Response, &label, &by);
                self.history.push_result(&calls.label, id, message);
                self.state = State::Calls(calls);
            }
        }
    }

    /// A message may not be delivered.
    fn undelivered(&mut self, calls: Calls, id: CallId, message: Message, reason: &str) {
        let delivery = message.delivery();
        let label = delivery.message.label();
        self.trace_message(message.parties(), MessageKind::Denied, &label, reason);
        match message {
            Message::Probe(exchange) => self.refuse_request(&calls, exchange),
            Message::Request(exchange) => self.refuse_request(&calls, exchange),
            Message::Response(_) => {
                self.turn.refused += 1;
                // The user has seen the response, and may have said no because of it.
                let note = Labeled::label_tcb(NO_ANSWER, label);
                self.history.push_result(&calls.label, id, note);
                self.state = State::Calls(calls);
                return;
            }
        }
        self.turned_away(calls, id);
    }

    /// The same request is not put to the user again in this turn.
    fn refuse_request<S>(&self, calls: &Calls, exchange: Exchange<S>) {
        let (parties, arguments) = exchange.end();
        let call = call(
            &parties.functionality,
            &parties.offer,
            &arguments,
            &calls.label,
        );
        self.monitor.recall_refusals([call]);
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
        let (parties, _) = exchange.end();
        self.trace_message(&parties, MessageKind::Denied, &calls.label, reason);
        self.turned_away(calls, id);
    }

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

    /// A message that waited for the user is not delivered: the turn was stopped.
    pub(super) fn abandon(
        &mut self,
        calls: &Calls,
        id: CallId,
        message: &Message,
    ) -> Option<CallId> {
        let label = message.delivery().message.label();
        let reason = "the turn was stopped";
        self.trace_message(message.parties(), MessageKind::Dropped, &label, reason);
        match message {
            Message::Probe(_) | Message::Request(_) => Some(id),
            // The call has run.
            Message::Response(_) => {
                let note = Labeled::label_tcb(NO_ANSWER, label);
                self.history.push_result(&calls.label, id, note);
                None
            }
        }
    }

    /// A call of `ask__NAME` as the monitor decides on it, once it is known which app serves it.
    pub(super) fn read_request(
        &self,
        functionality: &Functionality,
        proposed: &ProposedCall,
        label: &Label,
    ) -> Result<Call, Rejection> {
        let offer = self
            .offer(functionality)
            .ok_or(Rejection::NoFunctionality)?;
        let arguments = request_of(functionality, proposed, label)?;
        Ok(call(functionality, offer, &arguments, label))
    }

    /// Whether a proposed call would be answered by a conversation.
    pub(super) fn is_conversed(&self, proposed: &ProposedCall) -> bool {
        let functionality = self.asks.named(&proposed.tool);
        let offer = functionality.and_then(|functionality| self.offer(functionality));
        offer.is_some_and(|offer| offer.by == ServedBy::Conversation)
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

    /// What a proposed call is a part of, if it is a request and it is known which app serves it.
    pub(super) fn asking(&self, proposed: &ProposedCall) -> Option<Collaboration> {
        let functionality = self.asks.named(&proposed.tool)?;
        Some(Collaboration {
            asks: self.asks.app().to_owned(),
            serves: self.offer(functionality)?.app.clone(),
            functionality: functionality.name.clone(),
            direction: Direction::Asking,
        })
    }

    /// Whether no label stands in the way of this call that a step proposes: of a request, its messages
    /// included.
    pub(super) fn may_make(&self, proposed: &ProposedCall, call: &Call) -> bool {
        match self.asking(proposed) {
            Some(asking) => {
                let policy = self.policy.as_ref();
                !self.is_held_back(proposed, &call.label)
                    && self
                        .monitor
                        .would_allow_requested(policy, &self.history, call, asking)
            }
            None => self.may_call(call),
        }
    }

    /// Whether the label of a proposed request stands in the way of its messages.
    pub(super) fn is_held_back(&self, proposed: &ProposedCall, label: &Label) -> bool {
        let Some(functionality) = self.asks.named(&proposed.tool) else {
            return false;
        };
        let (Some(offer), Ok(arguments)) = (
            self.offer(functionality),
            request_of(functionality, proposed, label),
        ) else {
            // Who serves it is asked first, and what makes no sense goes nowhere.
            return false;
        };
        let messages = [
            (Stage::Probe, isc::probe(functionality, label)),
            (Stage::Request, isc::request(&arguments, label)),
        ];
        messages.into_iter().any(|(stage, message)| {
            let delivery = self.delivery(functionality, offer, stage, message);
            !self
                .monitor
                .would_allow(self.policy.as_ref(), &self.history, &delivery)
        })
    }

    /// A limit that all requests for a functionality keep to, as [`ifc::Policy::floor`] is one of all
    /// calls of a tool.
    pub(super) fn floor_of(&self, functionality: &Functionality) -> Label {
        let of_offer = |offer: &Offer| {
            let stages = [Stage::Probe, Stage::Request];
            let limits = stages.map(|stage| {
                let message = Labeled::trusted_tcb("");
                let delivery = self.delivery(functionality, offer, stage, message);
                let rule = self.policy.rule(&Sink::Delivery(&delivery));
                rule.map_or(Label::bottom(), |rule| rule.limit)
            });
            let call = match &offer.by {
                ServedBy::Tool(tool) => self.policy.floor(&offer.app, tool),
                // What it calls is decided there.
                ServedBy::Conversation => Label::top(),
            };
            limits.iter().fold(call, |all, limit| all.meet(limit))
        };
        // What nobody serves cannot be called.
        let offers = self.reachable(functionality).map(of_offer);
        offers.fold(Label::top(), |all, limit| all.meet(&limit))
    }

    /// The app that serves a functionality, where that is known.
    fn offer<'a>(&'a self, functionality: &'a Functionality) -> Option<&'a Offer> {
        let settled = self.settled.get(&functionality.name);
        self.offer_by(functionality, settled.map(String::as_str))
    }

    /// The only app that can serve a functionality here; of several the chosen one.
    fn offer_by<'a>(
        &'a self,
        functionality: &'a Functionality,
        chosen: Option<&str>,
    ) -> Option<&'a Offer> {
        let mut offers = self.reachable(functionality);
        match (offers.next(), offers.next()) {
            (only, None) => only,
            _ => {
                let mut offers = self.reachable(functionality);
                offers.find(|offer| Some(offer.app.as_str()) == chosen)
            }
        }
    }

    fn delivery(
        &self,
        functionality: &Functionality,
        offer: &Offer,
        stage: Stage,
        message: Labeled,
    ) -> Delivery {
        Delivery {
            from: self.asks.app().to_owned(),
            to: offer.app.clone(),
            functionality: functionality.name.clone(),
            stage,
            message,
        }
    }

    fn trace_message(&mut self, parties: &Parties, kind: MessageKind, label: &Label, note: &str) {
        self.turn.dropped += usize::from(kind == MessageKind::Dropped);
        self.events.push(Event::Message {
            exchange: parties.id.to_string(),
            version: isc::VERSION,
            message: kind,
            functionality: parties.functionality.name.clone(),
            asks: parties.from.clone(),
            serves: parties.offer.app.clone(),
            label: self.names(label),
            note: note.into(),
        });
    }
}

/// The call that a request is. Of a conversation that serves it there is no such tool, and the call is
/// known again by it where the user has refused it.
fn call(
    functionality: &Functionality,
    offer: &Offer,
    arguments: &Arguments,
    label: &Label,
) -> Call {
    let tool = match &offer.by {
        ServedBy::Tool(tool) => tool.clone(),
        ServedBy::Conversation => functionality.shown(),
    };
    Call {
        app: offer.app.clone(),
        tool,
        arguments: arguments.clone(),
        label: label.clone(),
    }
}

/// The arguments of a request, if they are of its form.
fn request_of(
    functionality: &Functionality,
    proposed: &ProposedCall,
    label: &Label,
) -> Result<Arguments, Rejection> {
    let arguments = Arguments::parse(&proposed.arguments, label)?;
    let form = functionality.request.check(&arguments.to_json());
    form.map_err(Rejection::Request)?;
    Ok(arguments)
}
