//! `sluice` as a child process: the very program that users run.

use std::env;
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use super::world::World;
use crate::progress::Progress;
use crate::terminal::print;

/// How `sluice` ends when it is interrupted.
const INTERRUPTED: i32 = 130;

/// The binary `sluice`.
pub(super) struct Sluice(PathBuf);

/// What a session came to, by the events that it printed.
#[derive(Debug, Default)]
pub(super) struct Session {
    /// The final answer, if there was one.
    pub(super) answer: Option<String>,
    /// Questions to the user. Nobody is there, so each answer was no.
    pub(super) questions: usize,
    /// Whether it was ended by Ctrl-C.
    pub(super) interrupted: bool,
}

impl Sluice {
    /// The one beside this program.
    ///
    /// # Errors
    /// It was not built.
    pub(super) fn find() -> Result<Self> {
        Ok(Self(binary("sluice")?))
    }

    /// One query to its end. `forward` prints each event as it comes.
    ///
    /// # Errors
    /// `sluice` cannot be started, or what it prints is no event.
    pub(super) async fn run(
        &self,
        world: &World,
        query: &str,
        arguments: &[&str],
        forward: bool,
    ) -> Result<Session> {
        let progress = Progress::new();
        progress.say("loading the model");
        let mut command = self.command(world);
        command.args(["run", "--json", "--config"]);
        command.arg(world.config()).args(arguments).arg(query);
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take().context("no output to read")?;
        let mut lines = BufReader::new(stdout).lines();
        let mut session = Session::default();
        while let Some(line) = lines.next_line().await? {
            if forward {
                print(&line)?;
            }
            let record: Value = serde_json::from_str(&line)
                .with_context(|| format!("`sluice run` printed no event: {line}"))?;
            session.read(record.get("event").unwrap_or(&Value::Null), &progress);
        }
        progress.clear();
        session.interrupted = child.wait().await?.code() == Some(INTERRUPTED);
        Ok(session)
    }

    /// Prints the trace of the last session for people.
    ///
    /// # Errors
    /// There is none.
    pub(super) async fn show_trace(&self, world: &World) -> Result<()> {
        let mut command = self.command(world);
        let status = command.args(["trace", "show", "latest"]).status().await?;
        if !status.success() {
            bail!("`sluice trace show` ended with {status}");
        }
        Ok(())
    }

    /// `sluice` in the world's home, with nobody at its terminal and no key of the user's.
    fn command(&self, world: &World) -> Command {
        let mut command = Command::new(&self.0);
        command.stdin(Stdio::null()).kill_on_drop(true);
        command.env("XDG_STATE_HOME", world.state());
        command.env_remove("OPENAI_API_KEY");
        command
    }
}

impl Session {
    fn read(&mut self, event: &Value, progress: &Progress) {
        let text = |name: &str| event.get(name).and_then(Value::as_str);
        match text("kind") {
            Some("asked") => self.questions += 1,
            Some("answer") => self.answer = text("text").map(str::to_owned),
            Some("user" | "returned") => progress.say("the model thinks"),
            _ => {}
        }
    }
}

/// Another binary of this project: in `$SLUICE_BIN_DIR`, or beside this one.
///
/// # Errors
/// It is not there.
pub(super) fn binary(name: &str) -> Result<PathBuf> {
    let own = env::current_exe().context("cannot find out where this program is")?;
    let beside = env::var_os("SLUICE_BIN_DIR").map(PathBuf::from);
    let beside = beside.or_else(|| Some(own.parent()?.to_owned()));
    let path = beside.unwrap_or_default().join(name);
    if !path.is_file() {
        bail!(
            "{} is missing; `cargo xtask demo` builds it",
            path.display()
        );
    }
    Ok(path)
}
