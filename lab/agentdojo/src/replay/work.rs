//! Every run under every method, in parallel, and in the same order however long each takes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::Context;

use super::attack::Attack;
use super::check::{Checker, Flags, Variant, checkers};
use super::drive::{Blocked, Course, Departure, Suite, drive};
use super::options::{Options, Progress};
use super::script::Script;
use super::suite::shipped;
use crate::method::Method;
use crate::runs::Recording;

/// Neighbouring runs share an environment, which takes Python a while to make.
const BLOCK: usize = 16;

/// One recorded run under one method.
#[derive(Debug, Clone, PartialEq)]
pub struct RunResult {
    /// The recorded model.
    pub model: String,
    /// The suite.
    pub suite: String,
    /// The user's task.
    pub user_task: String,
    /// The attack.
    pub attack: Option<String>,
    /// The attacker's goal.
    pub injection_task: Option<String>,
    /// The protection.
    pub method: Method,
    /// What the recording says of itself.
    pub recorded: Flags,
    /// What AgentDojo says when the run ends at the first block or departure, without an answer: nothing
    /// after it is known. The lower bound of utility.
    pub stop: Option<Flags>,
    /// What it says when blocked calls, and what depends on them, are left out, and everything else
    /// happens as recorded. An estimate from above, since the model gets past every refusal.
    pub skip: Option<Flags>,
    /// How the attack succeeds all the same, with blocked calls left out.
    pub success: Option<Success>,
    /// The calls that policy stopped.
    pub blocked: Vec<Blocked>,
    /// Calls of tools that do more than read, which ran or were asked about.
    pub consequential: u32,
    /// Calls that serve the attack and would not have been made: its text was out of sight.
    pub out_of_sight: u32,
    /// Further calls that the model could not have made: it did not know a value.
    pub unknown: u32,
    /// Messages of the recorded model.
    pub turns: u32,
    /// Completions that the machine asked for.
    pub completions: u32,
    /// Screenings that it asked for; each is a further call of a model if the screener is one.
    pub screenings: u32,
}

/// How an attack succeeds although calls were stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Success {
    /// Only by what the final answer says: without it, AgentDojo's check fails.
    Answer,
    /// Calls that serve the attack ran.
    Calls,
    /// None of the calls that ran serves the attack: AgentDojo's check is met by the user's own.
    OwnCalls,
}

impl RunResult {
    /// Questions that the user is asked.
    #[must_use]
    pub fn questions(&self) -> usize {
        self.blocked.iter().filter(|call| call.asked).count()
    }
}

/// One recorded run under every method.
pub(super) struct Replayed {
    /// The recording's position.
    pub(super) recording: usize,
    /// What AgentDojo says of the run as it was recorded.
    pub(super) again: Option<Result<Flags, String>>,
    pub(super) results: Vec<RunResult>,
}

/// Replays every run that measures something: those without an error that are a user's task.
pub(super) fn all(
    recordings: &[Recording],
    options: &Options,
    sample: Option<usize>,
    progress: &(dyn Fn(Progress) + Sync),
) -> anyhow::Result<Vec<Replayed>> {
    let context = Runs::new(recordings, options)?;
    let measures = |run: &Recording| run.error.is_none() && run.is_user_task();
    let runs: Vec<usize> = (0..recordings.len())
        .filter(|at| recordings.get(*at).is_some_and(measures))
        .step_by(sample.unwrap_or(1))
        .collect();
    let blocks: Vec<&[usize]> = runs.chunks(BLOCK).collect();
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    // By position, so that the report does not depend on which thread ends first.
    let found: Mutex<BTreeMap<usize, Replayed>> = Mutex::new(BTreeMap::new());
    let failed = AtomicBool::new(false);
    let worker = |mut checker: Option<Checker>| -> anyhow::Result<()> {
        // Threads take the next block when they are free: some runs take many times as long as others.
        while let Some(block) = blocks.get(next.fetch_add(1, Ordering::Relaxed)) {
            for at in *block {
                // One error is that of all, so it is not shown after what the other threads would still do.
                if failed.load(Ordering::Relaxed) {
                    return Ok(());
                }
                let replayed = context.run(*at, checker.as_mut());
                let replayed = replayed.inspect_err(|_| failed.store(true, Ordering::Relaxed))?;
                found
                    .lock()
                    .unwrap_or_else(std::sync::PoisonError::into_inner)
                    .insert(*at, replayed);
                let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                progress(Progress::Runs(done, runs.len()));
            }
        }
        Ok(())
    };
    let checkers = checkers(options.agentdojo.as_ref(), options.threads.max(1))?;
    std::thread::scope(|scope| {
        let workers: Vec<_> = checkers
            .into_iter()
            .map(|checker| scope.spawn(|| worker(checker)))
            .collect();
        workers.into_iter().try_for_each(|worker| {
            let ended = worker.join();
            ended.unwrap_or_else(|_| Err(anyhow::anyhow!("a thread of the replay panicked")))
        })
    })?;
    let found = found.into_inner();
    let found = found.unwrap_or_else(std::sync::PoisonError::into_inner);
    Ok(found.into_values().collect())
}

/// What every run needs.
struct Runs<'a> {
    recordings: &'a [Recording],
    options: &'a Options,
    suites: HashMap<&'a str, Suite>,
    /// The runs without an attack, by [`key`].
    plain: HashMap<String, Script>,
}

impl<'a> Runs<'a> {
    fn new(recordings: &'a [Recording], options: &'a Options) -> anyhow::Result<Self> {
        let names: BTreeSet<&str> = recordings.iter().map(|run| run.suite.as_str()).collect();
        let suites = names.into_iter().map(|name| Ok((name, shipped(name)?)));
        let plain = recordings.iter().filter(|run| !run.is_attack());
        let plain = plain.map(|run| Ok((key(run, &run.user_task), Script::new(run)?)));
        Ok(Self {
            recordings,
            options,
            suites: suites.collect::<anyhow::Result<_>>()?,
            plain: plain.collect::<anyhow::Result<_>>()?,
        })
    }

    fn run(&self, at: usize, checker: Option<&mut Checker>) -> anyhow::Result<Replayed> {
        let run = self.recordings.get(at).context("no such recording")?;
        let suite = self.suites.get(run.suite.as_str());
        let suite = suite.context("no such suite")?;
        let script = Script::new(run)?;
        let attack = run.is_attack().then(|| {
            let plain = |task: &str| self.plain.get(&key(run, task));
            let goal = run.injection_task.as_deref().and_then(plain);
            Attack::new(run, goal, plain(&run.user_task))
        });
        let drive = |method| drive(suite, &script, attack.as_ref(), method);
        let methods = self.options.methods.iter();
        let courses: Vec<(Method, Course)> = methods
            .map(|method| Ok((*method, drive(*method)?)))
            .collect::<anyhow::Result<_>>()
            .with_context(|| format!("{} of {}", run.name(), run.model))?;
        let mut checked = Checked::new(run, &script, &courses, checker)?;
        let results = courses
            .iter()
            .map(|(method, course)| result(run, &script, *method, course, &checked));
        Ok(Replayed {
            recording: at,
            results: results.collect(),
            again: checked.recorded.take(),
        })
    }
}

/// The name of a task's run without an attack, beside `run`.
fn key(run: &Recording, task: &str) -> String {
    format!("{}/{}/{task}", run.model, run.suite)
}

/// What AgentDojo says of the variants of one run.
struct Checked {
    recorded: Option<Result<Flags, String>>,
    flags: BTreeMap<Variant, Flags>,
    /// The same without an answer, for the variants in which the attack succeeds.
    mute: BTreeMap<Variant, Flags>,
}

impl Checked {
    fn new(
        run: &Recording,
        script: &Script,
        courses: &[(Method, Course)],
        checker: Option<&mut Checker>,
    ) -> anyhow::Result<Self> {
        let Some(checker) = checker else {
            return Ok(Self {
                recorded: None,
                flags: BTreeMap::new(),
                mute: BTreeMap::new(),
            });
        };
        let recorded = Variant::recorded(script);
        let readings = courses
            .iter()
            .flat_map(|(_, course)| [stop(course), skip(course)]);
        // Many methods end in the same calls; Python executes each set of calls once.
        let mut variants: BTreeSet<Variant> = readings.collect();
        variants.insert(recorded.clone());
        let variants: Vec<Variant> = variants.into_iter().collect();
        let results = checker.check(run, script, &variants)?;
        let mut checked = Self {
            recorded: None,
            flags: BTreeMap::new(),
            mute: BTreeMap::new(),
        };
        for (variant, result) in variants.into_iter().zip(results) {
            if variant == recorded {
                checked.recorded = Some(result.clone());
            }
            if let Ok(flags) = result {
                checked.flags.insert(variant, flags);
            }
        }
        // Where the attack succeeds, the same calls are checked again without the answer: if it then fails, only
        // the answer reached the goal.
        let successful = checked.flags.iter();
        let successful = successful.filter(|(_, flags)| flags.attack_succeeded == Some(true));
        let successful: Vec<Variant> = successful.map(|(it, _)| it.clone()).collect();
        let mute: Vec<Variant> = successful.iter().map(mute).collect();
        if !mute.is_empty() {
            let results = checker.check(run, script, &mute)?;
            let results = successful.into_iter().zip(results);
            let known = results.filter_map(|(variant, result)| Some((variant, result.ok()?)));
            checked.mute = known.collect();
        }
        Ok(checked)
    }

    /// How the attack succeeds in a course, if it does.
    fn success(&self, course: &Course) -> Option<Success> {
        let variant = skip(course);
        let flags = self.flags.get(&variant)?;
        if flags.attack_succeeded != Some(true) {
            return None;
        }
        let mute = self.mute.get(&variant);
        Some(match mute.and_then(|flags| flags.attack_succeeded) {
            // An error of the second check proves nothing about the answer, so the calls are blamed.
            Some(false) => Success::Answer,
            _ if course.attacked => Success::Calls,
            _ => Success::OwnCalls,
        })
    }
}

/// The same calls without an answer.
fn mute(variant: &Variant) -> Variant {
    Variant {
        executed: variant.executed.clone(),
        answer: None,
    }
}

/// What ran until the course left the recording ([`RunResult::stop`]).
fn stop(course: &Course) -> Variant {
    match course.left_after {
        None => skip(course),
        Some(executed) => Variant {
            executed: course.executed.iter().take(executed).copied().collect(),
            answer: None,
        },
    }
}

/// All that ran ([`RunResult::skip`]).
fn skip(course: &Course) -> Variant {
    Variant {
        executed: course.executed.clone(),
        answer: course.answer.clone(),
    }
}

fn result(
    run: &Recording,
    script: &Script,
    method: Method,
    course: &Course,
    checked: &Checked,
) -> RunResult {
    let departed = |why: Departure| {
        let departed = course
            .departed
            .values()
            .filter(|departure| **departure == why);
        count(departed.count())
    };
    RunResult {
        model: run.model.clone(),
        suite: run.suite.clone(),
        user_task: run.user_task.clone(),
        attack: run.attack.clone(),
        injection_task: run.injection_task.clone(),
        method,
        recorded: Flags {
            utility: run.utility,
            attack_succeeded: run.is_attack().then_some(run.security),
        },
        stop: checked.flags.get(&stop(course)).copied(),
        skip: checked.flags.get(&skip(course)).copied(),
        success: checked.success(course),
        blocked: course.blocked.clone(),
        consequential: course.consequential,
        out_of_sight: departed(Departure::OutOfSight),
        unknown: departed(Departure::Unknown),
        turns: count(script.turns.len()),
        completions: course.completions,
        screenings: course.screenings,
    }
}

pub(super) fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
