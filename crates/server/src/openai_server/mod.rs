//! A model server: the configured providers behind OpenAI's chat completions.
//!
//! It serves `sluice model serve` and the tests. It is *not* the guard: its clients send text
//! without labels, which is taken as ⊥, and get the model's answers as they are. Only providers
//! that are cleared for ⊥, which is all of them, answer; what a client makes of the answer is
//! its own business.

mod request;
mod response;

use std::{
    convert::Infallible,
    future::Future,
    io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use agent::Completion;
use axum::{
    Json, Router,
    body::Body,
    extract::{Request, State},
    http::{
        HeaderMap, StatusCode,
        header::{CONTENT_TYPE, HOST},
    },
    middleware::{self, Next},
    response::{
        IntoResponse, Response, Sse,
        sse::{Event, KeepAlive},
    },
    routing::{get, post},
};
use futures_core::Stream;
use llm::{Broker, DeltaSink, NoDeltas, ProviderError};
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    task::JoinHandle,
};

use self::{
    request::Asked,
    response::{ApiError, Envelope},
};

/// Bytes of a request's body. As many as our own client sends.
const BODY_LIMIT: usize = 32 << 20;
/// Requests served at once. A local model answers them one after the other anyway.
const MAX_REQUESTS: usize = 32;
/// How long a streamed answer waits for its first piece before its HTTP status is sent. Errors
/// within it get their own status; later ones are an event.
const STATUS_WAIT: Duration = Duration::from_secs(10);
/// How often a silent stream shows that it is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Where a [`ModelServer`] listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelServerConfig {
    /// The address; port 0 takes a free one.
    pub address: SocketAddr,
    /// Whether other machines may connect. The server asks nobody who they are.
    pub allow_remote: bool,
}

/// Why a [`ModelServer`] does not run.
#[derive(Debug, thiserror::Error)]
pub enum ModelServerError {
    /// The address is not loopback.
    #[error("{0} can be reached from other machines; use 127.0.0.1 or allow remote clients")]
    NotLoopback(SocketAddr),
    /// The network refused.
    #[error("model server on {address}: {source}; choose another port")]
    Io {
        /// The address.
        address: SocketAddr,
        /// What it said.
        source: io::Error,
    },
}

/// Serves `/v1/chat/completions` and `/v1/models`. A model's name is its provider's.
#[derive(Debug)]
pub struct ModelServer {
    listener: TcpListener,
    address: SocketAddr,
    router: Router,
}

impl ModelServer {
    /// Takes the address. Nothing is served before [`ModelServer::serve`].
    ///
    /// # Errors
    /// See [`ModelServerError`].
    pub async fn bind(
        broker: Arc<Broker>,
        config: ModelServerConfig,
    ) -> Result<Self, ModelServerError> {
        if !config.address.ip().is_loopback() && !config.allow_remote {
            return Err(ModelServerError::NotLoopback(config.address));
        }
        let failed = |source| ModelServerError::Io {
            address: config.address,
            source,
        };
        let listener = TcpListener::bind(config.address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self {
            listener,
            address,
            router: router(broker, config.allow_remote),
        })
    }

    /// The address that was taken.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What `OPENAI_BASE_URL` must be to reach this server.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Serves until `shutdown` is ready and the requests under way are answered. Dropping the
    /// future ends sooner.
    ///
    /// # Errors
    /// The network fails.
    pub async fn serve(
        self,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), ModelServerError> {
        let address = self.address;
        axum::serve(self.listener, self.router)
            .with_graceful_shutdown(shutdown)
            .await
            .map_err(|source| ModelServerError::Io { address, source })
    }
}

struct Shared {
    broker: Arc<Broker>,
    slots: Arc<Semaphore>,
    answers: AtomicU64,
    allow_remote: bool,
}

fn router(broker: Arc<Broker>, allow_remote: bool) -> Router {
    let shared = Arc::new(Shared {
        broker,
        slots: Arc::new(Semaphore::new(MAX_REQUESTS)),
        answers: AtomicU64::new(1),
        allow_remote,
    });
    Router::new()
        .route("/v1/chat/completions", post(chat))
        .route("/v1/models", get(models))
        .fallback(|| async { ApiError::invalid("no such path").with_status(StatusCode::NOT_FOUND) })
        .layer(middleware::from_fn_with_state(shared.clone(), check_host))
        .with_state(shared)
}

/// Refuses web pages that have made their own host name resolve to loopback (DNS rebinding).
async fn check_host(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    if shared.allow_remote || names_loopback(request.headers()) {
        next.run(request).await
    } else {
        ApiError::invalid("the `Host` header must name this machine's loopback address")
            .with_status(StatusCode::FORBIDDEN)
            .into_response()
    }
}

fn names_loopback(headers: &HeaderMap) -> bool {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let Some(host) = host else { return false };
    let ends_in_port = host.rsplit_once(':');
    let name = match ends_in_port {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    name == "localhost" || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

async fn models(State(shared): State<Arc<Shared>>) -> Json<Value> {
    let models = shared.broker.names();
    let models = models.map(|name| json!({"id": name, "object": "model", "owned_by": "sluice"}));
    Json(json!({"object": "list", "data": models.collect::<Vec<_>>()}))
}

async fn chat(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    // A web page can send other types to us without being asked for permission (CORS).
    let json = headers
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    if !json.is_some_and(|kind| kind.starts_with("application/json")) {
        return Err(ApiError::invalid("`Content-Type` must be application/json")
            .with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE));
    }
    let slot = shared.slots.clone().try_acquire_owned();
    let slot = slot.map_err(|_| ApiError::busy())?;
    let body = axum::body::to_bytes(body, BODY_LIMIT).await.map_err(|_| {
        ApiError::invalid(format!(
            "the body is larger than {BODY_LIMIT} bytes, or was cut"
        ))
        .with_status(StatusCode::PAYLOAD_TOO_LARGE)
    })?;
    let asked = request::parse(&body).map_err(ApiError::invalid)?;
    if !shared.broker.names().any(|name| name == asked.model) {
        return Err(ApiError::no_model());
    }
    let number = shared.answers.fetch_add(1, Ordering::Relaxed);
    let envelope = Envelope::new(number, &asked.model);
    if asked.stream {
        stream(shared, asked, envelope, slot).await
    } else {
        let completion = complete(&shared.broker, &asked, &mut NoDeltas).await?;
        Ok(Json(envelope.whole(&completion)).into_response())
    }
}

async fn complete(
    broker: &Broker,
    asked: &Asked,
    sink: &mut dyn DeltaSink,
) -> Result<Completion, ApiError> {
    let answer = broker.complete_by(&asked.model, &asked.request, sink).await;
    Ok(answer.ok_or_else(ApiError::no_model)??)
}

/// What a running completion tells its stream.
enum Told {
    Text(String),
    Done(Result<Completion, ApiError>),
}

/// Sends text to a stream. Unbounded, but an answer is bounded by its tokens.
struct ToStream(mpsc::UnboundedSender<Told>);

impl DeltaSink for ToStream {
    fn text(&mut self, piece: &str) {
        // Nobody listens any more only when the task is about to be stopped.
        let _ = self.0.send(Told::Text(piece.to_owned()));
    }
}

async fn stream(
    shared: Arc<Shared>,
    asked: Asked,
    envelope: Envelope,
    slot: OwnedSemaphorePermit,
) -> Result<Response, ApiError> {
    let with_usage = asked.stream_usage;
    let (sender, mut told) = mpsc::unbounded_channel();
    let task = tokio::spawn(async move {
        let mut sink = ToStream(sender);
        let result = complete(&shared.broker, &asked, &mut sink).await;
        let _ = sink.0.send(Told::Done(result));
        drop(slot);
    });
    // Made before the first wait: dropping it stops the model when the client goes.
    let task = AbortOnDrop(task);
    let first = tokio::time::timeout(STATUS_WAIT, told.recv()).await;
    let mut ready = vec![Event::default().data(envelope.start().to_string())];
    match first {
        Ok(Some(Told::Done(Err(error)))) => return Err(error),
        Ok(Some(first)) => ready.extend(events(&envelope, first, with_usage)),
        Ok(None) => return Err(stopped()),
        Err(_) => {}
    }
    let events = Events {
        ready: ready.into_iter(),
        told,
        envelope,
        with_usage,
        _task: task,
    };
    Ok(Sse::new(events)
        .keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
        .into_response())
}

fn stopped() -> ApiError {
    ApiError::from(ProviderError::Cancelled {
        provider: "server".to_owned(),
    })
}

fn events(envelope: &Envelope, told: Told, with_usage: bool) -> Vec<Event> {
    let data = |value: Value| Event::default().data(value.to_string());
    match told {
        Told::Text(piece) => vec![data(envelope.text(&piece))],
        Told::Done(Err(error)) => vec![data(error.body())],
        Told::Done(Ok(completion)) => {
            let end = envelope.end(&completion, with_usage).into_iter().map(data);
            end.chain([Event::default().data("[DONE]")]).collect()
        }
    }
}

struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The events of one streamed answer.
struct Events {
    ready: std::vec::IntoIter<Event>,
    told: mpsc::UnboundedReceiver<Told>,
    envelope: Envelope,
    with_usage: bool,
    _task: AbortOnDrop,
}

impl Stream for Events {
    type Item = Result<Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(event) = self.ready.next() {
                return Poll::Ready(Some(Ok(event)));
            }
            match self.told.poll_recv(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Ready(Some(told)) => {
                    let events = events(&self.envelope, told, self.with_usage);
                    self.ready = events.into_iter();
                }
            }
        }
    }
}
