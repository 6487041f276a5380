//! One session: start the app, bridge calls, report the end.

mod program;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mcp::{AppClient, AppFailure, AppProcess, Asked, CallResult, Waiting};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;
use wire::{
    AppCommand, AppLimits, FailureReason, HubFrame, Offer, Quote, Refusal, Reply, SpokeFault,
    SpokeFrame, Wish,
};

use crate::asks::Asks;
use crate::files;
use crate::inbox::{BadFrame, Inbox, write_frames};
use crate::orphans::Reaper;

/// Encoded frames that wait for the hub. Few, because each may be megabytes.
const OUTGOING_QUEUE: usize = 4;

/// Requests of the app that wait for the session. More wait in the app's pipe.
const REQUEST_QUEUE: usize = 4;

/// The time in which the hub must take the last frames before the spoke exits.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// How a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The hub said stop, or is gone.
    Stopped,
    /// The app is gone.
    AppFailed,
    /// The hub sent something that is not a frame, or started a second app.
    BadFrame,
}

impl From<BadFrame> for Outcome {
    fn from(_: BadFrame) -> Self {
        Self::BadFrame
    }
}

/// Serves the hub until one side is gone.
pub(crate) async fn serve(stream: UnixStream, orphans: &Reaper) -> Outcome {
    let (read, write) = stream.into_split();
    let (frames, outgoing) = mpsc::channel(OUTGOING_QUEUE);
    let writer = tokio::spawn(write_frames(write, outgoing));
    let mut hub = Hub {
        inbox: Inbox::new(read),
        frames,
        refused: BTreeMap::new(),
    };
    let Err(outcome) = converse(&mut hub, orphans).await;
    // With it goes the only sender of frames: the writer ends when it has written what is left.
    drop(hub);
    let _ = timeout(LAST_WORDS, writer).await;
    outcome
}

/// The conversation's three parts. The error is its end.
async fn converse(hub: &mut Hub, orphans: &Reaper) -> Result<std::convert::Infallible, Outcome> {
    let (command, limits, offer) = match hub.wait_for_start().await? {
        First::App(command, limits, offer) => (command, limits, offer),
        First::Program(command) => return hub.run(&command, orphans).await,
    };
    let (requests, mut asked) = mpsc::channel(REQUEST_QUEUE);
    let client = hub
        .start_app(&command, &limits, &offer, requests, &mut asked, orphans)
        .await?;
    let client = Arc::new(client);
    let outcome = Running::new(hub, Arc::clone(&client), &limits, asked)
        .bridge()
        .await;
    // Calls that held it as well have ended with `bridge`.
    if let Some(client) = Arc::into_inner(client) {
        client.stop().await;
    }
    Err(outcome)
}

/// What the hub has this spoke host.
enum First {
    App(AppCommand, AppLimits, Offer),
    Program(AppCommand),
}

struct Hub {
    inbox: Inbox,
    frames: mpsc::Sender<Vec<u8>>,
    /// How often the app asked for what was not passed on.
    refused: BTreeMap<(Wish, Refusal), u64>,
}

impl Hub {
    async fn wait_for_start(&mut self) -> Result<First, Outcome> {
        loop {
            match self.inbox.next().await? {
                Some(HubFrame::Start { app, limits, offer }) => {
                    return Ok(First::App(app, limits, offer));
                }
                Some(HubFrame::Run { program }) => return Ok(First::Program(program)),
                other => self.answer_early(other).await?,
            }
        }
    }

    async fn start_app(
        &mut self,
        command: &AppCommand,
        limits: &AppLimits,
        offer: &Offer,
        requests: mpsc::Sender<Asked>,
        asked: &mut mpsc::Receiver<Asked>,
        orphans: &Reaper,
    ) -> Result<AppClient, Outcome> {
        let process = match AppProcess::spawn(command) {
            Ok(process) => process,
            Err(reason) => {
                return Err(self
                    .report(AppFailure {
                        reason,
                        stderr: Quote::default(),
                    })
                    .await);
            }
        };
        // Nothing is awaited since its start: the reaper would take its end for an orphan's.
        orphans.spare(process.pid());
        let starting = AppClient::start(process, limits, offer, requests);
        let mut starting = std::pin::pin!(starting);
        loop {
            // Frames of the hub and requests of the app are answered during the start: a hub that says stop
            // does not wait for `start_timeout_ms`, and an app that asks while it starts does not wait for an
            // answer that never comes.
            tokio::select! {
                started = &mut starting => return match started {
                    Ok(client) => {
                        for (wish, why, times, names) in client.notes() {
                            let said = Quote::head(names);
                            self.send(&SpokeFrame::Refused { wish, why, times, said }).await?;
                        }
                        let (server, tools) = (client.server().clone(), client.tools().to_vec());
                        self.send(&SpokeFrame::Ready { server, tools }).await?;
                        Ok(client)
                    }
                    Err(failure) => Err(self.report(failure).await),
                },
                Some(asked) = asked.recv() => {
                    let (wish, why, said) = match asked {
                        Asked::Request(request) => {
                            // No call runs before the app is ready, and there is none that it could be about.
                            request.answer(Reply::Refused(Refusal::NoCall));
                            (Wish::Question, Refusal::NoCall, String::new())
                        }
                        Asked::Refused(wish, why, said) => (wish, why, said),
                        // No call runs.
                        Asked::Progress(..) => continue,
                    };
                    self.refused(wish, why, &said).await?;
                }
                frame = self.inbox.next() => {
                    let frame = frame?;
                    self.answer_early(frame).await?;
                }
            }
        }
    }

    /// Answers what comes while there is no app to ask.
    async fn answer_early(&mut self, frame: Option<HubFrame>) -> Result<(), Outcome> {
        match frame {
            None | Some(HubFrame::Stop) => Err(Outcome::Stopped),
            // A second app in one spoke would have the identity of the first, which is the socket.
            Some(HubFrame::Start { .. } | HubFrame::Run { .. } | HubFrame::Signal { .. }) => {
                Err(Outcome::BadFrame)
            }
            Some(
                HubFrame::Cancel { .. }
                | HubFrame::Pause { .. }
                | HubFrame::Resume { .. }
                // No call runs yet, so these are about calls that were refused.
                | HubFrame::Reply { .. },
            ) => Ok(()),
            Some(HubFrame::Call { id, .. }) => {
                self.send(&SpokeFrame::CallFailed {
                    id,
                    reason: FailureReason::NotReady,
                })
                .await
            }
        }
    }

    /// Tells the hub of a request that is not passed on, when there are twice as many as before.
    async fn refused(&mut self, wish: Wish, why: Refusal, said: &str) -> Result<(), Outcome> {
        let count = self.refused.entry((wish, why)).or_default();
        *count = count.saturating_add(1);
        let times = *count;
        // An app that asks without end costs the hub few frames so.
        match times.is_power_of_two() {
            true => {
                let said = Quote::head(said);
                self.send(&SpokeFrame::Refused {
                    wish,
                    why,
                    times,
                    said,
                })
                .await
            }
            false => Ok(()),
        }
    }

    async fn report(&self, AppFailure { reason, stderr }: AppFailure) -> Outcome {
        match self.send(&SpokeFrame::AppFailed { reason, stderr }).await {
            Ok(()) => Outcome::AppFailed,
            Err(outcome) => outcome,
        }
    }

    /// Sends a frame. One that breaks a limit is our own mistake, and ends the session as that.
    async fn send(&self, frame: &SpokeFrame) -> Result<(), Outcome> {
        let (bytes, sound) = match wire::encode(frame) {
            Ok(bytes) => (bytes, true),
            Err(_) => {
                let reason = FailureReason::Spoke(SpokeFault::Internal);
                let frame = SpokeFrame::AppFailed {
                    reason,
                    stderr: Quote::default(),
                };
                (wire::encode(&frame).map_err(|_| Outcome::AppFailed)?, false)
            }
        };
        self.frames
            .send(bytes)
            .await
            .map_err(|_| Outcome::Stopped)?;
        if sound {
            Ok(())
        } else {
            Err(Outcome::AppFailed)
        }
    }
}

type Answer = (u64, Result<CallResult, FailureReason>);

/// The app runs and is called.
struct Running<'a> {
    hub: &'a mut Hub,
    client: Arc<AppClient>,
    max_calls: u32,
    calls: JoinSet<Answer>,
    /// The running calls; dropping or using the sender cancels.
    cancels: BTreeMap<u64, oneshot::Sender<()>>,
    /// The calls during which the user is asked about a connection.
    paused: BTreeMap<u64, Waiting>,
    /// The app's requests, not yet read.
    asked: mpsc::Receiver<Asked>,
    /// What the hub was asked.
    asks: Asks,
}

impl<'a> Running<'a> {
    fn new(
        hub: &'a mut Hub,
        client: Arc<AppClient>,
        limits: &AppLimits,
        asked: mpsc::Receiver<Asked>,
    ) -> Self {
        let max_calls = limits.max_concurrent_calls;
        Self {
            hub,
            client,
            max_calls,
            calls: JoinSet::new(),
            cancels: BTreeMap::new(),
            paused: BTreeMap::new(),
            asked,
            asks: Asks::default(),
        }
    }

    async fn bridge(mut self) -> Outcome {
        let client = Arc::clone(&self.client);
        let mut ended = std::pin::pin!(client.ended());
        loop {
            // In the order in which the app writes them: what it asks and says during a call, the call's answer, its end.
            let step = tokio::select! {
                biased;
                Some(asked) = self.asked.recv() => self.ask(asked).await,
                Some(answer) = self.calls.join_next() => match answer {
                    Ok(answer) => self.pass_on(answer).await,
                    // A call that panicked has no id to answer to.
                    Err(_) => Err(self.internal().await),
                },
                failure = &mut ended => Err(self.hub.report(failure).await),
                frame = self.hub.inbox.next() => match frame {
                    Ok(frame) => self.obey(frame).await,
                    Err(bad) => Err(bad.into()),
                },
            };
            if let Err(outcome) = step {
                // Running calls hold the client; they are of no use any more.
                self.calls.shutdown().await;
                return outcome;
            }
        }
    }

    async fn obey(&mut self, frame: Option<HubFrame>) -> Result<(), Outcome> {
        match frame {
            Some(HubFrame::Call {
                id,
                tool,
                arguments,
                timeout_ms,
                traceparent,
            }) => {
                let time = Duration::from_millis(timeout_ms);
                self.call(id, tool, arguments, traceparent, time).await
            }
            Some(HubFrame::Cancel { id }) => {
                // Without its sender the call ends, and says itself that it was cancelled.
                self.cancels.remove(&id);
                Ok(())
            }
            Some(HubFrame::Pause { id }) => {
                // A pause that crosses the end of its call would stop the time of the others.
                if self.cancels.contains_key(&id) {
                    self.paused.insert(id, self.client.wait());
                }
                Ok(())
            }
            Some(HubFrame::Resume { id }) => {
                self.paused.remove(&id);
                Ok(())
            }
            Some(HubFrame::Reply { request, reply }) => {
                self.asks.answer(request, reply);
                Ok(())
            }
            None | Some(HubFrame::Stop) => Err(Outcome::Stopped),
            Some(HubFrame::Start { .. } | HubFrame::Run { .. } | HubFrame::Signal { .. }) => {
                Err(Outcome::BadFrame)
            }
        }
    }

    async fn call(
        &mut self,
        id: u64,
        tool: String,
        arguments: String,
        traceparent: Option<String>,
        time: Duration,
    ) -> Result<(), Outcome> {
        // The answers of two calls with one number could not be told apart.
        let refusal = if self.cancels.contains_key(&id) {
            Some(FailureReason::DuplicateCall)
        // The tasks are counted, not `cancels`: a cancelled call works until its task has ended.
        } else if self.calls.len() >= usize::try_from(self.max_calls).unwrap_or(usize::MAX) {
            Some(FailureReason::TooManyCalls(self.max_calls.into()))
        } else {
            None
        };
        if let Some(reason) = refusal {
            return self.hub.send(&SpokeFrame::CallFailed { id, reason }).await;
        }
        let (cancel, cancelled) = oneshot::channel::<()>();
        self.cancels.insert(id, cancel);
        let client = Arc::clone(&self.client);
        self.calls.spawn(async move {
            let cancelled = async { cancelled.await.unwrap_or(()) };
            let called = client.call(id, &tool, &arguments, traceparent, time, cancelled);
            (id, called.await)
        });
        Ok(())
    }

    /// Asks the hub for what the app asks for, on behalf of the call that runs.
    async fn ask(&mut self, asked: Asked) -> Result<(), Outcome> {
        let request = match asked {
            Asked::Request(request) => request,
            Asked::Refused(wish, why, said) => return self.hub.refused(wish, why, &said).await,
            Asked::Progress(call, progress) if self.cancels.contains_key(&call) => {
                return self
                    .hub
                    .send(&SpokeFrame::Progress { call, progress })
                    .await;
            }
            Asked::Progress(..) => return Ok(()),
        };
        // A cancelled call is not among them, so the user is not asked on behalf of one that was given up.
        match self.asks.begin(self.cancels.keys().copied(), request) {
            Ok(frame) => self.hub.send(&frame).await,
            Err(why) => self.hub.refused(Wish::Question, why, "").await,
        }
    }

    async fn pass_on(&mut self, (id, result): Answer) -> Result<(), Outcome> {
        // Pauses and requests of the call end with it, before the hub hears of the end: a pause that stayed would
        // stop the clock of every other call.
        self.cancels.remove(&id);
        self.paused.remove(&id);
        self.asks.forget(id);
        if let Some((why, file)) = files::missed(&result) {
            self.hub.refused(Wish::File, why, &file).await?;
        }
        let frame = match result {
            Ok(CallResult {
                content,
                is_error,
                claims,
                images,
                exact,
            }) => SpokeFrame::Result {
                id,
                content,
                is_error,
                claims,
                images,
                exact,
            },
            Err(reason) => SpokeFrame::CallFailed { id, reason },
        };
        self.hub.send(&frame).await
    }

    async fn internal(&self) -> Outcome {
        let reason = FailureReason::Spoke(SpokeFault::Internal);
        self.hub
            .report(AppFailure {
                reason,
                stderr: Quote::default(),
            })
            .await
    }
}
