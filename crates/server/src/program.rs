//! A program that the user works with, in a sandbox of ours: another agent, or a shell.
//!
//! It has the walls of an app. In the place of calls it has the user's terminal or pipes as its standard streams
//! ([`Streams`]), so nothing that it says there is read here. What is given to it by other ways is told by
//! [`Program::told`], and decides where it may connect to.

use std::collections::VecDeque;
use std::os::unix::net::UnixStream as StdStream;
use std::sync::Arc;
use std::time::Duration;

use hub::trace::Event;
use ifc::Label;
pub use sandbox::Streams;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use wire::{AppCommand, Decoder, FailureReason, HubFrame, SpokeFrame};

use crate::egress::{AskedConnection, Gate, Reach};
use crate::parts::Told;
use crate::spoke::{SpokeError, SpokeSetup, Ways, open_ways};

/// The time in which a started spoke must have executed the program or said why not.
const START: Duration = Duration::from_secs(30);
/// A frame is read in one piece of these: a spoke with a program says few and short things.
const READ: usize = 4 << 10;
/// `SIGCONT` on the architectures that have a sandbox.
const CONTINUE: u8 = 18;
/// How long a spoke may take to read a signal.
const GRACE: Duration = Duration::from_secs(2);

/// What to run, and with what.
pub struct ProgramSetup {
    /// The program, its sandbox and its connections. Its limits of calls, its tools and its token do not count.
    pub spoke: SpokeSetup,
    /// Its standard streams.
    pub streams: Streams,
    /// Who decides on its connections.
    pub gate: Gate,
    /// Where outcomes of connections go.
    pub events: mpsc::Sender<Event>,
    /// Where connections go about which the user is to be asked, at any time. One that is dropped is refused.
    pub questions: mpsc::Sender<AskedConnection>,
}

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// With this exit code.
    Code(u8),
    /// By this signal.
    Signal(i32),
    /// With its sandbox, for this reason.
    Lost(String),
}

/// What became of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// It was stopped by this signal, as by Ctrl-Z. It goes on with [`Program::signal`] of `SIGCONT`.
    Stopped(i32),
    /// It is gone, with everything that it started.
    Ended(Ended),
}

/// A running program. Dropping it kills everything in its sandbox.
pub struct Program {
    app: String,
    reach: Arc<Reach>,
    writer: OwnedWriteHalf,
    reader: OwnedReadHalf,
    decoder: Decoder<SpokeFrame>,
    /// Those that were read and not yet looked at.
    frames: VecDeque<SpokeFrame>,
    sandboxed: sandbox::Sandboxed,
    ended: Option<Ended>,
    /// The relays, the names and the tokens; they end with the program.
    _tasks: [JoinSet<()>; 3],
}

impl Program {
    /// Starts the sandbox and the program.
    ///
    /// # Errors
    /// [`SpokeError`]; nothing is left running.
    pub async fn start(setup: ProgramSetup) -> Result<Self, SpokeError> {
        let ProgramSetup {
            spoke: setup,
            streams,
            gate,
            events,
            questions,
        } = setup;
        let app = setup.app.clone();
        let system = |source: std::io::Error| SpokeError::system(&app, source);
        let (ours, theirs) = StdStream::pair().map_err(system)?;
        ours.set_nonblocking(true).map_err(system)?;
        let (spec, binary) = (setup.sandbox.clone(), setup.program.clone());
        let spawned = tokio::task::spawn_blocking(move || {
            sandbox::spawn_program(&spec, &binary, theirs.into(), streams)
        });
        let spawned = spawned
            .await
            .map_err(|error| SpokeError::system(&app, error))?;
        let mut sandboxed = spawned.map_err(|error| SpokeError::system(&app, error))?;
        let Ways { reach, tasks } =
            open_ways(&mut sandboxed, &setup, &gate, questions, &events).map_err(system)?;
        reach.ask_at_any_time();
        let (reader, writer) = UnixStream::from_std(ours).map_err(system)?.into_split();
        let mut program = Self {
            app,
            reach,
            writer,
            reader,
            decoder: Decoder::new(),
            frames: VecDeque::new(),
            sandboxed,
            ended: None,
            _tasks: tasks,
        };
        let run = HubFrame::Run {
            program: AppCommand {
                argv: setup.command,
                env: setup.env,
                cwd: setup.workdir,
            },
        };
        let failed = |reason: String| SpokeError::App {
            app: setup.app.clone(),
            reason,
        };
        program.send(&run).await.map_err(failed)?;
        match timeout(START, program.next()).await {
            Ok(Ok(SpokeFrame::Running)) => Ok(program),
            Ok(Ok(SpokeFrame::AppFailed { reason, .. })) => Err(failed(reason.to_string())),
            Ok(Ok(_)) => Err(failed("the spoke broke the protocol".to_owned())),
            Ok(Err(reason)) => Err(failed(reason)),
            Err(_) => Err(failed(format!("not started within {} s", START.as_secs()))),
        }
    }

    /// The process on the host; for messages and tests.
    pub fn pid(&self) -> u32 {
        self.sandboxed.pid()
    }

    /// What is in force around it.
    pub fn enforced(&self) -> &sandbox::Enforced {
        self.sandboxed.enforced()
    }

    /// The program is about to be given something of this label. When this returns, connections are cut by which it must not
    /// be sent.
    pub fn told(&self, label: &Label) {
        self.reach.give(label);
    }

    /// [`Self::told`], for others to call while this program is waited for.
    pub fn teller(&self) -> Told {
        let reach = Arc::clone(&self.reach);
        Arc::new(move |label| reach.give(label))
    }

    /// Sends a signal to the program and what it has started in its process group.
    ///
    /// # Errors
    /// The program is gone, or its sandbox does not answer.
    pub async fn signal(&mut self, signal: u8) -> Result<(), String> {
        self.send(&HubFrame::Signal { signal }).await
    }

    /// Waits until the program is stopped or gone. Nothing is lost when the future is dropped.
    pub async fn changed(&mut self) -> Change {
        if let Some(ended) = &self.ended {
            return Change::Ended(ended.clone());
        }
        let ended = match self.next().await {
            Ok(SpokeFrame::Stopped { signal }) => return Change::Stopped(signal.into()),
            Ok(SpokeFrame::AppFailed { reason, .. }) => ended(reason),
            Ok(_) => Ended::Lost("the spoke broke the protocol".to_owned()),
            Err(reason) => Ended::Lost(reason),
        };
        // What it has started goes with its sandbox.
        let _ = self.sandboxed.kill();
        self.ended = Some(ended.clone());
        Change::Ended(ended)
    }

    /// Waits until the program is gone. Where it is stopped there is no one to continue it, so it goes on.
    pub async fn ended(&mut self) -> Ended {
        loop {
            match self.changed().await {
                Change::Ended(ended) => return ended,
                Change::Stopped(_) => {
                    // An error shows as its end.
                    let _ = self.signal(CONTINUE).await;
                }
            }
        }
    }
}

impl Program {
    /// The next frame. Nothing is lost when the future is dropped.
    async fn next(&mut self) -> Result<SpokeFrame, String> {
        let mut buffer = [0; READ];
        loop {
            if let Some(frame) = self.frames.pop_front() {
                return Ok(frame);
            }
            let read = match self.reader.read(&mut buffer).await {
                Ok(read @ 1..) => read,
                Ok(_) | Err(_) => return Err(self.lost()),
            };
            let mut input = buffer.get(..read).unwrap_or_default();
            while let Some(frame) = (self.decoder.decode(&mut input))
                .map_err(|error| format!("the spoke broke the protocol: {error}"))?
            {
                self.frames.push_back(frame);
            }
        }
    }

    /// Why its sandbox is gone without a word.
    fn lost(&mut self) -> String {
        if let Some(overrun) = self.sandboxed.overrun().reason() {
            return overrun.to_owned();
        }
        // Its socket is closed, so it ends by itself or is stuck. What has ended keeps its code.
        let _ = self.sandboxed.kill();
        let (app, status) = (&self.app, self.sandboxed.wait());
        match status.ok().and_then(|status| status.code()) {
            Some(code) => format!("the sandbox of {app} ended with code {code} and no reason"),
            None => format!("the sandbox of {app} was killed; is the machine out of memory?"),
        }
    }

    async fn send(&mut self, frame: &HubFrame) -> Result<(), String> {
        let bytes = wire::encode(frame).map_err(|error| error.to_string())?;
        match timeout(GRACE, self.writer.write_all(&bytes)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(self.lost()),
            Err(_) => {
                // A part of the frame may have gone out, so no further frame could be read either.
                let _ = self.sandboxed.kill();
                Err(format!("the spoke of {} does not read", self.app))
            }
        }
    }
}

fn ended(reason: FailureReason) -> Ended {
    match reason {
        FailureReason::AppExited {
            status: Some(status),
            ..
        } => u8::try_from(status).map_or_else(|_| Ended::Lost(reason.to_string()), Ended::Code),
        FailureReason::AppExited {
            signal: Some(signal),
            ..
        } => Ended::Signal(signal),
        _ => Ended::Lost(reason.to_string()),
    }
}
