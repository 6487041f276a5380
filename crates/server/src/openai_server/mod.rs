//! A model server: the configured providers behind OpenAI's chat completions.
//!
//! It serves `sluice model serve` and the tests. It is *not* the guard: its clients send text
//! without labels, which is taken as ⊥, and get the model's answers as they are. Only providers
//! that are cleared for ⊥, which is all of them, answer; what a client makes of the answer is
//! its own business.

mod request;

use std::{
    future::Future,
    io,
    net::SocketAddr,
    slice,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use axum::{
    Json, Router,
    body::Body,
    extract::State,
    http::{HeaderMap, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use hub::Completion;
use llm::{Broker, DeltaSink, NoDeltas, RequestOptions};
use serde_json::Value;
use tokio::{net::TcpListener, sync::Semaphore};

use self::request::Asked;
use crate::api::{
    Dialect,
    answer::{CallOut, Choice, chat::ChatCompletion, model_list},
    error::ApiError,
    http::{self, Budget, Hosts, Slot},
    route::MODELS,
    stream::{SILENCE, StreamItem, StreamSender, stream},
};

/// Requests served at once. A local model answers them one after the other anyway.
const MAX_REQUESTS: usize = 32;
/// Bytes of all requests that are held at once: what a machine that serves a model has to spare.
const BODY_BYTES: usize = 128 << 20;

/// Where a [`ModelServer`] listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelServerConfig {
    /// The address; port 0 takes a free one.
    pub address: SocketAddr,
    /// Whether other machines may connect. The server does not ask who they are.
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
        let (listener, address) = http::bind(config.address).await.map_err(failed)?;
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
    pub async fn serve(self, shutdown: impl Future<Output = ()> + Send + 'static) {
        http::serve(self.listener, self.router, http::MAX_CONNECTIONS, shutdown).await;
    }
}

struct Shared {
    broker: Arc<Broker>,
    slots: Arc<Semaphore>,
    answers: AtomicU64,
    budget: Budget,
}

fn router(broker: Arc<Broker>, allow_remote: bool) -> Router {
    let shared = Arc::new(Shared {
        broker,
        slots: Arc::new(Semaphore::new(MAX_REQUESTS)),
        answers: AtomicU64::new(1),
        budget: Budget::new(BODY_BYTES),
    });
    let hosts = Hosts::new(allow_remote, &[]);
    let router = Router::new()
        .route(ChatCompletion::PATH, post(chat))
        .route(MODELS, get(models))
        .fallback(http::nothing_here)
        .with_state(shared);
    hosts.guard(router)
}

async fn models(State(shared): State<Arc<Shared>>) -> Json<Value> {
    Json(model_list(shared.broker.names()))
}

async fn chat(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let (body, slot) = http::admit(&headers, body, &shared.budget, &shared.slots).await?;
    let asked = request::parse(&body).map_err(ApiError::invalid)?;
    drop(body);
    if !shared.broker.names().any(|name| name == asked.model) {
        return Err(ApiError::no_model());
    }
    let number = shared.answers.fetch_add(1, Ordering::Relaxed);
    let answer = ChatCompletion::new(&number.to_string(), &asked.model, asked.stream_usage);
    if asked.stream {
        let run = |sender| stream_answer(shared, asked, sender, slot);
        return stream(answer, SILENCE, run).await;
    }
    let completion = complete(&shared.broker, &asked, &mut NoDeltas).await?;
    let usage = completion.usage;
    let whole = answer.whole(&choice(completion), &usage);
    Ok(([(CONTENT_TYPE, "application/json")], whole).into_response())
}

async fn complete(
    broker: &Broker,
    asked: &Asked,
    sink: &mut dyn DeltaSink,
) -> Result<Completion, ApiError> {
    let (route, options) = (slice::from_ref(&asked.model), RequestOptions::default());
    let answer = broker.complete_over(route, &asked.request, &options, sink);
    Ok(answer.await?.completion)
}

/// The completion as this server shows it. Calls are numbered: the names mean nothing here.
fn choice(completion: Completion) -> Choice {
    let calls = (1..).zip(completion.calls).map(|(number, call)| CallOut {
        id: format!("call_{number}"),
        name: call.tool,
        arguments: call.arguments,
    });
    Choice {
        text: completion.text,
        calls: calls.collect(),
        stop: completion.stop,
    }
}

/// Tells a stream the text as it comes, and then the rest.
async fn stream_answer(shared: Arc<Shared>, asked: Asked, sender: StreamSender, _slot: Slot) {
    let mut sink = Pieces(&sender);
    let completed = complete(&shared.broker, &asked, &mut sink).await;
    sender.send(match completed {
        Err(error) => StreamItem::Failed(error),
        Ok(completion) => {
            let usage = completion.usage;
            StreamItem::Done(choice(completion), usage)
        }
    });
}

struct Pieces<'a>(&'a StreamSender);

impl DeltaSink for Pieces<'_> {
    fn text(&mut self, piece: &str) {
        self.0.send(StreamItem::Text(piece.to_owned()));
    }
}
