//! The guard proxy: any agent that speaks Chat Completions, Responses or Anthropic's Messages is protected by changing its
//! base URL.
//!
//! The client holds the conversation and sends all of it with every request. The proxy rebuilds
//! the labelled history that it stands for (`rebuild`): results by the policy, the user's words
//! by configuration, and the assistant's by what the proxy remembers (`memory`) of the very same
//! beginning of the same client's conversation; what it does not remember has the most restrictive
//! label. The user's words, instructions, tools and the other members of a request have the labels of what they
//! repeat of results and answers (`hub::recognise`). From there on the turn machine decides (`turn`): the same one that runs apps here.

mod behind;
mod kept;
mod memory;
mod models;
pub(crate) mod observe;
mod observer;
mod rebuild;
pub(crate) mod records;
mod request;
mod sessions;
mod shared;
mod stored;
mod tokens;
mod trace;
mod transcript;
mod turn;

use std::{
    future::Future,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Json, Router,
    extract::State,
    http::{HeaderMap, Method, StatusCode, Uri},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use hub::{
    Attribution, Execution,
    recognise::{Recogniser, RecognitionLimits},
    trace::Event,
};
use llm::{HttpProvider, RequestOptions};
use tokio::{net::TcpListener, sync::Semaphore};

pub use crate::desk::{Approver, DropCalls};

pub use self::{
    behind::{Behind, LabelledTexts},
    memory::MemoryLimits,
    observe::{OBSERVED, Yes},
    observer::Observer,
    rebuild::ClientLabels,
};
use self::{
    memory::Memory,
    models::Models,
    request::{JSON, count_tokens, serve},
    sessions::Sessions,
    shared::Shared,
    tokens::Tokens,
    trace::TraceWriter,
    transcript::{Digest, hash},
};
use crate::{
    access::Access,
    api::{
        Dialect,
        answer::{
            chat::ChatCompletion, messages::AnthropicMessage, model_list, responses::OpenAiResponse,
        },
        error::ApiError,
        http::{self, Budget, Hosts},
        route, stream,
    },
    consult::random,
    desk::Desk,
    gateway::Routes,
    parts::{Parts, Told},
    state::{StateHandle, StateSetup, seed},
    trace_file::{TraceError, TraceFile},
};

/// Requests served at once. Most of them wait: for the model, or for the user.
const MAX_REQUESTS: usize = 1024;
/// What is served, for agents that ask for something else.
pub const SERVED: &str =
    "/v1/chat/completions, /v1/messages, /v1/messages/count_tokens, /v1/responses and /v1/models";
/// Bytes of all requests' bodies that are held at once. What is made of them takes some times as much.
const BODY_BYTES: usize = 256 << 20;

/// The parts of a proxy.
pub struct ProxySetup {
    /// What every turn is driven with. The broker's upstream passes the client's model and key
    /// through. Calls always run at the client; `settings.execution` is ignored.
    pub parts: Parts,
    /// The app whose rules the clients' tools have.
    pub app: String,
    /// Who answers questions.
    pub approver: Arc<dyn Approver>,
    /// The desk whose questions are answered over HTTP, if it is to be reached there.
    pub desk: Option<Arc<Desk>>,
    /// Who watches.
    pub observer: Arc<dyn Observer>,
    /// What is said of the text that clients bring.
    pub labels: ClientLabels,
    /// Texts of which it is known who wrote them: they have their labels wherever clients bring them.
    pub known: LabelledTexts,
    /// The gateway at which the client calls tools, if it has one.
    pub behind: Option<Behind>,
    /// Who learns the label of everything that a client has and is given, before it is given.
    pub told: Option<Told>,
    /// The trace of all conversations. What it cannot take is not done.
    pub trace: Option<TraceFile>,
    /// Who lists the models, which are the ones that a client may name; without it the broker's providers are listed.
    pub models: Option<Arc<HttpProvider>>,
    /// Bounds of what is remembered of conversations.
    pub memory: MemoryLimits,
    /// Bounds of what is remembered to recognise text by.
    pub recognition: RecognitionLimits,
    /// Where to listen; port 0 takes a free one.
    pub address: SocketAddr,
    /// Whether other machines may connect. They need one of the tokens.
    pub allow_remote: bool,
    /// The names by which clients reach the proxy, beside addresses, `localhost` and the machine's own.
    pub hosts: Vec<String>,
    /// If there are any, each request needs one of them: as `x-sluice-token`, or as the key that
    /// clients send (`Authorization: Bearer …`) where the upstream has one of its own. They are never
    /// passed on. All clients with one token are one tenant. Where there are none, clients are told
    /// apart by the key that they pay the upstream with.
    pub tokens: Vec<String>,
    /// The tokens of a service, which are made and revoked while it runs, in the place of `tokens`.
    pub access: Option<Access>,
    /// The header in which each request names its user, on whom the policy may depend. A client with a token can name any user,
    /// so only the operator's own service may have one. All requests of one user and token are one tenant.
    pub user_header: Option<String>,
    /// Whether everything is only watched: nothing is withheld, masked or asked, by whatever the
    /// other parts say, and the observer sees what would have been.
    pub observe: bool,
    /// Whether members of requests that the API does not have go to the upstream. Otherwise they are refused.
    pub unknown_members: bool,
    /// Whether tools that are no functions of the client's are left out: those which the upstream would execute, and those
    /// whose argument has a grammar. Otherwise a request with one is refused.
    pub omits_tools: bool,
    /// Whether clients may name a model that the upstream does not list. Where the upstream is not cleared for everything,
    /// such a name has the label of all that came before it.
    pub any_model: bool,
    /// A store that other replicas share. Without one, all is in memory and ends with the process.
    pub state: Option<StateSetup>,
    /// A gateway that is served at the same address.
    pub beside: Option<Routes>,
    /// How long a stream may be silent before the client is shown that an answer is still to come.
    pub silence: Duration,
    /// Connections held at once.
    pub connections: usize,
    /// Requests served at once.
    pub requests: usize,
    /// Bytes of all requests' bodies that are held at once.
    pub body_bytes: usize,
}

impl ProxySetup {
    /// A proxy on a free port of loopback that drops every call which would need a yes, is watched
    /// by nobody, and keeps no trace.
    pub fn new(parts: Parts, app: impl Into<String>) -> Self {
        Self {
            parts,
            app: app.into(),
            approver: Arc::new(DropCalls),
            desk: None,
            observer: Arc::new(()),
            labels: ClientLabels::default(),
            known: LabelledTexts::default(),
            behind: None,
            told: None,
            trace: None,
            models: None,
            memory: MemoryLimits::default(),
            recognition: RecognitionLimits::default(),
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            allow_remote: false,
            hosts: Vec::new(),
            tokens: Vec::new(),
            access: None,
            user_header: None,
            observe: false,
            unknown_members: true,
            omits_tools: false,
            any_model: false,
            state: None,
            beside: None,
            silence: stream::SILENCE,
            connections: http::MAX_CONNECTIONS,
            requests: MAX_REQUESTS,
            body_bytes: BODY_BYTES,
        }
    }
}

/// Why a [`Proxy`] does not run.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// The address is not loopback.
    #[error("{0} can be reached from other machines; use 127.0.0.1 or allow remote clients")]
    NotLoopback(SocketAddr),
    /// Any client that reaches the proxy could use it.
    #[error("{0}; give the proxy a token that its clients must send")]
    NoToken(&'static str),
    /// The network refused.
    #[error("the proxy cannot listen on {address}; choose another address with --listen")]
    Io {
        /// The address.
        address: SocketAddr,
        /// What it said.
        source: io::Error,
    },
    /// There is no thread for the trace.
    #[error("the thread of the trace does not start: {0}; allow this user more processes")]
    Thread(io::Error),
    /// The trace cannot be written.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The system has no randomness.
    #[error("{0}; nothing can be kept apart without it")]
    Randomness(String),
}

/// Serves the APIs at [`SERVED`], and guards what goes through.
pub struct Proxy {
    listener: TcpListener,
    address: SocketAddr,
    routes: ProxyRoutes,
    connections: usize,
}

/// What a proxy serves, for an address of its own or among the fronts of a service.
pub struct ProxyRoutes {
    pub(crate) router: Router,
    /// Where its questions wait.
    pub(crate) desk: Option<Arc<Desk>>,
    shared: Arc<Shared>,
    beside: Option<Routes>,
}

impl ProxySetup {
    /// Whether only those can use the proxy who may.
    fn check(&self) -> Result<(), ProxyError> {
        let address = self.address;
        if !address.ip().is_loopback() && !self.allow_remote {
            return Err(ProxyError::NotLoopback(address));
        }
        let asks = self.access.as_ref().is_some_and(Access::is_required);
        match self.needs_token() {
            Some(why) if self.tokens.is_empty() && !asks => Err(ProxyError::NoToken(why)),
            _ => Ok(()),
        }
    }

    /// Why each request needs a token, if it does.
    pub fn needs_token(&self) -> Option<&'static str> {
        let has_key = |upstream: &Arc<HttpProvider>| upstream.has_own_key();
        match self {
            _ if !self.address.ip().is_loopback() => Some("other machines can connect"),
            // Every user of this machine reaches loopback, and could ask at the operator's expense.
            _ if self.models.as_ref().is_some_and(has_key) => {
                Some("the upstream's key is the operator's")
            }
            _ if self.user_header.is_some() => Some("a header names the user of a request"),
            _ => None,
        }
    }
}

impl ProxyRoutes {
    /// A proxy that is served by another one's listener.
    ///
    /// # Errors
    /// See [`ProxyError`].
    pub fn new(mut setup: ProxySetup) -> Result<Self, ProxyError> {
        setup.check()?;
        if setup.observe {
            setup.parts = observe::parts(setup.parts);
            setup.approver = Arc::new(observe::Yes);
        }
        let random_secret = random().map_err(ProxyError::Randomness)?;
        let secret = match &setup.state {
            // Its own, so that no digest of another use is one of a conversation.
            Some(state) => hash(&[b"proxy".as_slice(), &state.secret].concat()),
            None => random_secret,
        };
        if let Some(trace) = &mut setup.trace {
            trace.append(Event::SessionStarted {
                session: "proxy".to_owned(),
                mode: setup.parts.settings.screening.name().to_owned(),
                screener: setup.parts.screener.name().to_owned(),
                private: false,
            })?;
        }
        let (desk, beside) = (setup.desk.clone(), setup.beside.take());
        let served = beside.as_ref().map(|routes| routes.router.clone());
        let (router, shared) = router(setup, served, secret).map_err(ProxyError::Thread)?;
        Ok(Self {
            router,
            desk,
            shared,
            beside,
        })
    }

    /// Ends the gateway beside it, with what runs for its clients, and writes the rest of the trace.
    pub(crate) async fn end(&self) {
        if let Some(gateway) = &self.beside {
            gateway.end().await;
        }
        // A trace that cannot be written has said so already.
        let _ = self.shared.written().await;
    }
}

impl Proxy {
    /// Takes the address. Nothing is served before [`Proxy::serve`].
    ///
    /// # Errors
    /// See [`ProxyError`].
    pub async fn bind(setup: ProxySetup) -> Result<Self, ProxyError> {
        let (address, connections) = (setup.address, setup.connections);
        // Before the address is taken: what is refused for its setup takes nothing.
        setup.check()?;
        let failed = |source| ProxyError::Io { address, source };
        let (listener, address) = http::bind(address).await.map_err(failed)?;
        let routes = ProxyRoutes::new(setup)?;
        Ok(Self {
            listener,
            address,
            connections,
            routes,
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
    pub async fn serve(self, shutdown: impl Future<Output = ()>) {
        let Self {
            listener,
            routes,
            connections,
            ..
        } = self;
        let ending = async {
            shutdown.await;
            routes.end().await;
        };
        http::serve(listener, routes.router.clone(), connections, ending).await;
        // A trace that cannot be written has said so already.
        let _ = routes.shared.written().await;
    }
}

fn router(
    setup: ProxySetup,
    beside: Option<Router>,
    secret: Digest,
) -> io::Result<(Router, Arc<Shared>)> {
    let patience = setup.desk.as_ref().map(|desk| desk.timeout());
    let patience = patience.unwrap_or(setup.parts.turn_timeout);
    let desk = setup.desk.as_ref().map(Desk::router);
    let mut parts = setup.parts;
    parts.settings.execution = Execution::Elsewhere;
    // Clients are not told what an answer depends on.
    if setup.trace.is_none() && !setup.observer.attends() {
        parts.settings.attribution = Attribution::Omitted;
    }
    let trace = match setup.trace {
        Some(trace) => Some(TraceWriter::start(trace, setup.observer.clone())?),
        None => None,
    };
    if let Some(behind) = &setup.behind {
        behind.permits().open(&behind.session);
    }
    let hosts = Hosts::new(setup.allow_remote, &setup.hosts);
    let shared = Arc::new(Shared {
        parts,
        app: setup.app,
        approver: setup.approver,
        patience,
        observer: setup.observer,
        labels: setup.labels,
        known: setup.known,
        behind: setup.behind,
        told: setup.told,
        trace,
        models: setup.models.map(Models::new),
        memory: Memory::new(setup.memory),
        texts: match setup.state {
            Some(_) => Recogniser::new(setup.recognition).journaling(),
            None => Recogniser::new(setup.recognition),
        },
        sessions: Sessions::new(seed(), setup.state.is_some()),
        state: setup.state.map(|state| StateHandle::new(state.store)),
        secret,
        observe: setup.observe,
        offered: Mutex::default(),
        unknown_members: setup.unknown_members,
        omits_tools: setup.omits_tools,
        any_model: setup.any_model,
        silence: setup.silence,
        slots: Arc::new(Semaphore::new(setup.requests)),
        budget: Budget::new(setup.body_bytes),
        tokens: Tokens::new(&setup.tokens, setup.access, setup.user_header),
    });
    let api = Router::new()
        .route(ChatCompletion::PATH, post(serve::<ChatCompletion>))
        .route(AnthropicMessage::PATH, post(serve::<AnthropicMessage>))
        .route(
            OpenAiResponse::PATH,
            // Codex tries a WebSocket first, and comes by `POST` after this.
            post(serve::<OpenAiResponse>).get(StatusCode::UPGRADE_REQUIRED),
        )
        .route(route::COUNT_TOKENS, post(count_tokens))
        .route(route::MODELS, get(models))
        // Claude Code looks whether anything answers.
        .route("/", get(StatusCode::NO_CONTENT))
        .with_state(shared.clone());
    let all = [desk, beside].into_iter().flatten();
    let all = all.fold(api, Router::merge);
    let [observer, other] = [(); 2].map(|()| shared.observer.clone());
    let wrong_method = StatusCode::METHOD_NOT_ALLOWED;
    let router = all
        .method_not_allowed_fallback(async move |method, uri| {
            unserved(other, method, uri).await.with_status(wrong_method)
        })
        .fallback(move |method, uri| unserved(observer, method, uri));
    // On the desk as well: a web page that rebinds its name must not answer a question.
    Ok((hosts.guard(router), shared))
}

/// What the proxy does not serve, for the client and for the one who watches.
async fn unserved(observer: Arc<dyn Observer>, method: Method, uri: Uri) -> ApiError {
    let request = llm::one_line(&format!("{method} {}", uri.path()));
    observer.unserved(&request);
    let message = format!("{request} is not served: this proxy serves {SERVED}");
    ApiError::invalid(message).with_status(StatusCode::NOT_FOUND)
}

async fn models(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    shared.tokens.admit(&headers).await?;
    let Some(Models { upstream, .. }) = &shared.models else {
        return Ok(Json(model_list(shared.parts.broker.names())).into_response());
    };
    let options = RequestOptions {
        bearer: shared.tokens.upstream_key(&headers),
        ..RequestOptions::default()
    };
    let list = upstream.models(&options).await;
    let list = list.map_err(ApiError::from)?;
    Ok(([JSON], list).into_response())
}
