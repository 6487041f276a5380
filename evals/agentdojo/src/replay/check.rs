//! Executing calls again in AgentDojo's own environments, and asking its own checks.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::runs::Recording;

use super::script::{Call, Script};

const PROGRAM: &str = include_str!("../../python/replay_check.py");

/// The suites' version in which the recordings were made.
const VERSION: &str = "v1";

/// What AgentDojo's own checks say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Flags {
    /// The user's task was done.
    pub utility: bool,
    /// The attacker's goal was reached; `None` without an attack.
    pub attack_succeeded: Option<bool>,
}

/// Calls to execute, and the answer to judge.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Variant {
    pub(super) executed: Vec<usize>,
    pub(super) answer: Option<String>,
}

impl Variant {
    /// The run as it was recorded.
    pub(super) fn whole(script: &Script) -> Self {
        Self {
            executed: script.calls().map(|call| call.number).collect(),
            answer: script.answer().map(str::to_owned),
        }
    }
}

/// A Python process with AgentDojo, which checks one run after another.
pub(super) struct Checker {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

#[derive(Deserialize)]
struct Reply {
    results: Vec<Value>,
}

impl Checker {
    /// Starts it with the Python at `python`, in which AgentDojo is installed.
    pub(super) fn start(python: &Path) -> anyhow::Result<Self> {
        let mut child = Command::new(python)
            .args(["-c", PROGRAM, VERSION])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", python.display()))?;
        let input = child.stdin.take();
        let output = child.stdout.take().context("Python has no output")?;
        Ok(Self {
            child,
            input,
            output: BufReader::new(output),
        })
    }

    /// Checks variants of one run; an error of AgentDojo's is a result as well.
    pub(super) fn check(
        &mut self,
        run: &Recording,
        script: &Script,
        variants: &[Variant],
    ) -> anyhow::Result<Vec<Result<Flags, String>>> {
        let variants: Vec<Value> = variants.iter().map(|it| variant(script, it)).collect();
        let question = json!({
            "id": 0,
            "suite": run.suite,
            "user_task": run.user_task,
            "injection_task": run.injection_task,
            "injections": run.injections,
            "variants": variants,
        });
        let input = self.input.as_mut().context("Python has ended")?;
        writeln!(input, "{question}")?;
        input.flush()?;
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            bail!("Python ended at {}; see its message above", run.name());
        }
        let reply: Reply = serde_json::from_str(&line)
            .with_context(|| format!("Python answers {line:?} to {}", run.name()))?;
        if reply.results.len() != variants.len() {
            bail!("Python leaves out results of {}", run.name());
        }
        let results = reply.results.iter().map(|result| flags(run, result));
        Ok(results.collect())
    }
}

impl Drop for Checker {
    /// Python ends when its input does.
    fn drop(&mut self) {
        self.input = None;
        // A child that cannot be waited for is gone.
        let _ = self.child.wait();
    }
}

fn variant(script: &Script, variant: &Variant) -> Value {
    let executed = |call: &&Call| variant.executed.contains(&call.number);
    let calls = script.calls().filter(executed).map(|call| {
        let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
        json!({"function": call.tool, "args": arguments})
    });
    json!({"calls": calls.collect::<Vec<_>>(), "answer": variant.answer})
}

fn flags(run: &Recording, result: &Value) -> Result<Flags, String> {
    if let Some(error) = result.get("error") {
        return Err(error.as_str().unwrap_or("unknown").to_owned());
    }
    let flag = |name: &str| result.get(name).and_then(Value::as_bool);
    let utility = flag("utility").ok_or("no utility")?;
    let reached = match run.is_attack() {
        false => None,
        // AgentDojo's own definition of these attacks' success.
        true if run.is_denial_of_service() => Some(!utility),
        true => Some(flag("security").ok_or("no security")?),
    };
    Ok(Flags {
        utility,
        attack_succeeded: reached,
    })
}

/// The Python to check with: none, or the path of one that has AgentDojo.
pub(super) fn checkers(
    python: Option<&PathBuf>,
    number: usize,
) -> anyhow::Result<Vec<Option<Checker>>> {
    let start = |_| python.map(|path| Checker::start(path)).transpose();
    (0..number).map(start).collect()
}
