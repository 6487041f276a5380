//! A running spoke, as the hub talks to it.
//!
//! The identity of a spoke is its socket: all that arrives here is from this spoke, regardless of what it
//! says of itself. A frame that breaks the protocol ends it.

mod calls;
mod incoming;

use std::collections::BTreeMap;
use std::error::Error;
use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdStream;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use hub::CallOutcome;
use hub::trace::{Event, escape};
use ifc::{Call, Permit, Sink};
use sandbox::Layer;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::{Mutex as AsyncMutex, mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;
use wire::{AppCommand, AppLimits, Form, HubFrame, Offer, Progress, Reply, ToolDescription};

pub use self::calls::Executed;
use self::calls::{Asked, Begun, Calls};
use self::incoming::{Incoming, LastWords, Refused};
use crate::egress::{
    AskedConnection, Domains, Egress, Gate, Reach, TokenPort, open_names, open_tokens, relay,
};
use crate::sink::TraceContext;

/// What to run, and what it may have. Its environment may hold secrets, so it cannot be printed.
#[derive(Clone)]
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
    /// What it reaches by name.
    pub domains: Domains,
    /// Where the program of a remote server asks for its token, if the user has logged in there. The sandbox has to listen
    /// on its port.
    pub tokens: Option<TokenPort>,
    /// How long one call may take.
    pub call_timeout: Duration,
    /// Which of its tools are used, and whether its resources and prompts are tools of their own.
    pub offer: Offer,
}

/// Answers what an app asks for while it works on a call.
#[async_trait]
pub trait Mediator: Send {
    /// Decides on one request, and brings the answer.
    async fn mediate(&mut self, call: &Call, form: Form) -> Reply;

    /// Asks the user about a connection that the app wants meanwhile.
    async fn connect(&mut self, asked: AskedConnection) {
        asked.refuse("no user can be asked");
    }

    /// Takes what the app says of its progress.
    fn progress(&mut self, _: Progress) {}

    /// The span of the call, if the app may know.
    fn span(&self) -> Option<TraceContext> {
        None
    }
}

/// Why a spoke does not run.
#[derive(Debug, thiserror::Error)]
pub enum SpokeError {
    /// The sandbox refused, or a system call on the hub's side failed.
    #[error("the spoke of {app} was not started: {source}")]
    System {
        /// The app.
        app: String,
        /// The reason.
        source: Box<dyn Error + Send + Sync>,
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

impl SpokeError {
    pub(crate) fn system(app: &str, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        let (app, source) = (app.to_owned(), source.into());
        Self::System { app, source }
    }
}

enum Wanted {
    Asked(Asked),
    Connection(Box<AskedConnection>),
}

/// Connections of a spoke that wait for the user. A page asks for a few at once.
const MAX_ASKED: usize = 16;
/// How much longer than the app the spoke may take before the hub gives it up.
const GRACE: Duration = Duration::from_secs(2);
/// A question that is not settled in this time is one that a person is asked.
const UNASKED: Duration = Duration::from_millis(50);

/// The spokes of this process that have not been dropped.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// How many spokes run.
pub(crate) fn running() -> usize {
    RUNNING.load(Ordering::Relaxed)
}

/// One of them.
struct Running;

impl Running {
    fn new() -> Self {
        RUNNING.fetch_add(1, Ordering::Relaxed);
        Self
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A running spoke. Dropping it kills everything in it.
pub struct Spoke {
    app: String,
    tools: Vec<ToolDescription>,
    call_timeout: Duration,
    writer: AsyncMutex<OwnedWriteHalf>,
    calls: Arc<Calls>,
    end: watch::Receiver<Option<String>>,
    sandboxed: sandbox::Sandboxed,
    start_time: Duration,
    /// What it was given, and what is open with that.
    reach: Arc<Reach>,
    /// Connections that the user is asked about, while a call runs.
    asked: AsyncMutex<mpsc::Receiver<AskedConnection>>,
    /// The reader, the relays, the names and the tokens; they end with the spoke.
    _tasks: [JoinSet<()>; 4],
    _running: Running,
}

impl Spoke {
    /// Starts the sandbox, the spoke and the app, and waits for the app's tools. `gate` decides on
    /// each connection of the app; what became of it goes to `events`.
    ///
    /// # Errors
    /// [`SpokeError`]; nothing is left running.
    pub async fn open(
        setup: SpokeSetup,
        gate: &Gate,
        events: mpsc::Sender<Event>,
    ) -> Result<Self, SpokeError> {
        let begun = Instant::now();
        let app = setup.app.clone();
        let system = |source: io::Error| SpokeError::system(&app, source);
        let (ours, theirs) = StdStream::pair().map_err(system)?;
        ours.set_nonblocking(true).map_err(system)?;
        let (spec, program) = (setup.sandbox.clone(), setup.program.clone());
        // The sandbox is built in milliseconds of blocking calls, for which no task of this runtime is to wait.
        let spawned = tokio::task::spawn_blocking(move || {
            sandbox::spawn(&spec, &program, OwnedFd::from(theirs))
        });
        let spawned = spawned
            .await
            .map_err(|error| SpokeError::system(&app, error))?;
        let mut sandboxed = spawned.map_err(|error| SpokeError::system(&app, error))?;
        let (questions, asked) = mpsc::channel(MAX_ASKED);
        let ways = open_ways(&mut sandboxed, &setup, gate, questions, &events);
        let Ways {
            reach,
            tasks: [relays, names, tokens],
        } = ways.map_err(system)?;
        let (reader, writer) = UnixStream::from_std(ours).map_err(system)?.into_split();
        let (ready, tools) = oneshot::channel();
        let (end, ended) = watch::channel(None);
        let calls = Arc::new(Calls::default());
        let mut tasks = JoinSet::new();
        let last_words = Arc::new(LastWords::default());
        if let Some(stderr) = sandboxed.take_stderr() {
            let last_words = Arc::clone(&last_words);
            // A thread of its own, which ends when nothing of the spoke is left that could write.
            tasks.spawn_blocking(move || last_words.listen(stderr));
        }
        let incoming = Incoming {
            calls: Arc::clone(&calls),
            last_words,
            ready: Some(ready),
            refused: Refused {
                app: app.clone(),
                events: events.clone(),
                count: 0,
            },
            overrun: sandboxed.overrun(),
            no_sockets: sandboxed.enforced().no_sockets().map(escape),
        };
        tasks.spawn(incoming.run(reader, end));

        let mut spoke = Self {
            app,
            tools: Vec::new(),
            start_time: Duration::ZERO,
            call_timeout: setup.call_timeout,
            writer: AsyncMutex::new(writer),
            calls,
            end: ended,
            sandboxed,
            reach,
            asked: AsyncMutex::new(asked),
            _tasks: [tasks, relays, names, tokens],
            _running: Running::new(),
        };
        let start_timeout = Duration::from_millis(setup.limits.start_timeout_ms) + GRACE;
        spoke.start(&setup, tools, start_timeout).await?;
        spoke.start_time = begun.elapsed();
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
        let enforced = self.sandboxed.enforced();
        let names =
            |layers: &BTreeMap<Layer, String>| layers.keys().map(ToString::to_string).collect();
        Event::SpokeStarted {
            app: self.app.clone(),
            pid: self.pid(),
            layers: names(&enforced.layers),
            given_up: names(&enforced.degraded),
            tools: self.tools.iter().map(|tool| tool.name.clone()).collect(),
            start_ms: u64::try_from(self.start_time.as_millis()).unwrap_or(u64::MAX),
        }
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
    ///
    /// What the app asks for meanwhile goes to `mediator`; the time that it takes is not the app's.
    /// When `given_up` resolves first, the app is told that the hub waits no more. An answer that was
    /// on its way already is the outcome all the same. Without one, it is unknown whether the call
    /// ran, and the outcome says so.
    pub async fn execute(
        &self,
        permit: Permit,
        mediator: &mut dyn Mediator,
        given_up: impl Future<Output = ()>,
    ) -> Executed {
        let mut begun = self.calls.begin();
        let id = begun.id;
        let call = permit.call();
        let timeout_ms = u64::try_from(self.call_timeout.as_millis()).unwrap_or(u64::MAX);
        let frame = HubFrame::Call {
            id,
            tool: call.tool.clone(),
            arguments: call.arguments.to_json(),
            timeout_ms,
            traceparent: mediator.span().map(|span| span.to_string()),
        };
        let bytes = match wire::encode(&frame) {
            Ok(bytes) => bytes,
            // It never left: the permit is dropped unspent.
            Err(error) => {
                self.calls.forget(id);
                return CallOutcome::Failed(error.to_string()).into();
            }
        };
        let call = permit.spend();
        // First what it may be sent by is closed, then it is given.
        self.reach.give(&Sink::Call(&call).label());
        // Only meanwhile may the user be asked about a connection.
        let _running = self.reach.running();
        // From here on some of the frame may have arrived, and the call may run.
        if let Err(reason) = self.write(&bytes).await {
            return CallOutcome::Lost(self.end_or(reason)).into();
        }
        tokio::select! {
            // An answer counts, even if the caller has given up.
            biased;
            outcome = self.answered(&call, &mut begun, mediator) => outcome,
            () = given_up => self.cancel(id, begun.answer).await,
        }
    }

    /// Waits for the answer of a call, and mediates what the app asks for until then.
    async fn answered(
        &self,
        call: &Call,
        begun: &mut Begun,
        mediator: &mut dyn Mediator,
    ) -> Executed {
        let mut end = pin!(sleep(self.call_timeout + GRACE));
        loop {
            let wanted = tokio::select! {
                biased;
                outcome = &mut begun.answer => {
                    // What was said before.
                    while let Ok(progress) = begun.progress.try_recv() {
                        mediator.progress(progress);
                    }
                    return match outcome {
                        Ok(executed) => executed,
                        Err(_) => CallOutcome::Lost(self.ended().await).into(),
                    };
                }
                // The spoke itself should have reported the timeout: it is stuck or hijacked. Before what is wanted, so that
                // who wants something without end has no more time by that.
                () = &mut end => return self.stuck(self.call_timeout + GRACE).into(),
                Some(progress) = begun.progress.recv() => {
                    mediator.progress(progress);
                    continue;
                }
                Some(asked) = begun.requests.recv() => Wanted::Asked(asked),
                Some(asked) = self.next_connection() => Wanted::Connection(Box::new(asked)),
            };
            let since = Instant::now();
            let mediated = match wanted {
                // An answer that comes meanwhile waits: an app cannot take back what it has asked.
                Wanted::Asked(Asked { request, form }) => {
                    let reply = mediator.mediate(call, form).await;
                    self.calls.replied(begun.id);
                    self.send(&HubFrame::Reply { request, reply }).await
                }
                Wanted::Connection(asked) => self.connect(begun.id, *asked, mediator).await,
            };
            if let Err(reason) = mediated {
                return CallOutcome::Lost(self.end_or(reason)).into();
            }
            let later = end.deadline() + since.elapsed();
            end.as_mut().reset(later);
        }
    }

    /// Has the user asked about a connection. Where that takes a while, the spoke is told that the app waits.
    async fn connect(
        &self,
        id: u64,
        asked: AskedConnection,
        mediator: &mut dyn Mediator,
    ) -> Result<(), String> {
        let mut settled = mediator.connect(asked);
        // One that is refused unasked is settled at once, and there may be thousands of them.
        tokio::select! {
            biased;
            () = &mut settled => return Ok(()),
            () = sleep(UNASKED) => {}
        }
        self.send(&HubFrame::Pause { id }).await?;
        settled.await;
        self.send(&HubFrame::Resume { id }).await
    }

    async fn next_connection(&self) -> Option<AskedConnection> {
        // A connection does not say for which call it is, so the first call to look has the user asked.
        self.asked.lock().await.recv().await
    }

    /// Tells the spoke that the hub waits for a call no more, and waits for its last word on it.
    async fn cancel(&self, id: u64, answer: oneshot::Receiver<Executed>) -> Executed {
        self.calls.give_up(id);
        if let Err(reason) = self.send(&HubFrame::Cancel { id }).await {
            return CallOutcome::Lost(self.end_or(reason)).into();
        }
        match tokio::time::timeout(GRACE, answer).await {
            Ok(Ok(executed)) => executed,
            Ok(Err(_)) => CallOutcome::Lost(self.ended().await).into(),
            // A sound spoke answers at once.
            Err(_) => self.stuck(GRACE).into(),
        }
    }

    fn stuck(&self, waited: Duration) -> CallOutcome {
        self.kill();
        CallOutcome::Lost(format!(
            "the spoke of {} did not answer within {} s and was ended",
            self.app,
            waited.as_secs()
        ))
    }

    fn end_or(&self, reason: String) -> String {
        self.end.borrow().clone().unwrap_or(reason)
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
            offer: setup.offer.clone(),
        };
        // Why it is gone says more than that its socket broke.
        if let Err(reason) = self.send(&frame).await {
            return Err(failed(if self.is_gone() {
                self.ended().await
            } else {
                reason
            }));
        }
        match tokio::time::timeout(timeout, tools).await {
            // A spoke that lists a hidden tool all the same gains no call by it.
            Ok(Ok(mut tools)) => {
                tools.retain(|tool| setup.offer.tools.shows(&tool.name));
                self.tools = tools;
            }
            Ok(Err(_)) => return Err(failed(self.ended().await)),
            Err(_) => return Err(failed(format!("not ready within {} s", timeout.as_secs()))),
        }
        Ok(())
    }

    async fn send(&self, frame: &HubFrame) -> Result<(), String> {
        let bytes = wire::encode(frame).map_err(|error| error.to_string())?;
        self.write(&bytes).await
    }

    async fn write(&self, bytes: &[u8]) -> Result<(), String> {
        // Held for the whole frame: of two frames in one another the spoke could read neither.
        let mut writer = self.writer.lock().await;
        // A spoke that does not read must not hang the hub.
        match tokio::time::timeout(GRACE, writer.write_all(bytes)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(format!("the spoke of {} is gone: {error}", self.app)),
            Err(_) => {
                // A part of the frame may have gone out, so no further frame could be read either.
                let _ = self.sandboxed.kill();
                Err(format!(
                    "the spoke of {} does not read and was ended",
                    self.app
                ))
            }
        }
    }
}

/// The ways out of a spoke, which are open as long as their tasks run.
pub(crate) struct Ways {
    pub(crate) reach: Arc<Reach>,
    /// The relays, the names and the tokens.
    pub(crate) tasks: [JoinSet<()>; 3],
}

/// Opens them. Connections about which the user is to be asked go to `questions`.
pub(crate) fn open_ways(
    sandboxed: &mut sandbox::Sandboxed,
    setup: &SpokeSetup,
    gate: &Gate,
    questions: mpsc::Sender<AskedConnection>,
    events: &mpsc::Sender<Event>,
) -> io::Result<Ways> {
    let SpokeSetup { app, domains, .. } = setup;
    let mut listeners = sandboxed.take_listeners();
    // On the machine's own network every user could ask.
    let own_network = sandboxed
        .enforced()
        .layers
        .contains_key(&Layer::NetNamespace);
    let tokens = setup.tokens.as_ref().filter(|_| own_network);
    let tokens = open_tokens(tokens, &mut listeners)?;
    let relays = relay(app, listeners, &setup.egress, gate, events)?;
    let reach = Arc::new(Reach::new(app, gate.clone(), domains.holds.clone()));
    let names = match sandboxed.take_names() {
        Some(sockets) => open_names(sockets, &reach, domains, questions, events)?,
        None => JoinSet::new(),
    };
    Ok(Ways {
        reach,
        tasks: [relays, names, tokens],
    })
}
