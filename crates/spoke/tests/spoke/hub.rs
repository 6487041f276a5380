//! A small hub for tests: starts the real spoke binary over a socketpair and speaks frames with it.

use std::collections::{BTreeMap, VecDeque};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use wire::*;

/// No test waits longer for a frame: more than any limit that the tests set.
const PATIENCE: Duration = Duration::from_secs(120);

/// What a spoke says that it did not pass on: how often, and what the app wrote.
pub(crate) type Told = (Wish, Refusal, u64, String);

pub(crate) struct Hub {
    stream: UnixStream,
    decoder: Decoder<SpokeFrame>,
    frames: VecDeque<SpokeFrame>,
    /// What it said that it did not pass on.
    pub(crate) refused: Vec<Told>,
    pub(crate) child: Child,
}

impl Hub {
    /// A spoke that has not been told anything.
    pub(crate) fn open() -> Self {
        Self::open_with(Path::new(env!("CARGO_BIN_EXE_spoke-under-test")), |_| {})
    }

    /// The same with another copy of the program, started as `adapt` says.
    pub(crate) fn open_with(program: &Path, adapt: impl FnOnce(&mut Command)) -> Self {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_read_timeout(Some(PATIENCE)).unwrap();
        ours.set_write_timeout(Some(PATIENCE)).unwrap();
        // The shell puts the channel where a sandbox would; the spoke then has the shell's place.
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", "exec \"$0\" spoke 3<&0 0</dev/null"])
            .arg(program)
            .stdin(Stdio::from(OwnedFd::from(theirs)));
        adapt(&mut command);
        let child = command.spawn().unwrap();
        Self {
            stream: ours,
            decoder: Decoder::new(),
            frames: VecDeque::new(),
            refused: Vec::new(),
            child,
        }
    }

    /// A spoke that starts the test app.
    pub(crate) fn start_with(mode: &str, limits: AppLimits) -> Self {
        Self::start_offering(mode, limits, Offer::default())
    }

    pub(crate) fn start_offering(mode: &str, limits: AppLimits, offer: Offer) -> Self {
        let mut hub = Self::open();
        hub.send(&HubFrame::Start {
            app: command(mode),
            limits,
            offer,
        });
        hub
    }

    pub(crate) fn start(mode: &str) -> Self {
        Self::start_with(mode, AppLimits::default())
    }

    /// A spoke whose app runs.
    pub(crate) fn ready(mode: &str) -> Self {
        Self::offering(mode, Offer::default())
    }

    /// A spoke whose app runs and was offered this.
    pub(crate) fn offering(mode: &str, offer: Offer) -> Self {
        let mut hub = Self::start_offering(mode, AppLimits::default(), offer);
        match hub.next() {
            Some(SpokeFrame::Ready { .. }) => hub,
            other => panic!("{mode} is not ready but {other:?}"),
        }
    }

    pub(crate) fn send(&mut self, frame: &HubFrame) {
        self.stream.write_all(&encode(frame).unwrap()).unwrap();
    }

    pub(crate) fn call(&mut self, id: u64, arguments: &str, timeout_ms: u64) {
        self.call_tool(id, "echo", arguments, timeout_ms);
    }

    pub(crate) fn call_tool(&mut self, id: u64, tool: &str, arguments: &str, timeout_ms: u64) {
        let (tool, arguments) = (tool.to_owned(), arguments.to_owned());
        self.send(&HubFrame::Call {
            id,
            tool,
            arguments,
            timeout_ms,
            traceparent: None,
        });
    }

    /// The next frame; `None` when the spoke has closed the channel.
    pub(crate) fn next(&mut self) -> Option<SpokeFrame> {
        let mut portion = vec![0; 1 << 16];
        loop {
            if let Some(frame) = self.frames.pop_front() {
                return Some(frame);
            }
            let read = self.stream.read(&mut portion).expect("the spoke is silent");
            let mut input = portion.get(..read).unwrap();
            while let Some(frame) = self.decoder.decode(&mut input).unwrap() {
                match frame {
                    // It comes at any time, beside what a test waits for.
                    SpokeFrame::Refused {
                        wish,
                        why,
                        times,
                        said,
                    } => {
                        let said = said.as_str().to_owned();
                        self.refused.push((wish, why, times, said));
                    }
                    frame => self.frames.push_back(frame),
                }
            }
            if read == 0 {
                return None;
            }
        }
    }

    /// The next frame must say that the app is gone, and then the spoke must be.
    pub(crate) fn failure(&mut self) -> (FailureReason, String) {
        let (reason, stderr) = match self.next() {
            Some(SpokeFrame::AppFailed { reason, stderr }) => (reason, stderr.as_str().to_owned()),
            other => panic!("the app has not failed: {other:?}"),
        };
        assert_eq!(self.exit_code(), i32::from(spoke::exit::APP_FAILED));
        (reason, stderr)
    }

    /// The next frame must be a request of the app during this call.
    pub(crate) fn request(&mut self, call: u64) -> (u64, Form) {
        match self.next() {
            Some(SpokeFrame::Request {
                call: found,
                request,
                form,
            }) if found == call => (request, form),
            other => panic!("no request during {call}: {other:?}"),
        }
    }

    pub(crate) fn reply(&mut self, request: u64, reply: Reply) {
        self.send(&HubFrame::Reply { request, reply });
    }

    /// The next frame must be the result of this call.
    pub(crate) fn result(&mut self, id: u64) -> String {
        match self.next() {
            Some(SpokeFrame::Result {
                id: found,
                content,
                is_error: false,
                ..
            }) if found == id => content,
            other => panic!("no result of {id}: {other:?}"),
        }
    }

    /// The next frame must say why this call failed.
    pub(crate) fn call_failure(&mut self, id: u64) -> FailureReason {
        match self.next() {
            Some(SpokeFrame::CallFailed { id: found, reason }) if found == id => reason,
            other => panic!("{id} has not failed: {other:?}"),
        }
    }

    /// Waits for the spoke's end.
    pub(crate) fn exit_code(&mut self) -> i32 {
        let started = Instant::now();
        while started.elapsed() < PATIENCE {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().expect("a spoke exits by itself");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("the spoke does not end");
    }

    /// The most memory that the spoke ever had, in kibibytes.
    pub(crate) fn peak_kib(&self) -> u64 {
        self.try_peak_kib().unwrap()
    }

    /// The peak of memory, read as long as there is something to read.
    pub(crate) fn watch_peak_until_end(&mut self) -> u64 {
        let started = Instant::now();
        let mut peak = 0;
        while started.elapsed() < PATIENCE && self.child.try_wait().unwrap().is_none() {
            peak = self.try_peak_kib().unwrap_or(0).max(peak);
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(peak > 0, "the spoke was never seen");
        peak
    }

    fn try_peak_kib(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))?;
        line.trim().trim_end_matches(" kB").parse().ok()
    }

    /// Closes the hub's end.
    pub(crate) fn hang_up(&mut self) {
        self.stream.shutdown(std::net::Shutdown::Both).unwrap();
    }

    pub(crate) fn send_raw(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// The processes whose parent is the spoke, each with its state letter.
    pub(crate) fn children(&self) -> Vec<(u32, char)> {
        let stat = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/stat")).ok();
        std::fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .filter_map(|pid: u32| {
                let stat = stat(pid)?;
                let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
                let state = fields.next()?.chars().next()?;
                (fields.next()?.parse() == Ok(self.child.id())).then_some((pid, state))
            })
            .collect()
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn command(mode: &str) -> AppCommand {
    AppCommand {
        argv: vec![env!("CARGO_BIN_EXE_misbehaving-app").into(), mode.into()],
        env: BTreeMap::from([("ONLY".to_owned(), "this".to_owned())]),
        cwd: "/".into(),
    }
}

pub(crate) fn breach(breach: Breach) -> FailureReason {
    FailureReason::Protocol {
        breach,
        said: Quote::default(),
    }
}

pub(crate) const TEXT: &str = r#"{"text":"hello"}"#;

/// What a spoke may have at its peak while its app floods it. A spoke at rest has about a sixth of it (debug build), a
/// line may have 4 MiB; the floods are of 100 MiB and 1 GiB.
pub(crate) const FLAT_KIB: u64 = 64 << 10;
