//! The turn machine: Algorithm 1 (vanilla) and Algorithm 4 (RTBAS) as one state machine.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use ifc::{
    Answer, Call, CallId, Decision, Effect, History, Label, Labeled, Monitor, Permit, Policy,
    Question, Relevance, Tool, redact,
};

use crate::{
    AnswerShape, CallOutcome, Completion, CompletionRequest, Event, Misuse, Mode, Need, Outcome,
    ProposedCall, Purpose, Screened, Screening, Settings, Stop, StopReason, Verdict,
};

/// One spoke's conversation: its labelled history, its monitor, and the turn under way.
pub struct Agent {
    app: String,
    policy: Arc<dyn Policy>,
    settings: Settings,
    history: History,
    monitor: Monitor,
    state: State,
    turn: TurnCount,
    events: Vec<Event>,
}

/// Where the turn is. `Ask…` states emit a need; `Await…` states wait for its answer.
enum State {
    Idle(Option<Outcome>),
    /// Begin the next step: line 4, and its lazy variants.
    Step,
    AskScreen(Option<Completion>),
    AwaitScreen(Option<Completion>),
    AskCompletion(Phase, Label),
    /// Ask for an answer in words, since the model only repeats itself.
    AskWords(Label),
    AwaitCompletion(Phase, Label),
    /// Decide on the next call of the step: lines 7 to 11.
    Calls(Calls),
    AskExecution(Calls, CallId, Permit),
    AskUser(Calls, CallId, Question),
    AwaitUser(Calls, CallId, Call),
    AwaitResult(Calls, CallId, Call),
}

/// Whether a completion's calls are final, or may still be refined (lazy screening).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Draft,
    Final,
    /// An answer in words was asked for.
    Words,
}

/// The calls of one step that are still to be decided on, and the label they were made under.
struct Calls {
    label: Label,
    queue: VecDeque<(CallId, ProposedCall)>,
}

#[derive(Default)]
struct TurnCount {
    step: usize,
    refused: usize,
    proposed: HashMap<(String, String), usize>,
    /// The calls of the step before.
    last_calls: Vec<ProposedCall>,
    /// What the user has said no to. Nobody is asked the same twice in one turn.
    refusals: Vec<ProposedCall>,
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
        let monitor = match settings.mode {
            Mode::Vanilla => Monitor::unprotected_tcb(),
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
            events: Vec::new(),
        }
    }

    /// The labelled conversation so far.
    pub fn history(&self) -> &History {
        &self.history
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
        self.state = State::Step;
        Ok(())
    }

    /// What the machine needs next.
    pub fn poll(&mut self) -> Need {
        loop {
            match std::mem::replace(&mut self.state, State::Idle(None)) {
                State::Idle(outcome) => return Need::User(outcome),
                State::Step => self.begin_step(),
                State::AskScreen(draft) => {
                    self.state = State::AwaitScreen(draft);
                    return Need::Screen;
                }
                State::AskCompletion(phase, label) => {
                    let request = self.request(&label, AnswerShape::TextOrCalls);
                    self.state = State::AwaitCompletion(phase, label);
                    return Need::Complete(request);
                }
                State::AskWords(label) => {
                    let request = self.request(&label, AnswerShape::Text);
                    self.state = State::AwaitCompletion(Phase::Words, label);
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
        let draft = match std::mem::replace(&mut self.state, State::Idle(None)) {
            State::AwaitScreen(draft) => draft,
            other => return self.misuse(other, "a screening"),
        };
        let (relevance, failure) = match screened.relevance {
            Ok(relevance) => (relevance, None),
            Err(reason) => (Relevance::Everything, Some(reason)),
        };
        let label = self.history.label_of(&relevance);
        self.events.push(Event::Screened {
            step: self.turn.step,
            screener: screened.screener,
            relevant: match relevance {
                Relevance::Everything => None,
                Relevance::Only(regions) => Some(regions.into_iter().collect()),
            },
            regions: self.history.regions().count(),
            before: self.history.label(),
            after: label.clone(),
            failure,
        });
        match draft {
            // Nothing would be masked: the draft was made from this very prompt.
            Some(draft) if redact(&self.history, &label).masked() == 0 => {
                self.accept(draft, &label);
            }
            Some(_) => {
                self.events.push(Event::DraftDropped {
                    step: self.turn.step,
                });
                self.state = State::AskCompletion(Phase::Final, label);
            }
            None => self.state = State::AskCompletion(Phase::Final, label),
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
        let (phase, label) = match std::mem::replace(&mut self.state, State::Idle(None)) {
            State::AwaitCompletion(phase, label) => (phase, label),
            other => return self.misuse(other, "a completion"),
        };
        let completion = match completion {
            Ok(completion) => completion,
            Err(reason) => {
                self.end(Err(Stop::Model(reason)));
                return Ok(());
            }
        };
        self.events.push(Event::Completed {
            step: self.turn.step,
            provider: provider.to_owned(),
            usage: completion.usage,
            stop: completion.stop,
            calls: completion.calls.len(),
        });
        if phase != Phase::Words && self.repeats(&completion) {
            self.events.push(Event::RepetitionDropped {
                step: self.turn.step,
            });
            self.state = State::AskWords(label);
        } else if phase == Phase::Draft && self.violates(&completion, &label) {
            self.state = State::AskScreen(Some(completion));
        } else {
            self.accept(completion, &label);
        }
        Ok(())
    }

    /// Brings the user's answer. Trusted: it must be the user's.
    ///
    /// # Errors
    /// No answer was asked for. The question is dropped, which denies its call.
    pub fn handle_answer(&mut self, question: Question, answer: Answer) -> Result<(), Misuse> {
        let (calls, id, call) = match std::mem::replace(&mut self.state, State::Idle(None)) {
            State::AwaitUser(calls, id, call) if call == *question.call() => (calls, id, call),
            other => return self.misuse(other, "an answer"),
        };
        let refused = as_proposed(&call);
        let settled = self.monitor.settle_tcb(question, answer);
        self.events.push(Event::Answered {
            call,
            answer,
            allowed: settled.is_ok(),
        });
        match settled {
            Ok(permit) => self.state = State::AskExecution(calls, id, permit),
            Err(denial) => {
                self.turn.refusals.push(refused);
                self.refuse(calls, id, &denial.to_string());
            }
        }
        Ok(())
    }

    /// Brings what became of an executed call (lines 12 and 13).
    ///
    /// # Errors
    /// No result was asked for.
    pub fn handle_result(&mut self, outcome: CallOutcome) -> Result<(), Misuse> {
        let (calls, id, call) = match std::mem::replace(&mut self.state, State::Idle(None)) {
            State::AwaitResult(calls, id, call) => (calls, id, call),
            other => return self.misuse(other, "a result"),
        };
        match outcome {
            CallOutcome::Returned { text, is_error } => {
                self.returned(id, call, text, is_error, &calls.label);
                self.state = State::Calls(calls);
            }
            CallOutcome::Failed(reason) => {
                // That a call failed is something the app decides: as sensitive as its results.
                let label = self.policy.label_result(&call, String::new(), true).label();
                let note = Labeled::label_tcb(format!("the call failed: {reason}"), label);
                self.events.push(Event::CallFailed {
                    call: call.clone(),
                    reason,
                });
                self.history.push_result(&calls.label, id, note);
                self.state = State::Calls(calls);
            }
            CallOutcome::Lost(reason) => {
                self.events.push(Event::CallFailed {
                    call: call.clone(),
                    reason: reason.clone(),
                });
                self.state = State::AwaitResult(calls, id, call);
                self.abort(Stop::Spoke(reason));
            }
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
        if let Some(Calls { label, queue }) = calls {
            let queued = queue.into_iter().map(|(id, _)| id);
            for id in pending.into_iter().chain(queued) {
                self.answer(&label, id, "not executed: the turn was stopped");
            }
        }
        self.end(Err(stop));
    }

    /// Line 4, with the savings of the design: nothing is screened while nothing is labelled, and
    /// lazily nothing before the coarse label stands in the way of a call.
    fn begin_step(&mut self) {
        self.turn.step += 1;
        if self.turn.step > self.settings.limits.steps {
            return self.end(Err(Stop::Steps(self.settings.limits.steps)));
        }
        let bytes = self.history.bytes();
        if bytes > self.settings.limits.history_bytes {
            return self.end(Err(Stop::HistoryFull(bytes)));
        }
        let coarse = self.history.label();
        self.state = match self.settings.mode {
            Mode::Vanilla => State::AskCompletion(Phase::Final, coarse),
            _ if coarse.is_bottom() => State::AskCompletion(Phase::Final, coarse),
            Mode::Rtbas(Screening::Eager) => State::AskScreen(None),
            Mode::Rtbas(Screening::Lazy) => State::AskCompletion(Phase::Draft, coarse),
        };
    }

    /// Line 5: the redactor makes the prompt.
    fn request(&mut self, label: &Label, shape: AnswerShape) -> CompletionRequest {
        let prompt = redact(&self.history, label);
        self.events.push(Event::Redacted {
            step: self.turn.step,
            label: label.clone(),
            kept: prompt.kept(),
            masked: prompt.masked(),
        });
        CompletionRequest {
            prompt,
            purpose: Purpose::Step,
            shape,
            max_tokens: self.settings.limits.completion_tokens,
        }
    }

    /// Whether an answer does nothing but repeat itself: it reads once more what the step before
    /// has just read, or proposes what the user has refused. Small models do that instead of
    /// answering. Repeated writes may be meant.
    fn repeats(&self, completion: &Completion) -> bool {
        let calls = &completion.calls;
        let reads = |call: &ProposedCall| {
            let call = self.call(call.clone(), &Label::bottom());
            self.policy
                .rule(&call)
                .is_ok_and(|rule| rule.effect == Effect::Read)
        };
        let same_read = *calls == self.turn.last_calls && calls.iter().all(reads);
        let refused = calls.iter().all(|call| self.turn.refusals.contains(call));
        !calls.is_empty() && (same_read || refused)
    }

    /// Whether the user has said no to this very call in this turn.
    fn refused(&self, call: &Call) -> bool {
        let same = |refused: &ProposedCall| {
            refused.tool == call.tool && refused.arguments == call.arguments
        };
        self.turn.refusals.iter().any(same)
    }

    /// Whether some call of a draft would not be allowed under `label`.
    fn violates(&self, draft: &Completion, label: &Label) -> bool {
        draft
            .calls
            .iter()
            .filter(|call| self.knows(&call.tool) && !self.turn.refusals.contains(call))
            .any(|proposed| {
                let call = self.call(proposed.clone(), label);
                !self.monitor.would_allow(self.policy.as_ref(), &call)
            })
    }

    /// Appends the model's message (line 18), and goes on with its calls or ends the turn.
    fn accept(&mut self, completion: Completion, label: &Label) {
        let Completion {
            text, calls, stop, ..
        } = completion;
        let calls_text = calls.iter().map(|call| {
            (
                call.tool.clone(),
                Labeled::label_tcb(call.arguments.clone(), label.clone()),
            )
        });
        let text = match stop {
            StopReason::End => text,
            StopReason::Length => text + " [cut off: token limit]",
            StopReason::Repetition => text + " [cut off: the model repeated itself]",
        };
        let said = Labeled::label_tcb(text, label.clone());
        let ids = self.history.push_assistant(label, said.clone(), calls_text);
        if calls.is_empty() {
            return self.end(Ok(said));
        }
        self.turn.last_calls.clone_from(&calls);
        let queue = ids.into_iter().zip(calls).collect();
        self.state = State::Calls(Calls {
            label: label.clone(),
            queue,
        });
    }

    /// Lines 7 to 11: decides on the next call, or begins the next step when none is left.
    fn next_call(&mut self, mut calls: Calls) {
        let Some((id, proposed)) = calls.queue.pop_front() else {
            self.state = State::Step;
            return;
        };
        let seen = (proposed.tool.clone(), proposed.arguments.clone());
        let count = self.turn.proposed.entry(seen).or_default();
        *count += 1;
        if *count > self.settings.limits.repeats {
            let tool = proposed.tool.clone();
            calls.queue.push_front((id, proposed));
            self.state = State::Calls(calls);
            return self.abort(Stop::Repetition(tool));
        }
        if !self.knows(&proposed.tool) {
            return self.reject(calls, id, proposed, "there is no such tool");
        }
        if calls.queue.len() >= self.settings.limits.calls_per_step {
            return self.reject(calls, id, proposed, "too many calls in one step");
        }
        let call = self.call(proposed, &calls.label);
        let decision = self
            .monitor
            .decide(self.policy.as_ref(), &self.history, call.clone());
        let (verdict, state) = match decision {
            Decision::Allow(permit) => {
                let verdict = Verdict::Allowed(permit.basis().clone());
                (verdict, State::AskExecution(calls, id, permit))
            }
            Decision::Ask(_) if self.refused(&call) => {
                return self.reject(calls, id, as_proposed(&call), "refused before in this turn");
            }
            Decision::Ask(question) => {
                let verdict = Verdict::Asked {
                    rule: question.rule().name.clone(),
                    limit: question.rule().limit.clone(),
                    effect: question.rule().effect,
                    excess: question.excess().clone(),
                    causes: question.causes().to_vec(),
                };
                (verdict, State::AskUser(calls, id, question))
            }
            Decision::Deny(denial) => {
                let reason = denial.to_string();
                let verdict = Verdict::Denied(reason.clone());
                self.events.push(Event::Decided {
                    step: self.turn.step,
                    call,
                    verdict,
                });
                return self.refuse(calls, id, &reason);
            }
        };
        self.events.push(Event::Decided {
            step: self.turn.step,
            call,
            verdict,
        });
        self.state = state;
    }

    /// A call that policy or the user refused: the model is told, under the step's label.
    fn refuse(&mut self, calls: Calls, id: CallId, reason: &str) {
        self.turn.refused += 1;
        let note = format!("not executed, {reason}. Do not try it again; go on without it.");
        self.answer(&calls.label, id, &note);
        self.state = State::Calls(calls);
    }

    /// A call that makes no sense.
    fn reject(&mut self, calls: Calls, id: CallId, proposed: ProposedCall, reason: &str) {
        self.answer(&calls.label, id, &format!("not executed: {reason}"));
        let call = self.call(proposed, &calls.label);
        let verdict = Verdict::Denied(reason.to_owned());
        self.events.push(Event::Decided {
            step: self.turn.step,
            call,
            verdict,
        });
        self.state = State::Calls(calls);
    }

    /// Our own words in place of a result: nothing in them comes from the app.
    fn answer(&mut self, label: &Label, id: CallId, note: &str) {
        self.history.push_note(label, id, note);
    }

    fn returned(&mut self, id: CallId, call: Call, text: String, is_error: bool, label: &Label) {
        let (bytes, limit) = (text.len(), self.settings.limits.result_bytes);
        let mut content = self.policy.label_result(&call, text, is_error);
        if bytes > limit {
            let note = format!("the result has {bytes} bytes, over the limit of {limit}");
            content = Labeled::label_tcb(note, content.label());
        }
        self.events.push(Event::Returned {
            bytes,
            is_error,
            label: content.label().join(label),
            regions: content.regions().len(),
            call: call.clone(),
        });
        self.history.push_result(label, id, content);
    }

    fn knows(&self, tool: &str) -> bool {
        self.history.tools().iter().any(|known| known.name == tool)
    }

    fn call(&self, proposed: ProposedCall, label: &Label) -> Call {
        Call {
            app: self.app.clone(),
            tool: proposed.tool,
            arguments: proposed.arguments,
            label: label.clone(),
        }
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
}

/// The call as the model wrote it.
fn as_proposed(call: &Call) -> ProposedCall {
    ProposedCall {
        tool: call.tool.clone(),
        arguments: call.arguments.clone(),
    }
}
