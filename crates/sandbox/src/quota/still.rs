//! A spoke held still while its folders are measured, and the proof that it was.
//!
//! Files that are moved while a tree is read can stand behind the reader at every moment, and descriptors can be handed
//! from a process that was not looked at to one that was. So all processes of the spoke are stopped. That alone is no proof:
//! a timer can have its process continued (`SIGCONT`), and what starts in the middle may not be seen. But a thread that has
//! run has left a processor once more than before, so whether any of them did is known afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::processes::{Process, Processes, is_gone, numbers};

/// How long it may take until all threads have stopped. Each needs a moment of a processor for it, and a machine may have
/// much else to do; a thread that waits for a disk counts as one that does nothing.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it is looked at until then.
const LOOK: Duration = Duration::from_millis(1);

/// By process and thread, how often it has left a processor.
type Rest = BTreeMap<(u32, u32), u64>;

/// A spoke of which nothing runs. It goes on when this is dropped.
pub(super) struct Still<'p> {
    processes: &'p Processes,
    /// Those that were stopped here. What the app had stopped itself stays so.
    stopped: BTreeSet<u32>,
    rest: Rest,
}

/// What one look at a thread has found; of a process, what most speaks against it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    /// It does not run before it gets a signal.
    Stopped,
    /// It runs when the kernel has done what it waits for.
    Waiting,
    /// It may run.
    Running,
}

impl<'p> Still<'p> {
    /// Stops a spoke.
    ///
    /// # Errors
    /// It does not stop, or nobody can tell.
    pub(super) fn hold(processes: &'p Processes) -> Result<Self, String> {
        let mut still = Self {
            processes,
            stopped: BTreeSet::new(),
            rest: Rest::new(),
        };
        let deadline = Instant::now() + PATIENCE;
        let mut before = None;
        loop {
            let now = still.look(true)?;
            // Two looks: what was started before the first one had ended is in the second.
            if let Some(rest) = now.clone().filter(|_| now == before) {
                still.rest = rest;
                return Ok(still);
            }
            if Instant::now() > deadline {
                return Err("its processes cannot be held still".to_owned());
            }
            before = now;
            std::thread::sleep(LOOK);
        }
    }

    /// Whether nothing of the spoke has run since it was stopped.
    pub(super) fn has_held(&mut self) -> Result<bool, String> {
        Ok(self.look(false)?.as_ref() == Some(&self.rest))
    }

    /// How often each thread has left a processor; `None` if one may run, or has ended just now.
    fn look(&mut self, stop: bool) -> Result<Option<Rest>, String> {
        let mut rest = Some(Rest::new());
        for number in self.processes.numbers()? {
            // Whoever ends may have started another one, with a number that was passed already.
            let Some(process) = self.processes.open(number)? else {
                rest = None;
                continue;
            };
            let (state, threads) = threads(&process)?;
            match &mut rest {
                Some(rest) if state != State::Running => {
                    let threads = threads.into_iter();
                    rest.extend(threads.map(|(thread, left)| ((number, thread), left)));
                }
                _ => rest = None,
            }
            // At each look anew: one that was started or continued since the last one is stopped as well.
            if stop && state != State::Stopped {
                self.stopped.insert(number);
                process.signal(Signal::STOP)?;
            }
        }
        Ok(rest)
    }
}

impl Drop for Still<'_> {
    fn drop(&mut self) {
        for number in &self.stopped {
            // What cannot be continued is gone.
            if let Ok(Some(process)) = self.processes.open(*number) {
                let _ = process.signal(Signal::CONT);
            }
        }
    }
}

fn threads(process: &Process) -> Result<(State, BTreeMap<u32, u64>), String> {
    let mut threads = BTreeMap::new();
    let tasks = process.path().join("task");
    let mut state = State::Stopped;
    // Without threads it is gone, and what it has started meanwhile is looked for once more.
    let Ok(listed) = numbers(&tasks) else {
        return Ok((State::Running, threads));
    };
    for thread in listed {
        match of_thread(&tasks.join(thread.to_string()))? {
            Some((its, left)) => {
                threads.insert(thread, left);
                state = state.max(its);
            }
            None => state = State::Running,
        }
    }
    Ok((state, threads))
}

/// What a thread does, and how often it has left a processor; `None` if it is gone.
fn of_thread(thread: &Path) -> Result<Option<(State, u64)>, String> {
    match fs::read_to_string(thread.join("status")) {
        Ok(status) => match read(&status) {
            Some(read) => Ok(Some(read)),
            None => Err("the kernel does not say whether its processes run".to_owned()),
        },
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(format!("look at one of its threads: {error}")),
    }
}

fn read(status: &str) -> Option<(State, u64)> {
    let of = |name: &str| {
        let mut lines = status.lines();
        lines
            .find_map(|line| line.strip_prefix(name))
            .map(str::trim)
    };
    let left: u64 = of("voluntary_ctxt_switches:")?.parse().ok()?;
    let pushed: u64 = of("nonvoluntary_ctxt_switches:")?.parse().ok()?;
    let state = match of("State:")?.bytes().next()? {
        // Stopped by a signal or a debugger, or ended.
        b'T' | b't' | b'Z' | b'X' => State::Stopped,
        // In the kernel, for a disk or until a child of `vfork` has started: no signal wakes it but one that ends it.
        b'D' => State::Waiting,
        _ => State::Running,
    };
    Some((state, left.checked_add(pushed)?))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command, Stdio};

    use rustix::process::{Pid, PidfdFlags, kill_process_group, pidfd_open};

    use super::*;

    /// A shell with a child, which both do something all the time. They end with this.
    struct Busy {
        shell: Child,
        processes: Processes,
    }

    impl Busy {
        fn new() -> Self {
            let script = "while true; do :; done & while true; do /bin/true; done";
            let mut command = Command::new("/bin/sh");
            command.args(["-c", script]).stdin(Stdio::null());
            // A group of its own ends as a whole, whatever became of the test.
            command.process_group(0).stdout(Stdio::null());
            let shell = command.spawn().unwrap();
            let inner = pidfd_open(Pid::from_child(&shell), PidfdFlags::empty()).unwrap();
            let processes = Processes::of(inner);
            while processes.numbers().unwrap().len() < 2 {
                std::thread::sleep(LOOK);
            }
            Self { shell, processes }
        }

        fn runs(&self) -> bool {
            let numbers = self.processes.numbers().unwrap().into_iter();
            let processes = numbers.filter_map(|it| self.processes.open(it).unwrap());
            processes
                .map(|it| threads(&it).unwrap().0)
                .any(|it| it == State::Running)
        }
    }

    impl Drop for Busy {
        fn drop(&mut self) {
            let _ = kill_process_group(Pid::from_child(&self.shell), Signal::KILL);
            let _ = self.shell.wait();
        }
    }

    #[test]
    fn nothing_runs_while_it_is_held_and_all_does_afterwards() {
        let busy = Busy::new();
        for _ in 0..20 {
            let mut still = Still::hold(&busy.processes).unwrap();
            assert!(still.rest.len() >= 2, "{:?}", still.rest);
            std::thread::sleep(Duration::from_millis(20));
            assert!(still.has_held().unwrap());
            // Whoever is continued meanwhile is found out, whether it has stopped again or not.
            let send = |still: &Still<'_>, signal| {
                for number in &still.stopped {
                    let process = busy.processes.open(*number).unwrap();
                    process
                        .into_iter()
                        .for_each(|it| it.signal(signal).unwrap());
                }
            };
            send(&still, Signal::CONT);
            while still.has_held().unwrap() {
                std::thread::sleep(LOOK);
            }
            send(&still, Signal::STOP);
            std::thread::sleep(Duration::from_millis(20));
            assert!(!still.has_held().unwrap());
            drop(still);
            let deadline = Instant::now() + PATIENCE;
            while !busy.runs() {
                assert!(Instant::now() < deadline, "it does not go on");
            }
        }
    }

    #[test]
    fn what_the_app_has_stopped_itself_stays_so() {
        let busy = Busy::new();
        let number = busy.shell.id();
        let process = busy.processes.open(number).unwrap().unwrap();
        process.signal(Signal::STOP).unwrap();
        let is_stopped = || threads(&process).unwrap().0 == State::Stopped;
        while !is_stopped() {
            std::thread::sleep(LOOK);
        }
        let still = Still::hold(&busy.processes).unwrap();
        assert!(!still.stopped.contains(&number));
        drop(still);
        std::thread::sleep(Duration::from_millis(20));
        assert!(is_stopped());
        process.signal(Signal::CONT).unwrap();
    }

    #[test]
    fn a_strangers_process_is_not_opened() {
        let (busy, stranger) = (Busy::new(), Busy::new());
        for number in [stranger.shell.id(), std::process::id(), 1] {
            let opened = busy.processes.open(number).unwrap();
            assert!(opened.is_none(), "{number}");
        }
        assert!(busy.processes.open(busy.shell.id()).unwrap().is_some());
    }

    #[test]
    fn a_status_without_numbers_is_no_rest() {
        let status = "Name:\tx\nState:\tT (stopped)\nvoluntary_ctxt_switches:\t3\nnonvoluntary_ctxt_switches:\t4\n";
        assert!(matches!(read(status), Some((State::Stopped, 7))));
        let waits = status.replace("T (stopped)", "D (disk sleep)");
        assert!(matches!(read(&waits), Some((State::Waiting, 7))));
        let sleeps = status.replace("T (stopped)", "S (sleeping)");
        assert!(matches!(read(&sleeps), Some((State::Running, 7))));
        assert!(read(&status.replace("non", "")).is_none());
        assert!(read("State:\tT (stopped)\n").is_none());
    }
}
