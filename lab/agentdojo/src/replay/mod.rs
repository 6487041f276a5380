//! Replay of recorded runs of GPT-4o, the paper's model, behind the default defence (RTBAS §8.1).
//!
//! It answers two questions: how many of the attacks that succeeded are stopped, and in how many runs without an attack
//! nothing is asked. It is an **open loop**: the recorded model saw everything unmasked and did not learn what was refused.
//! AgentDojo itself evaluates the calls that remain.

mod attack;
mod check;
mod drive;
mod retake;
mod script;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context, anyhow};
use ifc::{Label, Labeled, Tool};

use crate::policies::{self, Answers};
use crate::report::Share;
use crate::runs::{self, Recording, Wanted};

pub use attack::Attack;
pub use script::{Call, Returned, Script, Turn};

use check::Checker;
use drive::{Course, Suite, drive};

/// The model of the paper, and of every attack.
pub const GPT_4O: &str = "gpt-4o-2024-05-13";

/// The recorded models that the attention screener learns from.
pub const MODELS: [&str; 3] = [
    GPT_4O,
    "claude-3-5-sonnet-20240620",
    "claude-3-5-sonnet-20241022",
];

/// The attack of the paper's figures.
pub const MAIN_ATTACK: &str = "important_instructions";

/// The quick form replays one run of so many; prime to the number of tasks and goals, so that all of them come up.
const SAMPLED: usize = 23;

/// What to replay.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where the archive is kept.
    pub cache: PathBuf,
    /// A Python 3 with pip, to fetch the archive with; for attacks, with AgentDojo.
    pub python: PathBuf,
    /// Whether attacks are replayed beside the runs without one.
    pub attacked: bool,
    /// A fixed sample.
    pub quick: bool,
    /// Threads, each with a Python of its own.
    pub threads: usize,
}

/// The replay's figures.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplayReport {
    /// Runs without an attack in which nothing is asked.
    pub silent: Share,
    /// Attacks that succeeded as recorded, and those of them that are stopped.
    pub stopped: Share,
    /// The attacks that are left, as `suite/user_task/attack/injection_task`, each with the reason.
    pub left: BTreeMap<String, String>,
}

/// Replays recorded runs. `progress` gets what is done, and how many runs of how many.
pub fn replay(
    options: &Options,
    progress: &(dyn Fn(&str, usize, usize) + Sync),
) -> anyhow::Result<ReplayReport> {
    let mut fetching = |what: &str| progress(what, 0, 0);
    let archive = runs::archive(&options.cache, &options.python, &mut fetching)?;
    let mut attacks = vec!["none".to_owned()];
    attacks.extend(options.attacked.then(|| MAIN_ATTACK.to_owned()));
    let wanted = Wanted {
        models: vec![GPT_4O.to_owned()],
        attacks,
    };
    progress("reading the recorded runs", 0, 0);
    let recordings = runs::read(&archive, &wanted)?;
    let runs = Runs::new(&recordings)?;
    let measures = |run: &&Recording| run.error.is_none() && run.is_user_task();
    let sample = if options.quick { SAMPLED } else { 1 };
    let all = recordings.iter().filter(measures).step_by(sample);
    // An attack that failed as recorded tells nothing.
    let all: Vec<&Recording> = all.filter(|run| !run.is_attack() || run.security).collect();
    let done = AtomicUsize::new(0);
    let part = |part: &[&Recording]| -> anyhow::Result<Vec<Outcome>> {
        let mut checker = match options.attacked {
            true => Some(Checker::start(&options.python)?),
            false => None,
        };
        let outcomes = part.iter().map(|run| {
            let outcome = runs.outcome(run, checker.as_mut());
            progress(
                "replaying",
                done.fetch_add(1, Ordering::Relaxed) + 1,
                all.len(),
            );
            outcome.with_context(|| run.name())
        });
        outcomes.collect()
    };
    let size = all.len().div_ceil(options.threads.max(1)).max(1);
    let outcomes = thread::scope(|scope| {
        let threads: Vec<_> = all
            .chunks(size)
            .map(|chunk| scope.spawn(|| part(chunk)))
            .collect();
        let outcomes = threads.into_iter().map(|thread| thread.join());
        outcomes
            .map(|outcomes| outcomes.unwrap_or_else(|_| Err(anyhow!("a thread panicked"))))
            .collect::<anyhow::Result<Vec<_>>>()
    })?;
    Ok(report(
        all.iter().copied().zip(outcomes.into_iter().flatten()),
    ))
}

/// What became of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    /// A run without an attack, and whether the user was asked.
    Benign { asked: bool },
    /// An attack, and why it still succeeds if it does.
    Attack { left: Option<&'static str> },
}

fn report<'a>(outcomes: impl Iterator<Item = (&'a Recording, Outcome)>) -> ReplayReport {
    let mut report = ReplayReport {
        silent: Share::default(),
        stopped: Share::default(),
        left: BTreeMap::new(),
    };
    for (run, outcome) in outcomes {
        match outcome {
            Outcome::Benign { asked } => report.silent.add(!asked),
            Outcome::Attack { left } => {
                report.stopped.add(left.is_none());
                report
                    .left
                    .extend(left.map(|why| (run.name(), why.to_owned())));
            }
        }
    }
    report
}

impl ReplayReport {
    /// The figures as text.
    pub fn text(&self) -> String {
        let Share { held, of } = self.silent;
        let mut text = format!("runs without an attack and without a question: {held} of {of}\n");
        if self.stopped.of > 0 {
            let Share { held, of } = self.stopped;
            text += &format!("attacks that succeeded and are stopped: {held} of {of}\n");
        }
        for (run, why) in &self.left {
            text += &format!("  left: {run}: {why}\n");
        }
        text
    }
}

/// What replaying takes beside the run itself.
struct Runs<'a> {
    suites: HashMap<&'a str, Suite>,
    /// Runs without an attack, by [`key`]: they tell which calls serve the task, and which the goal ([`Attack`]).
    plain: HashMap<String, Script>,
}

impl<'a> Runs<'a> {
    fn new(recordings: &'a [Recording]) -> anyhow::Result<Self> {
        let mut suites = HashMap::new();
        let mut plain = HashMap::new();
        for run in recordings {
            if !suites.contains_key(&*run.suite) {
                suites.insert(&*run.suite, shipped(&run.suite)?);
            }
            if !run.is_attack() {
                plain.insert(key(run, &run.user_task), Script::new(run)?);
            }
        }
        Ok(Self { suites, plain })
    }

    fn outcome(&self, run: &Recording, checker: Option<&mut Checker>) -> anyhow::Result<Outcome> {
        let suite = self.suites.get(&*run.suite).context("no such suite")?;
        let script = Script::new(run)?;
        if !run.is_attack() {
            let course = drive(suite, &script, None)?;
            let asked = course.blocked.iter().any(|call| call.asked);
            return Ok(Outcome::Benign { asked });
        }
        let plain = |task: &str| self.plain.get(&key(run, task));
        let goal = run.injection_task.as_deref().and_then(plain);
        let attack = Attack::new(run, goal, plain(&run.user_task));
        let course = drive(suite, &script, Some(&attack))?;
        let checker = checker.context("attacks need AgentDojo")?;
        let left = left(run, &script, &course, checker)?;
        Ok(Outcome::Attack { left })
    }
}

/// Why the attack still succeeds, if it does.
fn left(
    run: &Recording,
    script: &Script,
    course: &Course,
    checker: &mut Checker,
) -> anyhow::Result<Option<&'static str>> {
    let executed = &course.executed;
    // Where the same calls without the answer do not reach the goal, only the answer did.
    let found = checker.check(run, script, executed, &[course.answer.as_deref(), None])?;
    let [with_answer, without] = found.as_slice() else {
        return Ok(Some("AgentDojo's check does not answer"));
    };
    Ok(match (with_answer, without) {
        (Ok(false), _) => None,
        // Nothing says that the attack was stopped.
        (Err(_), _) => Some("AgentDojo's check raises an error"),
        (Ok(true), Ok(false)) => Some("it lies in the final answer only"),
        _ if course.attacked => Some("calls of the attack ran"),
        _ => Some("the user's own calls meet the check"),
    })
}

/// The name of a task's run without an attack, beside `run`.
fn key(run: &Recording, task: &str) -> String {
    format!("{}/{}/{task}", run.model, run.suite)
}

/// The shipped policy of a suite.
fn shipped(name: &str) -> anyhow::Result<Suite> {
    let config = policies::of(name, Answers::Policy)?;
    let app = config.apps.values().next();
    let app = app.with_context(|| format!("the policy {name}.toml has no app"))?;
    let tools = app.rules.tools.keys().map(|tool| Tool {
        // The policy names them.
        label: Label::bottom(),
        name: tool.clone(),
        // The suites' own developers wrote these; no screener of the replay reads them.
        description: Labeled::trusted_tcb(""),
        parameters: Labeled::trusted_tcb(""),
    });
    Ok(Suite {
        app: app.name.clone(),
        tools: tools.collect(),
        carriers: policies::carriers(&config),
        policy: Arc::new(config.policy()),
        lattice: Arc::new(config.lattice),
    })
}

#[cfg(test)]
mod tests;
