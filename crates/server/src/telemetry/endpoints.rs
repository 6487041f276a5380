//! `/metrics`, `/healthz` and `/readyz`, and what is measured of every request.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Json, Router};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use serde_json::json;
use tokio::time::timeout;

use super::metrics::{Answered, Metrics};
use crate::api::Dialect;
use crate::api::answer::chat::ChatCompletion;
use crate::api::answer::messages::AnthropicMessage;
use crate::api::answer::responses::OpenAiResponse;
use crate::api::error::ApiError;
use crate::api::http::{Hosts, Peer};
use crate::sink;

/// How long a check may take before it counts as failed. Kubernetes asks with one second of patience by default.
const PATIENCE: Duration = Duration::from_millis(800);

/// What must be true before requests are sent here.
#[async_trait]
pub trait Check: Send + Sync {
    /// # Errors
    /// Why it is not, in words that any client may read.
    async fn check(&self) -> Result<(), String>;
}

/// Knows who may read metrics.
#[async_trait]
pub trait Admins: Send + Sync {
    /// Whether this is the token of an administrator.
    async fn admits(&self, token: &str) -> bool;
}

/// Knows the questions that wait.
#[async_trait]
pub trait Waiting: Send + Sync {
    /// How many wait, and for how long the oldest has. `None` if that cannot be known now.
    async fn waiting(&self) -> Option<(usize, Duration)>;
}

/// What the endpoints show.
#[derive(Clone)]
pub struct Endpoints {
    /// All metrics.
    pub metrics: Arc<Metrics>,
    /// The questions that wait.
    pub waiting: Option<Arc<dyn Waiting>>,
    /// What must hold for [`Endpoints::health`] to say `ready`, by name: `state`, `configuration`, `draining`.
    pub checks: Vec<(&'static str, Arc<dyn Check>)>,
    /// Who may read metrics from another machine.
    pub admins: Option<Arc<dyn Admins>>,
}

impl Endpoints {
    /// `/healthz` and `/readyz`, which need no token.
    pub fn health(&self) -> Router {
        Router::new()
            .route(
                "/healthz",
                get(|| async { Json(json!({"status": "alive"})) }),
            )
            .route("/readyz", get(ready))
            .with_state(self.clone())
    }

    /// `/metrics` for programs of this machine and for administrators. What a proxy on this machine passes on is of another
    /// machine if it keeps the name of the host or adds the header of a proxy.
    pub fn guarded_metrics(&self) -> Router {
        let guard = middleware::from_fn_with_state(self.clone(), admit);
        self.metrics().route_layer(guard)
    }

    /// `/metrics` for all that reach the address.
    pub fn metrics(&self) -> Router {
        let router = Router::new().route("/metrics", get(metrics));
        router.with_state(self.clone())
    }
}

impl Metrics {
    /// Counts and times all requests of a router.
    pub fn watch(self: Arc<Self>, router: Router) -> Router {
        router.layer(middleware::from_fn_with_state(self, watch))
    }
}

async fn ready(State(all): State<Endpoints>) -> Response {
    let mut reasons = Vec::new();
    for (name, check) in &all.checks {
        match timeout(PATIENCE, check.check()).await {
            Ok(Ok(())) => {}
            Ok(Err(why)) => reasons.push(format!("{name}: {why}")),
            Err(_) => reasons.push(format!(
                "{name}: no answer within {} ms",
                PATIENCE.as_millis()
            )),
        }
    }
    let (code, status) = match reasons.is_empty() {
        true => (StatusCode::OK, "ready"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "not ready"),
    };
    let body = Json(json!({"status": status, "reasons": reasons}));
    (code, [(CACHE_CONTROL, "no-store")], body).into_response()
}

async fn admit(
    State(all): State<Endpoints>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    request: Request,
    next: Next,
) -> Response {
    let is_local = peer.is_some_and(|Extension(Peer(peer))| peer.ip().to_canonical().is_loopback());
    // A proxy on this machine passes requests of others on, and says so by one of these.
    let is_local = is_local && Hosts::loopback().admit(&headers).is_ok() && !is_forwarded(&headers);
    let token = headers.get(AUTHORIZATION).and_then(|it| it.to_str().ok());
    let token = token.and_then(|it| it.strip_prefix("Bearer "));
    let is_admitted = match (is_local, token, &all.admins) {
        (true, ..) => true,
        (false, Some(token), Some(admins)) => admins.admits(token).await,
        _ => false,
    };
    if is_admitted {
        return next.run(request).await;
    }
    all.metrics.login_denied("metrics");
    let message =
        "metrics are for this machine; send the token of an administrator as Authorization: Bearer";
    ApiError::new(StatusCode::UNAUTHORIZED, message).into_response()
}

/// Whether a proxy says that it passes the request on.
fn is_forwarded(headers: &HeaderMap) -> bool {
    let is_mark = |name: &str| {
        ["forwarded", "via", "x-real-ip"].contains(&name) || name.starts_with("x-forwarded-")
    };
    headers.keys().any(|name| is_mark(name.as_str()))
}

async fn metrics(State(all): State<Endpoints>) -> Response {
    if let Some(waiting) = &all.waiting {
        let waiting = timeout(PATIENCE, waiting.waiting()).await;
        all.metrics.set_waiting(waiting.unwrap_or_default());
    }
    const TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    match all.metrics.encode() {
        Ok(text) => ([(CONTENT_TYPE, TYPE)], text).into_response(),
        Err(error) => ApiError::internal(error.to_string()).into_response(),
    }
}

async fn watch(State(metrics): State<Arc<Metrics>>, request: Request, next: Next) -> Response {
    // A path is a client's word, and has no end.
    let (front, dialect) = match request.uri().path() {
        ChatCompletion::PATH => ("proxy", "chat"),
        AnthropicMessage::PATH => ("proxy", "messages"),
        "/v1/messages/count_tokens" => ("proxy", "count_tokens"),
        OpenAiResponse::PATH => ("proxy", "responses"),
        "/v1/models" => ("proxy", "models"),
        crate::gateway::PATH => ("gateway", "mcp"),
        path if path.starts_with("/sluice/") => ("desk", "desk"),
        "/metrics" | "/healthz" | "/readyz" => return next.run(request).await,
        _ => ("other", "other"),
    };
    metrics.request_begins(front);
    let running = Running {
        metrics,
        front,
        begun: Instant::now(),
    };
    let (tenant, response) = sink::with_tenant(next.run(request)).await;
    let (status, tenant) = (response.status().as_u16(), tenant.as_deref());
    let answered = Answered {
        front,
        dialect,
        tenant,
        status,
    };
    running.metrics.request_answered(&answered);
    if status >= 400 {
        let seconds = running.begun.elapsed().as_secs_f64();
        tracing::info!(front, dialect, tenant, status, seconds, "request refused");
    }
    response.map(|body| {
        Body::new(Watched {
            body,
            _running: running,
        })
    })
}

/// A request that is being answered. It is over when this is dropped: with the last byte, or with its client.
struct Running {
    metrics: Arc<Metrics>,
    front: &'static str,
    begun: Instant,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.metrics.request_ends(self.front, self.begun.elapsed());
    }
}

/// The body of an answer, by whose end the request is over.
struct Watched {
    body: Body,
    _running: Running,
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
