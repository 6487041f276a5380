//! A spoke of which every process is stopped by a signal, and the proof that none has run since.
//!
//! Files that are moved while a tree is read can stand behind the reader at every moment, and descriptors can be handed
//! from a process that was not looked at to one that was. So all processes of the spoke are stopped. That alone is no proof:
//! a timer or another process can have it continued (`SIGCONT`), and what starts in the middle may not be seen. But a thread
//! that has run has left a processor once more than before, so whether any of them did is known afterwards.
//!
//! A spoke that is continued as soon as it is stopped is never still. It is told from one that is slow to stop by what only
//! a continued one shows ([`Seen::ran_on`]), and given up after [`RESTLESS`] looks of that kind.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use rustix::process::Signal;

use super::processes::{Process, Processes, is_ending, is_gone, numbers};

/// At so many looks processes may have run on after they were stopped. One that is continued once (a shell's job control), or
/// starts a child before the signal reaches it, shows that at one look, and chains of such children are some ten long
/// (a shell, `make`, a compiler, its linker). A spoke that continues itself shows it at nearly every look, of which there are
/// some hundred in a second.
const RESTLESS: u32 = 20;

/// By process and thread, how often it has left a processor.
type Rest = BTreeMap<(u32, u32), u64>;

/// The processes of a spoke, told to stop. They go on when this is dropped.
pub(super) struct Stop<'p> {
    processes: &'p Processes,
    /// Those that were stopped here. What the app had stopped itself stays so.
    stopped: BTreeSet<u32>,
    /// What the last look has found.
    before: Option<Seen>,
    rest: Rest,
    /// Looks by which processes ran on.
    restless: u32,
}

/// What one look at a thread has found; of a process, what most speaks against it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    /// It has ended, and is still listed.
    Dead,
    /// It does not run before it gets a signal.
    Stopped,
    /// It runs when the kernel has done what it waits for.
    Waiting,
    /// It may run.
    Running,
}

/// A thread at one look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Thread {
    state: State,
    /// How often it has left a processor.
    left: u64,
    /// It was told to stop, and has not come to it. Nothing but that can be said of a thread in a long system call.
    to_stop: bool,
    /// It was told to end, by a thread of its process that ends or executes a program: the kernel may drop a stop then.
    to_end: bool,
    /// It is ending, which can take long and cannot be stopped.
    is_ending: bool,
}

/// A process at one look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Shown {
    threads: BTreeMap<u32, Thread>,
    /// It was told to stop after this look at it.
    told: bool,
}

/// A spoke at one look.
#[derive(Debug, Default)]
struct Seen {
    processes: BTreeMap<u32, Shown>,
    /// A process or thread was gone when it was looked at. It may have started another one, with a number that was passed
    /// already.
    some_gone: bool,
}

impl<'p> Stop<'p> {
    pub(super) fn of(processes: &'p Processes) -> Self {
        Self {
            processes,
            stopped: BTreeSet::new(),
            before: None,
            rest: Rest::new(),
            restless: 0,
        }
    }

    /// Whether all are stopped. What is not is told to stop.
    ///
    /// # Errors
    /// They run on although they were stopped, or nobody can tell.
    pub(super) fn is_reached(&mut self) -> Result<bool, String> {
        let now = self.look(true)?;
        let before = self.before.take();
        if before.as_ref().is_some_and(|before| now.ran_on(before)) {
            self.restless += 1;
        }
        if self.restless >= RESTLESS {
            let why = "its processes run on although they are stopped, again and again, as if a timer or another process continued them";
            return Err(why.to_owned());
        }
        // Two looks: what was started before the first one had ended is in the second.
        let before = before.and_then(|before| before.rest());
        let rest = now.rest().filter(|rest| Some(rest) == before.as_ref());
        self.before = Some(now);
        let is_reached = rest.is_some();
        self.rest = rest.unwrap_or_default();
        Ok(is_reached)
    }

    /// Whether nothing of the spoke has run since it was stopped.
    pub(super) fn has_held(&mut self) -> Result<bool, String> {
        Ok(self.look(false)?.rest().as_ref() == Some(&self.rest))
    }

    fn look(&mut self, stop: bool) -> Result<Seen, String> {
        let mut seen = Seen::default();
        for number in self.processes.numbers()? {
            let Some(process) = self.processes.open(number)? else {
                seen.some_gone = true;
                continue;
            };
            let (mut shown, some_gone) = threads(&process)?;
            seen.some_gone |= some_gone;
            // At each look anew: one that was started or continued since the last one is stopped as well.
            if stop && shown.state() > State::Stopped {
                self.stopped.insert(number);
                process.signal(Signal::STOP)?;
                shown.told = true;
            }
            seen.processes.insert(number, shown);
        }
        Ok(seen)
    }
}

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        for number in &self.stopped {
            // What cannot be continued is gone.
            if let Ok(Some(process)) = self.processes.open(*number) {
                let _ = process.signal(Signal::CONT);
            }
        }
    }
}

impl Seen {
    /// How often each thread has left a processor; `None` if one may run, or has ended just now.
    fn rest(&self) -> Option<Rest> {
        let runs = |shown: &Shown| shown.state() == State::Running;
        // Without processes it is gone, and rests for good.
        if self.some_gone || self.processes.values().any(runs) {
            return None;
        }
        let threads = self.processes.iter().flat_map(|(process, shown)| {
            let threads = shown.threads.iter();
            threads.map(|(thread, about)| ((*process, *thread), about.left))
        });
        Some(threads.collect())
    }

    /// Whether something shows that it cannot have run without having been continued, or before it was stopped.
    fn ran_on(&self, before: &Self) -> bool {
        let mut processes = self.processes.iter();
        processes.any(|(number, now)| match before.processes.get(number) {
            // What is told to stop starts no process before it has stopped.
            None => true,
            Some(before) => now.ran_on(before),
        })
    }
}

impl Shown {
    fn state(&self) -> State {
        let states = self.threads.values().map(|thread| thread.state);
        // Without threads it is gone, and what it has started meanwhile is looked for once more.
        states.max().unwrap_or(State::Running)
    }

    fn ran_on(&self, before: &Self) -> bool {
        // A thread that had stopped.
        let mut both = self.threads.iter().filter_map(|(number, thread)| {
            let before = before.threads.get(number)?;
            Some((before, thread))
        });
        let has_stopped_and_run = both.any(|(before, now)| {
            let runs = now.state > State::Stopped && !now.is_ending;
            let has_run = now.state == State::Stopped && now.left != before.left;
            before.state == State::Stopped && (runs || has_run)
        });
        has_stopped_and_run || before.told && self.has_dropped_stop()
    }

    /// Whether a process that was told to stop neither has, nor will: only being continued takes a stop back. As soon as one
    /// thread has stopped the others are about to, and nothing shows it.
    fn has_dropped_stop(&self) -> bool {
        let any = |what: fn(&Thread) -> bool| self.threads.values().any(what);
        let has_begun = any(|it| it.state == State::Stopped || it.to_stop || it.to_end);
        !has_begun && any(|it| it.state > State::Stopped && !it.is_ending)
    }
}

/// The threads of a process, and whether one was gone when it was looked at.
fn threads(process: &Process) -> Result<(Shown, bool), String> {
    let mut shown = Shown::default();
    let tasks = process.path().join("task");
    let Ok(listed) = numbers(&tasks) else {
        return Ok((shown, true));
    };
    let mut some_gone = false;
    for thread in listed {
        match of_thread(&tasks.join(thread.to_string()))? {
            Some(about) => {
                shown.threads.insert(thread, about);
            }
            None => some_gone = true,
        }
    }
    Ok((shown, some_gone))
}

/// What a thread does; `None` if it is gone.
fn of_thread(path: &Path) -> Result<Option<Thread>, String> {
    // The name may hold any bytes but a line's end, and is the only part that is no text.
    let status = match fs::read(path.join("status")) {
        Ok(status) => String::from_utf8_lossy(&status).into_owned(),
        Err(error) if is_gone(&error) => return Ok(None),
        Err(error) => return Err(format!("look at one of its threads: {error}")),
    };
    let thread = read(&status).ok_or("the kernel does not say whether its processes run")?;
    // Asked for only where it matters, since it is another file.
    let is_ending = thread.state > State::Stopped && !thread.to_stop && is_ending(path);
    Ok(Some(Thread {
        is_ending,
        ..thread
    }))
}

fn read(status: &str) -> Option<Thread> {
    let of = |name: &str| {
        let mut lines = status.lines();
        lines
            .find_map(|line| line.strip_prefix(name))
            .map(str::trim)
    };
    let left: u64 = of("voluntary_ctxt_switches:")?.parse().ok()?;
    let pushed: u64 = of("nonvoluntary_ctxt_switches:")?.parse().ok()?;
    let state = match of("State:")?.bytes().next()? {
        b'Z' | b'X' => State::Dead,
        // By a signal or a debugger.
        b'T' | b't' => State::Stopped,
        // In the kernel, for a disk or until a child of `vfork` has started: no signal wakes it but one that ends it.
        b'D' => State::Waiting,
        _ => State::Running,
    };
    let own = u64::from_str_radix(of("SigPnd:")?, 16).ok()?;
    let shared = u64::from_str_radix(of("ShdPnd:")?, 16).ok()?;
    Some(Thread {
        state,
        left: left.checked_add(pushed)?,
        to_stop: (own | shared) & bit(Signal::STOP) != 0,
        // One for the whole process becomes one for each thread at once.
        to_end: own & bit(Signal::KILL) != 0,
        is_ending: false,
    })
}

/// As the masks of signals in `status` have it.
fn bit(signal: Signal) -> u64 {
    1 << (signal.as_raw() - 1)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    use rustix::process::{Pid, PidfdFlags, kill_process_group, pidfd_open};

    use super::*;

    const LOOK: Duration = Duration::from_millis(1);
    /// Until a loaded machine has come to it.
    const PATIENCE: Duration = Duration::from_secs(10);

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
                .map(|it| threads(&it).unwrap().0.state())
                .any(|it| it == State::Running)
        }

        fn hold(&self) -> Stop<'_> {
            let mut stop = Stop::of(&self.processes);
            reach(&mut stop);
            stop
        }
    }

    fn reach(stop: &mut Stop<'_>) {
        let deadline = Instant::now() + PATIENCE;
        while !stop.is_reached().unwrap() {
            assert!(Instant::now() < deadline, "it does not stop");
            std::thread::sleep(LOOK);
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
            let mut stop = busy.hold();
            assert!(stop.rest.len() >= 2, "{:?}", stop.rest);
            std::thread::sleep(Duration::from_millis(20));
            assert!(stop.has_held().unwrap());
            // Whoever is continued meanwhile is found out, whether it has stopped again or not.
            let send = |stop: &Stop<'_>, signal| {
                for number in &stop.stopped {
                    let process = busy.processes.open(*number).unwrap();
                    process
                        .into_iter()
                        .for_each(|it| it.signal(signal).unwrap());
                }
            };
            send(&stop, Signal::CONT);
            while stop.has_held().unwrap() {
                std::thread::sleep(LOOK);
            }
            send(&stop, Signal::STOP);
            std::thread::sleep(Duration::from_millis(20));
            assert!(!stop.has_held().unwrap());
            drop(stop);
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
        let is_stopped = || threads(&process).unwrap().0.state() == State::Stopped;
        while !is_stopped() {
            std::thread::sleep(LOOK);
        }
        let stop = busy.hold();
        assert!(!stop.stopped.contains(&number));
        drop(stop);
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

    /// As by the job control of a shell.
    #[test]
    fn what_is_continued_once_is_held_all_the_same() {
        let busy = Busy::new();
        for _ in 0..20 {
            let mut stop = busy.hold();
            for number in &stop.stopped {
                let process = busy.processes.open(*number).unwrap();
                process
                    .into_iter()
                    .for_each(|it| it.signal(Signal::CONT).unwrap());
            }
            reach(&mut stop);
            assert!(stop.restless < RESTLESS / 2, "{}", stop.restless);
        }
    }

    #[test]
    fn what_is_continued_at_every_look_is_found_out() {
        let busy = Busy::new();
        let mut stop = Stop::of(&busy.processes);
        let mut looks = 0..;
        let why = loop {
            // Else it is not known whether it came to the stop before it was continued.
            let look = stop.is_reached();
            match look {
                Ok(_) => looks.next(),
                Err(why) => break why,
            };
            std::thread::sleep(Duration::from_millis(5));
            for number in &stop.stopped {
                let process = busy.processes.open(*number).unwrap();
                process
                    .into_iter()
                    .for_each(|it| it.signal(Signal::CONT).unwrap());
            }
        };
        assert!(why.contains("run on although they are stopped"), "{why}");
        assert!(looks.start < 100 * RESTLESS, "{}", looks.start);
    }

    /// What a process of these threads shows that was told to stop.
    fn shown(threads: &[Thread]) -> Shown {
        let threads = (1..).zip(threads.iter().copied()).collect();
        Shown {
            threads,
            told: true,
        }
    }

    #[test]
    fn what_is_slow_to_stop_does_not_run_on() {
        let runs = Thread {
            state: State::Running,
            left: 7,
            to_stop: false,
            to_end: false,
            is_ending: false,
        };
        let stopped = Thread {
            state: State::Stopped,
            ..runs
        };
        let dead = Thread {
            state: State::Dead,
            ..runs
        };
        let to_stop = Thread {
            to_stop: true,
            left: 9,
            ..runs
        };
        let to_end = Thread {
            to_end: true,
            ..runs
        };
        let is_ending = Thread {
            is_ending: true,
            ..runs
        };
        let later = |thread: Thread| Thread {
            left: thread.left + 1,
            ..thread
        };
        for (before, now, runs_on) in [
            // In a system call that takes long.
            (&[runs][..], &[to_stop][..], false),
            (&[to_stop], &[later(to_stop)], false),
            // One thread has stopped, and the others have not come to it.
            (&[runs, runs], &[stopped, later(runs)], false),
            (&[stopped, runs], &[stopped, later(runs)], false),
            (&[stopped, runs], &[stopped, later(stopped)], false),
            // The kernel drops a stop for what is ending.
            (&[runs], &[is_ending], false),
            (&[runs, runs], &[runs, to_end], false),
            (&[stopped], &[is_ending], false),
            (&[stopped], &[later(dead)], false),
            // Somebody has taken the stop back, or has continued what had stopped.
            (&[runs], &[runs], true),
            (&[runs, runs], &[dead, runs], true),
            (&[runs, runs], &[is_ending, runs], true),
            (&[stopped], &[runs], true),
            (&[stopped], &[later(stopped)], true),
            (&[stopped, runs], &[later(stopped), runs], true),
        ] {
            let seen = shown(now).ran_on(&shown(before));
            assert_eq!(seen, runs_on, "{before:?} {now:?}");
        }
        // Nobody has told it to stop yet.
        let before = Shown {
            told: false,
            ..shown(&[runs])
        };
        assert!(!shown(&[runs]).ran_on(&before));
        // One that was not there.
        let seen = |numbers: &[u32]| Seen {
            processes: numbers.iter().map(|it| (*it, shown(&[to_stop]))).collect(),
            some_gone: false,
        };
        assert!(!seen(&[1, 2]).ran_on(&seen(&[1, 2, 3])));
        assert!(seen(&[1, 4]).ran_on(&seen(&[1, 2, 3])));
    }

    #[test]
    fn a_status_without_numbers_is_no_rest() {
        let status = "Name:\tx\nState:\tT (stopped)\nSigPnd:\t0000000000000100\nShdPnd:\t0000000000040000\n\
            voluntary_ctxt_switches:\t3\nnonvoluntary_ctxt_switches:\t4\n";
        let state = |status: &str| read(status).map(|thread| (thread.state, thread.left));
        assert_eq!(state(status), Some((State::Stopped, 7)));
        let waits = status.replace("T (stopped)", "D (disk sleep)");
        assert_eq!(state(&waits), Some((State::Waiting, 7)));
        let sleeps = status.replace("T (stopped)", "S (sleeping)");
        assert_eq!(state(&sleeps), Some((State::Running, 7)));
        let dead = status.replace("T (stopped)", "Z (zombie)");
        assert_eq!(state(&dead), Some((State::Dead, 7)));
        for without in ["non", "SigPnd", "ShdPnd", "State"] {
            assert_eq!(read(&status.replace(without, "")), None, "{without}");
        }
        assert_eq!(read("State:\tT (stopped)\n"), None);
        let pending = |status: &str| read(status).map(|thread| (thread.to_stop, thread.to_end));
        assert_eq!(pending(status), Some((true, true)));
        let none = status
            .replace("0040000", "0000000")
            .replace("0100\n", "0000\n");
        assert_eq!(pending(&none), Some((false, false)));
    }
}
