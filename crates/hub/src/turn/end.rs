//! How a turn ends: with an answer, without one, or at once.

use ifc::{CallId, Labeled};

use super::machine::TurnMachine;
use super::state::{Calls, State, TurnCount};
use crate::trace::{Event, Names, Text};
use crate::{Attribution, Outcome, Stop};

impl TurnMachine {
    /// Ends the turn at once, for example on Ctrl-C or when the spoke died between calls.
    ///
    /// Calls that have not run are answered in the history, so that the next turn can go on. Of a call
    /// whose permit was spent, or still may be, nobody knows whether it ran, and that is what the
    /// history, the trace and the outcome say.
    pub fn abort(&mut self, stop: Stop) {
        let (calls, pending) = match self.take_state() {
            State::Idle(outcome) => {
                self.state = State::Idle(outcome);
                return;
            }
            State::Calls(calls) => (Some(calls), None),
            State::AwaitResult(calls, id, call, receipt) if receipt.ran().is_some() => {
                let (call, label) = (self.as_made(id, call), self.made_at(id, &calls.label));
                self.unknown(&label, id, call, "the turn was stopped".to_owned());
                (Some(calls), None)
            }
            State::AskDelivery(calls, id, message, _)
            | State::AwaitDelivery(calls, id, message, _) => {
                let pending = self.abandon(&calls, id, &message);
                (Some(calls), pending)
            }
            State::AskServing(calls, id, exchange, _) | State::AwaitServed(calls, id, exchange) => {
                let label = calls.label.clone();
                let (parties, _) = exchange.end();
                self.drop_response(&calls, id, &parties, label, "the turn was stopped");
                (Some(calls), None)
            }
            State::AskExecution(calls, id, _)
            | State::AskExchange(calls, id, _)
            | State::AwaitExchange(calls, id, _)
            | State::AskUser(calls, id, _)
            | State::AwaitUser(calls, id, _)
            | State::AwaitResult(calls, id, ..) => (Some(calls), Some(id)),
            _ => (None, None),
        };
        if let Some(calls) = calls {
            self.give_up(calls, pending);
        }
        self.stop(stop);
    }

    /// Answers the calls of a step that will not run any more.
    fn give_up(&mut self, calls: Calls, pending: Option<CallId>) {
        let Calls {
            label,
            queue,
            allowed,
            ..
        } = calls;
        // Their permits are dropped with them, which the ledger takes for calls that never ran.
        let allowed = allowed.into_iter().map(|(id, _)| id);
        let queued = queue.into_iter().map(|(id, _)| id);
        for id in allowed.chain(pending).chain(queued) {
            self.note(&label, id, "not executed: the turn was stopped");
        }
    }

    /// Ends the turn without an answer. Foreign words about the reason are shown only where an
    /// answer of their label would be, without a question.
    pub(super) fn stop(&mut self, stop: Stop) {
        let shown = match stop.words() {
            // What serves another app shows nothing to anybody.
            Some(words) if self.serving.is_none() => {
                let words = self.releasable(words.clone());
                stop.clone().with_words(words)
            }
            _ => stop.clone(),
        };
        self.end(Err(stop), Err(shown));
    }

    /// Ends the turn with `shown` for the user; the trace keeps `result`.
    pub(super) fn end(&mut self, result: Result<Labeled, Stop>, shown: Result<Labeled, Stop>) {
        let TurnCount {
            refused,
            unknown,
            dropped,
            inert,
            stop,
            ..
        } = self.turn;
        // Of what the user is shown: a turn without an answer quotes nobody.
        let (mut sources, mut hidden) = (Vec::new(), Vec::new());
        if let (Ok(answer), Attribution::Named) = (&shown, self.settings.attribution) {
            sources = self.sources(answer.reveal_tcb(), &answer.label());
            if self.turn.gave_up {
                hidden = self.hidden(&answer.label());
            }
        }
        // What serves another app ends here for nobody's eyes: its answer is the response, and passes the sink of
        // messages.
        let shown = match self.keep_end(&result) {
            true => Err(result.as_ref().err().cloned().unwrap_or(Stop::Served)),
            false => shown,
        };
        self.events.push(match result {
            Ok(answer) => Event::Answer {
                text: Text::reveal_tcb(&answer),
                label: self.names(&answer.label()),
                refused,
                dropped,
                inert,
                sources: sources.clone(),
                hidden: hidden.clone(),
            },
            Err(stop) => Event::Stopped {
                reason: stop.reveal_tcb().into(),
                label: stop
                    .words()
                    .map_or_else(Names::new, |words| self.names(&words.label())),
                refused,
                unknown,
                dropped,
            },
        });
        self.state = State::Idle(Some(Outcome {
            result: shown,
            stop,
            refused,
            unknown,
            dropped,
            inert,
            sources,
            hidden,
        }));
    }
}
