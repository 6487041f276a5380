//! The app's process: started, watched, ended, and never lost.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;
use wire::limits::MAX_STDERR_BYTES;
use wire::{AppCommand, FailureReason, Quote};

/// After the app's end of output: the time in which it must have exited.
const EXIT_GRACE: Duration = Duration::from_millis(500);

/// After the app's exit: the time for its last answers to be read, should a child of it still hold
/// the pipe open.
const DRAIN_GRACE: Duration = Duration::from_millis(200);

/// Portion in which stderr is read and thrown away.
const STDERR_PORTION: usize = 8 << 10;

/// A started app that has not been spoken to.
#[derive(Debug)]
pub struct AppProcess {
    child: Child,
    pid: u32,
}

/// The ends of an app's pipes.
pub(crate) struct Pipes {
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
}

impl AppProcess {
    /// Starts the program in a process group of its own, with exactly the given environment. Must be
    /// called inside a tokio runtime. Every descriptor of this process that is close-on-exec stays
    /// here; the caller sees to it that all are.
    ///
    /// # Errors
    /// [`FailureReason::SpawnFailed`] with the operating system's error number.
    pub fn spawn(command: &AppCommand) -> Result<Self, FailureReason> {
        let failed = FailureReason::SpawnFailed;
        let (program, arguments) = command.argv.split_first().ok_or_else(|| failed(None))?;
        let child = Command::new(program)
            .args(arguments)
            .env_clear()
            .envs(&command.env)
            .current_dir(&command.cwd)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // So that the app's own children can be ended with it.
            .process_group(0)
            // For a start that is given up before `supervise` runs.
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| failed(error.raw_os_error()))?;
        let pid = child.id().ok_or_else(|| failed(None))?;
        Ok(Self { child, pid })
    }

    /// The process id, which is also that of its group.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Starts watching. `output_ended` resolves when the app's output is no longer read.
    pub(crate) fn watch(
        mut self,
        output_ended: oneshot::Receiver<()>,
    ) -> io::Result<(Pipes, Ending)> {
        let missing = || io::Error::from(io::ErrorKind::BrokenPipe);
        let stdin = self.child.stdin.take().ok_or_else(missing)?;
        let stdout = self.child.stdout.take().ok_or_else(missing)?;
        let stderr = self.child.stderr.take().ok_or_else(missing)?;
        let ending = Ending::new();
        tokio::spawn(keep_tail(stderr, ending.clone()));
        tokio::spawn(self.supervise(ending.clone(), output_ended));
        Ok((Pipes { stdin, stdout }, ending))
    }

    /// Waits for the first cause of an end, records it, and leaves nothing of the group running.
    async fn supervise(mut self, ending: Ending, mut output_ended: oneshot::Receiver<()>) {
        tokio::select! {
            biased;
            // The cause is known: a broken rule, a time-out, or the client was dropped.
            _ = ending.cause() => {}
            status = self.child.wait() => {
                let _ = timeout(DRAIN_GRACE, output_ended).await;
                ending.record(exited(status));
            }
            _ = &mut output_ended => match timeout(EXIT_GRACE, self.child.wait()).await {
                Ok(status) => ending.record(exited(status)),
                Err(_) => ending.record(FailureReason::OutputClosed),
            },
        }
        // Also when the leader is gone: its children may live, and while one does the group's number
        // cannot be given to another.
        if let Some(group) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        // An error means that there is no such child any more, which is what we want.
        let _ = self.child.wait().await;
        ending.process_gone();
    }
}

fn exited(status: io::Result<ExitStatus>) -> FailureReason {
    let status = status.ok();
    FailureReason::AppExited {
        status: status.and_then(|status| status.code()),
        signal: status.and_then(|status| status.signal()),
    }
}

/// Reads stderr to its end, however much it is, and keeps the last bytes.
async fn keep_tail(mut stderr: ChildStderr, ending: Ending) {
    let mut portion = vec![0; STDERR_PORTION];
    while let Ok(read @ 1..) = stderr.read(&mut portion).await {
        ending.keep_stderr(portion.get(..read).unwrap_or_default());
    }
    ending.shared.stderr_ended.send_replace(true);
}

/// An app that is gone, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppFailure {
    /// The first cause.
    pub reason: FailureReason,
    /// The end of what the app wrote to stderr.
    pub stderr: Quote,
}

/// Why and whether the app ended: shared by everything that can end it, decided by the first.
#[derive(Debug, Clone)]
pub(crate) struct Ending {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    cause: watch::Sender<Option<FailureReason>>,
    process_gone: watch::Sender<bool>,
    stderr_ended: watch::Sender<bool>,
    stderr: Mutex<Vec<u8>>,
}

impl Ending {
    fn new() -> Self {
        Self {
            shared: Arc::new(Shared {
                cause: watch::Sender::new(None),
                process_gone: watch::Sender::new(false),
                stderr_ended: watch::Sender::new(false),
                stderr: Mutex::new(Vec::new()),
            }),
        }
    }

    /// Ends the app for this reason, unless it has ended for another already.
    pub(crate) fn record(&self, reason: FailureReason) {
        self.shared.cause.send_if_modified(|cause| {
            let first = cause.is_none();
            if first {
                *cause = Some(reason);
            }
            first
        });
    }

    /// Waits for the cause of the end.
    pub(crate) async fn cause(&self) -> FailureReason {
        let mut cause = self.shared.cause.subscribe();
        match cause
            .wait_for(Option::is_some)
            .await
            .map(|cause| cause.clone())
        {
            Ok(Some(reason)) => reason,
            // Not reached: the sender lives in `self`. Reported as our fault should it ever be.
            _ => FailureReason::Spoke(wire::SpokeFault::Internal),
        }
    }

    /// Waits until the process is gone and its last words are read.
    pub(crate) async fn complete(&self) -> AppFailure {
        let reason = self.cause().await;
        // No error is possible here: the sender lives in `self`.
        let _ = self
            .shared
            .process_gone
            .subscribe()
            .wait_for(|gone| *gone)
            .await;
        let _ = timeout(
            DRAIN_GRACE,
            self.shared
                .stderr_ended
                .subscribe()
                .wait_for(|ended| *ended),
        )
        .await;
        let stderr = self
            .shared
            .stderr
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        AppFailure {
            reason,
            stderr: Quote::tail(&String::from_utf8_lossy(&stderr)),
        }
    }

    /// Waits a moment for a cause that must come, because the app is gone as far as we can tell.
    pub(crate) async fn likely_cause(&self) -> FailureReason {
        timeout(EXIT_GRACE * 2, self.cause())
            .await
            .unwrap_or(FailureReason::OutputClosed)
    }

    fn process_gone(&self) {
        self.shared.process_gone.send_replace(true);
    }

    /// Keeps what belongs to the app's log, of which a failure shows the end.
    pub(crate) fn keep_stderr(&self, bytes: &[u8]) {
        let mut stderr = self
            .shared
            .stderr
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        stderr.extend_from_slice(bytes);
        let surplus = stderr.len().saturating_sub(MAX_STDERR_BYTES);
        stderr.drain(..surplus);
    }
}
