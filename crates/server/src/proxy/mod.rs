//! The guard proxy: any agent that speaks OpenAI's chat completions is protected by changing its
//! base URL.
//!
//! The client holds the conversation and sends all of it with every request. The proxy rebuilds
//! the labelled history that it stands for (`rebuild`): results by the policy, the user's words
//! by configuration, and the assistant's by what the proxy remembers (`memory`) of the very same
//! beginning of the same client's conversation; what it does not remember has the most restrictive
//! label. From there on the turn machine decides (`turn`): the same one that runs apps here.

mod approve;
mod desk;
mod grants;
mod label_cache;
mod memory;
mod rebuild;
mod transcript;
mod turn;

use std::{
    future::Future,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use agent::{Execution, Settings, Usage};
use axum::{
    Json, Router,
    body::Body,
    extract::{Request, State},
    http::{
        HeaderMap,
        header::{AUTHORIZATION, CONTENT_TYPE},
    },
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use hub::trace::Event;
use ifc::{Lattice, Policy, Screener};
use llm::{ApiKey, Broker, OpenAi, RequestOptions, TokenLimit, ToolChoice};
use serde_json::json;
use tokio::{
    net::TcpListener,
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
};

pub use self::{
    approve::{Approver, DropCalls, Observer},
    desk::ApprovalDesk,
    memory::MemoryLimits,
    rebuild::ClientLabels,
};
use self::{
    grants::{AllGrants, Grants},
    label_cache::LabelCache,
    memory::Memory,
    rebuild::{News, Reader, Rebuilt},
    transcript::{Chain, Digest, hash},
    turn::{Answered, Live, Turn, fresh, internal},
};
use crate::{
    consult::random,
    openai_api::{
        http,
        request::{self, ChatBody, Choice as Wish},
        response::{ApiError, Envelope},
        stream::{Teller, Told, stream},
    },
    trace_file::{TraceError, TraceFile},
};

/// Requests served at once. Most of them wait: for the model, or for the user.
const MAX_REQUESTS: usize = 1024;
/// Choices of one request. Each is a turn of its own.
const MAX_CHOICES: u32 = 8;
/// Bytes of a conversation's name.
const NAME_LIMIT: usize = 128;
/// The header by which a client names its conversation.
const CONVERSATION: &str = "x-sluice-conversation";
/// As long as a turn of the hub's own, with time for the user to answer.
const TURN_TIMEOUT: Duration = Duration::from_secs(900);

/// The parts of a proxy.
pub struct ProxySetup {
    /// The language models: the upstream, which passes the client's model and key through, and
    /// perhaps another one that judges.
    pub broker: Arc<Broker>,
    /// The rules.
    pub policy: Arc<dyn Policy>,
    /// The names of labels.
    pub lattice: Arc<Lattice>,
    /// The app whose rules the clients' tools have.
    pub app: String,
    /// How turns run. Calls always run at the client, whatever this says.
    pub settings: Settings,
    /// Who says which regions a step depends on.
    pub screener: Arc<dyn Screener>,
    /// Who answers questions.
    pub approver: Arc<dyn Approver>,
    /// The desk whose questions are answered over HTTP, if it is to be reached there.
    pub desk: Option<Arc<ApprovalDesk>>,
    /// Who watches.
    pub observer: Arc<dyn Observer>,
    /// What is said of the text that clients bring.
    pub labels: ClientLabels,
    /// The trace of all conversations. What it cannot take is not done.
    pub trace: Option<TraceFile>,
    /// Who lists the models; without it the broker's providers are listed.
    pub models: Option<Arc<OpenAi>>,
    /// Bounds of what is remembered.
    pub memory: MemoryLimits,
    /// The longest time of one request, questions included.
    pub turn_timeout: Duration,
    /// Where to listen; port 0 takes a free one.
    pub address: SocketAddr,
    /// Whether other machines may connect. The proxy asks nobody who they are.
    pub allow_remote: bool,
}

impl ProxySetup {
    /// A proxy on a free port of loopback that drops every call which would need a yes, is watched
    /// by nobody, and keeps no trace.
    pub fn new(
        broker: Arc<Broker>,
        policy: Arc<dyn Policy>,
        lattice: Arc<Lattice>,
        app: impl Into<String>,
        screener: Arc<dyn Screener>,
    ) -> Self {
        Self {
            broker,
            policy,
            lattice,
            app: app.into(),
            settings: Settings::default(),
            screener,
            approver: Arc::new(DropCalls),
            desk: None,
            observer: Arc::new(()),
            labels: ClientLabels::default(),
            trace: None,
            models: None,
            memory: MemoryLimits::default(),
            turn_timeout: TURN_TIMEOUT,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            allow_remote: false,
        }
    }
}

/// Why a [`Proxy`] does not run.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// The address is not loopback.
    #[error("{0} can be reached from other machines; use 127.0.0.1 or allow remote clients")]
    NotLoopback(SocketAddr),
    /// The network refused.
    #[error("proxy on {address}: {source}; choose another port")]
    Io {
        /// The address.
        address: SocketAddr,
        /// What it said.
        source: io::Error,
    },
    /// The trace cannot be written.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The system has no randomness.
    #[error("{0}; nothing can be kept apart without it")]
    Randomness(String),
}

/// Serves `/v1/chat/completions` and `/v1/models`, and guards what goes through.
pub struct Proxy {
    listener: TcpListener,
    address: SocketAddr,
    router: Router,
}

impl Proxy {
    /// Takes the address. Nothing is served before [`Proxy::serve`].
    ///
    /// # Errors
    /// See [`ProxyError`].
    pub async fn bind(mut setup: ProxySetup) -> Result<Self, ProxyError> {
        let address = setup.address;
        if !address.ip().is_loopback() && !setup.allow_remote {
            return Err(ProxyError::NotLoopback(address));
        }
        let failed = |source| ProxyError::Io { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let secret = random().map_err(ProxyError::Randomness)?;
        if let Some(trace) = &mut setup.trace {
            trace.append(Event::SessionStarted {
                session: "proxy".to_owned(),
                mode: setup.settings.mode.name().to_owned(),
                screener: setup.screener.name().to_owned(),
            })?;
        }
        Ok(Self {
            listener,
            address,
            router: router(setup, secret),
        })
    }

    /// The address that was taken.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What `OPENAI_BASE_URL` must be to reach this proxy.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Serves until `shutdown` is ready and the requests under way are answered. Dropping the
    /// future ends sooner.
    ///
    /// # Errors
    /// The network fails.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) -> Result<(), ProxyError> {
        let address = self.address;
        http::serve(self.listener, self.router, shutdown)
            .await
            .map_err(|source| ProxyError::Io { address, source })
    }
}

/// What all requests share. Nothing in it is of one conversation, except what is kept under that
/// conversation's digest.
struct Shared {
    broker: Arc<Broker>,
    policy: Arc<dyn Policy>,
    lattice: Arc<Lattice>,
    app: String,
    settings: Settings,
    screener: Arc<dyn Screener>,
    approver: Arc<dyn Approver>,
    observer: Arc<dyn Observer>,
    labels: ClientLabels,
    trace: Option<Mutex<TraceFile>>,
    models: Option<Arc<OpenAi>>,
    memory: Memory,
    cache: LabelCache,
    grants: AllGrants,
    secret: Digest,
    turn_timeout: Duration,
    slots: Arc<Semaphore>,
    allow_remote: bool,
}

impl Shared {
    /// Whether anybody wants to know of events.
    fn records(&self) -> bool {
        self.trace.is_some() || self.observer.attends()
    }

    /// What cannot be recorded must not be done.
    fn record(&self, conversation: &str, event: Event) -> Result<(), ApiError> {
        let Some(trace) = &self.trace else {
            self.observer.event(conversation, &event);
            return Ok(());
        };
        let record = {
            let mut trace = trace.lock().unwrap_or_else(PoisonError::into_inner);
            trace.append_to(Some(conversation), event)
        };
        let record = record.map_err(|error| internal(&error.to_string()))?;
        self.observer.event(conversation, &record.event);
        Ok(())
    }
}

fn router(setup: ProxySetup, secret: Digest) -> Router {
    let desk = setup.desk.as_ref().map(ApprovalDesk::router);
    let shared = Arc::new(Shared {
        broker: setup.broker,
        policy: setup.policy,
        lattice: setup.lattice,
        app: setup.app,
        settings: Settings {
            execution: Execution::Elsewhere,
            ..setup.settings
        },
        screener: setup.screener,
        approver: setup.approver,
        observer: setup.observer,
        labels: setup.labels,
        trace: setup.trace.map(Mutex::new),
        models: setup.models,
        memory: Memory::new(setup.memory),
        cache: LabelCache::default(),
        grants: AllGrants::default(),
        secret,
        turn_timeout: setup.turn_timeout,
        slots: Arc::new(Semaphore::new(MAX_REQUESTS)),
        allow_remote: setup.allow_remote,
    });
    let api = Router::new()
        .route("/v1/chat/completions", post(chat))
        .route("/v1/models", get(models))
        .with_state(shared.clone());
    let all = match desk {
        Some(desk) => api.merge(desk),
        None => api,
    };
    all.fallback(http::nothing_here)
        .layer(middleware::from_fn_with_state(shared, check_host))
}

/// Refuses web pages that have made their own host name resolve to loopback (DNS rebinding).
async fn check_host(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    if shared.allow_remote || http::names_loopback(request.headers()) {
        next.run(request).await
    } else {
        http::wrong_host().into_response()
    }
}

async fn models(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let Some(upstream) = &shared.models else {
        let names = shared.broker.names();
        let names = names.map(|name| json!({"id": name, "object": "model", "owned_by": "sluice"}));
        let names: Vec<_> = names.collect();
        return Ok(Json(json!({"object": "list", "data": names})).into_response());
    };
    let options = RequestOptions {
        bearer: bearer(&headers),
        ..RequestOptions::default()
    };
    let list = upstream.models(&options).await;
    let list = list.map_err(ApiError::from_upstream)?;
    Ok(([(CONTENT_TYPE, "application/json")], list).into_response())
}

/// One request, read and rebuilt.
struct Asked {
    conversation: String,
    grants: Option<Arc<Grants>>,
    rebuilt: Rebuilt,
    options: RequestOptions,
    choices: usize,
}

async fn chat(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let slot = shared.slots.clone().try_acquire_owned();
    let slot = slot.map_err(|_| ApiError::busy())?;
    let body = http::json_body(&headers, body).await?;
    let mut body = request::parse(&body).map_err(ApiError::invalid)?;
    let asked = asked(&shared, &headers, &mut body)?;
    let envelope = Envelope::new(fresh("chatcmpl-")?, &body.model);
    if body.streams() {
        let start = (0..asked.choices).map(|index| envelope.start(index));
        let usage = body.streams_usage();
        let start = start.collect();
        let run = |teller| told(shared, asked, envelope, teller, usage, slot);
        return stream(start, run).await;
    }
    let mut cost = Usage::default();
    let mut choices = Vec::new();
    for answered in whole(&shared, asked).await? {
        add(&mut cost, &answered.usage);
        choices.push(answered.choice);
    }
    Ok(Json(envelope.whole(&choices, &cost)).into_response())
}

/// Reads the request, and records what is new in it.
fn asked(shared: &Shared, headers: &HeaderMap, body: &mut ChatBody) -> Result<Asked, ApiError> {
    body.refuse_foreign_parts().map_err(ApiError::invalid)?;
    let options = options(headers, body).map_err(ApiError::invalid)?;
    let choices = body.n.unwrap_or(1);
    if !(1..=MAX_CHOICES).contains(&choices) {
        let message = format!("`n` must be 1 to {MAX_CHOICES}");
        return Err(ApiError::invalid(message));
    }
    let tenant = headers.get(AUTHORIZATION);
    let tenant = hash(tenant.map_or(&[], |key| key.as_bytes()));
    let named = named(headers).map_err(ApiError::invalid)?;
    let chain = Chain::new(&shared.secret, &tenant, named.as_deref());
    let grants = named.is_some().then(|| shared.grants.of(&chain.digest()));
    let reader = Reader {
        app: &shared.app,
        policy: &*shared.policy,
        labels: &shared.labels,
        memory: &shared.memory,
        cache: &shared.cache,
        result_bytes: shared.settings.limits.result_bytes,
    };
    let mut rebuilt = reader.read(body, chain).map_err(ApiError::invalid)?;
    let conversation = named.unwrap_or_else(|| short_name(&rebuilt.beginning));
    let news = std::mem::take(&mut rebuilt.news);
    if shared.records() {
        for news in news {
            shared.record(&conversation, event(shared, news))?;
        }
    }
    Ok(Asked {
        conversation,
        grants,
        rebuilt,
        options,
        choices: usize::try_from(choices).unwrap_or(1),
    })
}

/// All choices, each decided by itself.
async fn whole(shared: &Arc<Shared>, asked: Asked) -> Result<Vec<Answered>, ApiError> {
    if asked.choices == 1 {
        return Ok(vec![one(shared, &asked, None).await?]);
    }
    let asked = Arc::new(asked);
    let mut tasks = JoinSet::new();
    for index in 0..asked.choices {
        let (shared, asked) = (shared.clone(), asked.clone());
        tasks.spawn(async move { (index, one(&shared, &asked, None).await) });
    }
    let mut answers: Vec<(usize, Answered)> = Vec::new();
    while let Some(done) = tasks.join_next().await {
        let (index, answer) = done.map_err(|_| internal("a choice was lost"))?;
        answers.push((index, answer?));
    }
    answers.sort_by_key(|(index, _)| *index);
    Ok(answers.into_iter().map(|(_, answer)| answer).collect())
}

async fn one(shared: &Shared, asked: &Asked, live: Option<Live>) -> Result<Answered, ApiError> {
    let grants = asked.grants.as_deref();
    let turn = Turn::new(shared, &asked.conversation, grants, &asked.options, live);
    turn.run(asked.rebuilt.clone()).await
}

/// Tells a stream all choices, each as its pieces come.
async fn told(
    shared: Arc<Shared>,
    asked: Asked,
    envelope: Envelope,
    teller: Teller,
    with_usage: bool,
    _slot: OwnedSemaphorePermit,
) {
    let asked = Arc::new(asked);
    let mut tasks = JoinSet::new();
    for index in 0..asked.choices {
        let (shared, asked) = (shared.clone(), asked.clone());
        let (envelope, teller) = (envelope.clone(), teller.clone());
        tasks.spawn(async move {
            let live = live(index, envelope.clone(), teller.clone());
            let answered = one(&shared, &asked, Some(live)).await?;
            for chunk in envelope.end(index, &answered.choice) {
                teller.tell(Told::Chunk(chunk));
            }
            Ok(answered.usage)
        });
    }
    let mut cost = Usage::default();
    while let Some(done) = tasks.join_next().await {
        match done.unwrap_or_else(|_| Err(internal("a choice was lost"))) {
            Ok(usage) => add(&mut cost, &usage),
            Err(error) => return teller.tell(Told::Failed(error)),
        }
    }
    if with_usage {
        teller.tell(Told::Chunk(envelope.cost(&cost)));
    }
    teller.tell(Told::Done);
}

fn live(index: usize, envelope: Envelope, teller: Teller) -> Live {
    Box::new(move |piece| teller.tell(Told::Chunk(envelope.text(index, piece))))
}

/// The client's wishes, for the upstream.
fn options(headers: &HeaderMap, body: &mut ChatBody) -> Result<RequestOptions, String> {
    let tool_choice = match body.choice()? {
        Wish::Auto => None,
        Wish::None => Some(ToolChoice::None),
        Wish::Required => Some(ToolChoice::Required),
        Wish::Tool(name) => Some(ToolChoice::Tool(name)),
    };
    let token_limit = match (body.max_completion_tokens, body.max_tokens) {
        (Some(limit), _) => TokenLimit::MaxCompletionTokens(limit),
        (None, Some(limit)) => TokenLimit::MaxTokens(limit),
        (None, None) => TokenLimit::Server,
    };
    Ok(RequestOptions {
        model: Some(body.model.clone()),
        bearer: bearer(headers),
        token_limit,
        stream: None,
        tool_choice,
        members: body.sampling(),
    })
}

fn bearer(headers: &HeaderMap) -> Option<ApiKey> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    value.strip_prefix("Bearer ").map(ApiKey::new)
}

/// The name that the client gave its conversation.
fn named(headers: &HeaderMap) -> Result<Option<String>, String> {
    let Some(name) = headers.get(CONVERSATION) else {
        return Ok(None);
    };
    let name = name.to_str().ok().filter(|name| {
        (1..=NAME_LIMIT).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic())
    });
    match name {
        Some(name) => Ok(Some(name.to_owned())),
        None => Err(format!(
            "`{CONVERSATION}` must be 1 to {NAME_LIMIT} visible ASCII characters"
        )),
    }
}

/// A name for people, where the client gave none: the same for all requests of a conversation.
/// Two conversations that begin with the same words share it; nothing is decided by it.
fn short_name(beginning: &Chain) -> String {
    let digest = beginning.digest();
    digest
        .iter()
        .take(6)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn event(shared: &Shared, news: News) -> Event {
    match news {
        News::User(text) => Event::User {
            label: shared.lattice.describe(&text.label()),
            text: text.reveal_tcb().to_owned(),
        },
        News::Returned {
            call,
            bytes,
            label,
            regions,
        } => Event::Returned {
            call: hub::trace::Call {
                app: call.app,
                tool: call.tool,
                arguments: call.arguments,
                label: shared.lattice.describe(&call.label),
            },
            bytes,
            is_error: false,
            label: shared.lattice.describe(&label),
            regions,
        },
    }
}

fn add(sum: &mut Usage, usage: &Usage) {
    sum.prompt_tokens = sum.prompt_tokens.saturating_add(usage.prompt_tokens);
    sum.cached_tokens = sum.cached_tokens.saturating_add(usage.cached_tokens);
    sum.completion_tokens = sum
        .completion_tokens
        .saturating_add(usage.completion_tokens);
}
