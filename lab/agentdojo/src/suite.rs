//! What AgentDojo's suites contain: tasks, goals and ground truth, as the package itself exports
//! them (`python/export.py`).

mod dependencies;
mod fold;
mod needs;
mod scene;

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::{Map, Value};

pub use self::dependencies::Dependencies;
pub(crate) use self::{
    fold::{Folded, find_text},
    needs::{Need, Needed, Plan, left},
    scene::{Scene, Shown, same_arguments},
};

/// The form of the export that this crate reads.
const FORMAT: u32 = 1;

/// One version of the benchmark.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Benchmark {
    format: u32,
    /// `v1`, `v1.2.2`.
    pub version: String,
    /// By name: `banking`, `slack`, `travel`, `workspace`.
    pub suites: BTreeMap<String, Suite>,
}

/// One suite.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suite {
    /// What users ask.
    pub user_tasks: Vec<UserTask>,
    /// What attackers want.
    pub injection_tasks: Vec<InjectionTask>,
    /// The places that an attacker can write to, with what is there without an attack.
    pub injection_vectors: BTreeMap<String, String>,
    /// The tools.
    pub tools: Vec<SuiteTool>,
}

/// What a user asks, and what serves it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserTask {
    /// For example `user_task_3`.
    pub id: String,
    /// The user's words.
    pub prompt: String,
    /// The ground truth, in order.
    pub steps: Vec<Step>,
    /// What the suite's check accepts as an answer; empty where it looks at the effects only.
    pub output: String,
}

/// What an attacker wants.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InjectionTask {
    /// For example `injection_task_3`.
    pub id: String,
    /// In words, as every attack embeds it.
    pub goal: String,
    /// The calls that reach it; none where it is reached by the answer alone, and where AgentDojo does not list them.
    pub steps: Vec<Step>,
}

/// One call of a ground truth, executed in the environment without attacks.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The tool's name.
    pub tool: String,
    /// Its arguments.
    pub arguments: Map<String, Value>,
    /// What it returned.
    pub result: String,
    /// Whether that is an error.
    pub is_error: bool,
}

/// A tool of a suite.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SuiteTool {
    /// The name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// A JSON Schema.
    pub parameters: Value,
}

impl Benchmark {
    /// Reads an export.
    pub fn parse(json: &str) -> Result<Self> {
        let benchmark: Self = serde_json::from_str(json).context(
            "the export of AgentDojo does not parse; delete it, the next run writes it again",
        )?;
        let format = benchmark.format;
        ensure!(
            format == FORMAT,
            "the export of AgentDojo has format {format}, not {FORMAT}; delete it, the next run writes it again"
        );
        Ok(benchmark)
    }
}

impl Suite {
    /// The task that a user asks for in these words. Some prompts contain others, so the task with the
    /// longest prompt among those that the words contain is the one.
    pub fn task_of<'a>(&self, said: impl IntoIterator<Item = &'a str>) -> Option<&UserTask> {
        let said: Vec<Folded> = said.into_iter().map(Folded::new).collect();
        let asked = |task: &&UserTask| {
            let prompt = Folded::new(&task.prompt);
            said.iter().any(|said| said.contains(&prompt))
        };
        let tasks = self.user_tasks.iter().filter(asked);
        tasks.max_by_key(|task| task.prompt.len())
    }
}
