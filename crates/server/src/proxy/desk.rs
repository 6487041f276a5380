//! Questions over HTTP: `GET /sluice/v1/approvals` and `POST /sluice/v1/approvals/{id}`.

use std::{
    collections::BTreeMap,
    future::{Future, pending},
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use axum::{
    Extension, Json, Router,
    body::Body,
    extract::{Path, State},
    http::{HeaderMap, StatusCode, header::AUTHORIZATION},
    middleware,
    routing::{get, post},
};
use ifc::{Answer, Until};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{sync::oneshot, time::timeout};

use super::{
    approve::Approver,
    transcript::{fresh, hash},
};
use crate::{
    QuestionView, TrustView,
    api::{
        error::ApiError,
        http::{self, Budget, Hosts, Peer, json_body},
    },
};

/// Questions that wait at once. Beyond them the answer is no: no user reads so many.
const MAX_WAITING: usize = 256;
/// Bytes of all answers that are read at once. It is room of their own.
const BODY_BYTES: usize = 1 << 20;

/// Keeps questions until they are answered over HTTP. No answer in time is no.
///
/// Only clients on this machine that know the token see and answer the questions.
pub struct ApprovalDesk {
    token: String,
    timeout: Duration,
    budget: Budget,
    /// The open questions; `None` once the desk is closed.
    waiting: Mutex<Option<BTreeMap<String, Waiting>>>,
}

/// A token that cannot be guessed.
///
/// # Errors
/// The system has no randomness.
pub fn fresh_token() -> Result<String, String> {
    fresh("").map_err(|_| "the system has no randomness".to_owned())
}

struct Waiting {
    conversation: String,
    question: QuestionView,
    since: Instant,
    answer: oneshot::Sender<Answer>,
}

impl ApprovalDesk {
    /// A desk with a fresh token, where a question waits so long.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn new(timeout: Duration) -> Result<Arc<Self>, String> {
        let token = fresh_token()?;
        Ok(Arc::new(Self {
            token,
            timeout,
            budget: Budget::new(BODY_BYTES),
            waiting: Mutex::new(Some(BTreeMap::new())),
        }))
    }

    /// What a client must send as `Authorization: Bearer TOKEN`.
    pub fn token(&self) -> &str {
        &self.token
    }

    fn settle(&self, id: &str, answer: Answer) -> Result<(), ApiError> {
        let unknown = || {
            let message = "no such question; it was answered, taken back, or waited too long";
            ApiError::new(StatusCode::NOT_FOUND, message)
        };
        let mut waiting = self.lock();
        let waiting = waiting.as_mut().ok_or_else(unknown)?;
        let asked = waiting.remove(id).ok_or_else(unknown)?;
        if !asked.question.choices.contains(&answer) {
            // The question stays open for an answer that is a choice.
            waiting.insert(id.to_owned(), asked);
            let message = "this question cannot be answered so; see its `choices`";
            return Err(ApiError::invalid(message));
        }
        asked.answer.send(answer).map_err(|_| unknown())
    }

    /// Closes the desk: open and later questions are answered with no.
    pub fn close(&self) {
        // With each question goes the sender of its answer, which is a no.
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<BTreeMap<String, Waiting>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn list(&self) -> Value {
        let waiting = self.lock();
        let mut open: Vec<_> = waiting.iter().flatten().collect();
        open.sort_by_key(|(_, waiting)| waiting.since);
        let open = open
            .into_iter()
            .map(|(id, waiting)| waiting.show(id, self.timeout));
        json!({"approvals": open.collect::<Vec<_>>()})
    }

    pub(crate) fn router(self: &Arc<Self>) -> Router {
        Router::new()
            .route("/sluice/v1/approvals", get(list))
            .route("/sluice/v1/approvals/{id}", post(decide))
            .with_state(self.clone())
    }

    /// Takes a port of loopback for the questions alone. They are served while the future is polled.
    ///
    /// # Errors
    /// There is no free port.
    pub async fn listen(
        self: &Arc<Self>,
    ) -> io::Result<(SocketAddr, impl Future<Output = ()> + use<>)> {
        let (listener, address) = http::bind((Ipv4Addr::LOCALHOST, 0).into()).await?;
        let hosts = Hosts::new(false, &[]);
        let router = self.router().fallback(http::nothing_here);
        let router = router.layer(middleware::from_fn_with_state(hosts, http::check_host));
        let serving = http::serve(listener, router, MAX_WAITING, pending());
        Ok((address, serving))
    }

    fn admit(&self, peer: Peer, headers: &HeaderMap) -> Result<(), ApiError> {
        // Canonical, since a socket of IPv6 shows 127.0.0.1 as `::ffff:127.0.0.1`.
        if !peer.0.ip().to_canonical().is_loopback() {
            let message = "approvals are given on this machine only";
            return Err(ApiError::new(StatusCode::FORBIDDEN, message));
        }
        let given = headers
            .get(AUTHORIZATION)
            .and_then(|value| value.to_str().ok());
        let given = given.and_then(|value| value.strip_prefix("Bearer "));
        // Digests are compared, so that the time tells nothing about the token.
        match given.is_some_and(|given| hash(given.as_bytes()) == hash(self.token.as_bytes())) {
            true => Ok(()),
            false => {
                let message = "wrong token; use the one that was printed at its start";
                Err(ApiError::new(StatusCode::UNAUTHORIZED, message))
            }
        }
    }
}

#[async_trait]
impl Approver for ApprovalDesk {
    async fn approve(&self, conversation: &str, question: &QuestionView) -> Answer {
        let Ok(id) = fresh("") else { return Answer::No };
        let (sender, answer) = oneshot::channel();
        {
            let mut waiting = self.lock();
            let room = waiting
                .as_mut()
                .filter(|waiting| waiting.len() < MAX_WAITING);
            let Some(waiting) = room else {
                return Answer::No;
            };
            let asked = Waiting {
                conversation: conversation.to_owned(),
                question: question.clone(),
                since: Instant::now(),
                answer: sender,
            };
            waiting.insert(id.clone(), asked);
        }
        // However this ends, the question is off the desk afterwards.
        let _gone = TakenBack { desk: self, id };
        match timeout(self.timeout, answer).await {
            Ok(Ok(answer)) => answer,
            _ => Answer::No,
        }
    }
}

struct TakenBack<'a> {
    desk: &'a ApprovalDesk,
    id: String,
}

impl Drop for TakenBack<'_> {
    fn drop(&mut self) {
        if let Some(waiting) = &mut *self.desk.lock() {
            waiting.remove(&self.id);
        }
    }
}

impl Waiting {
    fn show(&self, id: &str, timeout: Duration) -> Value {
        let question = &self.question;
        let age = self.since.elapsed();
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let choices = question.choices.iter().map(|choice| choice.name());
        let waiting = question.waiting.iter();
        let waiting = waiting
            .map(|call| json!({"app": call.app, "tool": call.tool, "arguments": call.arguments}));
        json!({
            "id": id,
            "conversation": self.conversation,
            "app": question.app,
            "tool": question.tool,
            "is_answer": question.is_answer,
            "arguments": question.arguments,
            "effect": question.effect,
            "rule": question.rule,
            "argument": question.argument,
            "limit": question.limit,
            "instead": question.instead,
            "excess": question.excess,
            "causes": question.causes,
            "choices": choices.collect::<Vec<_>>(),
            "trust": question.trust.as_ref().map(trust),
            "endorses": question.endorses,
            "hosts": question.hosts,
            "waiting": waiting.collect::<Vec<_>>(),
            "waiting_ms": ms(age),
            "expires_in_ms": ms(timeout.saturating_sub(age)),
        })
    }
}

/// What would be trusted, whole, and for what.
fn trust(view: &TrustView) -> Value {
    let texts = view
        .texts
        .iter()
        .map(|text| json!({"source": text.source.to_string(), "text": text.text}));
    json!({
        "texts": texts.collect::<Vec<_>>(),
        "app": view.app,
        "effect": view.effect.name(),
        "values": view.values,
        "sources": view.writers,
        "more": view.more,
    })
}

async fn list(
    State(desk): State<Arc<ApprovalDesk>>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
) -> Result<Json<Value>, ApiError> {
    desk.admit(peer, &headers)?;
    Ok(Json(desk.list()))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Decision {
    answer: String,
}

async fn decide(
    State(desk): State<Arc<ApprovalDesk>>,
    Extension(peer): Extension<Peer>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, ApiError> {
    desk.admit(peer, &headers)?;
    let (body, _held) = json_body(&headers, body, &desk.budget).await?;
    let decision: Decision =
        serde_json::from_slice(&body).map_err(|error| ApiError::invalid(error.to_string()))?;
    let [task, session] = [Until::Task, Until::Session].map(Answer::Trust);
    let words = [
        Answer::Once,
        Answer::Each,
        Answer::TrustValue,
        task,
        Answer::TrustSource,
        session,
        Answer::Host,
        Answer::Session,
        Answer::No,
    ];
    let answer = words
        .into_iter()
        .find(|answer| answer.name() == decision.answer);
    let answer = answer.ok_or_else(|| {
        let words = words
            .map(|answer| format!("`{}`", answer.name()))
            .join(", ");
        ApiError::invalid(format!("`answer` must be one of {words}"))
    })?;
    desk.settle(&id, answer)?;
    Ok(Json(json!({"id": id, "answer": decision.answer})))
}
