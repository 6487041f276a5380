//! `/metrics`, `/healthz` and `/readyz`.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::json;
use store::{Role, Time};
use tokio::time::timeout;

use super::metrics::Metrics;
use crate::access::bearer;
use crate::api::error::ApiError;
use crate::api::route::{HEALTHZ, METRICS, READYZ};

/// How long a check may take before it counts as failed. Kubernetes asks with one second of patience by default.
const PATIENCE: Duration = Duration::from_millis(800);

/// What must be true before requests are sent here.
#[async_trait]
pub trait Check: Send + Sync {
    /// # Errors
    /// Why it is not, in words that any client may read.
    async fn check(&self) -> Result<(), String>;
}

/// What the endpoints show.
#[derive(Clone)]
pub struct Endpoints {
    /// All metrics.
    pub metrics: Arc<Metrics>,
    /// What must hold for `/readyz` to say `ready`, by name: `state`, `configuration`, `draining`.
    pub checks: Vec<(&'static str, Arc<dyn Check>)>,
    /// The questions that wait, and the tokens of administrators.
    pub desk: Arc<store::Desk>,
}

impl Endpoints {
    /// `/healthz` and `/readyz`, which need no token, and `/metrics`, which needs that of an administrator.
    pub fn router(&self) -> Router {
        let alive = || async { Json(json!({"status": "alive"})) };
        Router::new()
            .route(HEALTHZ, get(alive))
            .route(READYZ, get(ready))
            .route(METRICS, get(admin_metrics))
            .with_state(self.clone())
    }

    /// `/metrics` for all that reach the address.
    pub fn open_metrics(&self) -> Router {
        let router = Router::new().route(METRICS, get(metrics));
        router.with_state(self.clone())
    }

    /// How many questions wait, and for how long the oldest has. `None` if the store does not say.
    async fn waiting(&self) -> Option<(usize, Duration)> {
        let now = Time::from(SystemTime::now());
        let waiting = self.metrics.stored("questions", self.desk.waiting(now));
        let waiting = timeout(PATIENCE, waiting).await.ok()?.ok()?.all;
        let asked = waiting.iter().map(|kept| kept.asked.millis());
        let age = now
            .millis()
            .saturating_sub(asked.min().unwrap_or(now.millis()));
        let age = Duration::from_millis(u64::try_from(age).unwrap_or_default());
        Some((waiting.len(), age))
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

async fn admin_metrics(all: State<Endpoints>, headers: HeaderMap) -> Result<Response, ApiError> {
    let mut status = StatusCode::UNAUTHORIZED;
    if let Some(token) = bearer(&headers) {
        let found = all.desk.admit(token, SystemTime::now().into());
        let found = all.metrics.stored("token", found).await;
        let failed = |_| ApiError::unavailable("tokens cannot be checked now; try again");
        match found.map_err(failed)? {
            Some(token) if token.role == Role::Admin => return Ok(metrics(all).await),
            Some(_) => status = StatusCode::FORBIDDEN,
            None => {}
        }
    }
    all.metrics.login_denied("metrics");
    let message = "metrics need the token of an administrator, not expired or revoked, as Authorization: Bearer; `metrics_listen` of [service] \
                   is an address that needs none";
    Err(ApiError::new(status, message))
}

async fn metrics(State(all): State<Endpoints>) -> Response {
    all.metrics.set_waiting(all.waiting().await);
    const TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    match all.metrics.encode() {
        Ok(text) => ([(CONTENT_TYPE, TYPE)], text).into_response(),
        Err(error) => ApiError::internal(error.to_string()).into_response(),
    }
}
