//! A message between two apps: whether it may be delivered, and what follows.

use ifc::{Answer, CallId, Decision, Delivery, Label, Labeled, Permit, Question};

use super::bounded::bounded;
use super::machine::TurnMachine;
use super::respond::NO_ANSWER;
use super::state::{Calls, Message, State};
use crate::isc::{self, Parties, Response, ServedBy};
use crate::trace::{self, Event, MessageKind};

impl TurnMachine {
    /// Decides whether a message may be delivered.
    pub(super) fn deliver(&mut self, calls: Calls, id: CallId, message: Message) {
        let delivery = message.delivery();
        let flow = trace::Flow::message(&delivery, &self.lattice);
        match self.decide(delivery) {
            Decision::Allow(permit) => self.delivered(calls, id, message, permit),
            Decision::Ask(question) => {
                self.trace_question(flow, &question);
                self.state = State::AskDelivery(calls, id, message, question);
            }
            Decision::Deny(denial) => {
                // For the trace: the asking app's model is told of no rule, since that would tell who serves it.
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
                        // While it is there, `decide_call` decides as on a request, and a result is a response.
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
                // In the trace only: how many were left out is as secret as the values.
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

    /// The trace's entry for a message.
    pub(super) fn trace_message(
        &mut self,
        parties: &Parties,
        kind: MessageKind,
        label: &Label,
        note: &str,
    ) {
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
