//! A running app that can be called.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ifc::{Arguments, Label};
use jsonschema::Validator;
use rmcp::model::{CallToolRequest, ClientRequest, GetMeta, InputRequiredResult, PingRequest};
use rmcp::service::{ClientInitializeError, RoleClient, RunningService, serve_client};
use serde_json::{Map, Value};
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout};
use wire::limits::{MAX_EXACT_BYTES, MAX_SERVER_INFO_BYTES};
use wire::{
    AppLimits, Breach, FailureReason, Offer, Quote, Refusal, ServerInfo, SpokeFault,
    ToolDescription, Wish, head,
};

use crate::exact;
use crate::guard::breach;
use crate::mediator::{Asked, Mediator, Waiting};
use crate::pages::PAGES_TIME;
use crate::process::{AppFailure, AppProcess, Ending};
use crate::render::{Rendered, render};
use crate::schema;
use crate::tools::{self, Toolbox};
use crate::transport::GuardedTransport;

/// An initialized app. Dropping it ends the app.
pub struct AppClient {
    service: RunningService<RoleClient, Mediator>,
    server: ServerInfo,
    toolbox: Toolbox,
    /// The tools that are no longer what they were at the start.
    changed: Mutex<BTreeSet<String>>,
    mediator: Mediator,
    max_result: usize,
    ending: EndOnDrop,
}

/// The time in which an app must answer a ping after a call that took too long. A server that works on one thing at a time
/// reads nothing meanwhile.
const PING_TIME: Duration = Duration::from_secs(10);

/// How often one call may need input before it goes on. Each round is a question or a completion.
const MAX_INPUT_ROUNDS: usize = 8;

/// What a tool gave back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallResult {
    /// The result as one text.
    pub content: String,
    /// Whether the app calls it an error.
    pub is_error: bool,
    /// What the app says of its label.
    pub claims: Vec<String>,
    /// Its images, as base64; none where `exact` has them.
    pub images: Vec<String>,
    /// The result as the app wrote it, if the hub asked for that.
    pub exact: Option<String>,
}

impl AppClient {
    /// Initializes the app and lists its tools, all within `limits.start_timeout_ms`. When the future
    /// is dropped the app is ended. What the app asks for as its client is sent to `requests`, whether
    /// a call runs or not.
    ///
    /// # Errors
    /// The first reason, when the app is gone.
    pub async fn start(
        process: AppProcess,
        limits: &AppLimits,
        offer: &Offer,
        requests: mpsc::Sender<Asked>,
    ) -> Result<Self, AppFailure> {
        let (output_ended, output_end) = oneshot::channel();
        let resources = |_| AppFailure {
            reason: FailureReason::Spoke(SpokeFault::Resources),
            stderr: Quote::default(),
        };
        let (pipes, ending) = process.watch(output_end).map_err(resources)?;
        // From here on the app ends with this future, also when its caller drops it.
        let ending = EndOnDrop(ending);
        let max_line = size(limits.max_line_bytes);
        let mediator = Mediator::new(offer.clone(), requests);
        let log = mediator.requests();
        let transport =
            GuardedTransport::open(pipes, ending.0.clone(), output_ended, max_line, log);
        let time = Duration::from_millis(limits.start_timeout_ms);
        // A list that does not end leaves time for what it has.
        let deadline = Instant::now() + (time * 9 / 10).min(PAGES_TIME);
        let outcome = tokio::select! {
            biased;
            // First: an app that has broken a rule has not started, even if its answer was ready.
            reason = ending.0.cause() => Err(reason),
            outcome = timeout(time, handshake(transport, mediator.clone(), deadline, &ending.0)) => {
                outcome.unwrap_or(Err(FailureReason::StartTimeout(limits.start_timeout_ms)))
            }
        };
        match outcome {
            Ok((service, server, toolbox)) => Ok(Self {
                service,
                server,
                toolbox,
                changed: Mutex::default(),
                mediator,
                max_result: size(limits.max_result_bytes),
                ending,
            }),
            Err(reason) => {
                // Kept only if nothing was recorded before: what fails later mostly follows from the first
                // cause.
                ending.0.record(reason);
                Err(ending.0.complete().await)
            }
        }
    }

    /// Who the app says it is.
    #[must_use]
    pub fn server(&self) -> &ServerInfo {
        &self.server
    }

    /// What the app offers, in its own words.
    #[must_use]
    pub fn tools(&self) -> &[ToolDescription] {
        &self.toolbox.described
    }

    /// What of the app's tools is left out or unchecked, and why: how many they are, and their names.
    pub fn notes(&self) -> impl Iterator<Item = (Wish, Refusal, u64, &str)> {
        let notes = self.toolbox.notes.iter();
        notes.map(|((wish, why), (count, names))| (*wish, *why, *count, names.as_str()))
    }

    /// Calls a tool after its arguments (JSON text of an object) have been checked against its schema.
    /// The time counts from now, but not while the app waits for an answer of ours. When it is over, or `cancel` resolves
    /// first, the app is told and the call ends; its late answer is thrown away. `number` is the hub's for the call. A tool of the app's own is told `traceparent`.
    ///
    /// # Errors
    /// Why there is no result. If the app is gone as well, [`AppClient::ended`] says so.
    pub async fn call(
        &self,
        number: u64,
        tool: &str,
        arguments: &str,
        traceparent: Option<String>,
        time: Duration,
        cancel: impl Future<Output = ()>,
    ) -> Result<CallResult, FailureReason> {
        let validator = self
            .toolbox
            .validators
            .get(tool)
            // The validators are those of the list at the start: a tool that the app has added since has none.
            .ok_or(FailureReason::UnknownTool)?;
        let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let result = tokio::select! {
            biased;
            // First: what a call has done is done, so its result counts although the app has ended after it, or the
            // call was cancelled at the same moment.
            result = self.checked_call(number, tool, arguments, traceparent, validator.clone()) => result,
            reason = self.ending.0.cause() => Err(reason),
            () = cancel => Err(FailureReason::Cancelled),
            () = self.at_work(time) => Err(FailureReason::CallTimeout(ms)),
        };
        if let Err(FailureReason::CallTimeout(_)) = result {
            self.end_unless_alive();
        }
        // The end of the app is recorded at once, for the task that waits for it.
        if let Err(reason) = &result
            && reason.ends_app()
        {
            self.ending.0.record(reason.clone());
        }
        result
    }

    /// Ends the app if it does not answer a ping either.
    fn end_unless_alive(&self) {
        let (peer, ending) = (self.service.peer().clone(), self.ending.0.clone());
        tokio::spawn(async move {
            let ping = PingRequest::default();
            let ping = exact::ask(&peer, ping, Breach::CallAnswer, &ending);
            // An error is an answer.
            if timeout(PING_TIME, ping).await.is_err() {
                let ms = u64::try_from(PING_TIME.as_millis()).unwrap_or(u64::MAX);
                ending.record(FailureReason::Unresponsive(ms));
            }
        });
    }

    /// Stops the clock of all calls until the returned guard is dropped. It is for waits that are not seen
    /// here, such as a question to the user about a connection.
    #[must_use]
    pub fn wait(&self) -> Waiting {
        self.mediator.wait()
    }

    /// Waits until the app is gone, and says why.
    pub async fn ended(&self) -> AppFailure {
        self.ending.0.complete().await
    }

    /// Ends the app and waits until it is gone.
    pub async fn stop(self) {
        self.ending.0.record(FailureReason::Cancelled);
        self.ending.0.complete().await;
    }

    /// Resolves when the app has worked for this long, not counting the time in which it waited for an answer
    /// of ours.
    async fn at_work(&self, time: Duration) {
        let mut waiting = self.mediator.waiting();
        let mut left = time;
        // The sender of `waiting` is ours, so there is no error.
        while waiting.wait_for(|count| *count == 0).await.is_ok() {
            let begun = Instant::now();
            tokio::select! {
                () = sleep(left) => return,
                _ = waiting.wait_for(|count| *count > 0) => {
                    left = left.saturating_sub(begun.elapsed());
                }
            }
        }
    }

    async fn checked_call(
        &self,
        number: u64,
        tool: &str,
        arguments: &str,
        traceparent: Option<String>,
        validator: Option<Arc<Validator>>,
    ) -> Result<CallResult, FailureReason> {
        let Checked { text, members } = check_arguments(arguments.to_owned(), validator).await?;
        if self.has_changed(tool).await {
            return Err(FailureReason::ToolChanged);
        }
        if let Some(extra) = self.toolbox.extras.get(tool) {
            let (rendered, written) = extra
                .call(self.service.peer(), &members, &self.ending.0)
                .await?;
            return self.accept(rendered, written);
        }
        let mut params = exact::call(number, tool.to_owned(), text);
        for _ in 0..=MAX_INPUT_ROUNDS {
            let mut request = ClientRequest::from(CallToolRequest::new(params.clone()));
            if let Some(span) = &traceparent {
                request.get_meta_mut().set_traceparent(span);
            }
            let (peer, ending) = (self.service.peer(), &self.ending.0);
            let called = exact::ask(peer, request, Breach::CallAnswer, ending).await?;
            let Ok(needed) = serde_json::from_str::<InputRequiredResult>(&called) else {
                let rendered = render(&called).ok_or_else(|| breach(Breach::CallAnswer))?;
                return self.accept(rendered, Some(called));
            };
            // The same call again, as the protocol has it: what is asked for stands beside it.
            (params.input_responses, params.request_state) = self.mediator.inputs(needed).await?;
        }
        Err(breach(Breach::CallAnswer))
    }

    /// Whether a tool is no longer what it was at the start, by the list of now if the app has said that it
    /// has changed. However often it says so, a call makes one new list at most.
    async fn has_changed(&self, tool: &str) -> bool {
        // Held while the list is made: a call that comes meanwhile waits for what it says.
        let mut changed = self.changed.lock().await;
        // Dropped before `seen`, as when this call runs out of time, it makes the next call look again.
        if let Some(unseen) = self.mediator.takes_change() {
            let offer = self.mediator.offer();
            let deadline = Instant::now() + PAGES_TIME;
            let now = tools::list(self.service.peer(), offer, deadline, &self.ending.0).await;
            // Without a list nothing is known of any tool.
            let now = now.unwrap_or_default();
            let names = self.toolbox.described.iter().map(|tool| &tool.name);
            // Against the list at the start, which the user has reviewed, and not against the one before.
            let other = names.filter(|name| !self.toolbox.is_unchanged(name, &now));
            *changed = other.cloned().collect();
            unseen.seen();
        }
        changed.contains(tool)
    }

    /// A result, with what the app wrote of it if the hub asks for that.
    fn accept(
        &self,
        rendered: Rendered,
        written: Option<String>,
    ) -> Result<CallResult, FailureReason> {
        // Refused, not cut: no label rule reads half a JSON text, and the cut part could be what its labels depend on.
        if rendered.text.len() > self.max_result {
            return Err(FailureReason::ResultTooLong(self.max_result as u64));
        }
        let written = written.filter(|_| self.mediator.offer().exact);
        if written
            .as_ref()
            .is_some_and(|it| it.len() > MAX_EXACT_BYTES)
        {
            return Err(FailureReason::ResultTooLong(MAX_EXACT_BYTES as u64));
        }
        // A list, which a tolerant reader takes for an object, has no place for labels.
        let exact = written.filter(|it| it.trim_start().starts_with('{'));
        Ok(CallResult {
            content: rendered.text,
            is_error: rendered.is_error,
            claims: rendered.claims,
            // An exact result has them.
            images: exact.as_ref().map_or(rendered.images, |_| Vec::new()),
            exact,
        })
    }
}

/// Arguments that fit the schema of their tool.
struct Checked {
    /// What an app is sent: the canonical text, in which nothing is rounded or left out.
    text: String,
    /// What a reader finds in it.
    members: Map<String, Value>,
}

/// Parses and checks on another thread: an app's schema can be made to take long.
async fn check_arguments(
    arguments: String,
    validator: Option<Arc<Validator>>,
) -> Result<Checked, FailureReason> {
    let checked = tokio::task::spawn_blocking(move || {
        let unusable = || Quote::head("the arguments are not a JSON object within the limits");
        // Before there are values of it, which take many times the bytes of the text.
        wire::json::check_object(&arguments).map_err(|_| unusable())?;
        // The hub's own reader. About what it refuses, a name that stands twice for one, the app and the check below may
        // disagree.
        let read = Arguments::parse(&arguments, &Label::bottom()).map_err(|_| unusable())?;
        let text = read.to_json();
        let value: Value = serde_json::from_str(&text).map_err(|_| unusable())?;
        // Numbers are rounded here, which can only make the schema's bounds less sharp. The app has to know them itself.
        if let Some(validator) = validator {
            schema::check(&validator, &value)?;
        }
        match value {
            Value::Object(members) => Ok(Checked { text, members }),
            _ => Err(unusable()),
        }
    });
    match checked.await {
        Ok(result) => result.map_err(FailureReason::InvalidArguments),
        Err(_) => Err(FailureReason::Spoke(SpokeFault::Internal)),
    }
}

type Handshaken = (RunningService<RoleClient, Mediator>, ServerInfo, Toolbox);

async fn handshake(
    transport: GuardedTransport,
    mediator: Mediator,
    deadline: Instant,
    ending: &Ending,
) -> Result<Handshaken, FailureReason> {
    let offer = mediator.offer().clone();
    let service = match serve_client(mediator, transport).await {
        Ok(service) => service,
        Err(error) => return Err(initialize_failure(error, ending).await),
    };
    let info = service.peer().peer_info();
    let server = info.and_then(|info| info.server_info.clone()).map_or_else(
        || ServerInfo {
            name: String::new(),
            version: String::new(),
        },
        |it| ServerInfo {
            name: short(&it.name),
            version: short(&it.version),
        },
    );
    let toolbox = tools::list(service.peer(), &offer, deadline, ending).await?;
    Ok((service, server, toolbox))
}

async fn initialize_failure(error: ClientInitializeError, ending: &Ending) -> FailureReason {
    match error {
        ClientInitializeError::ConnectionClosed(_)
        | ClientInitializeError::TransportError { .. } => ending.likely_cause().await,
        ClientInitializeError::JsonRpcError(error) => FailureReason::Protocol {
            breach: Breach::Initialize,
            said: Quote::head(&error.message),
        },
        _ => breach(Breach::Initialize),
    }
}

fn short(text: &str) -> String {
    head(text, MAX_SERVER_INFO_BYTES).to_owned()
}

fn size(limit: u32) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX)
}

/// Ends the app when its client is dropped.
struct EndOnDrop(Ending);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.record(FailureReason::Cancelled);
    }
}
