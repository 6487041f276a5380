//! A program that the user works with, in the place of an app: it has this process's standard streams.

use std::convert::Infallible;
use std::io;
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use rustix::fs::{Mode, OFlags};
use rustix::termios::{isatty, tcgetpgrp, tcsetpgrp};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{MissedTickBehavior, interval};
use wire::{AppCommand, FailureReason, HubFrame, Quote, SpokeFault, SpokeFrame};

use super::{Hub, Outcome};
use crate::orphans::Reaper;

/// Signals of children can merge.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

impl Hub {
    /// Runs the program until its end, which the last frame reports. What it leaves behind ends with this process.
    pub(super) async fn run(
        &mut self,
        command: &AppCommand,
        orphans: &Reaper,
    ) -> Result<Infallible, Outcome> {
        let internal = |_| FailureReason::Spoke(SpokeFault::Internal);
        // Before the program, whose end could be missed otherwise.
        let started = signal(SignalKind::child()).map_err(internal);
        let started = started.and_then(|children| Ok((children, Program::start(command)?)));
        let (mut children, program) = match started {
            Ok(started) => started,
            Err(reason) => return Err(self.ended(reason).await),
        };
        // Nothing is awaited since its start: the reaper would take its end for an orphan's.
        orphans.spare(program.0.as_raw().unsigned_abs());
        self.send(&SpokeFrame::Running).await?;
        let mut clock = interval(LOOK_AGAIN);
        clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            match program.look() {
                Some(Look::Ended(reason)) => return Err(self.ended(reason).await),
                Some(Look::Stopped(signal)) => self.send(&SpokeFrame::Stopped { signal }).await?,
                None => {}
            }
            tokio::select! {
                _ = children.recv() => {}
                _ = clock.tick() => {}
                frame = self.inbox.next() => match frame? {
                    Some(HubFrame::Signal { signal }) => program.signal(signal),
                    None | Some(HubFrame::Stop) => return Err(Outcome::Stopped),
                    Some(_) => return Err(Outcome::BadFrame),
                },
            }
        }
    }

    async fn ended(&self, reason: FailureReason) -> Outcome {
        let stderr = Quote::default();
        self.report(mcp::AppFailure { reason, stderr }).await
    }
}

/// What has become of a program.
enum Look {
    Ended(FailureReason),
    Stopped(u8),
}

/// A running program, which leads a process group of its own: the keys of its terminal reach it and not this process.
struct Program(Pid);

impl Program {
    fn start(command: &AppCommand) -> Result<Self, FailureReason> {
        use std::os::unix::process::CommandExt;

        let failed = |error: &io::Error| FailureReason::SpawnFailed(error.raw_os_error());
        let (program, arguments) = command
            .argv
            .split_first()
            .ok_or(FailureReason::SpawnFailed(None))?;
        let child = Command::new(program)
            .args(arguments)
            .env_clear()
            .envs(&command.env)
            .current_dir(&command.cwd)
            .process_group(0)
            .spawn()
            .map_err(|error| failed(&error))?;
        let pid = i32::try_from(child.id()).map_err(|_| FailureReason::SpawnFailed(None))?;
        let program = Self(Pid::from_raw(pid));
        match program.take_foreground() {
            true => Ok(program),
            // It would wait for a terminal that it never gets.
            false => Err(FailureReason::Spoke(SpokeFault::Internal)),
        }
    }

    /// Gives the program the terminal, if there is one, and else leaves the streams to it: where this process held them as
    /// well, their ends would not show.
    fn take_foreground(&self) -> bool {
        let group = rustix::process::Pid::from_raw(self.0.as_raw());
        if let (Some(terminal), Some(group)) = (terminal(), group) {
            return tcsetpgrp(terminal, group).is_ok();
        }
        let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
        let replaced = null.and_then(|null| {
            rustix::stdio::dup2_stdin(&null)?;
            rustix::stdio::dup2_stdout(&null)?;
            rustix::stdio::dup2_stderr(&null)
        });
        replaced.is_ok()
    }

    /// How it has ended or was stopped since the last look.
    fn look(&self) -> Option<Look> {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WSTOPPED | WaitPidFlag::WNOHANG;
        let (status, signal) = match waitid(Id::Pid(self.0), flags) {
            Ok(WaitStatus::StillAlive) => return None,
            Ok(WaitStatus::Exited(_, status)) => (Some(status), None),
            Ok(WaitStatus::Signaled(_, signal, _)) => (None, Some(signal as i32)),
            Ok(WaitStatus::Stopped(_, signal)) => {
                let waits = matches!(signal, Signal::SIGTTIN | Signal::SIGTTOU);
                if waits && self.is_foreground() {
                    // It asked for the terminal before it was given that.
                    self.signal(Signal::SIGCONT as u8);
                    return None;
                }
                return Some(Look::Stopped(signal as u8));
            }
            // There is no such child any more.
            _ => (None, None),
        };
        Some(Look::Ended(FailureReason::AppExited { status, signal }))
    }

    fn is_foreground(&self) -> bool {
        let group = terminal().and_then(|terminal| tcgetpgrp(terminal).ok());
        group.is_some_and(|group| group.as_raw_nonzero().get() == self.0.as_raw())
    }

    fn signal(&self, signal: u8) {
        if let Ok(signal) = Signal::try_from(i32::from(signal)) {
            // Refused only if it has ended already.
            let _ = killpg(self.0, signal);
        }
    }
}

/// The terminal among the standard streams.
fn terminal() -> Option<rustix::fd::BorrowedFd<'static>> {
    use rustix::stdio::{stderr, stdin, stdout};

    let streams = [stdin(), stdout(), stderr()];
    streams.into_iter().find(|stream| isatty(stream))
}
