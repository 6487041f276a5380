//! Replay of recorded runs through labels, screener and policy (RTBAS §8.1).
//!
//! It answers: which calls of a real model would have been asked about, and which attacks would
//! have been stopped, if this policy had been enforced? It is an **open loop**: the recorded
//! model saw everything unmasked and did not learn what was refused. So utility comes as bounds,
//! each checked by AgentDojo itself on the calls that remain ([`RunResult`]).

mod attack;
mod check;
mod drive;
mod options;
mod retake;
mod script;
mod suite;
mod summary;
mod text;
mod work;

use crate::runs::{self, Wanted};

pub use crate::method::Method;
pub use attack::Attack;
pub use check::Flags;
pub use drive::Blocked;
pub use options::{GPT_4O, MAIN_ATTACK, MODELS, Options, Progress};
pub use script::{Call, Returned, Script, Turn};
pub use summary::{Fact, Group, ReplayReport, Reproduction, Survivor};
pub use text::{questions_text, replay_text};
pub use work::{RunResult, Success};

/// The sample of the quick form takes one run of so many; prime to the number of tasks and goals,
/// so that all of them come up.
const SAMPLED: usize = 23;

/// Replays recorded runs. The same archive, policies and options give the same report, but for its
/// time.
///
/// # Errors
/// The archive cannot be had or read, a policy is wrong, or Python fails.
pub fn replay(
    options: &Options,
    progress: &(dyn Fn(Progress) + Sync),
) -> anyhow::Result<ReplayReport> {
    let begun = std::time::Instant::now();
    let phase = |what: &str| progress(Progress::Phase(what.to_owned()));
    let archive = runs::archive(&options.cache, &options.python, &mut |what| phase(what))?;
    phase("reading the recorded runs");
    let mut attacks = options.attacks.clone();
    // Runs without an attack tell which calls serve the task and which the goal ([`Attack`]), so they are
    // always read.
    if !attacks.is_empty() {
        attacks.push("none".to_owned());
    }
    let wanted = Wanted {
        models: options.models.clone(),
        attacks,
    };
    let all = runs::read(&archive, &wanted)?;
    let facts = summary::facts(&all);
    phase("replaying");
    let sample = options.quick.then_some(SAMPLED);
    let results = work::all(&all, options, sample, progress)?;
    let seconds = begun.elapsed().as_secs_f64();
    Ok(summary::report(facts, &all, results, seconds))
}

#[cfg(test)]
mod tests;
