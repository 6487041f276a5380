//! What is replayed.

use std::path::PathBuf;

use crate::method::Method;

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
