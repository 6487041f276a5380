//! Questions over HTTP: `GET /sluice/v1/approvals`, `GET` and `POST /sluice/v1/approvals/{id}`.

use std::{
    future::{Future, pending},
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use axum::{
    Extension, Json, Router,
    body::Body,
    extract::{Path, State},
    http::{HeaderMap, StatusCode, header::CONTENT_TYPE},
    response::IntoResponse,
    routing::get,
};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use store::{Answerer, DeskError, KeptQuestion, KeptToken, QuestionHead, QuestionId, Role, Time};

use super::front::{Desk, now};
use crate::access::bearer;
use crate::api::{
    error::ApiError,
    http::{self, Budget, Hosts, Peer, json_body},
};
use crate::sink;

/// Bytes of all answers that are read at once. It is room of their own.
const BODY_BYTES: usize = 1 << 20;
/// Connections at once of a port for questions alone.
const CONNECTIONS: usize = 256;

/// The API.
struct Api {
    store: Arc<store::Desk>,
    /// The front that serves it, whose own token counts.
    own: Option<Arc<Desk>>,
    budget: Budget,
}

/// What the sender of a request may see and answer.
enum Rights {
    /// The questions of this front.
    Own(Arc<Desk>),
    /// What a token of the store shows.
    Token(KeptToken),
}

/// The API for tokens of the store, without a check of the host that a request names.
pub fn router(store: Arc<store::Desk>) -> Router {
    routes(store, None)
}

fn routes(store: Arc<store::Desk>, own: Option<Arc<Desk>>) -> Router {
    let budget = Budget::new(BODY_BYTES);
    let api = Api { store, own, budget };
    Router::new()
        .route("/sluice/v1/approvals", get(list))
        .route("/sluice/v1/approvals/{id}", get(show).post(decide))
        .route("/sluice/v1/openapi.json", get(openapi))
        .with_state(Arc::new(api))
}

impl Desk {
    /// The API for tokens of the store and for this front's own, without a check of the host that a request names.
    pub fn router(self: &Arc<Self>) -> Router {
        routes(Arc::clone(&self.store), Some(Arc::clone(self)))
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
        let serving = http::serve(listener, hosts.guard(router), CONNECTIONS, pending());
        Ok((address, serving))
    }
}

impl Api {
    async fn admit(&self, peer: Peer, headers: &HeaderMap) -> Result<Rights, ApiError> {
        let given = bearer(headers).unwrap_or_default();
        // Digests are compared, so that the time tells nothing about the token.
        let is_own = |own: &&Arc<Desk>| Sha256::digest(given) == Sha256::digest(own.token());
        if let Some(own) = self.own.as_ref().filter(is_own) {
            // Canonical, since a socket of IPv6 shows 127.0.0.1 as `::ffff:127.0.0.1`.
            return match peer.0.ip().to_canonical().is_loopback() {
                true => Ok(Rights::Own(Arc::clone(own))),
                false => {
                    let message =
                        "this token counts on this machine only; make one with `sluice token new`";
                    Err(ApiError::new(StatusCode::FORBIDDEN, message))
                }
            };
        }
        let admitted = self.store.admit(given, now()).await.map_err(failed)?;
        if let Some(token) = &admitted {
            sink::set_sender(&token.name, token.tenant.as_deref());
        }
        let (status, message) = match admitted {
            // An agent does not answer its own questions.
            Some(token) if token.role == Role::Agent => (
                StatusCode::FORBIDDEN,
                "this token is one of an agent, which sees no questions; make one with `sluice token new NAME --role approver`",
            ),
            Some(token) => return Ok(Rights::Token(token)),
            None => (
                StatusCode::UNAUTHORIZED,
                "no token was sent, or it is unknown, revoked or expired; use one of `sluice token new`, or the one that was \
                 printed at the start",
            ),
        };
        Err(ApiError::new(status, message))
    }

    /// A question that this sender may see. One that it may not see is as unknown as one that does not exist.
    async fn find(&self, rights: &Rights, id: &str) -> Result<KeptQuestion, ApiError> {
        let id: QuestionId = id.parse().map_err(|_| failed(DeskError::Unknown))?;
        let found = self.store.find(&id.to_string()).await.map_err(failed)?;
        let found = found.filter(|kept| rights.see(&kept.question.head(kept.id)));
        found.ok_or_else(|| failed(DeskError::Unknown))
    }
}

impl Rights {
    fn see(&self, head: &QuestionHead) -> bool {
        match self {
            Self::Own(desk) => desk.waits_for(head.id),
            Self::Token(token) => token.may_see(head),
        }
    }

    async fn answer(
        &self,
        store: &store::Desk,
        id: QuestionId,
        answer: &str,
    ) -> Result<(), DeskError> {
        let from = "http";
        match self {
            Self::Own(_) => {
                let (name, from) = (None, from.to_owned());
                let by = Answerer { name, from };
                store.answer(id, answer, &by, now()).await
            }
            Self::Token(token) => store.answer_by(id, answer, token, from, now()).await,
        }
    }
}

/// The description of this API, the same for everyone.
async fn openapi() -> impl IntoResponse {
    let json = (CONTENT_TYPE, "application/json");
    ([json], include_str!("openapi.json"))
}

fn failed(error: DeskError) -> ApiError {
    let status = match error {
        DeskError::Unknown | DeskError::Expired | DeskError::Left | DeskError::Ambiguous(_) => {
            StatusCode::NOT_FOUND
        }
        DeskError::Answered(_) => StatusCode::CONFLICT,
        DeskError::NotOffered(_) => StatusCode::BAD_REQUEST,
        DeskError::NotAllowed(_) | DeskError::AskerUnknown | DeskError::OfAgent => {
            StatusCode::FORBIDDEN
        }
        DeskError::Postgres(_) => return ApiError::unavailable(error.to_string()),
        // Not the path, which is none of an approver's business.
        DeskError::Database(error) => return ApiError::internal(error.fault.to_string()),
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    ApiError::new(status, error.to_string())
}

async fn list(
    State(api): State<Arc<Api>>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
) -> Result<Json<Value>, ApiError> {
    let rights = api.admit(peer, &headers).await?;
    let now = now();
    let waiting = api.store.waiting_for(now, |head| rights.see(head));
    let waiting = waiting.await.map_err(failed)?.all.into_iter();
    let shown: Vec<Value> = waiting.map(|kept| shown(&kept, now)).collect();
    Ok(Json(json!({"approvals": shown})))
}

async fn show(
    State(api): State<Arc<Api>>,
    Extension(peer): Extension<Peer>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Json<Value>, ApiError> {
    let rights = api.admit(peer, &headers).await?;
    let kept = api.find(&rights, &id).await?;
    Ok(Json(shown(&kept, now())))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Decision {
    answer: String,
}

async fn decide(
    State(api): State<Arc<Api>>,
    Extension(peer): Extension<Peer>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, ApiError> {
    let rights = api.admit(peer, &headers).await?;
    let (body, _held) = json_body(&headers, body, &api.budget).await?;
    let Decision { answer } =
        serde_json::from_slice(&body).map_err(|error| ApiError::invalid(error.to_string()))?;
    let id = api.find(&rights, &id).await?.id;
    let reply = json!({"id": id.to_string(), "answer": answer});
    let answered = rights.answer(&api.store, id, &answer).await;
    answered.map_err(failed)?;
    if let Some(own) = &api.own {
        own.settle(id, &own.answer(id).await.map_err(failed)?);
    }
    Ok(Json(reply))
}

/// A question as the API shows it.
pub fn shown(kept: &KeptQuestion, now: Time) -> Value {
    let KeptQuestion {
        id,
        asked,
        question,
        answer,
        ..
    } = kept;
    let ms = |from: &Time, to: Time| to.millis().saturating_sub(from.millis()).max(0);
    let answer = answer.as_ref().map(|kept| {
        json!({"answer": kept.answer, "by": kept.by.name, "from": kept.by.from, "at_ms": kept.at.millis()})
    });
    // What this version cannot read is not shown, so that it is not half of a question.
    let shown = serde_json::from_str::<hub::question::Shown>(&question.shown).ok();
    json!({
        "id": id.to_string(),
        "front": question.front,
        "session": question.session,
        "conversation": question.conversation,
        "tenant": question.tenant,
        "asker": question.asker,
        "app": question.app,
        "tool": question.tool,
        "effect": question.effect,
        "choices": question.choices,
        "approvers": question.approvers,
        "waiting_ms": ms(asked, now),
        "expires_in_ms": ms(&now, question.expires),
        "answer": answer,
        "shown": shown,
    })
}
