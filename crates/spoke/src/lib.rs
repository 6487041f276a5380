//! The spoke process: hosts one app and bridges hub frames to MCP.
//!
//! A spoke decides nothing. It starts one unmodified MCP stdio server, answers the hub's frames, and reports
//! with a typed reason when the app breaks a limit or is gone. It is process 1 of its sandbox: it reaps the
//! orphans of the app, and when it ends everything in the sandbox ends.

mod asks;
mod files;
mod inbox;
mod orphans;
mod session;

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use rustix::io::FdFlags;
use rustix::process::{DumpableBehavior, getpid, set_child_subreaper, set_dumpable_behavior};

pub use session::Outcome;

/// Threads for checking arguments against schemas. An app's schema can hold one for long; with none free
/// a call ends by its own time limit.
const CHECKING_THREADS: usize = 4;

/// Exit codes, for the hub's diagnosis. What happened is in the frames.
pub mod exit {
    /// The hub said stop, or closed the channel.
    pub const STOPPED: u8 = 0;
    /// The command line is wrong, or this was not started by a hub.
    pub const USAGE: u8 = 2;
    /// The app is gone; the last frame says why.
    pub const APP_FAILED: u8 = 10;
    /// The hub sent something that is not a frame of this version.
    pub const BAD_FRAME: u8 = 11;
    /// The spoke could not set itself up.
    pub const SET_UP: u8 = 12;
}

/// The program `sluice-spoke`: first builds the sandbox, then runs inside it.
#[must_use]
pub fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    match arguments.as_slice() {
        [stage] if stage == OsStr::new(sandbox::INIT_ARGUMENT) => sandbox::init_main(),
        [stage] if stage == OsStr::new(sandbox::SPOKE_ARGUMENT) => {
            match sandbox::inherited_channel() {
                Ok(channel) => run(channel),
                Err(error) => usage(&error.to_string()),
            }
        }
        _ => usage("sluice-spoke is started by sluice and takes no other arguments"),
    }
}

fn usage(problem: &str) -> ExitCode {
    // The exit code reports the problem too, so a failed write is ignored.
    let _ = writeln!(io::stderr(), "sluice-spoke: {problem}");
    ExitCode::from(exit::USAGE)
}

/// The whole life of a spoke: serves the hub on `channel` until the app is gone, the hub says stop, or the
/// hub is gone. The result is one of [`exit`]. No app outlives it.
#[must_use]
pub fn run(channel: OwnedFd) -> ExitCode {
    ExitCode::from(match host(channel) {
        Ok(Outcome::Stopped) => exit::STOPPED,
        Ok(Outcome::AppFailed) => exit::APP_FAILED,
        Ok(Outcome::BadFrame) => exit::BAD_FRAME,
        Err(_) => exit::SET_UP,
    })
}

fn host(channel: OwnedFd) -> io::Result<Outcome> {
    harden(&channel)?;
    let stream = UnixStream::from(channel);
    stream.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(CHECKING_THREADS)
        .build()?;
    let outcome = runtime.block_on(async {
        let orphans = orphans::Reaper::start()?;
        Ok(session::serve(tokio::net::UnixStream::from_std(stream)?, &orphans).await)
    });
    // A schema check may still run; its thread ends with the process.
    runtime.shutdown_background();
    outcome
}

/// Before any app runs: it has the same user, so it must not be able to read our memory or inherit our
/// channel, and its orphans must come to us.
fn harden(channel: &OwnedFd) -> io::Result<()> {
    rustix::io::fcntl_setfd(channel, FdFlags::CLOEXEC)?;
    // Else the app could attach to this process (`ptrace`), or read `/proc/PID/mem` and `/proc/PID/fd`.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    // Process 1 of a namespace gets all orphans without asking.
    if !getpid().is_init() {
        set_child_subreaper(Some(getpid()))?;
    }
    Ok(())
}
