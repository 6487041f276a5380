//! Replay of recorded runs through labels, screener and policy (RTBAS §8.1).
//!
//! It answers: which calls of a real model would have been asked about, and which attacks would
//! have been stopped, if this policy had been enforced? It is an **open loop**: the recorded
//! model saw everything unmasked and did not learn what was refused. So utility comes as bounds,
//! each checked by AgentDojo itself on the calls that remain ([`RunResult`]).

mod attack;
mod check;
mod drive;
mod retake;
mod script;
mod summary;
mod text;
mod work;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use ifc::{Label, Labeled, Tool};

use crate::policies::{self, Answers};
use crate::runs::{self, Wanted};

pub use crate::method::Method;
pub use attack::Attack;
pub use check::Flags;
pub use drive::Blocked;
pub use script::{Call, Returned, Script, Turn};
pub use summary::{Fact, Group, ReplayReport, Reproduction, Survivor};
pub use text::{questions_text, replay_text};
pub use work::{RunResult, Success};

/// The model of the paper, and of every attack.
pub const GPT_4O: &str = "gpt-4o-2024-05-13";

/// The models that are replayed.
pub const MODELS: [&str; 3] = [
    GPT_4O,
    "claude-3-5-sonnet-20240620",
    "claude-3-5-sonnet-20241022",
];

/// The attack of the paper's figures.
pub const MAIN_ATTACK: &str = "important_instructions";

/// The sample of the quick form takes one run of so many; prime to the number of tasks and goals,
/// so that all of them come up.
const SAMPLED: usize = 23;

/// What to replay.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where the archive is kept.
    pub cache: PathBuf,
    /// A Python 3 with pip, to fetch the archive with.
    pub python: PathBuf,
    /// A Python with AgentDojo, to execute again with; without one, there are no bounds.
    pub agentdojo: Option<PathBuf>,
    /// Models; [`MODELS`] are known to be readable.
    pub models: Vec<String>,
    /// Attacks; empty for all. `none` stands for the runs without one, which are always read.
    pub attacks: Vec<String>,
    /// Methods.
    pub methods: Vec<Method>,
    /// A fixed sample of the paper's model with and without the main attack.
    pub quick: bool,
    /// Threads, each with a Python of its own.
    pub threads: usize,
}

impl Options {
    /// All models, attacks and methods, in two threads.
    #[must_use]
    pub fn new(cache: PathBuf, agentdojo: Option<PathBuf>) -> Self {
        Self {
            cache,
            python: PathBuf::from("python3"),
            agentdojo,
            models: MODELS.map(str::to_owned).to_vec(),
            attacks: Vec::new(),
            methods: Method::ALL.to_vec(),
            quick: false,
            threads: 2,
        }
    }
}

/// How far the replay is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// Something slow begins.
    Phase(String),
    /// Runs replayed, of how many.
    Runs(usize, usize),
}

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
    if !attacks.is_empty() {
        attacks.push("none".to_owned());
    }
    let wanted = Wanted {
        models: options.models.clone(),
        attacks,
    };
    let all = runs::read(&archive, &wanted, &mut |_| {})?;
    let facts = summary::facts(&all);
    phase("replaying");
    let sample = options.quick.then_some(SAMPLED);
    let results = work::all(&all, options, sample, progress)?;
    let seconds = begun.elapsed().as_secs_f64();
    Ok(summary::report(facts, &all, results, seconds))
}

/// The shipped policy of a suite.
fn suite(name: &str) -> anyhow::Result<drive::Suite> {
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
    let rules = app.rules.tools.iter();
    let reads = rules.filter(|(_, rule)| rule.effect.reads());
    Ok(drive::Suite {
        app: app.name.clone(),
        tools: tools.collect(),
        reads: reads.map(|(tool, _)| tool.clone()).collect(),
        carriers: policies::carriers(&config),
        policy: Arc::new(config.policy()),
        lattice: Arc::new(config.lattice),
    })
}

#[cfg(test)]
mod tests;
