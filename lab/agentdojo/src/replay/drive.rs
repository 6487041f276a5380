//! The turn machine over one recorded run.
//!
//! # What is replayed
//! The recorded model's messages are brought as completions, and its recorded results as the
//! results of the calls that the machine lets run. It is an *open loop*: the recorded model saw
//! everything unmasked, and nothing that the machine masks or refuses changes what it says next.
//!
//! Where that would be absurd, a step is replaced by one that does nothing (a *departure*):
//! - a call or an answer one of whose values stands only in masked text, or only in the result of
//!   a call that did not run: the model would not have known it;
//! - a call of the attack, where no injected text is in sight: nobody would have asked for it.
//!
//! The defence is the product's default: naive tainting, with a check before a question. When the machine
//! re-runs a step for that check ([`retake`](super::retake)), the same message is brought again, subject to
//! the above. Every question is answered with no. The machine's rule against repetition is not replayed: a
//! recorded model that repeats itself goes on as recorded.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use hub::isc::Asks;
use hub::trace::{Event, Flow};
use hub::{
    Apps, Asked, CallOutcome, Completion, Limits, Need, ProposedCall, Screened, Screening,
    Settings, Setup, TurnMachine,
};
use ifc::{Answer, Label, Labeled, Lattice, Monitor, Policy, Relevance, Tool};

use super::attack::Attack;
use super::script::{Call, Script, Turn};
use crate::value_match::{argument_values, cites, lacks, quotes};
use crate::worst_case::Carriers;

/// No tool has this name: a call of it does nothing.
const NOTHING: &str = "replay-does-nothing";

/// A machine that needs more has a fault of its own; the longest recorded run has 31 messages.
const MAX_NEEDS: usize = 2000;

/// What a suite gives to every run.
pub(crate) struct Suite {
    pub(crate) app: String,
    pub(crate) tools: Vec<Tool>,
    pub(crate) policy: Arc<dyn Policy>,
    pub(crate) lattice: Arc<Lattice>,
    /// The arguments that only carry content.
    pub(crate) carriers: Carriers,
}

/// What became of a run.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Course {
    /// Numbers of the calls that ran, in order.
    pub(crate) executed: Vec<usize>,
    /// The recorded final answer, if the model could still have given it.
    pub(crate) answer: Option<String>,
    /// Whether one of the calls that ran serves the attack.
    pub(crate) attacked: bool,
    pub(crate) blocked: Vec<Blocked>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Blocked {
    /// Its number; `None` for the final answer.
    pub(crate) call: Option<usize>,
    /// Whether the user was asked; otherwise the machine refused by itself.
    pub(crate) asked: bool,
}

/// Replays one run.
pub(crate) fn drive(
    suite: &Suite,
    script: &Script,
    attack: Option<&Attack>,
) -> anyhow::Result<Course> {
    // The recording says how long the run is and how often it repeats itself, not our limits.
    let settings = Settings {
        screening: Screening::CHECKED,
        limits: Limits {
            steps: usize::MAX,
            calls_per_step: usize::MAX,
            repeats: usize::MAX,
            ..Limits::default()
        },
        ..Settings::default()
    };
    let system = Labeled::trusted_tcb(script.system.clone());
    let setup = Setup {
        apps: Apps::One(suite.app.clone()),
        asks: Asks::default(),
        policy: Arc::clone(&suite.policy),
        lattice: Arc::clone(&suite.lattice),
        monitor: Monitor::new(),
        settings,
        clearances: Arc::default(),
    };
    let mut agent = TurnMachine::new(setup, system, suite.tools.clone());
    agent.user(Labeled::trusted_tcb(script.user.clone()))?;
    let mut replay = Replay {
        suite,
        script,
        injected: attack.map_or(&[], |attack| &attack.injected),
        owned: script
            .calls()
            .filter(|call| attack.is_some_and(|attack| attack.owns(call)))
            .map(|call| call.number)
            .collect(),
        agent,
        next: 0,
        open: VecDeque::new(),
        proposed: Vec::new(),
        undecided: false,
        left_out: Vec::new(),
        withheld: Vec::new(),
        course: Course::default(),
    };
    for _ in 0..MAX_NEEDS {
        if replay.serve()? {
            return Ok(replay.course);
        }
    }
    anyhow::bail!("the turn machine does not come to an end")
}

pub(super) struct Replay<'a> {
    pub(super) suite: &'a Suite,
    script: &'a Script,
    injected: &'a [String],
    /// The calls that serve the attack.
    owned: BTreeSet<usize>,
    pub(super) agent: TurnMachine,
    /// The turn to bring next.
    next: usize,
    /// The calls of the turn under way that nothing has become of yet.
    pub(super) open: VecDeque<&'a Call>,
    /// What was proposed in the last step.
    proposed: Vec<ProposedCall>,
    /// Whether the machine has decided nothing yet of what was proposed: if it asks for a completion now, it
    /// takes the same step once more.
    undecided: bool,
    /// The calls that are not made when the step is re-run.
    pub(super) left_out: Vec<&'a Call>,
    /// Results of calls that did not run.
    pub(super) withheld: Vec<String>,
    course: Course,
}

impl<'a> Replay<'a> {
    /// Serves one need; whether the run is over.
    fn serve(&mut self) -> anyhow::Result<bool> {
        let need = self.agent.poll();
        self.follow();
        match need {
            Need::Screen => {
                self.agent.handle_screened(Screened {
                    screener: "naive".to_owned(),
                    relevance: Ok(Relevance::Everything),
                    failure: None,
                    scores: Vec::new(),
                })?;
            }
            Need::Complete(request) => {
                let completion = match self.undecided {
                    true => Ok(self.retake(&request.prompt)),
                    false => self.completion(request.prompt.label()),
                };
                self.agent.handle_completion("recording", completion)?;
            }
            Need::Confirm(question) => {
                self.block(&question);
                self.agent.handle_answer(question, Answer::No)?;
            }
            Need::Execute(permit) => {
                let call = permit.spend();
                let outcome = self.execute(&call);
                self.agent.handle_result(outcome)?;
            }
            Need::User(_) => {
                self.open.clear();
                return Ok(true);
            }
            other => anyhow::bail!("the turn machine needs what no recording has: {other:?}"),
        }
        Ok(false)
    }

    /// What the machine did by itself since the last need.
    fn follow(&mut self) {
        for event in self.agent.take_events() {
            match event {
                // The completion was thrown away: the same turn is asked for again.
                Event::DraftDropped { .. } | Event::RepetitionDropped { .. } => {
                    self.next = self.next.saturating_sub(1);
                    self.open.clear();
                    self.undecided = false;
                }
                Event::Checked { taken, .. } => self.retaken(taken),
                // The recording has what came of a step, not how it would be taken again: it came out
                // otherwise, and the draft is still undecided.
                Event::Refined { .. } => self.left_out.clear(),
                Event::Denied {
                    flow: Flow::Call(call),
                    ..
                } => {
                    self.undecided = false;
                    self.denied(&call.tool, &call.arguments);
                }
                Event::Rejected {
                    tool, arguments, ..
                } => {
                    self.undecided = false;
                    if tool != NOTHING {
                        self.denied(&tool, &arguments);
                    }
                }
                Event::Allowed { .. } | Event::Asked { .. } => self.undecided = false,
                _ => {}
            }
        }
    }

    /// What became of a step that was taken once more. If it is the step now, the calls that were left
    /// out of it are not made.
    fn retaken(&mut self, taken: bool) {
        self.undecided = false;
        let left_out = std::mem::take(&mut self.left_out);
        for call in left_out.into_iter().filter(|_| taken) {
            self.open.retain(|open| open.number != call.number);
            self.withheld.extend(result_text(call));
        }
    }

    fn completion(&mut self, label: &Label) -> Result<Completion, String> {
        self.open.clear();
        let script = self.script;
        let turn = script.turns.get(self.next).ok_or("the recording ends")?;
        self.next += 1;
        if turn.calls.is_empty() {
            return Ok(self.answer(turn, label));
        }
        let mut calls = Vec::new();
        for call in &turn.calls {
            if self.departs(call, label) {
                self.withheld.extend(result_text(call));
                continue;
            }
            self.open.push_back(call);
            calls.push(proposal(call));
        }
        // The machine drops a step that only repeats the last reads or refused calls. The recorded model went on,
        // so a call that does nothing makes the step another one.
        let repeated = calls == self.proposed || self.was_refused(&calls);
        self.proposed.clone_from(&calls);
        if calls.is_empty() || repeated {
            calls.push(nothing());
        }
        self.undecided = true;
        // Words beside the calls must not carry what the step's label does not cover.
        let is_complete = self.open.len() == turn.calls.len();
        let words = [turn.text.clone()];
        let said = is_complete && !lacks(self.agent.history(), label, &self.withheld, &words);
        let text = if said {
            turn.text.clone()
        } else {
            String::new()
        };
        Ok(Completion {
            text,
            calls,
            ..Completion::default()
        })
    }

    /// Whether a call would not have been made under `label`.
    pub(super) fn departs(&self, call: &Call, label: &Label) -> bool {
        let values = argument_values(&call.arguments);
        lacks(self.agent.history(), label, &self.withheld, &values)
            || self.owned.contains(&call.number) && self.hides_the_attack(label)
    }

    /// Whether the recorded model had read injected text, and at `label` there is none to see.
    fn hides_the_attack(&self, label: &Label) -> bool {
        let history = self.agent.history();
        let any = |seen: &dyn Fn(&str) -> bool| self.injected.iter().any(|text| seen(text));
        let withheld = |injected: &str| self.withheld.iter().any(|text| cites(text, injected));
        let recorded = |injected: &str| quotes(history, &Label::top(), injected);
        // Only if the recorded model had read an injected text does it make a difference that none is seen here.
        !any(&|injected| quotes(history, label, injected)) && (any(&recorded) || any(&withheld))
    }

    fn answer(&mut self, turn: &Turn, label: &Label) -> Completion {
        let values = [turn.text.clone()];
        if lacks(self.agent.history(), label, &self.withheld, &values) {
            return Completion::default();
        }
        self.course.answer = Some(turn.text.clone());
        Completion {
            text: turn.text.clone(),
            ..Completion::default()
        }
    }

    fn was_refused(&self, calls: &[ProposedCall]) -> bool {
        let refused = |call: &ProposedCall| {
            let mut blocked = self.course.blocked.iter();
            blocked.any(|blocked| {
                let same = |known: &&Call| proposal(known) == *call;
                blocked.call.is_some_and(|number| {
                    self.script
                        .calls()
                        .filter(same)
                        .any(|known| known.number == number)
                })
            })
        };
        !calls.is_empty() && calls.iter().all(refused)
    }

    /// The recorded result of the call that the machine lets run.
    fn execute(&mut self, call: &ifc::Call) -> CallOutcome {
        let Some(recorded) = self.take(&call.tool, &call.arguments.to_json()) else {
            return CallOutcome::Lost("the recording has no such call".to_owned());
        };
        self.course.executed.push(recorded.number);
        self.course.attacked |= self.owned.contains(&recorded.number);
        match &recorded.result {
            Some(result) => CallOutcome::Returned {
                text: result.text.clone(),
                is_error: result.is_error,
                claims: Vec::new(),
                images: Vec::new(),
            },
            None => CallOutcome::Lost("the recording ends".to_owned()),
        }
    }

    fn block(&mut self, question: &Asked) {
        let call = question.call();
        let recorded = call.and_then(|call| self.take(&call.tool, &call.arguments.to_json()));
        self.blocked(recorded, true);
        // No call of the recording: the question was about the final answer.
        if recorded.is_none() {
            self.course.answer = None;
        }
    }

    fn denied(&mut self, tool: &str, arguments: &str) {
        let recorded = self.take(tool, arguments);
        // A tool that the model made up: it fails with and without protection.
        if self.suite.tools.iter().all(|known| known.name != tool) {
            let number = recorded.map(|call| call.number);
            self.course.executed.extend(number);
            return;
        }
        self.blocked(recorded, false);
    }

    fn blocked(&mut self, recorded: Option<&Call>, asked: bool) {
        self.withheld.extend(recorded.and_then(result_text));
        self.course.blocked.push(Blocked {
            call: recorded.map(|call| call.number),
            asked,
        });
    }

    /// The first open call that is this one.
    fn take(&mut self, tool: &str, arguments: &str) -> Option<&'a Call> {
        let wanted = ProposedCall {
            tool: tool.to_owned(),
            arguments: arguments.to_owned(),
        };
        let same = |open: &&Call| proposal(open).same(&wanted);
        let position = self.open.iter().position(same)?;
        self.open.remove(position)
    }
}

pub(super) fn nothing() -> ProposedCall {
    ProposedCall {
        tool: NOTHING.to_owned(),
        arguments: "{}".to_owned(),
    }
}

pub(super) fn proposal(call: &Call) -> ProposedCall {
    ProposedCall {
        tool: call.tool.clone(),
        arguments: call.arguments.clone(),
    }
}

fn result_text(call: &Call) -> Option<String> {
    call.result.as_ref().map(|result| result.text.clone())
}
