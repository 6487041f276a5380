//! The turn machine: RTBAS Algorithm 4 as a state machine.
//!
//! [`TurnMachine::user`] begins a turn, [`TurnMachine::poll`] says what the machine needs next, and the methods below it bring
//! that. So this file is a turn from its first step to its answer; what each state leads to stands in the files
//! around it:
//!
//! - A step (lines 4 to 6 and 14 to 18): [`step`] makes its prompt and takes its completion; what no provider may see
//!   is masked ([`clear`]). Where it would be asked about, [`refine`] takes an earlier read again, [`check`] tries it
//!   without what stands in its way, and [`fill`] makes it in parts, by requests for a [`value`] and a [`hint`] at where
//!   it comes from. [`summary`] shortens a conversation that is too long for a prompt, by its [`transcript`].
//! - Its calls (lines 7 to 13): [`read`] makes of a proposed call what the monitor decides on, [`calls`] asks for that
//!   decision and takes results, which are [`bounded`]; [`trust`] goes on after the user has vouched for a text,
//!   [`refused`] after a no, [`asked`] decides on what an app asks the user while a call runs.
//! - Requests to other apps: [`offers`] knows who serves them, [`ask`] begins an exchange, [`deliver`] decides on its
//!   messages, [`serve`] is the other side where a conversation answers, and [`respond`] takes what comes back.
//! - The end: [`answer`] decides on the final answer, which is a sink like a call, [`sources`] says what it depends
//!   on, [`end`] ends the turn.
//! - Around it: [`conversation`] begins one, [`gather`] begins a turn with what several apps have said, [`memory`]
//!   decides on what is remembered, [`facts`] asks for the facts in it.
//!
//! Below all of these are [`state`], where a turn is, as data alone, and [`machine`], what a conversation holds. None of
//! them uses this file.

mod answer;
mod ask;
mod asked;
mod bounded;
mod calls;
mod check;
mod clear;
mod conversation;
mod deliver;
mod end;
mod facts;
mod fill;
mod gather;
mod hint;
mod machine;
mod memory;
mod needs;
mod offers;
mod quotes;
mod read;
mod refine;
mod refused;
mod respond;
mod serve;
mod sources;
mod state;
mod step;
mod summary;
mod transcript;
mod trust;
mod value;

use ifc::{Answer, Labeled};

use crate::isc::ExchangeId;
use crate::trace::{Event, Text};
use crate::{Asked, CallOutcome, Completion, Misuse, Need, Screened, Stop};
pub use answer::Admits;
pub use asked::AppQuestion;
pub use bounded::bounded;
pub use check::CHECK_NOTE;
pub use conversation::{AppTool, AppTools, conversation};
pub use machine::{Refinement, TurnMachine};
use state::{Phase, Sketch, State, TurnCount, Without};
pub use value::{FILL_NOTE, OPEN};

impl TurnMachine {
    /// Starts a turn (line 3).
    ///
    /// # Errors
    /// A turn is under way.
    pub fn user(&mut self, text: Labeled) -> Result<(), Misuse> {
        if !matches!(self.state, State::Idle(_)) || self.serving.is_some() {
            return Err(Misuse {
                brought: "a user message",
            });
        }
        self.events.push(Event::User {
            text: Text::reveal_tcb(&text),
            label: self.names(&text.label()),
        });
        self.history.push_user(text);
        self.turn = TurnCount::default();
        // What the user says next is another task: refusals, and trust that was given for the task, end with the one
        // before.
        self.monitor.begin_turn();
        self.state = State::Step;
        Ok(())
    }

    /// What the machine needs next.
    pub fn poll(&mut self) -> Need {
        loop {
            let state = self.take_state();
            let state = match self.fitting(state) {
                Ok(state) => state,
                Err(request) => return Need::Complete(*request),
            };
            match state {
                State::Idle(outcome) => return Need::User(outcome),
                // Lines 4 to 6: a step is taken, from no more than it may depend on.
                State::Step => self.begin_step(),
                State::AskScreen(sketch) => {
                    return self.wait(State::AwaitScreen(sketch), Need::Screen);
                }
                State::AskCompletion(Phase::Without, label) => match self.tried(&label) {
                    Some(completion) => self.taken_without(completion, label),
                    None => return self.ask_without(label),
                },
                State::AskCompletion(phase, label) => return self.ask_completion(phase, label),
                State::AskWhole(without) => return self.ask_whole(without),
                State::AskCheck(check) => return self.ask_check(check),
                State::AskPart(filled) => return self.ask_part(filled),
                State::AskRefinement(refining) => match self.refinement_request(&refining) {
                    Some(request) => {
                        let refining = State::AwaitRefinement(refining);
                        return self.wait(refining, Need::Complete(request));
                    }
                    None => self.unrefined(refining),
                },
                // Lines 7 to 13: its calls are decided on, and run.
                State::Calls(calls) => self.next_call(calls),
                State::AskUser(calls, id, question) => return self.ask_user(calls, id, question),
                State::AskExecution(calls, id, permit) => {
                    return self.ask_execution(calls, id, permit);
                }
                State::AskExchange(calls, id, asking) => {
                    return self.ask_exchange(calls, id, asking);
                }
                State::AskDelivery(calls, id, message, question) => {
                    return self.ask_delivery(calls, id, message, question);
                }
                State::AskServing(calls, id, exchange, serving) => {
                    let served = State::AwaitServed(calls, id, exchange);
                    return self.wait(served, Need::Serve(serving));
                }
                State::HandOver(calls) => return Need::HandOver(calls),
                // Lines 14 to 18: without calls, it is the answer.
                State::AskRelease(label, question) => return self.ask_release(label, question),
                waiting => return self.wait(waiting, Need::Answer),
            }
        }
    }

    /// Brings a screening (Algorithm 2). An error counts as "everything is relevant".
    ///
    /// # Errors
    /// No screening was asked for.
    pub fn handle_screened(&mut self, screened: Screened) -> Result<(), Misuse> {
        match self.take_state() {
            State::AwaitScreen(sketch) => self.screened(sketch, screened),
            other => return self.misuse(other, "a screening"),
        }
        Ok(())
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
        let completion = completion.map(|completion| self.in_full(completion));
        let state = self.take_state();
        match (state, completion) {
            (State::AwaitCompletion(phase, label), Ok(completion)) => {
                self.completed(phase, label, provider, completion);
            }
            // No draft: whatever screens without one says "everything", or knows better.
            (State::AwaitCompletion(Phase::Sketch, _), Err(_)) => {
                self.state = State::AskScreen(Sketch::None);
            }
            (State::AwaitCheck(check), Ok(completion)) => {
                self.checked(check, provider, completion);
            }
            (State::AwaitWhole(without), Ok(completion)) => {
                self.told(provider, &completion);
                self.taken_whole(without, completion);
            }
            // Nothing to compare the draft with: it stands, and is asked about.
            (State::AwaitCheck(check), Err(_)) => self.stands(check.draft),
            (State::AwaitPart(filled), completion) => {
                self.part_made(filled, provider, completion.ok());
            }
            (State::AwaitRefinement(refining), Ok(completion)) => {
                self.refined(refining, provider, &completion);
            }
            (State::AwaitRefinement(refining), Err(_)) => self.unrefined(refining),
            (State::AwaitSummary(summarising), Ok(completion)) => {
                self.summarised(summarising, provider, &completion);
            }
            (State::AwaitSummary(summarising), Err(reason)) => {
                self.unsummarised(&summarising.label, reason);
            }
            // What a provider says of a prompt may quote the prompt.
            (
                State::AwaitCompletion(_, label) | State::AwaitWhole(Without { whole: label, .. }),
                Err(reason),
            ) => {
                self.stop(Stop::Model(Labeled::label_tcb(reason, label)));
            }
            (other, _) => return self.misuse(other, "a completion"),
        }
        Ok(())
    }

    /// Brings the user's answer. Trusted: it must be the user's.
    ///
    /// # Errors
    /// No answer was asked for. The question is dropped, which denies its call.
    pub fn handle_answer(&mut self, asked: Asked, answer: Answer) -> Result<(), Misuse> {
        let state = self.take_state();
        match (state, asked) {
            (
                State::AwaitUser(calls, id, call),
                Asked::Call(question) | Asked::Request(_, question),
            ) if call == *question.call() => {
                self.confirmed(calls, id, question, answer);
            }
            (State::AwaitDelivery(calls, id, message, delivery), Asked::Delivery(_, question))
                if delivery == *question.delivery() =>
            {
                self.delivery_confirmed(calls, id, message, question, answer);
            }
            (State::AwaitRelease(label, release), Asked::Answer(question))
                if release == *question.release() =>
            {
                self.release_confirmed(label, question, answer);
            }
            (other, _) => return self.misuse(other, "an answer"),
        }
        Ok(())
    }

    /// Brings an id for the exchange that begins, and the app that the user chose for it, if several
    /// serve the functionality; `None` is none of them.
    ///
    /// # Errors
    /// No exchange begins.
    pub fn handle_exchange(
        &mut self,
        exchange: ExchangeId,
        chosen: Option<&str>,
    ) -> Result<(), Misuse> {
        match self.take_state() {
            State::AwaitExchange(calls, id, asking) => {
                self.opened(calls, id, asking, exchange, chosen);
            }
            other => return self.misuse(other, "an exchange"),
        }
        Ok(())
    }

    /// Brings what became of an executed call (lines 12 and 13).
    ///
    /// # Errors
    /// No result was asked for.
    pub fn handle_result(&mut self, outcome: CallOutcome) -> Result<(), Misuse> {
        match self.take_state() {
            State::AwaitResult(calls, id, call, receipt) => {
                if let CallOutcome::Returned { .. } | CallOutcome::Failed(_) = outcome {
                    // An error is an answer too. Of any other outcome the ledger keeps that the call may have run, so
                    // that an equal one is asked about.
                    receipt.answered();
                }
                self.executed(calls, id, call, outcome);
            }
            other => return self.misuse(other, "a result"),
        }
        Ok(())
    }

    /// Brings the conversation that served a request, after its turn; or why it could not begin.
    ///
    /// # Errors
    /// No request is being served, or another one, or its turn is not over.
    pub fn handle_served(&mut self, served: Result<Self, String>) -> Result<(), Misuse> {
        match self.take_state() {
            State::AwaitServed(calls, id, exchange) => self.served(calls, id, exchange, served),
            other => self.misuse(other, "a conversation that served"),
        }
    }
}
