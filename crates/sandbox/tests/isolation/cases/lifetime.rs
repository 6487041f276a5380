//! When a spoke ends, and that nothing stays behind.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use sandbox::{SandboxError, Spec};

use super::common::{check, equal, job, stand_in, wait_for};
use crate::Outcome;
use crate::hub::{Job, Report, Spoke};
use crate::spoke::Attempt;

pub(super) fn the_exit_code_is_forwarded() -> Outcome {
    let mut spoke = Spoke::start(&Spec::default())?;
    equal("still running", spoke.sandboxed.try_wait()?, None)?;
    spoke.send(&Attempt::Exit(7))?;
    equal("code", spoke.sandboxed.wait()?.code(), Some(7))
}

/// Starts a spoke with a daemon in it, found on the host by a mark; the mark is a number of seconds to sleep.
fn with_daemon(mark: &str) -> Outcome<Spoke> {
    let mut spoke = Spoke::start(&Spec::default())?;
    spoke.allowed(&Attempt::Daemon(mark.to_owned()))?;
    wait_for("the daemon", || alive(mark))?;
    Ok(spoke)
}

/// Whether a process with `mark` among its arguments runs on this machine.
fn alive(mark: &str) -> bool {
    let Ok(processes) = fs::read_dir("/proc") else {
        return false;
    };
    processes.flatten().any(|process| {
        let arguments = fs::read(process.path().join("cmdline")).unwrap_or_default();
        arguments
            .split(|byte| *byte == 0)
            .any(|argument| argument == mark.as_bytes())
    })
}

/// A mark that no other case and no other run uses.
fn mark(case: u32) -> String {
    format!("{}.{case}", 100_000 + std::process::id())
}

pub(super) fn kill_takes_grandchildren_along() -> Outcome {
    let mark = mark(1);
    let mut spoke = with_daemon(&mark)?;
    spoke.sandboxed.kill()?;
    spoke.sandboxed.kill()?;
    let status = spoke.sandboxed.wait()?;
    check(!alive(&mark), "the grandchild outlived the wait")?;
    equal(
        "signal",
        std::os::unix::process::ExitStatusExt::signal(&status),
        Some(libc::SIGKILL),
    )?;
    spoke.sandboxed.kill()?;
    Ok(())
}

pub(super) fn drop_leaves_nothing() -> Outcome {
    let mark = mark(2);
    let spoke = with_daemon(&mark)?;
    let pid = spoke.sandboxed.pid();
    drop(spoke);
    check(!alive(&mark), "the grandchild outlived the drop")?;
    check(
        !Path::new(&format!("/proc/{pid}")).exists(),
        "the waiting process was not reaped",
    )
}

pub(super) fn the_end_of_the_spoke_ends_all() -> Outcome {
    let mark = mark(3);
    let mut spoke = with_daemon(&mark)?;
    spoke.send(&Attempt::Exit(0))?;
    let pidfd = spoke.sandboxed.as_fd().try_clone_to_owned()?;
    let mut descriptors = [rustix::event::PollFd::new(
        &pidfd,
        rustix::event::PollFlags::IN,
    )];
    let second = rustix::event::Timespec {
        tv_sec: 1,
        tv_nsec: 0,
    };
    equal(
        "pidfd readable",
        rustix::event::poll(&mut descriptors, Some(&second))?,
        1,
    )?;
    check(!alive(&mark), "the grandchild outlived the spoke")?;
    equal("code", spoke.sandboxed.wait()?.code(), Some(0))
}

pub(super) fn the_end_of_the_calling_thread_ends_nothing() -> Outcome {
    let started = std::thread::spawn(|| Spoke::start(&Spec::default())).join();
    let mut spoke = started.map_err(|_| "the thread panicked")??;
    std::thread::sleep(Duration::from_millis(50));
    spoke.allowed(&Attempt::Identity)?;
    Ok(())
}

pub(super) fn dies_with_the_hub() -> Outcome {
    let mark = mark(4);
    let attempts = vec![Attempt::Daemon(mark.clone())];
    let job = Job {
        linger: true,
        ..job(&[], &[], attempts)
    };
    let mut hub = stand_in(&job, &[], &std::env::current_exe()?)?.spawn()?;
    let mut line = String::new();
    BufReader::new(hub.stdout.take().ok_or("no output")?).read_line(&mut line)?;
    wait_for("the daemon", || alive(&mark))?;
    let report: Report = serde_json::from_str(&line)?;
    hub.kill()?;
    hub.wait()?;
    wait_for("the end of the grandchild", || !alive(&mark))?;
    for pid in report.pids {
        // Gone, or dead and waiting to be reaped by the machine's process 1.
        let gone = || match fs::read_to_string(format!("/proc/{pid}/stat")) {
            Ok(stat) => stat.contains(") Z ") || stat.contains(") X "),
            Err(_) => true,
        };
        wait_for("the end of the spoke", gone)?;
    }
    Ok(())
}

pub(super) fn a_wrong_program_is_reported() -> Outcome {
    let start = |program: &str| -> Outcome<SandboxError> {
        let (_ours, theirs) = UnixStream::pair()?;
        match sandbox::spawn(&Spec::default(), Path::new(program), OwnedFd::from(theirs)) {
            Ok(_) => Err(format!("{program} became a spoke").into()),
            Err(error) => Ok(error),
        }
    };
    let missing = start("/no/such/program")?;
    check(
        matches!(missing, SandboxError::Execute { .. }),
        missing.to_string(),
    )?;
    let silent = start("/bin/false")?;
    check(matches!(silent, SandboxError::Died(_)), silent.to_string())?;
    let spec = Spec {
        workdir: "/no/such/directory".into(),
        ..Spec::default()
    };
    let error = Spoke::start(&spec)
        .err()
        .ok_or("started nowhere")?
        .to_string();
    check(error.contains("/no/such/directory"), error)
}
