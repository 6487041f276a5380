//! A conversation that serves another app's request (SecGPT §4.3): one turn of the same machine.
//!
//! It begins with the request in the place of the user's words, has the tools of the serving app, and
//! ends with a response in the place of an answer. Everything in it depends on the request, so no prompt
//! of it, and no call, is below the request's label. It is made for one request and keeps nothing.

use std::sync::Arc;

use ifc::{Call, CallId, Collaboration, Label, Labeled};

use super::conversation::{AppTools, serving};
use super::machine::TurnMachine;
use super::state::{Calls, Phase, State};
use crate::isc::{Asks, Exchange, Pending};
use crate::serving::Service;
use crate::trace::{Event, Text};
use crate::{AnswerShape, Apps, Execution, Misuse, Requested, Serving, Settings, Setup, Stop};

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
        let mut agent = serving(setup, tools, &functionality);
        agent.events.push(Event::Serving {
            asks: service.parties.from.clone(),
            functionality: functionality.name.clone(),
            text: Text::reveal_tcb(&request),
            label: agent.names(&request.label()),
        });
        agent.history.push_user(request);
        agent.serving = Some(Box::new(service));
        // The turn of the user's conversation goes on: what was refused in it stays refused.
        agent.state = State::Step;
        agent
    }
}

impl TurnMachine {
    /// Who asked for this conversation, if another app did.
    pub(super) fn requested(&self) -> Option<Requested> {
        self.serving.as_ref().map(|service| service.requested())
    }

    /// What the calls of this conversation are a part of, if it serves another app's request.
    pub(super) fn serves(&self) -> Option<Collaboration> {
        self.serving.as_ref().map(|it| it.parties.asking())
    }

    /// Whether no label stands in the way of a call of this conversation.
    pub(super) fn may_call(&self, call: &Call) -> bool {
        let policy = self.policy.as_ref();
        match self.serves() {
            Some(it) => self
                .monitor
                .would_allow_served(policy, &self.history, call, it),
            None => self.monitor.would_allow(policy, &self.history, call),
        }
    }

    /// A request was delivered to the conversation of the app that serves it.
    pub(super) fn serve(
        &mut self,
        calls: Calls,
        id: CallId,
        exchange: Exchange<Pending>,
        request: Labeled,
    ) {
        let parties = exchange.parties().clone();
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
                policy: Arc::clone(&self.policy),
                lattice: Arc::clone(&self.lattice),
                // The same session: one ledger, so that no app has a payment made again by way of another; and one
                // memory of what the user refused.
                monitor: self.monitor.clone(),
                settings,
                // Those of its own model, which is known when it begins.
                clearances: Arc::default(),
            },
            service: Service {
                waiting: waiting.chain([parties.from.clone()]).collect(),
                // That there is such a conversation depends on the step that asked, whatever stands in the request.
                control: request.label().join(&calls.label),
                parties,
                ended: None,
            },
            request,
        };
        self.state = State::AskServing(calls, id, exchange, Box::new(serving));
    }

    /// The last words of a conversation that serves. Such as are not of the form of responses are asked
    /// for once more, in this form.
    pub(super) fn formed(&mut self, phase: Phase, said: Labeled, label: &Label) {
        let Some(service) = &self.serving else {
            return;
        };
        let form = service.form();
        // Once more and no further: what is still of another form is dropped where the response is read, as an app's
        // would be.
        if phase == Phase::Form || form.is_text() || form.check(said.reveal_tcb()).is_ok() {
            self.end(Ok(said.clone()), Ok(said));
        } else {
            self.state = State::AskCompletion(Phase::Form, label.clone());
        }
    }

    /// The shape of a response.
    pub(super) fn form(&self) -> AnswerShape {
        let service = self.serving.as_ref();
        service.map_or(AnswerShape::Text, |service| AnswerShape::Json {
            schema: service.form().to_json().to_string(),
        })
    }

    /// Whether these words may leave a conversation that serves, as a response; `None` of any other
    /// conversation.
    pub(super) fn may_respond(&self, words: Labeled) -> Option<bool> {
        let delivery = self.serving.as_ref()?.delivery(words);
        Some({
            let policy = self.policy.as_ref();
            self.monitor.would_allow(policy, &self.history, &delivery)
        })
    }

    /// Keeps how the turn of a conversation that serves ended, for the app that asks.
    pub(super) fn keep_end(&mut self, result: &Result<Labeled, Stop>) -> bool {
        let Some(service) = &mut self.serving else {
            return false;
        };
        service.ended = Some(result.clone());
        true
    }

    /// What the conversation that served a request has come to.
    pub(super) fn served(
        &mut self,
        calls: Calls,
        id: CallId,
        exchange: Exchange<Pending>,
        served: Result<Self, String>,
    ) -> Result<(), Misuse> {
        let agent = match served {
            // Why an app does not start is its own business, and may depend on all that it was told.
            Err(reason) => {
                self.unserved(&calls, id, exchange, Label::top(), &reason);
                self.state = State::Calls(calls);
                return Ok(());
            }
            Ok(agent) => agent,
        };
        // How it ended may depend on all that it was told, also where it said nothing.
        let (label, refused, unknown, dropped) = {
            let turn = &agent.turn;
            (agent.everything(), turn.refused, turn.unknown, turn.dropped)
        };
        let service = agent
            .serving
            // Ids are drawn at random and told to nobody, so this is the conversation that was begun for it.
            .filter(|it| it.parties.id == exchange.parties().id);
        let Some(ended) = service.and_then(|service| service.ended) else {
            let state = State::AwaitServed(calls, id, exchange);
            return self.misuse(state, "a conversation that has not served this");
        };
        self.turn.refused += refused;
        self.turn.unknown += unknown;
        self.turn.dropped += dropped;
        match ended {
            Ok(said) => self.respond(calls, id, exchange, &said),
            Err(stop) => {
                let words = stop.words().map_or(Label::bottom(), Labeled::label);
                self.unserved(&calls, id, exchange, label.join(&words), &stop.to_string());
                self.state = State::Calls(calls);
            }
        }
        Ok(())
    }

    fn unserved(
        &mut self,
        calls: &Calls,
        id: CallId,
        exchange: Exchange<Pending>,
        label: Label,
        reason: &str,
    ) {
        let (parties, _) = exchange.end();
        self.drop_response(calls, id, &parties, label, reason);
    }
}
