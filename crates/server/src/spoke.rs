//! A running spoke, as the hub talks to it.
//!
//! The identity of a spoke is its socket: whatever arrives here is from this spoke, whatever it
//! says of itself. A frame that breaks the protocol ends it.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hub::CallOutcome;
use hub::trace::Event;
use ifc::Permit;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Mutex as AsyncMutex, mpsc, oneshot, watch};
use tokio::task::JoinSet;
use wire::{AppCommand, AppLimits, Decoder, FailureReason, HubFrame, SpokeFrame, ToolDescription};

use crate::egress::{Egress, relay};

/// What to run, and what it may have.
#[derive(Debug, Clone)]
pub struct SpokeSetup {
    /// The app's name in the configuration.
    pub app: String,
    /// The spoke binary, on the host.
    pub program: PathBuf,
    /// The app's program and arguments, as seen inside the sandbox.
    pub command: Vec<String>,
    /// The app's whole environment.
    pub env: BTreeMap<String, String>,
    /// The app's directory, as seen inside the sandbox.
    pub workdir: String,
    /// The sandbox.
    pub sandbox: sandbox::Spec,
    /// Limits of the app.
    pub limits: AppLimits,
    /// Relayed ports.
    pub egress: Vec<Egress>,
    /// How long one call may take.
    pub call_timeout: Duration,
}

/// Why a spoke does not run.
#[derive(Debug, thiserror::Error)]
pub enum SpokeError {
    /// The sandbox refused.
    #[error("the spoke of {app} was not started: {source}")]
    Sandbox {
        /// The app.
        app: String,
        /// The sandbox's reason.
        source: sandbox::SandboxError,
    },
    /// A system call on the hub's side.
    #[error("the spoke of {app} was not started: {source}")]
    System {
        /// The app.
        app: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The app did not come up.
    #[error("the app {app} did not start: {reason}")]
    App {
        /// The app.
        app: String,
        /// Why.
        reason: String,
    },
    /// The rules do not fit the app's tools.
    #[error("the rules of the app {app} do not fit its tools: {reason}")]
    Rules {
        /// The app.
        app: String,
        /// What does not fit.
        reason: String,
    },
}

/// How much longer than the app the spoke may take before the hub gives it up.
const GRACE: Duration = Duration::from_secs(2);
/// Bytes read from the socket at a time.
const READ: usize = 64 * 1024;
/// Of the spoke's own stderr the hub keeps this much, from the beginning.
const STDERR: usize = 4 * 1024;

/// Well under the second within which a death is reported.
const LAST_WORDS_DELAY: Duration = Duration::from_millis(20);

/// A running spoke. Dropping it kills everything in it.
pub struct Spoke {
    app: String,
    tools: Vec<ToolDescription>,
    call_timeout: Duration,
    writer: AsyncMutex<OwnedWriteHalf>,
    calls: Arc<Calls>,
    end: watch::Receiver<Option<String>>,
    sandboxed: sandbox::Sandboxed,
    started: Event,
    /// The reader and the relays; they end with the spoke.
    _tasks: [JoinSet<()>; 2],
}

/// Calls on the way.
#[derive(Default)]
struct Calls(Mutex<Pending>);

#[derive(Default)]
struct Pending {
    last: u64,
    waiting: HashMap<u64, oneshot::Sender<CallOutcome>>,
}

impl Spoke {
    /// Starts the sandbox, the spoke and the app, and waits for the app's tools.
    ///
    /// # Errors
    /// [`SpokeError`]; nothing is left running.
    pub async fn open(setup: SpokeSetup, events: mpsc::Sender<Event>) -> Result<Self, SpokeError> {
        let begun = Instant::now();
        let app = setup.app.clone();
        let system = |source| SpokeError::System {
            app: app.clone(),
            source,
        };
        let (ours, theirs) = StdStream::pair().map_err(system)?;
        ours.set_nonblocking(true).map_err(system)?;
        let (spec, program) = (setup.sandbox.clone(), setup.program.clone());
        let spawned = tokio::task::spawn_blocking(move || {
            sandbox::spawn(&spec, &program, OwnedFd::from(theirs))
        });
        let mut sandboxed = spawned
            .await
            .map_err(|error| system(io::Error::other(error)))?
            .map_err(|source| SpokeError::Sandbox {
                app: app.clone(),
                source,
            })?;

        let relays = relay(&app, sandboxed.take_listeners(), &setup.egress, &events);
        let relays = relays.map_err(system)?;
        let (reader, writer) = UnixStream::from_std(ours).map_err(system)?.into_split();
        let (ready, tools) = oneshot::channel();
        let (end, ended) = watch::channel(None);
        let calls = Arc::new(Calls::default());
        let mut tasks = JoinSet::new();
        let last_words = Arc::new(LastWords::default());
        if let Some(stderr) = sandboxed.take_stderr() {
            let last_words = Arc::clone(&last_words);
            tasks.spawn_blocking(move || last_words.listen(stderr));
        }
        let incoming = Incoming {
            calls: Arc::clone(&calls),
            last_words,
            ready: Some(ready),
        };
        tasks.spawn(incoming.run(reader, end));

        let mut spoke = Self {
            started: Event::SpokeEnded {
                app: app.clone(),
                reason: "never ready".to_owned(),
            },
            app,
            tools: Vec::new(),
            call_timeout: setup.call_timeout,
            writer: AsyncMutex::new(writer),
            calls,
            end: ended,
            sandboxed,
            _tasks: [tasks, relays],
        };
        let start_timeout = Duration::from_millis(setup.limits.start_timeout_ms) + GRACE;
        spoke.start(&setup, tools, start_timeout).await?;
        spoke.started = spoke.started_event(begun);
        Ok(spoke)
    }

    /// The app's name in the configuration.
    pub fn app(&self) -> &str {
        &self.app
    }

    /// The tools, in the app's own words.
    pub fn tools(&self) -> &[ToolDescription] {
        &self.tools
    }

    /// The trace entry of the start.
    pub fn started(&self) -> Event {
        self.started.clone()
    }

    /// The process on the host; for messages and tests.
    pub fn pid(&self) -> u32 {
        self.sandboxed.pid()
    }

    /// Resolves when the spoke is gone, with the reason.
    pub async fn ended(&self) -> String {
        let mut end = self.end.clone();
        match end.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().unwrap_or_default(),
            Err(_) => format!("the spoke of {} is gone", self.app),
        }
    }

    /// Whether the spoke is gone.
    pub fn is_gone(&self) -> bool {
        self.end.borrow().is_some() || self.end.has_changed().is_err()
    }

    /// Executes exactly the call of a permit. The only way to make a spoke do anything.
    pub async fn execute(&self, permit: Permit) -> CallOutcome {
        let call = permit.spend();
        let (id, answer) = self.calls.begin();
        let timeout_ms = u64::try_from(self.call_timeout.as_millis()).unwrap_or(u64::MAX);
        let frame = HubFrame::Call {
            id,
            tool: call.tool,
            arguments: call.arguments.to_json(),
            timeout_ms,
        };
        if let Err(reason) = self.send(&frame).await {
            // A frame that cannot be encoded never left; a broken socket means the spoke is gone.
            return if self.is_gone() {
                CallOutcome::Lost(self.ended().await)
            } else {
                CallOutcome::Failed(reason)
            };
        }
        match tokio::time::timeout(self.call_timeout + GRACE, answer).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => CallOutcome::Lost(self.ended().await),
            Err(_) => {
                // The spoke itself should have reported the timeout: it is stuck or hijacked.
                let _ = self.sandboxed.kill();
                CallOutcome::Lost(format!(
                    "the spoke of {} did not answer within {} s and was ended",
                    self.app,
                    (self.call_timeout + GRACE).as_secs()
                ))
            }
        }
    }

    /// Ends the spoke at once.
    pub fn kill(&self) {
        // Refused only if the process is gone already.
        let _ = self.sandboxed.kill();
    }

    async fn start(
        &mut self,
        setup: &SpokeSetup,
        tools: oneshot::Receiver<Vec<ToolDescription>>,
        timeout: Duration,
    ) -> Result<(), SpokeError> {
        let app = AppCommand {
            argv: setup.command.clone(),
            env: setup.env.clone(),
            cwd: setup.workdir.clone(),
        };
        let failed = |reason| SpokeError::App {
            app: setup.app.clone(),
            reason,
        };
        let frame = HubFrame::Start {
            app,
            limits: setup.limits.clone(),
        };
        if let Err(reason) = self.send(&frame).await {
            return Err(failed(if self.is_gone() {
                self.ended().await
            } else {
                reason
            }));
        }
        match tokio::time::timeout(timeout, tools).await {
            Ok(Ok(tools)) => self.tools = tools,
            Ok(Err(_)) => return Err(failed(self.ended().await)),
            Err(_) => return Err(failed(format!("not ready within {} s", timeout.as_secs()))),
        }
        Ok(())
    }

    async fn send(&self, frame: &HubFrame) -> Result<(), String> {
        let bytes = wire::encode(frame).map_err(|error| error.to_string())?;
        let mut writer = self.writer.lock().await;
        // A spoke that does not read must not hang the hub.
        match tokio::time::timeout(GRACE, writer.write_all(&bytes)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(format!("the spoke of {} is gone: {error}", self.app)),
            Err(_) => {
                let _ = self.sandboxed.kill();
                Err(format!(
                    "the spoke of {} does not read and was ended",
                    self.app
                ))
            }
        }
    }

    fn started_event(&self, begun: Instant) -> Event {
        let enforced = self.sandboxed.enforced();
        let names = |layers: &BTreeMap<sandbox::Layer, String>| {
            layers.keys().map(ToString::to_string).collect()
        };
        Event::SpokeStarted {
            app: self.app.clone(),
            pid: self.sandboxed.pid(),
            layers: names(&enforced.layers),
            given_up: names(&enforced.degraded),
            tools: self.tools.iter().map(|tool| tool.name.clone()).collect(),
            start_ms: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
        }
    }
}

impl Calls {
    fn begin(&self) -> (u64, oneshot::Receiver<CallOutcome>) {
        let (answer, waiting) = oneshot::channel();
        let mut pending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pending.last += 1;
        let id = pending.last;
        pending.waiting.insert(id, answer);
        (id, waiting)
    }

    /// Whether somebody had asked for this.
    fn finish(&self, id: u64, outcome: CallOutcome) -> bool {
        let mut pending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match pending.waiting.remove(&id) {
            // Whoever asked may have given up; that is not the spoke's fault.
            Some(answer) => {
                let _ = answer.send(outcome);
                true
            }
            None => false,
        }
    }

    fn drop_all(&self) {
        let mut pending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pending.waiting.clear();
    }
}

/// Reads frames until the spoke is gone or breaks the protocol.
struct Incoming {
    calls: Arc<Calls>,
    last_words: Arc<LastWords>,
    ready: Option<oneshot::Sender<Vec<ToolDescription>>>,
}

impl Incoming {
    async fn run(mut self, mut socket: OwnedReadHalf, end: watch::Sender<Option<String>>) {
        let reason = self.read(&mut socket).await;
        // First the reason, then the calls: whoever loses its call finds the reason.
        end.send_replace(Some(reason));
        self.calls.drop_all();
    }

    async fn read(&mut self, socket: &mut OwnedReadHalf) -> String {
        let mut decoder = Decoder::<SpokeFrame>::new();
        let mut buffer = vec![0; READ];
        loop {
            let count = match socket.read(&mut buffer).await {
                Ok(0) => return self.last_words.reason().await,
                Ok(count) => count,
                Err(error) => return format!("the spoke's socket broke: {error}"),
            };
            let mut input = buffer.get(..count).unwrap_or_default();
            loop {
                match decoder.decode(&mut input) {
                    Ok(Some(frame)) => {
                        if let Err(reason) = self.handle(frame) {
                            return reason;
                        }
                    }
                    Ok(None) => break,
                    Err(error) => return format!("the spoke broke the protocol: {error}"),
                }
            }
        }
    }

    fn handle(&mut self, frame: SpokeFrame) -> Result<(), String> {
        let breach = |what| Err(format!("the spoke broke the protocol: {what}"));
        match frame {
            SpokeFrame::Ready { tools, .. } => match self.ready.take() {
                Some(ready) => {
                    // Whoever opened the spoke may have given up.
                    let _ = ready.send(tools);
                    Ok(())
                }
                None => breach("it was ready twice"),
            },
            SpokeFrame::Result {
                id,
                content,
                is_error,
            } => {
                let outcome = CallOutcome::Returned {
                    text: content,
                    is_error,
                };
                if self.calls.finish(id, outcome) {
                    Ok(())
                } else {
                    breach("a result nobody asked for")
                }
            }
            // The app is gone, and `AppFailed` is on its way: the call ends with it. If it never
            // comes, the call's own timeout ends the spoke.
            SpokeFrame::CallFailed { reason, .. } if reason.ends_app() => Ok(()),
            // Nobody knows what an app does that did not answer in time: it is ended.
            SpokeFrame::CallFailed {
                reason: reason @ FailureReason::CallTimeout(_),
                ..
            } => Err(format!("{}; it was ended", told(&reason))),
            SpokeFrame::CallFailed { id, reason } => {
                let outcome = CallOutcome::Failed(told(&reason));
                if self.calls.finish(id, outcome) {
                    Ok(())
                } else {
                    breach("a failure nobody asked for")
                }
            }
            SpokeFrame::AppFailed { reason, stderr } => {
                let stderr = stderr.escaped();
                let said = if stderr.is_empty() {
                    stderr
                } else {
                    format!("; it last said: {stderr}")
                };
                Err(format!("the app failed: {}{said}", told(&reason)))
            }
        }
    }
}

/// A failure with what the app said of it, quoted. The turn machine labels it like the app's
/// results.
fn told(reason: &FailureReason) -> String {
    match reason.quote().filter(|quote| !quote.is_empty()) {
        Some(quote) => format!("{reason}: {}", quote.escaped()),
        None => reason.to_string(),
    }
}

/// The beginning of what a spoke wrote to its own stderr: why it died, if it could still say so.
#[derive(Default)]
struct LastWords(Mutex<Vec<u8>>);

impl LastWords {
    /// Reads to the end so that the spoke never blocks; keeps [`STDERR`] bytes.
    fn listen(&self, stderr: OwnedFd) {
        let mut pipe = std::fs::File::from(stderr);
        let mut buffer = [0; STDERR];
        while let Ok(count @ 1..) = pipe.read(&mut buffer) {
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let room = STDERR.saturating_sub(kept.len()).min(count);
            kept.extend_from_slice(buffer.get(..room).unwrap_or_default());
        }
    }

    async fn reason(&self) -> String {
        // The socket closes a moment before the last of stderr is read.
        tokio::time::sleep(LAST_WORDS_DELAY).await;
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match String::from_utf8_lossy(&kept).trim() {
            "" => "the spoke is gone without a word".to_owned(),
            words => format!("the spoke is gone; it said: {words}"),
        }
    }
}
