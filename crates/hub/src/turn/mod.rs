//! The turn machine: Algorithm 1 (vanilla) and Algorithm 4 (RTBAS) as one state machine.
//!
//! [`step`] makes prompts and takes completions (lines 4 to 6 and 14 to 18), [`calls`] decides on
//! the calls of a step and takes their results (lines 7 to 13), [`check`] tries a step without what
//! would be asked about, [`answer`] decides on the final answer, which is a sink like a call.
//! [`filter`] and [`prompted`] are defences to compare with: they change what a prompt shows.

mod answer;
mod bounded;
mod calls;
mod check;
mod filter;
mod prompted;
mod state;
mod step;

use std::collections::VecDeque;
use std::sync::Arc;

use ifc::{
    Answer, Call, CallId, Draft, DraftCall, History, Label, Labeled, Monitor, Policy, Question,
    Tool,
};

use crate::{
    AnswerShape, CallOutcome, Completion, CompletionRequest, Event, Misuse, Mode, Need, Outcome,
    ProposedCall, Purpose, Screened, Settings, Stop,
};
pub use bounded::bounded;
use state::{Calls, Phase, Sketch, State, TurnCount};

/// One spoke's conversation: its labelled history, its monitor, and the turn under way.
pub struct Agent {
    app: String,
    policy: Arc<dyn Policy>,
    settings: Settings,
    history: History,
    monitor: Monitor,
    state: State,
    turn: TurnCount,
    /// What the tool filter has left for this turn.
    filtered: Option<Vec<String>>,
    events: Vec<Event>,
}

impl Agent {
    /// A conversation with one app's tools, beginning with the developer's instructions.
    pub fn new(
        app: impl Into<String>,
        system: Labeled,
        tools: Vec<Tool>,
        policy: Arc<dyn Policy>,
        settings: Settings,
    ) -> Self {
        let mut history = History::new(tools);
        history.push_system(system);
        Self::over(app, history, policy, settings)
    }

    /// Takes over a turn that somebody else began: the next step follows this history at once.
    /// `refused` is what the user has said no to in this turn; nobody is asked about it again.
    pub fn resume(
        app: impl Into<String>,
        history: History,
        policy: Arc<dyn Policy>,
        settings: Settings,
        refused: Vec<Call>,
    ) -> Self {
        let mut agent = Self::over(app, history, policy, settings);
        agent.turn.refusals = refused;
        agent.state = State::Step;
        agent
    }

    fn over(
        app: impl Into<String>,
        history: History,
        policy: Arc<dyn Policy>,
        settings: Settings,
    ) -> Self {
        let monitor = match settings.mode {
            Mode::Vanilla | Mode::Prompted(_) => Monitor::unprotected_tcb(),
            Mode::ConfirmEveryCall => Monitor::confirming(),
            Mode::Rtbas(_) => Monitor::new(),
        };
        Self {
            app: app.into(),
            policy,
            settings,
            history,
            monitor,
            state: State::Idle(None),
            turn: TurnCount::default(),
            filtered: None,
            events: Vec::new(),
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
            State::AwaitCompletion(Phase::Screened, _) | State::AwaitCheck(..)
        );
        if request.purpose != Purpose::Step || may_be_dropped {
            return false;
        }
        let answer = self.release("", request.prompt.label());
        self.monitor.would_allow(self.policy.as_ref(), &answer)
    }

    /// What the user has said no to in this turn.
    pub fn refusals(&self) -> &[Call] {
        &self.turn.refusals
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
        if !matches!(self.state, State::Idle(_)) {
            return Err(Misuse {
                brought: "a user message",
            });
        }
        self.events.push(Event::User {
            text: text.reveal_tcb().to_owned(),
            label: text.label(),
        });
        self.history.push_user(text);
        self.turn = TurnCount::default();
        self.filtered = None;
        self.state = State::Step;
        Ok(())
    }

    /// What the machine needs next.
    pub fn poll(&mut self) -> Need {
        loop {
            match std::mem::replace(&mut self.state, State::Idle(None)) {
                State::Idle(outcome) => return Need::User(outcome),
                State::Step => self.begin_step(),
                State::AskScreen(sketch) => {
                    self.state = State::AwaitScreen(sketch);
                    return Need::Screen;
                }
                State::AskCompletion(phase, label) => {
                    let shape = match phase {
                        Phase::Words | Phase::Fallback => AnswerShape::Text,
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
                State::AskCheck(draft, label) => {
                    let request = self.request(&label, Purpose::Step, AnswerShape::TextOrCalls);
                    self.state = State::AwaitCheck(draft, label);
                    return Need::Complete(request);
                }
                State::AskFilter => {
                    let request = self.filter_request();
                    self.state = State::AwaitFilter;
                    return Need::Complete(request);
                }
                State::Calls(calls) => self.next_call(calls),
                State::AskExecution(calls, id, permit) => {
                    self.state = State::AwaitResult(calls, id, permit.call().clone());
                    return Need::Execute(permit);
                }
                State::AskUser(calls, id, question) => {
                    self.state = State::AwaitUser(calls, id, question.call().clone());
                    return Need::Confirm(question);
                }
                State::AskRelease(said, question) => {
                    self.state = State::AwaitRelease(said, question.call().clone());
                    return Need::Confirm(question);
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
            (State::AwaitCheck(draft, label), Ok(completion)) => {
                self.checked(draft, label, provider, completion);
            }
            // Nothing to compare the draft with: it stands, and is asked about.
            (State::AwaitCheck(draft, _), Err(_)) => self.stands(draft),
            (State::AwaitFilter, Ok(completion)) => self.filter_answered(provider, &completion),
            (State::AwaitCompletion(..) | State::AwaitFilter, Err(reason)) => {
                self.end(Err(Stop::Model(reason)));
            }
            (other, _) => return self.misuse(other, "a completion"),
        }
        Ok(())
    }

    /// Brings the user's answer. Trusted: it must be the user's.
    ///
    /// # Errors
    /// No answer was asked for. The question is dropped, which denies its call.
    pub fn handle_answer(&mut self, question: Question, answer: Answer) -> Result<(), Misuse> {
        match std::mem::replace(&mut self.state, State::Idle(None)) {
            State::AwaitUser(calls, id, call) if call == *question.call() => {
                self.confirmed(calls, id, question, answer);
            }
            State::AwaitRelease(said, call) if call == *question.call() => {
                self.release_confirmed(said, question, answer);
            }
            other => return self.misuse(other, "an answer"),
        }
        Ok(())
    }

    /// Brings what became of an executed call (lines 12 and 13).
    ///
    /// # Errors
    /// No result was asked for.
    pub fn handle_result(&mut self, outcome: CallOutcome) -> Result<(), Misuse> {
        match std::mem::replace(&mut self.state, State::Idle(None)) {
            State::AwaitResult(calls, id, call) => self.executed(calls, id, call, outcome),
            other => return self.misuse(other, "a result"),
        }
        Ok(())
    }

    /// Ends the turn at once, for example on Ctrl-C or when the spoke died between calls.
    /// Calls that have not run are answered in the history, so that the next turn can go on.
    pub fn abort(&mut self, stop: Stop) {
        let (calls, pending) = match std::mem::replace(&mut self.state, State::Idle(None)) {
            State::Idle(outcome) => {
                self.state = State::Idle(outcome);
                return;
            }
            State::Calls(calls) => (Some(calls), None),
            State::AskExecution(calls, id, _)
            | State::AskUser(calls, id, _)
            | State::AwaitUser(calls, id, _)
            | State::AwaitResult(calls, id, _) => (Some(calls), Some(id)),
            _ => (None, None),
        };
        if let Some(Calls {
            label,
            queue,
            allowed,
            ..
        }) = calls
        {
            let allowed = allowed.into_iter().map(|(id, _)| id);
            let queued = queue.into_iter().map(|(id, _)| id);
            for id in allowed.chain(pending).chain(queued) {
                self.note(&label, id, "not executed: the turn was stopped");
            }
        }
        self.end(Err(stop));
    }

    fn knows(&self, tool: &str) -> bool {
        let known = self.history.tools().iter().any(|known| known.name == tool);
        let offered = known && self.offers(tool);
        // A tool under the name of the final answer would be judged by the answer's rule.
        offered && !self.call(tool, "", &Label::bottom()).is_answer()
    }

    fn call(&self, tool: &str, arguments: &str, label: &Label) -> Call {
        Call {
            app: self.app.clone(),
            tool: tool.to_owned(),
            arguments: arguments.to_owned(),
            label: label.clone(),
        }
    }

    fn proposed(&self, proposed: &ProposedCall, label: &Label) -> Call {
        self.call(&proposed.tool, &proposed.arguments, label)
    }

    fn end(&mut self, result: Result<Labeled, Stop>) {
        let outcome = Outcome {
            result,
            refused: self.turn.refused,
        };
        self.events.push(Event::Ended {
            outcome: outcome.clone(),
        });
        self.state = State::Idle(Some(outcome));
    }

    fn misuse(&mut self, state: State, brought: &'static str) -> Result<(), Misuse> {
        self.state = state;
        Err(Misuse { brought })
    }

    /// The calls of a step, named as the history names them.
    fn queue(ids: Vec<CallId>, calls: Vec<ProposedCall>) -> VecDeque<(CallId, ProposedCall)> {
        ids.into_iter().zip(calls).collect()
    }
}
