//! The agent's process.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

use super::agent::var;

/// Variables of the user's terminal and language, and where programs are. The agent gets no others but those of `--env`.
const CARRIED: &str = "PATH TERM COLORTERM TERM_PROGRAM TERM_PROGRAM_VERSION NO_COLOR FORCE_COLOR LANG LANGUAGE TZ USER \
    LOGNAME SHELL EDITOR VISUAL PAGER COLUMNS LINES";
/// How long the agent may take to end after SIGTERM.
const GOODBYE: Duration = Duration::from_secs(5);

/// What is started.
pub(super) struct Launch {
    /// In the place of standard input.
    pub(super) input: Option<OwnedFd>,
    pub(super) program: PathBuf,
    pub(super) args: Vec<String>,
    pub(super) env: BTreeMap<String, String>,
}

/// The variables of the user's that an agent gets in any case, those that the user names, and its home.
pub(super) fn environment(named: &[String], home: &Path) -> Result<BTreeMap<String, String>> {
    let mut env: BTreeMap<String, String> = std::env::vars()
        .filter(|(name, _)| {
            CARRIED.split_whitespace().any(|carried| carried == name) || name.starts_with("LC_")
        })
        .collect();
    env.insert("HOME".to_owned(), home.to_string_lossy().into_owned());
    for entry in named {
        let (name, value) = match entry.split_once('=') {
            Some((name, value)) => (name, value.to_owned()),
            None => {
                let value = var(entry);
                let missing = || {
                    format!(
                        "the variable {entry} of --env is not set; export it, or write {entry}=VALUE"
                    )
                };
                (entry.as_str(), value.with_context(missing)?)
            }
        };
        env.insert(name.to_owned(), value);
    }
    Ok(env)
}

/// Runs the agent outside of any sandbox, with the terminal or the pipes of this program. Ctrl-C is the agent's; SIGTERM and a
/// closed terminal end it.
pub(super) async fn unconfined(launch: Launch) -> Result<u8> {
    let mut command = Command::new(&launch.program);
    command.args(&launch.args).env_clear().envs(&launch.env);
    command.stdin(launch.input.map_or_else(Stdio::inherit, Stdio::from));
    let mut child = command.kill_on_drop(true).spawn();
    let child = child.as_mut().map_err(|error| {
        let program = launch.program.display();
        anyhow::anyhow!("{program} does not start: {error}")
    })?;
    let mut interrupts = signal(SignalKind::interrupt())?;
    let mut terminations = signal(SignalKind::terminate())?;
    let mut hangups = signal(SignalKind::hangup())?;
    loop {
        tokio::select! {
            ended = child.wait() => return Ok(code(ended?)),
            // The terminal sends it to the agent as well.
            _ = interrupts.recv() => {}
            _ = terminations.recv() => break,
            _ = hangups.recv() => break,
        }
    }
    if let Some(pid) = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed())) {
        // It may have ended meanwhile.
        let _ = kill_process(pid, Signal::TERM);
    }
    match tokio::time::timeout(GOODBYE, child.wait()).await {
        Ok(ended) => drop(ended?),
        Err(_) => child.kill().await?,
    }
    Ok(crate::exit::Exit::Terminated.number())
}

/// As a shell says it: the code, or 128 and the signal.
fn code(status: ExitStatus) -> u8 {
    let signal = || status.signal().map_or(1, |signal| signal + 128);
    u8::try_from(status.code().unwrap_or_else(signal)).unwrap_or(1)
}
