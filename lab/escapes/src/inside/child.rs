//! Processes of their own for attempts.

use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, kill_process_group, wait, waitpid};

use crate::attempt::{Observed, escaped, failed, held};
use crate::kernel;

/// How long one attempt may take: many times what the longest takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(20);

/// Runs something in a process of its own, and takes all that it started along.
pub(super) fn in_a_process(code: impl FnOnce() -> Observed) -> Observed {
    match try_in_a_process(code) {
        Ok(observed) => observed,
        // An attempt that was not made shows nothing; the suite fails by it.
        Err(error) => failed(error),
    }
}

fn try_in_a_process(code: impl FnOnce() -> Observed) -> io::Result<Observed> {
    let begun = Instant::now();
    let (mut ours, mut theirs) = io::pipe()?;
    let Some(child) = fork_when_possible(begun)? else {
        drop(ours);
        // A group of its own, by which what it leaves behind is found.
        let _ = rustix::process::setpgid(None, None);
        let mut said = serde_json::to_vec(&code()).unwrap_or_default();
        said.push(b'\n');
        let sent = theirs.write_all(&said);
        std::process::exit(i32::from(sent.is_err()));
    };
    drop(theirs);
    let child = Pid::from_raw(child).ok_or_else(|| io::Error::other("no child"))?;
    let mut said = Vec::new();
    let mut portion = [0; 4096];
    // Until its line is there: what it started may hold the pipe open.
    while !said.ends_with(b"\n") {
        let left = Timespec::try_from(DEADLINE.saturating_sub(begun.elapsed())).ok();
        let mut descriptors = [PollFd::new(&ours, PollFlags::IN)];
        if rustix::io::retry_on_intr(|| poll(&mut descriptors, left.as_ref()))? == 0 {
            break;
        }
        match ours.read(&mut portion)? {
            0 => break,
            length => said.extend(portion.iter().take(length)),
        }
    }
    let _ = kill_process_group(child, Signal::KILL);
    // By its own id too: it may not have come to make its group.
    let _ = kill_process(child, Signal::KILL);
    let status = rustix::io::retry_on_intr(|| waitpid(Some(child), WaitOptions::empty()))?;
    Ok(match serde_json::from_slice(&said) {
        Ok(observed) => observed,
        Err(_) => match status.and_then(|(_, status)| status.terminating_signal()) {
            Some(signal) if begun.elapsed() < DEADLINE => held(format!("ended by signal {signal}")),
            _ => failed("without an end"),
        },
    })
}

/// Forks as soon as what earlier attempts started is gone.
fn fork_when_possible(begun: Instant) -> io::Result<Option<i32>> {
    loop {
        // Where this is process 1, orphans become its children.
        while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
        match kernel::fork() {
            Err(error) if begun.elapsed() > DEADLINE => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
            forked => return forked,
        }
    }
}

/// What a child process of an attempt said by its exit code: 0 for "gained".
pub(super) fn by_a_child(gained: &str, code: impl FnOnce() -> bool) -> Observed {
    match kernel::fork() {
        Ok(None) => std::process::exit(i32::from(!code())),
        Ok(Some(child)) => match Pid::from_raw(child)
            .map(|child| rustix::io::retry_on_intr(|| waitpid(Some(child), WaitOptions::empty())))
        {
            Some(Ok(Some((_, status)))) if status.exit_status() == Some(0) => escaped(gained),
            Some(Ok(Some((_, status)))) => held(format!("{status:?}")),
            _ => failed("no child"),
        },
        Err(error) => failed(error),
    }
}
