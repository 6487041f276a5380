//! Requests to other apps (SecGPT §4.3): a step asks for a functionality, another app serves it.
//!
//! The model's call of `ask__NAME` becomes a call of the serving app's tool, or the query of a conversation of that app.
//! The call and each message before and after it are decided on. The asking conversation does not learn the serving app,
//! its tool or the rule that denied a request. The forms of messages are in [`crate::isc`].
//!
//! A conversation that serves begins with the request in place of the user's words, has the tools of the serving app and
//! ends with a response in place of an answer. All of it depends on the request, so no prompt and no call in it is below
//! the request's label. It serves one request and is not kept.

use std::sync::Arc;

use ifc::{
    Answer, Call, CallId, Collaboration, Decision, Delivery, Direction, Label, Labeled, Permit,
    Principal, Question, Sink, Stage,
};

use super::calls::{call_of, request_of};
use super::conversation::{AppTools, serving};
use super::machine::TurnMachine;
use super::state::{Asking, Calls, Message, State, Waiting};
use super::step::{Rejection, StepCall};
use crate::guard::bounded;
use crate::isc::{
    self, Asks, Exchange, ExchangeId, Functionality, Offer, Parties, Response, ServedBy,
};
use crate::serving::Service;
use crate::trace::{self, Event, MessageKind, Text};
use crate::{
    AnswerShape, Apps, Asked, CallOutcome, Execution, Misuse, Need, Opening, ProposedCall, Serving,
    Settings, Setup,
};

/// The note where the policy or the user refused.
const DENIED: &str = "not executed, denied. Do not try it again; go on without it.";

/// The note where an answer is of no use, for any reason.
const NO_ANSWER: &str = "no usable answer came. Go on without it.";

impl TurnMachine {
    /// A call of `ask__NAME`: nothing is decided before the request is of its form.
    pub(super) fn ask(
        &mut self,
        calls: Calls,
        id: CallId,
        call: StepCall,
        functionality: Arc<Functionality>,
    ) {
        let arguments = match request_of(&functionality, &call.proposed, &calls.label) {
            Ok(arguments) => call.retained.restrict(arguments),
            Err(rejection) => return self.reject(calls, id, call, &rejection),
        };
        // An app that waits for this conversation is no candidate: requests in a circle would never end. Checked before
        // an id is drawn or the user has to choose.
        let apps: Vec<String> = self
            .reachable(&functionality)
            .map(|offer| offer.app.clone())
            .collect();
        if apps.is_empty() {
            // The note is the one of any request that fails: the model learns nothing about who could serve it.
            self.note(&calls.label, id, NO_ANSWER);
            let reason = Rejection::NoFunctionality.to_string();
            self.trace_rejection(&call.label(&calls.label), call.proposed, &reason);
            self.state = State::Calls(calls);
            return;
        }
        let opening = Opening {
            asks: self.asks.app().to_owned(),
            functionality: functionality.name.clone(),
            apps,
        };
        let waiting = Waiting::Exchange(Asking {
            functionality,
            arguments,
        });
        self.wait(
            State::AwaitCall(calls, id, waiting),
            Need::Exchange(opening),
        );
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
        // For the conversation: the user is not asked for each request, and no model chooses.
        let name = functionality.name.clone();
        self.settled.insert(name, offer.app.clone());
        let call = call_of(&functionality, &offer, &arguments, &calls.label);
        let parties = Parties {
            id: exchange,
            from: self.asks.app().to_owned(),
            functionality,
            offer,
        };
        // Before the probe: the other app is not even asked about what the user has refused.
        if self.guard.monitor.is_refused(&call) {
            let reason = "refused before in this turn";
            let label = Sink::Call(&call).label();
            self.trace_message(&parties, MessageKind::Denied, &label, reason);
            return self.turned_away(calls, id);
        }
        let exchange = Exchange {
            parties,
            arguments,
            label: calls.label.clone(),
        };
        self.deliver(calls, id, Message::Probe(exchange));
    }

    /// The request goes nowhere. The model gets a note without the reason.
    fn turned_away(&mut self, calls: Calls, id: CallId) {
        self.turn.refused += 1;
        self.note(&calls.label, id, DENIED);
        self.state = State::Calls(calls);
    }

    /// The call of an exchange may not run. The reason is for the trace.
    pub(super) fn refuse_exchange(
        &mut self,
        calls: Calls,
        id: CallId,
        exchange: &Exchange,
        reason: &str,
    ) {
        let label = exchange.full_label();
        self.trace_message(&exchange.parties, MessageKind::Denied, &label, reason);
        self.turned_away(calls, id);
    }

    // ---- Messages ----

    /// Decides whether a message may be delivered.
    fn deliver(&mut self, calls: Calls, id: CallId, message: Message) {
        let delivery = message.delivery();
        let flow = trace::Flow::message(&delivery, &self.lattice);
        match self.guard.decide(&self.turn.relevance, delivery) {
            Decision::Allow(permit) => self.delivered(calls, id, message, permit),
            Decision::Ask(question) => {
                self.trace_question(flow, &question);
                let delivery = question.delivery().clone();
                let asked = Asked::Delivery(self.waiting().into(), question);
                let waiting = Waiting::Delivery(message, delivery);
                self.wait(State::AwaitCall(calls, id, waiting), Need::Confirm(asked));
            }
            Decision::Deny(denial) => {
                // For the trace: the rule would tell the asking app's model who serves it.
                let reason = denial.to_string();
                self.trace_denial(flow, denial.rule(), &reason);
                self.undelivered(calls, id, message, &reason);
            }
        }
    }

    /// The user's answer about a message.
    pub(super) fn delivery_confirmed(
        &mut self,
        calls: Calls,
        id: CallId,
        message: Message,
        question: Question<Delivery>,
        answer: Answer,
    ) {
        let flow = trace::Flow::message(question.delivery(), &self.lattice);
        let settled = self.guard.permit(question, answer);
        self.trace_answer(flow, answer, settled.is_ok());
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
        let sent = permit.spend().message;
        match message {
            Message::Probe(exchange) => {
                self.trace_message(&exchange.parties, MessageKind::Probe, &label, &by);
                // The formats are the answer. They are the user's own words, so they flow to every app.
                let bottom = Label::bottom();
                self.trace_message(&exchange.parties, MessageKind::Formats, &bottom, "");
                self.deliver(calls, id, Message::Request(exchange));
            }
            Message::Request(exchange) => {
                let parties = &exchange.parties;
                self.trace_message(parties, MessageKind::Request, &label, &by);
                match parties.offer.by {
                    // The permit was for the message. The call is decided on as any other, by the rule of its tool.
                    ServedBy::Tool(_) => {
                        let Exchange {
                            parties,
                            arguments,
                            label,
                        } = &exchange;
                        let call =
                            call_of(&parties.functionality, &parties.offer, arguments, label);
                        // While it is set, `decide_call` decides as on a request, and a result is a response.
                        calls.exchange = Some(exchange);
                        self.decide_call(calls, id, call);
                    }
                    ServedBy::Conversation => self.serve(calls, id, exchange, sent),
                }
            }
            Message::Response(response) => {
                let message = bounded(sent, self.settings.limits.result_bytes);
                // In the trace only: how many were left out is as secret as the values.
                let by = match response.left_out {
                    0 => by,
                    count => format!("{by}; values not of the agreed form, left out: {count}"),
                };
                self.trace_message(&response.parties, MessageKind::Response, &label, &by);
                self.guard.history.push_result(&calls.label, id, message);
                self.state = State::Calls(calls);
            }
        }
    }

    /// A message may not be delivered.
    fn undelivered(&mut self, calls: Calls, id: CallId, message: Message, reason: &str) {
        let label = message.delivery().message.label();
        self.trace_message(message.parties(), MessageKind::Denied, &label, reason);
        match message {
            Message::Probe(exchange) | Message::Request(exchange) => {
                // The user is not asked about the same request again in this turn.
                let Parties {
                    functionality,
                    offer,
                    ..
                } = &exchange.parties;
                let call = call_of(functionality, offer, &exchange.arguments, &calls.label);
                self.guard.monitor.recall_refusals([call]);
                self.turned_away(calls, id);
            }
            Message::Response(_) => {
                self.turn.refused += 1;
                // The user has seen the response, and may have refused it because of what it says.
                let note = Labeled::label_tcb(NO_ANSWER, label);
                self.guard.history.push_result(&calls.label, id, note);
                self.state = State::Calls(calls);
            }
        }
    }

    /// A message that waited for the user is not delivered, because the turn was stopped. Gives the call back if it has
    /// not run.
    pub(super) fn abandon(
        &mut self,
        calls: &Calls,
        id: CallId,
        message: &Message,
    ) -> Option<CallId> {
        let label = message.delivery().message.label();
        let reason = "the turn was stopped";
        if let Message::Response(response) = message {
            self.drop_response(calls, id, &response.parties, label, reason);
            return None;
        }
        self.trace_message(message.parties(), MessageKind::Dropped, &label, reason);
        Some(id)
    }

    /// The trace's entry for a message.
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

    // ---- Responses ----

    /// What became of the call of an exchange. The asking app's turn outlives the serving app.
    pub(super) fn responded(
        &mut self,
        calls: Calls,
        id: CallId,
        call: Call,
        exchange: Exchange,
        outcome: CallOutcome,
    ) {
        let data = exchange.data_label();
        match outcome {
            // A response is of the agreed form, which has no images.
            CallOutcome::Returned {
                text,
                is_error,
                claims,
                ..
            } => {
                let bytes = text.len();
                let content = self.guard.label_result(&call, text, is_error, &claims);
                let content = content.restrict(&data);
                let own = calls.label.join(&Sink::Call(&call).label());
                self.events.push(Event::Returned {
                    bytes,
                    is_error,
                    label: self.names(&content.label().join(&own)),
                    regions: content.regions().len(),
                    call: self.shown(&call),
                    refused: None,
                });
                if !is_error {
                    let most = self.guard.worst_label(&call).join(&data);
                    return self.respond(calls, id, exchange, &content, most);
                }
                // An error is of no agreed form.
                let reason = "the app calls it an error";
                self.drop_response(&calls, id, &exchange.parties, content.label(), reason);
            }
            CallOutcome::Failed(reason) => {
                let label = self.guard.worst_label(&call).join(&data);
                self.drop_response(&calls, id, &exchange.parties, label, "the call failed");
                self.events.push(Event::CallFailed {
                    call: self.shown(&call),
                    reason: reason.into(),
                });
            }
            CallOutcome::Unknown(_) | CallOutcome::Lost(_) => {
                let label = self.guard.worst_label(&call).join(&data);
                let parties = &exchange.parties;
                self.trace_message(parties, MessageKind::Dropped, &label, "no answer came");
                // It was sent, so it may have run, and the note says so.
                self.receive(id, call, outcome);
            }
        }
        self.state = State::Calls(calls);
    }

    /// What the serving app answers is a response, if it is of its form. `most` is the label that any answer to this request
    /// has at most, unless its app claims more.
    fn respond(
        &mut self,
        calls: Calls,
        id: CallId,
        exchange: Exchange,
        content: &Labeled,
        most: Label,
    ) {
        match exchange.respond(content) {
            Ok(response) => {
                let most = most.join(&response.parties.offer.taint);
                let response = self.with_one_label(response, most);
                self.deliver(calls, id, Message::Response(response));
            }
            Err(dropped) => {
                // The reason is for the trace. The model's copy would be a way around the form.
                let (parties, malformed) = *dropped;
                let reason = malformed.to_string();
                self.drop_response(&calls, id, &parties, content.label(), &reason);
                self.state = State::Calls(calls);
            }
        }
    }

    /// Where a limit or the user decides whether a response arrives, its arrival reveals something of all of it: so every
    /// character has the label of the whole. Where every response arrives, each part keeps its own label.
    fn with_one_label(&self, mut response: Response, most: Label) -> Response {
        let label = response.delivery.message.label();
        let most = match label.flows_to(&most) {
            true => most,
            false => Label::top(),
        };
        let worst = Delivery {
            message: Labeled::label_tcb("", most),
            ..response.delivery.clone()
        };
        if !self.guard.would_allow(&worst) {
            let message = response.delivery.message;
            response.delivery.message = message.restrict(&label);
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
        self.guard.history.push_result(&calls.label, id, note);
    }

    // ---- Offers ----

    /// The offers that can be taken up here: none of an app that waits for this very conversation, and none at all where
    /// as many apps wait as may.
    fn reachable<'a>(
        &'a self,
        functionality: &'a Functionality,
    ) -> impl Iterator<Item = &'a Offer> {
        let waiting = self.waiting();
        let is_far = waiting.len() >= self.settings.limits.hops;
        let offers = functionality.offers.iter();
        offers.filter(move |offer| !is_far && !waiting.contains(&offer.app))
    }

    /// The app that serves a functionality, where that is known.
    pub(super) fn offer<'a>(&'a self, functionality: &'a Functionality) -> Option<&'a Offer> {
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

    /// Whether a conversation would answer a proposed call.
    pub(super) fn is_conversed(&self, proposed: &ProposedCall) -> bool {
        let functionality = self.asks.named(&proposed.tool);
        let offer = functionality.and_then(|functionality| self.offer(functionality));
        offer.is_some_and(|offer| offer.by == ServedBy::Conversation)
    }

    /// Whether no label blocks this call that a step proposes: of a request, its messages included.
    pub(super) fn may_make(&self, proposed: &ProposedCall, call: &Call) -> bool {
        let Some(functionality) = self.asks.named(&proposed.tool) else {
            return self.may_call(call);
        };
        // Without a known server there is no question of whether it may be asked.
        let Some(offer) = self.offer(functionality) else {
            return self.may_call(call);
        };
        let asking = Collaboration {
            asks: self.asks.app().to_owned(),
            serves: offer.app.clone(),
            functionality: functionality.name.clone(),
            direction: Direction::Asking,
        };
        !self.is_request_held(proposed, call)
            && self.guard.would_allow_as(call, &Principal::Request(asking))
    }

    /// Whether a label blocks the messages of a proposed request, which is this call.
    pub(super) fn is_request_held(&self, proposed: &ProposedCall, call: &Call) -> bool {
        let Some(functionality) = self.asks.named(&proposed.tool) else {
            return false;
        };
        // The user chooses first who serves it.
        let Some(offer) = self.offer(functionality) else {
            return false;
        };
        let Call {
            arguments, label, ..
        } = call;
        let messages = [
            (Stage::Probe, isc::probe(functionality, arguments, label)),
            (Stage::Request, isc::request(arguments, label)),
        ];
        messages.into_iter().any(|(stage, message)| {
            let delivery = self.delivery(functionality, offer, stage, message);
            !self.guard.would_allow(&delivery)
        })
    }

    /// A limit that all requests for a functionality are below, as [`ifc::Policy::floor`] is one of all calls of a tool.
    pub(super) fn floor_of(&self, functionality: &Functionality) -> Label {
        let policy = &self.guard.policy;
        let of_offer = |offer: &Offer| {
            let stages = [Stage::Probe, Stage::Request];
            let limits = stages.map(|stage| {
                let message = Labeled::trusted_tcb("");
                let delivery = self.delivery(functionality, offer, stage, message);
                let rule = policy.rule(&Sink::Delivery(&delivery));
                rule.map_or(Label::bottom(), |rule| rule.limit)
            });
            let call = match &offer.by {
                ServedBy::Tool(tool) => policy.floor(&offer.app, tool),
                // Its calls are decided on there.
                ServedBy::Conversation => Label::top(),
            };
            limits.iter().fold(call, |all, limit| all.meet(limit))
        };
        // A functionality that no app serves cannot be called.
        let offers = self.reachable(functionality).map(of_offer);
        offers.fold(Label::top(), |all, limit| all.meet(&limit))
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

    // ---- A conversation that serves ----

    /// In whose name this conversation's calls are made.
    pub(super) fn principal(&self) -> Principal {
        match &self.serving {
            Some(service) => Principal::Serving(service.parties.asking()),
            None => Principal::User,
        }
    }

    /// The apps that wait for this conversation.
    pub(super) fn waiting(&self) -> &[String] {
        let service = self.serving.as_ref();
        service.map_or(&[], |service| service.waiting.as_slice())
    }

    /// Whether no label blocks a call of this conversation.
    pub(super) fn may_call(&self, call: &Call) -> bool {
        self.guard.would_allow_as(call, &self.principal())
    }

    /// A request was delivered to the conversation of the app that serves it.
    fn serve(&mut self, calls: Calls, id: CallId, exchange: Exchange, request: Labeled) {
        let parties = exchange.parties.clone();
        let mut settings = Settings {
            execution: Execution::Here,
            ..self.settings
        };
        // The conversation that asks waits for it.
        settings.limits.steps = settings.limits.serving_steps;
        let waiting = self.waiting().iter().cloned();
        let serving = Serving {
            setup: Setup {
                apps: Apps::One(parties.offer.app.clone()),
                asks: Asks::default(),
                policy: Arc::clone(&self.guard.policy),
                lattice: Arc::clone(&self.lattice),
                // The same session: one ledger, so that no app has a payment made again by way of another, and one list
                // of refusals.
                monitor: self.guard.monitor.clone(),
                settings,
                // Those of its own model, which is known when it begins.
                clearances: Arc::default(),
            },
            service: Service {
                waiting: waiting.chain([parties.from.clone()]).collect(),
                // That there is such a conversation depends on the step that asked.
                control: request.label().join(&calls.label),
                parties,
                ended: None,
            },
            request,
        };
        let state = State::AwaitCall(calls, id, Waiting::Served(exchange));
        self.wait(state, Need::Serve(Box::new(serving)));
    }

    /// The shape of this conversation's response.
    pub(super) fn response_shape(&self) -> AnswerShape {
        let service = self.serving.as_ref();
        service.map_or(AnswerShape::Text, |service| AnswerShape::Json {
            schema: service.form().to_json().to_string(),
        })
    }

    /// Whether these words may leave a conversation that serves, as a response; `None` of any other conversation.
    pub(super) fn may_respond(&self, words: Labeled) -> Option<bool> {
        let delivery = self.serving.as_ref()?.delivery(words);
        Some(self.guard.would_allow(&delivery))
    }

    /// The conversation that served a request is over.
    pub(super) fn served(
        &mut self,
        calls: Calls,
        id: CallId,
        exchange: Exchange,
        served: Result<Self, String>,
    ) -> Result<(), Misuse> {
        let machine = match served {
            // Why an app does not start may depend on all that it was given.
            Err(reason) => {
                self.drop_response(&calls, id, &exchange.parties, Label::top(), &reason);
                self.state = State::Calls(calls);
                return Ok(());
            }
            Ok(machine) => machine,
        };
        // How it ended may depend on all that it was given, even where it answered nothing.
        let (label, turn) = (machine.everything(), &machine.turn);
        let (refused, unknown, dropped) = (turn.refused, turn.unknown, turn.dropped);
        // Ids are random, and no app gets one, so this is the conversation that was begun for it.
        let service = machine.serving;
        let service = service.filter(|it| it.parties.id == exchange.parties.id);
        let Some(ended) = service.and_then(|service| service.ended) else {
            self.state = State::AwaitCall(calls, id, Waiting::Served(exchange));
            return Err(Misuse {
                brought: "a conversation that has not served this",
            });
        };
        self.turn.refused += refused;
        self.turn.unknown += unknown;
        self.turn.dropped += dropped;
        match ended {
            Ok(response) => self.respond(calls, id, exchange, &response, Label::top()),
            Err(stop) => {
                let words = stop.words().map_or(Label::bottom(), Labeled::label);
                let label = label.join(&words);
                self.drop_response(&calls, id, &exchange.parties, label, &stop.to_string());
                self.state = State::Calls(calls);
            }
        }
        Ok(())
    }
}

impl Serving {
    /// The conversation, with the request in it and its turn begun: drive it until the turn is over, and
    /// bring it back with [`TurnMachine::handle_served`].
    ///
    /// `clearances` are those of the providers that may take its steps, as in a [`Setup`].
    pub fn begin(self, asks: Asks, tools: AppTools, clearances: Arc<[Label]>) -> TurnMachine {
        let Self {
            mut setup,
            service,
            request,
        } = self;
        setup.asks = asks;
        setup.clearances = clearances;
        let functionality = Arc::clone(&service.parties.functionality);
        let mut machine = serving(setup, tools, &functionality);
        machine.events.push(Event::Serving {
            asks: service.parties.from.clone(),
            functionality: functionality.name.clone(),
            text: Text::reveal_tcb(&request),
            label: machine.names(&request.label()),
        });
        machine.guard.history.push_user(request);
        machine.serving = Some(Box::new(service));
        // The turn of the user's conversation goes on: what was refused in it stays refused.
        machine.state = State::Begin;
        machine
    }
}
