//! The turn machine: RTBAS Algorithm 4 as a state machine.
//!
//! [`step`] makes prompts and takes completions (lines 4 to 6 and 14 to 18), [`calls`] decides on
//! the calls of a step and takes their results (lines 7 to 13), [`check`] tries a step without what
//! would be asked about, [`fill`] makes one in parts, by requests for a [`value`] and a [`hint`] at where it comes
//! from, [`refine`] takes an earlier read again, [`ask`] exchanges messages with other apps, [`serve`] is the other
//! side where a conversation answers, [`answer`] decides on the final answer, which is a sink like a call, [`gather`]
//! begins a turn with what several apps have said, [`asked`] decides on what an app asks the user while a
//! call runs, [`memory`] on what is remembered, [`facts`] asks for the facts in it, [`summary`] shortens a
//! conversation that is too long for a prompt, [`trust`] goes on after the user has vouched for a text, [`refused`]
//! after a no.

mod answer;
mod ask;
mod asked;
mod bounded;
mod calls;
mod check;
mod facts;
mod fill;
mod gather;
mod hint;
mod memory;
mod message;
mod refine;
mod refused;
mod serve;
mod sources;
mod state;
mod step;
mod summary;
mod trust;
mod value;

use std::collections::BTreeMap;
use std::sync::Arc;

use ifc::{
    Answer, Arguments, Call, CallId, Draft, DraftCall, History, Label, Labeled, Lattice, Message,
    Monitor, Policy, Tool,
};

use crate::isc::{Asks, ExchangeId};
use crate::trace::{Event, Names, Text};
use crate::{
    AnswerShape, Apps, Asked, CallOutcome, Completion, CompletionRequest, Misuse, Need, Opening,
    Outcome, ProposedCall, Purpose, Requested, Screened, Settings, Setup, Stop,
};
pub use answer::Admits;
pub use asked::AppQuestion;
pub use bounded::bounded;
pub use check::CHECK_NOTE;
pub use refine::Refinement;
use refused::Without;
use serve::Service;
pub use serve::Serving;
use state::{Calls, Phase, Rejection, Sketch, State, StepCall, TurnCount};
use summary::Summary;
pub use value::{FILL_NOTE, OPEN};

/// One conversation: its labelled history, its monitor, and the turn under way.
pub struct Agent {
    apps: Apps,
    asks: Asks,
    /// The apps that the user chose to serve functionalities which several serve.
    settled: BTreeMap<String, String>,
    policy: Arc<dyn Policy>,
    lattice: Arc<Lattice>,
    settings: Settings,
    history: History,
    monitor: Monitor,
    state: State,
    turn: TurnCount,
    /// Of the beginning of the conversation, one for each label of prompts that were too long.
    summaries: Vec<Summary>,
    /// Those that nobody has taken to remember.
    new_summaries: Vec<Labeled>,
    events: Vec<Event>,
    /// The reads that were made once more.
    refinements: Vec<Refinement>,
    /// The request that this conversation serves, if it is not the user's.
    serving: Option<Box<Service>>,
}

impl Agent {
    /// A conversation with these tools, beginning with the developer's instructions.
    pub fn new(setup: Setup, system: Labeled, tools: Vec<Tool>) -> Self {
        let mut history = History::new(tools);
        history.push_system(system);
        Self::over(setup, history)
    }

    /// Takes over a turn that somebody else began: the next step follows this history at once. If
    /// the user spoke last, the turn begins here, for the monitor as well.
    pub fn resume(setup: Setup, history: History) -> Self {
        if let Some((_, Message::User(_))) = history.messages().last() {
            setup.monitor.begin_turn();
        }
        let mut agent = Self::over(setup, history);
        agent.endorse();
        agent.state = State::Step;
        agent
    }

    fn over(setup: Setup, history: History) -> Self {
        let Setup {
            apps,
            asks,
            policy,
            lattice,
            monitor,
            settings,
        } = setup;
        let history = match &apps {
            Apps::One(app) => history.of_app(app.as_str()),
            Apps::None | Apps::Joint(_) | Apps::Each(_) => history,
        };
        let history = crate::conversation::declaring(history, &apps, policy.as_ref());
        Self {
            apps,
            asks,
            settled: BTreeMap::new(),
            policy,
            lattice,
            settings,
            history,
            monitor,
            state: State::Idle(None),
            turn: TurnCount::default(),
            summaries: Vec::new(),
            new_summaries: Vec::new(),
            events: Vec::new(),
            refinements: Vec::new(),
            serving: None,
        }
    }

    /// The labelled conversation so far.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// The step that waits for a screening, as a model has drafted it. As sensitive as the whole
    /// history: it is for the screener alone.
    #[must_use]
    pub fn draft(&self) -> Option<Draft> {
        let State::AwaitScreen(sketch) = &self.state else {
            return None;
        };
        let completion = sketch.completion()?;
        let call = |call: &ProposedCall| DraftCall {
            tool: call.tool.clone(),
            arguments: call.arguments.clone(),
        };
        Some(Draft {
            text: completion.text.clone(),
            calls: completion.calls.iter().map(call).collect(),
        })
    }

    /// Whether the text that answers this request may be shown while it is written: as a final
    /// answer under the prompt's label it would need no question, so these words may be shown
    /// whatever becomes of their step.
    ///
    /// They need not become the step. A lazy draft is dropped if its calls would violate the policy
    /// under the label of the whole history and the screener masks something of it; and so is an
    /// answer that only repeats itself. Another one follows, made from no more than the first. Drafts
    /// that are screened in any case are not shown: a reader would often get two texts of one step.
    #[must_use]
    pub fn may_stream(&self, request: &CompletionRequest) -> bool {
        let may_be_dropped = matches!(
            self.state,
            State::AwaitCompletion(Phase::Screened | Phase::Without, _)
                | State::AwaitWhole(_)
                | State::AwaitCheck(_)
                | State::AwaitPart(_)
                | State::AwaitRefinement(_)
        );
        if request.purpose != Purpose::Step || may_be_dropped || self.serving.is_some() {
            return false;
        }
        let words = Labeled::label_tcb("", request.prompt.label().clone());
        let answer = self.release(words);
        self.monitor
            .would_allow(self.policy.as_ref(), &self.history, &answer)
    }

    /// What the user has said no to in this turn.
    #[must_use]
    pub fn refusals(&self) -> Vec<Call> {
        self.monitor.refusals()
    }

    /// Whether the user has said no to anything in this turn that a step under `label` may know of.
    #[must_use]
    pub fn has_refused_below(&self, label: &Label) -> bool {
        self.monitor.has_refused_below(label)
    }

    /// Takes the trace entries since the last call.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

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
        self.monitor.begin_turn();
        self.state = State::Step;
        Ok(())
    }

    /// What the machine needs next.
    pub fn poll(&mut self) -> Need {
        loop {
            let state = std::mem::replace(&mut self.state, State::Idle(None));
            let state = match self.fitting(state) {
                Ok(state) => state,
                Err(request) => return Need::Complete(*request),
            };
            match state {
                State::Idle(outcome) => return Need::User(outcome),
                State::Step => self.begin_step(),
                State::AskScreen(sketch) => {
                    self.state = State::AwaitScreen(sketch);
                    return Need::Screen;
                }
                State::AskCompletion(Phase::Without, label) => match self.tried(&label) {
                    Some(completion) => self.taken_without(completion, label),
                    None => {
                        let request = self.check_request(&label);
                        self.state = State::AwaitCompletion(Phase::Without, label);
                        return Need::Complete(request);
                    }
                },
                State::AskWhole(without) => {
                    let label = without.whole.clone();
                    let request = self.request(&label, Purpose::Step, AnswerShape::TextOrCalls);
                    self.state = State::AwaitWhole(without);
                    return Need::Complete(request);
                }
                State::AskCompletion(phase, label) => {
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
                    self.state = State::AwaitCompletion(phase, label);
                    return Need::Complete(request);
                }
                State::AskCheck(check) => {
                    let request = self.check_request(&check.label);
                    self.state = State::AwaitCheck(check);
                    return Need::Complete(request);
                }
                State::AskPart(mut filled) => {
                    let request = self.part_request(&mut filled);
                    self.state = State::AwaitPart(filled);
                    return Need::Complete(request);
                }
                State::AskRefinement(refining) => match self.refinement_request(&refining) {
                    Some(request) => {
                        self.state = State::AwaitRefinement(refining);
                        return Need::Complete(request);
                    }
                    None => self.unrefined(refining),
                },
                State::Calls(calls) => self.next_call(calls),
                State::AskExecution(calls, id, permit) => {
                    let call = permit.call().clone();
                    self.state = State::AwaitResult(calls, id, call, permit.receipt());
                    return Need::Execute(permit);
                }
                State::AskUser(calls, id, question) => {
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
                    self.state = State::AwaitUser(calls, id, call);
                    return Need::Confirm(asked);
                }
                State::AskExchange(calls, id, asking) => {
                    let apps = self.reachable(&asking.functionality);
                    let opening = Opening {
                        asks: self.asks.app().to_owned(),
                        functionality: asking.functionality.name.clone(),
                        apps: apps.map(|offer| offer.app.clone()).collect(),
                    };
                    self.state = State::AwaitExchange(calls, id, asking);
                    return Need::Exchange(opening);
                }
                State::AskDelivery(calls, id, message, question) => {
                    let delivery = question.delivery().clone();
                    self.state = State::AwaitDelivery(calls, id, message, delivery);
                    return Need::Confirm(Asked::Delivery(self.waiting().into(), question));
                }
                State::AskServing(calls, id, exchange, serving) => {
                    self.state = State::AwaitServed(calls, id, exchange);
                    return Need::Serve(serving);
                }
                State::AskRelease(label, question) => {
                    self.state = State::AwaitRelease(label, question.release().clone());
                    return Need::Confirm(Asked::Answer(question));
                }
                State::HandOver(calls) => return Need::HandOver(calls),
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
        match std::mem::replace(&mut self.state, State::Idle(None)) {
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
        let state = std::mem::replace(&mut self.state, State::Idle(None));
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
        let state = std::mem::replace(&mut self.state, State::Idle(None));
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
        match std::mem::replace(&mut self.state, State::Idle(None)) {
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
        match std::mem::replace(&mut self.state, State::Idle(None)) {
            State::AwaitResult(calls, id, call, receipt) => {
                if let CallOutcome::Returned { .. } | CallOutcome::Failed(_) = outcome {
                    receipt.answered();
                }
                self.executed(calls, id, call, outcome);
            }
            other => return self.misuse(other, "a result"),
        }
        Ok(())
    }

    /// Ends the turn at once, for example on Ctrl-C or when the spoke died between calls.
    ///
    /// Calls that have not run are answered in the history, so that the next turn can go on. Of a call
    /// whose permit was spent, or still may be, nobody knows whether it ran, and that is what the
    /// history, the trace and the outcome say.
    pub fn abort(&mut self, stop: Stop) {
        let (calls, pending) = match std::mem::replace(&mut self.state, State::Idle(None)) {
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
        let allowed = allowed.into_iter().map(|(id, _)| id);
        let queued = queue.into_iter().map(|(id, _)| id);
        for id in allowed.chain(pending).chain(queued) {
            self.note(&label, id, "not executed: the turn was stopped");
        }
    }

    /// A call of a step as the monitor decides on it.
    fn read_step(&self, step: &StepCall, label: &Label) -> Result<Call, Rejection> {
        let call = self.read(&step.proposed, label)?;
        Ok(Call {
            arguments: step.kept.restrict(call.arguments),
            ..call
        })
    }

    /// A proposed call as the monitor decides on it. A tool whose name is above the step's label does
    /// not exist for it, whether it was guessed or heard of: a call depends on the name of its tool.
    fn read(&self, proposed: &ProposedCall, label: &Label) -> Result<Call, Rejection> {
        if let Some(functionality) = self.asks.named(&proposed.tool) {
            return self.read_request(functionality, proposed, label);
        }
        let known = self.apps.resolve(&proposed.tool);
        let known = known.filter(|_| self.history.tool_at(label, &proposed.tool).is_some());
        let (app, tool) = known.ok_or(Rejection::UnknownTool)?;
        Ok(Call {
            app,
            tool,
            arguments: Arguments::parse(&proposed.arguments, label)?,
            label: label.clone(),
        })
    }

    /// Ends the turn without an answer. Foreign words about the reason are shown only where an
    /// answer of their label would be, without a question.
    fn stop(&mut self, stop: Stop) {
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
    fn end(&mut self, result: Result<Labeled, Stop>, shown: Result<Labeled, Stop>) {
        let TurnCount {
            refused,
            unknown,
            dropped,
            inert,
            ..
        } = self.turn;
        let sources = match &shown {
            Ok(answer) => self.sources(answer.reveal_tcb(), &answer.label()),
            Err(_) => Vec::new(),
        };
        let hidden = match &shown {
            Ok(answer) if self.turn.gave_up => self.hidden(&answer.label()),
            _ => Vec::new(),
        };
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
            refused,
            unknown,
            dropped,
            inert,
            sources,
            hidden,
        }));
    }

    /// A label as the trace has it.
    fn names(&self, label: &Label) -> Names {
        self.lattice.describe(label)
    }

    fn misuse(&mut self, state: State, brought: &'static str) -> Result<(), Misuse> {
        self.state = state;
        Err(Misuse { brought })
    }
}
