//! The hub's part: starts spokes, asks them to try things. Also a program of its own (`hub …`), to be run as another user,
//! to be killed, or to find a layer missing.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::Duration;

use sandbox::{Layer, Sandboxed, Spec};
use serde::{Deserialize, Serialize};

use crate::Outcome;
use crate::spoke::{Answer, Attempt};

/// How long a spoke may take for one attempt.
const PATIENCE: Duration = Duration::from_secs(60);

/// A spoke with its channel.
pub(crate) struct Spoke {
    pub(crate) sandboxed: Sandboxed,
    channel: BufReader<UnixStream>,
}

impl Spoke {
    pub(crate) fn start(spec: &Spec) -> Outcome<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_read_timeout(Some(PATIENCE))?;
        let sandboxed = sandbox::spawn(spec, &std::env::current_exe()?, OwnedFd::from(theirs))?;
        Ok(Self {
            sandboxed,
            channel: BufReader::new(ours),
        })
    }

    /// Has the spoke try something.
    pub(crate) fn attempt(&mut self, attempt: &Attempt) -> Outcome<Answer> {
        self.send(attempt)?;
        let mut answer = String::new();
        self.channel.read_line(&mut answer)?;
        if answer.is_empty() {
            let mut said = String::new();
            if let Some(stderr) = self.sandboxed.take_stderr() {
                std::fs::File::from(stderr).read_to_string(&mut said)?;
            }
            return Err(format!("the spoke ended during {attempt:?}: {said}").into());
        }
        Ok(serde_json::from_str(&answer)?)
    }

    /// As [`Self::attempt`], and it has to succeed.
    pub(crate) fn allowed(&mut self, attempt: &Attempt) -> Outcome<String> {
        self.attempt(attempt)?
            .map_err(|error| format!("{attempt:?} was refused: {error}").into())
    }

    /// As [`Self::attempt`], and it has to fail.
    pub(crate) fn refused(&mut self, attempt: &Attempt) -> Outcome<String> {
        match self.attempt(attempt)? {
            Ok(answer) => Err(format!("{attempt:?} was allowed: {answer}").into()),
            Err(error) => Ok(error),
        }
    }

    /// Sends without waiting for an answer.
    pub(crate) fn send(&mut self, attempt: &Attempt) -> Outcome {
        let mut line = serde_json::to_string(attempt)?;
        line.push('\n');
        Ok(self.channel.get_mut().write_all(line.as_bytes())?)
    }
}

/// A job for a stand-in hub, as JSON in its argument.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    /// System calls that this kernel shall not have, each with a mask that the first argument has to hit (0: any).
    pub(crate) without: Vec<(i64, u64)>,
    pub(crate) spec: Spec,
    pub(crate) attempts: Vec<Attempt>,
    /// Instead of ending, print the answers and sleep.
    pub(crate) linger: bool,
    /// Instead of a spoke, probe.
    pub(crate) probe: bool,
}

/// What a stand-in hub prints.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) error: Option<String>,
    pub(crate) degraded: BTreeSet<Layer>,
    pub(crate) enforced: BTreeSet<Layer>,
    pub(crate) answers: Vec<Answer>,
    /// How all of the spoke together is bounded.
    pub(crate) whole_spoke: Option<String>,
    /// Of the spoke's two processes, on the host.
    pub(crate) pids: Vec<u32>,
}

pub(crate) fn main(arguments: Vec<String>) -> ExitCode {
    match serve(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "stand-in hub: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(arguments: &[String]) -> Outcome {
    let job: Job = serde_json::from_str(arguments.first().ok_or("no job")?)?;
    take_away(&job.without)?;
    let mut report = Report {
        error: None,
        degraded: BTreeSet::new(),
        enforced: BTreeSet::new(),
        answers: Vec::new(),
        whole_spoke: None,
        pids: Vec::new(),
    };
    if job.probe {
        for status in sandbox::probe(&std::env::current_exe()?)? {
            let set = if status.available.is_ok() {
                &mut report.enforced
            } else {
                &mut report.degraded
            };
            set.insert(status.layer);
        }
        writeln!(std::io::stdout(), "{}", serde_json::to_string(&report)?)?;
        return Ok(());
    }
    let mut spoke = match Spoke::start(&job.spec) {
        Ok(spoke) => Some(spoke),
        Err(error) => {
            report.error = Some(error.to_string());
            None
        }
    };
    if let Some(spoke) = &mut spoke {
        report.whole_spoke = Some(spoke.sandboxed.whole_spoke().to_string());
        report
            .enforced
            .extend(spoke.sandboxed.enforced().layers.keys());
        report
            .degraded
            .extend(spoke.sandboxed.enforced().degraded.keys());
        for attempt in &job.attempts {
            report.answers.push(spoke.attempt(attempt)?);
        }
    }
    writeln!(std::io::stdout(), "{}", serde_json::to_string(&report)?)?;
    if job.linger {
        // Until killed; the spoke stays alive as long as it is held here.
        std::thread::sleep(PATIENCE);
    }
    Ok(())
}

/// Makes this process's kernel one that lacks some calls, for it and all that it starts, and for good: a filter that
/// refuses them. This is how a container's own profile looks from inside.
fn take_away(calls: &[(i64, u64)]) -> Outcome {
    use seccompiler::{
        SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
        SeccompRule, apply_filter,
    };
    if calls.is_empty() {
        return Ok(());
    }
    let mut rules = std::collections::BTreeMap::<i64, Vec<SeccompRule>>::new();
    for (call, mask) in calls {
        let entry = rules.entry(*call).or_default();
        if *mask != 0 {
            let hit = SeccompCondition::new(
                0,
                SeccompCmpArgLen::Dword,
                SeccompCmpOp::MaskedEq(*mask),
                *mask,
            )?;
            entry.push(SeccompRule::new(vec![hit])?);
        }
    }
    let missing = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
    let arch = std::env::consts::ARCH.try_into()?;
    let filter: seccompiler::BpfProgram =
        SeccompFilter::new(rules, SeccompAction::Allow, missing, arch)?.try_into()?;
    Ok(apply_filter(&filter)?)
}
