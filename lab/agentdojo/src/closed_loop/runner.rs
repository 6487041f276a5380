//! The Python side: one process that is given jobs and gives back outcomes, in order.

use std::{collections::VecDeque, process::Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
};

use crate::python::Python;

/// One task to run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Job {
    /// Ties the outcome to it.
    pub id: u64,
    /// Where the agent is.
    pub base_url: String,
    /// The model to ask for.
    pub model: String,
    /// AgentDojo's version of the suites.
    pub version: String,
    /// The suite.
    pub suite: String,
    /// The attack; `None` without one.
    pub attack: Option<String>,
    /// The user's task.
    pub user_task: String,
    /// The attacker's; with an attack only.
    pub injection_task: Option<String>,
    /// One of AgentDojo's own prompt defences.
    pub defence: Option<String>,
    /// How the proxy calls this conversation.
    pub conversation: String,
}

/// What came of a job.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// The job's.
    pub id: u64,
    /// Wall time.
    pub seconds: f64,
    /// The suite's check of the user's task.
    #[serde(default)]
    pub utility: bool,
    /// The suite's check of the attacker's goal: true means reached.
    #[serde(default)]
    pub security: Option<bool>,
    /// Answers of the server.
    #[serde(default)]
    pub llm_calls: u32,
    /// As the server said.
    #[serde(default)]
    pub prompt_tokens: u64,
    /// As the server said.
    #[serde(default)]
    pub completion_tokens: u64,
    /// All messages, where an attack succeeded.
    #[serde(default)]
    pub messages: Vec<Message>,
    /// Why there is no result.
    pub error: Option<String>,
}

/// A message of a transcript.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Message {
    /// The calls that it makes.
    pub calls: Vec<MadeCall>,
}

/// A call of a transcript.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MadeCall {
    /// The tool.
    pub tool: String,
    /// Its arguments.
    pub arguments: serde_json::Value,
}

/// The error message for a process that is gone.
const ENDED: &str =
    "AgentDojo's runner ended: see its messages above; run again, the rows so far are kept";

/// The process. It ends with this value.
#[derive(Debug)]
pub struct Runner {
    /// Ends when this is dropped.
    _child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    waiting: VecDeque<u64>,
}

impl Runner {
    /// Starts it with so many worker processes.
    pub fn start(python: &Python, workers: usize) -> Result<Self> {
        let mut command = Command::from(python.runner(workers));
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn()?;
        let input = child.stdin.take().context(ENDED)?;
        let output = child.stdout.take().context(ENDED)?;
        Ok(Self {
            _child: child,
            input,
            output: BufReader::new(output).lines(),
            waiting: VecDeque::new(),
        })
    }

    /// Gives it jobs. Their outcomes come from [`Runner::next`], in the order of the jobs.
    pub async fn submit(&mut self, jobs: &[Job]) -> Result<()> {
        if jobs.is_empty() {
            return Ok(());
        }
        let mut line = serde_json::to_vec(jobs)?;
        line.push(b'\n');
        self.input.write_all(&line).await?;
        self.input.flush().await?;
        self.waiting.extend(jobs.iter().map(|job| job.id));
        Ok(())
    }

    /// The next outcome; `None` when every job is answered. Safe to drop while waiting.
    ///
    /// # Errors
    /// It ended, or broke the protocol.
    pub async fn next(&mut self) -> Result<Option<Outcome>> {
        let Some(expected) = self.waiting.front() else {
            return Ok(None);
        };
        let Some(line) = self.output.next_line().await? else {
            bail!(ENDED);
        };
        let outcome: Outcome = serde_json::from_str(&line)
            .context("AgentDojo's runner printed something else than an outcome")?;
        // An outcome of another job would be counted as this one's.
        ensure!(
            outcome.id == *expected,
            "AgentDojo's runner answered job {}, not {expected}",
            outcome.id
        );
        self.waiting.pop_front();
        Ok(Some(outcome))
    }
}
