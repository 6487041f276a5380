//! The turn machine: RTBAS Algorithm 4 as a state machine.
//!
//! [`TurnMachine::user`] begins a turn, [`TurnMachine::poll`] says what the machine needs next, and the `handle_*` methods
//! bring it. This file is a turn from its first step to its end. The rest of the machine:
//!
//! | file | |
//! |---|---|
//! | `machine.rs` | what a conversation holds, what its steps may be shown, and what is remembered of it |
//! | `state.rs`, `step.rs` | where a turn is, and what a step is, as data |
//! | `strategy.rs` | how a step is made: one table, prompts and completions |
//! | `evaluate.rs` | the conditions of that table: what blocks a draft, and what a re-run shows |
//! | `fill.rs`, `value.rs` | a step in parts: first its control parts, then its data arguments |
//! | `calls.rs` | calls are read, decided on by the [`Guard`](crate::Guard), and run |
//! | `exchange.rs` | requests to other apps, and the conversations that serve them |
//! | `answer.rs` | the final answer, how a turn ends, and what apps ask the user |
//! | `sources.rs`, `quotes.rs` | what an answer depends on, and the values that a question is about |
//! | `summary.rs` | a conversation that is too long for a prompt |
//! | `conversation.rs` | how a conversation begins |

mod answer;
mod calls;
mod conversation;
mod evaluate;
mod exchange;
mod fill;
mod machine;
mod quotes;
mod sources;
mod state;
mod step;
mod strategy;
mod summary;
mod value;

use ifc::{Answer, CallId, Label, Labeled};

use crate::isc::ExchangeId;
use crate::trace::{Event, Text};
use crate::{Asked, CallOutcome, Completion, Misuse, Need, ProposedCall, Screened, Stop};
pub use answer::{Admits, AppQuestion};
pub use conversation::{AppTool, AppTools, conversation};
pub use machine::{Refinement, TurnMachine};
use state::{Calls, State, Turn, Waiting};
pub use strategy::CHECK_NOTE;
use strategy::Input;
pub use value::{FILL_NOTE, OPEN};

impl TurnMachine {
    /// Starts a turn (line 3).
    ///
    /// # Errors
    /// A turn is under way.
    pub fn user(&mut self, text: Labeled) -> Result<(), Misuse> {
        let is_idle = matches!(self.state, State::Idle(_)) && self.need.is_none();
        if !is_idle || self.serving.is_some() {
            return Err(Misuse {
                brought: "a user message",
            });
        }
        self.events.push(Event::User {
            text: Text::reveal_tcb(&text),
            label: self.names(&text.label()),
            name: None,
        });
        self.guard.history.push_user(text);
        self.turn = Turn::default();
        // The user's next message is another task: refusals, and trust that was given for the task, end with the one
        // before.
        self.guard.monitor.begin_turn();
        self.state = State::Begin;
        Ok(())
    }

    /// Starts a turn with the answers of several apps to the user's words, each from a conversation of its own. In the
    /// history each answer is the result of a call of its app, with its labels.
    ///
    /// The list of apps is visible at every label: the user or the configuration chose them. So each needs a text; of a
    /// conversation without an answer it is a note with the conversation's label.
    ///
    /// # Errors
    /// A turn is under way.
    pub fn gather(
        &mut self,
        query: Labeled,
        answers: impl IntoIterator<Item = (String, Labeled)>,
    ) -> Result<(), Misuse> {
        self.user(query)?;
        let (apps, answers): (Vec<String>, Vec<Labeled>) = answers.into_iter().unzip();
        // The query is the message above.
        let asked = apps
            .into_iter()
            .map(|app| (app, Labeled::trusted_tcb("{}")));
        // No model has made these calls: they are the user's or the configuration's.
        let bottom = Label::bottom();
        let nothing = Labeled::trusted_tcb("");
        let history = &mut self.guard.history;
        let ids = history.push_assistant(&bottom, nothing, asked);
        for (id, answer) in ids.into_iter().zip(answers) {
            history.push_result(&bottom, id, answer);
        }
        Ok(())
    }

    /// Starts a turn that is one call by the user: it is decided on as any other and run, and its result is the answer. No
    /// model is asked. The call has the label of these arguments, and the name of the tool is the user's word.
    ///
    /// # Errors
    /// A turn is under way.
    pub fn call(&mut self, tool: &str, arguments: &Labeled) -> Result<(), Misuse> {
        self.user(Labeled::concat([
            &Labeled::trusted_tcb(format!("{tool} ")),
            arguments,
        ]))?;
        self.turn.own_call = Some(false);
        let (label, text) = (arguments.label(), Labeled::trusted_tcb(""));
        let proposed = ProposedCall {
            tool: tool.to_owned(),
            arguments: arguments.reveal_tcb().to_owned(),
        };
        let made = (tool.to_owned(), arguments.clone());
        let ids = self.push_step(&label, &text, [made]).into_iter();
        self.state = State::Calls(Calls {
            label,
            text,
            count: 1,
            queue: ids.map(|id| (id, proposed.clone().into())).collect(),
            answered: Vec::new(),
            allowed: Vec::new(),
            exchange: None,
        });
        Ok(())
    }

    /// What the machine needs next.
    pub fn poll(&mut self) -> Need {
        loop {
            if let Some(need) = self.need.take() {
                return need;
            }
            match self.take_state() {
                State::Idle(outcome) => return Need::User(outcome),
                // Lines 4 to 6: a step is made, from no more than it may depend on.
                State::Begin => self.begin_step(),
                State::Make(strategy) => match self.must_shorten(&strategy) {
                    Some(old) => self.summarise(strategy, old),
                    None => self.ask_for(strategy),
                },
                State::Shortened(strategy) => self.ask_for(strategy),
                // Lines 7 to 13: its calls are decided on, and run. Lines 14 to 18: without calls, it is the answer.
                State::Calls(calls) => self.next_call(calls),
                waiting => {
                    self.state = waiting;
                    return Need::Answer;
                }
            }
        }
    }

    /// Brings a screening (Algorithm 2). An error counts as "everything is relevant".
    ///
    /// # Errors
    /// No screening was asked for.
    pub fn handle_screened(&mut self, screened: Screened) -> Result<(), Misuse> {
        match self.awaited() {
            Some(State::AwaitStep(strategy)) if strategy.is_screening() => {
                self.record_screening(screened);
                self.advance(strategy, Input::Screened);
                Ok(())
            }
            other => self.misuse(other, "a screening"),
        }
    }

    /// Brings a model's answer and the name of the provider that gave it, or why there is none.
    ///
    /// # Errors
    /// No completion was asked for.
    pub fn handle_completion(
        &mut self,
        provider: &str,
        completion: Result<Completion, String>,
    ) -> Result<(), Misuse> {
        match self.awaited() {
            Some(State::AwaitStep(strategy)) if !strategy.is_screening() => {
                let input = match completion {
                    Ok(completion) => {
                        self.record_completion(&strategy, provider, &completion);
                        Input::Completed(completion)
                    }
                    Err(reason) => Input::Failed(reason),
                };
                self.advance(strategy, input);
            }
            Some(State::AwaitSummary(summarising)) => {
                self.summarised(summarising, provider, completion);
            }
            other => return self.misuse(other, "a completion"),
        }
        Ok(())
    }

    /// Brings the user's answer. Trusted: it must be the user's.
    ///
    /// # Errors
    /// No answer was asked for. The question is dropped, which denies its call.
    pub fn handle_answer(&mut self, asked: Asked, answer: Answer) -> Result<(), Misuse> {
        match (self.awaited(), asked) {
            (
                Some(State::AwaitCall(calls, id, Waiting::User(call))),
                Asked::Call(question) | Asked::Request(_, question),
            ) if call == *question.call() => {
                self.confirmed(calls, id, question, answer);
            }
            (
                Some(State::AwaitCall(calls, id, Waiting::Delivery(message, delivery))),
                Asked::Delivery(_, question),
            ) if delivery == *question.delivery() => {
                self.delivery_confirmed(calls, id, message, question, answer);
            }
            (Some(State::AwaitRelease(label, release)), Asked::Answer(question))
                if release == *question.release() =>
            {
                self.release_confirmed(label, question, answer);
            }
            (other, _) => return self.misuse(other, "an answer"),
        }
        Ok(())
    }

    /// Brings an id for the exchange that begins, and the app that the user chose for it, if several serve the
    /// functionality; `None` is none of them.
    ///
    /// # Errors
    /// No exchange begins.
    pub fn handle_exchange(
        &mut self,
        exchange: ExchangeId,
        chosen: Option<&str>,
    ) -> Result<(), Misuse> {
        match self.awaited() {
            Some(State::AwaitCall(calls, id, Waiting::Exchange(asking))) => {
                self.opened(calls, id, asking, exchange, chosen);
                Ok(())
            }
            other => self.misuse(other, "an exchange"),
        }
    }

    /// Brings what became of an executed call (lines 12 and 13).
    ///
    /// # Errors
    /// No result was asked for.
    pub fn handle_result(&mut self, outcome: CallOutcome) -> Result<(), Misuse> {
        match self.awaited() {
            Some(State::AwaitCall(calls, id, Waiting::Result(call, receipt))) => {
                outcome.note(&receipt);
                self.executed(calls, id, call, outcome);
                Ok(())
            }
            other => self.misuse(other, "a result"),
        }
    }

    /// Brings the conversation that served a request, after its turn; or why it could not begin.
    ///
    /// # Errors
    /// No request is being served, or another one, or its turn is not over.
    pub fn handle_served(&mut self, served: Result<Self, String>) -> Result<(), Misuse> {
        match self.awaited() {
            Some(State::AwaitCall(calls, id, Waiting::Served(exchange))) => {
                self.served(calls, id, exchange, served)
            }
            other => self.misuse(other, "a conversation that served"),
        }
    }

    /// Ends the turn at once, for example on Ctrl-C or when the spoke died between calls.
    ///
    /// Calls that have not run are answered in the history, so that the next turn can go on. For a call whose permit was
    /// spent, or still may be, the history, the trace and the outcome say that it is not known whether it ran.
    pub fn abort(&mut self, stop: Stop) {
        // A permit in it was not spent, and is not any more.
        let unsent = self.need.take();
        let (calls, pending) = match self.take_state() {
            State::Idle(outcome) if unsent.is_none() => {
                self.state = State::Idle(outcome);
                return;
            }
            State::Calls(calls) => (calls, None),
            State::AwaitCall(calls, id, waiting) => {
                drop(unsent);
                let pending = self.abandon_call(&calls, id, waiting);
                (calls, pending)
            }
            _ => return self.stop(stop),
        };
        // The permits of allowed calls are dropped with them: the ledger knows that they never ran.
        let allowed = calls.allowed.iter().map(|(id, _)| *id);
        let queued = calls.queue.iter().map(|(id, _)| *id);
        for id in allowed.chain(pending).chain(queued) {
            self.note(&calls.label, id, "not executed: the turn was stopped");
        }
        self.stop(stop);
    }

    /// Gives back the call if it has not run.
    fn abandon_call(&mut self, calls: &Calls, id: CallId, waiting: Waiting) -> Option<CallId> {
        let reason = "the turn was stopped";
        match waiting {
            Waiting::Result(call, receipt) if receipt.ran().is_some() => {
                self.receive(id, call, CallOutcome::Unknown(reason.to_owned()));
                None
            }
            Waiting::Delivery(message, _) => self.abandon(calls, id, &message),
            Waiting::Served(exchange) => {
                self.drop_response(calls, id, &exchange.parties, calls.label.clone(), reason);
                None
            }
            Waiting::Result(..) | Waiting::Exchange(_) | Waiting::User(_) => Some(id),
        }
    }
}
