//! What the states that ask need, and the states that wait for it.

use ifc::{CallId, Delivery, Label, Permit, Question, Release};

use super::machine::TurnMachine;
use super::state::{Asking, Calls, Check, Filled, Message, Phase, State, Without};
use crate::{AnswerShape, Apps, Asked, Need, Opening, Purpose, Requested};

impl TurnMachine {
    /// Waits in this state for what it needs.
    pub(super) fn wait(&mut self, state: State, need: Need) -> Need {
        self.state = state;
        need
    }

    pub(super) fn ask_completion(&mut self, phase: Phase, label: Label) -> Need {
        let shape = match phase {
            Phase::Form => self.form(),
            Phase::Words | Phase::Fallback => AnswerShape::Text,
            _ if matches!(self.apps, Apps::Each(_)) => AnswerShape::Text,
            _ => AnswerShape::TextOrCalls,
        };
        let purpose = match phase {
            Phase::Sketch => Purpose::Draft,
            _ => Purpose::Step,
        };
        let request = self.request(&label, purpose, shape);
        self.wait(
            State::AwaitCompletion(phase, label),
            Need::Complete(request),
        )
    }

    pub(super) fn ask_without(&mut self, label: Label) -> Need {
        let request = self.check_request(&label);
        self.wait(
            State::AwaitCompletion(Phase::Without, label),
            Need::Complete(request),
        )
    }

    pub(super) fn ask_whole(&mut self, without: Without) -> Need {
        let request = self.request(&without.whole, Purpose::Step, AnswerShape::TextOrCalls);
        self.wait(State::AwaitWhole(without), Need::Complete(request))
    }

    pub(super) fn ask_check(&mut self, check: Check) -> Need {
        let request = self.check_request(&check.label);
        self.wait(State::AwaitCheck(check), Need::Complete(request))
    }

    pub(super) fn ask_part(&mut self, mut filled: Box<Filled>) -> Need {
        let request = self.part_request(&mut filled);
        self.wait(State::AwaitPart(filled), Need::Complete(request))
    }

    pub(super) fn ask_user(&mut self, calls: Calls, id: CallId, question: Question) -> Need {
        let call = question.call().clone();
        let asked = match &calls.exchange {
            Some(exchange) => {
                let requested = Requested {
                    waiting: self.waiting().to_vec(),
                    ..Requested::from(exchange.parties())
                };
                Asked::Request(Box::new(requested), question)
            }
            None => match self.requested() {
                Some(requested) => Asked::Request(Box::new(requested), question),
                None => Asked::Call(question),
            },
        };
        self.wait(State::AwaitUser(calls, id, call), Need::Confirm(asked))
    }

    pub(super) fn ask_execution(&mut self, calls: Calls, id: CallId, permit: Permit) -> Need {
        let call = permit.call().clone();
        let result = State::AwaitResult(calls, id, call, permit.receipt());
        self.wait(result, Need::Execute(permit))
    }

    pub(super) fn ask_exchange(&mut self, calls: Calls, id: CallId, asking: Asking) -> Need {
        let apps = self.reachable(&asking.functionality);
        let opening = Opening {
            asks: self.asks.app().to_owned(),
            functionality: asking.functionality.name.clone(),
            apps: apps.map(|offer| offer.app.clone()).collect(),
        };
        self.wait(
            State::AwaitExchange(calls, id, asking),
            Need::Exchange(opening),
        )
    }

    pub(super) fn ask_delivery(
        &mut self,
        calls: Calls,
        id: CallId,
        message: Message,
        question: Question<Delivery>,
    ) -> Need {
        let delivery = question.delivery().clone();
        let asked = Asked::Delivery(self.waiting().into(), question);
        self.wait(
            State::AwaitDelivery(calls, id, message, delivery),
            Need::Confirm(asked),
        )
    }

    pub(super) fn ask_release(&mut self, label: Label, question: Question<Release>) -> Need {
        let release = question.release().clone();
        self.wait(
            State::AwaitRelease(label, release),
            Need::Confirm(Asked::Answer(question)),
        )
    }
}
