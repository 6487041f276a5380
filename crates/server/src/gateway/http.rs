//! Clients over streamable HTTP, each with a session of its own.
//!
//! A gateway with a store goes on with the sessions of other replicas, each for its token.
//!
//! Requests of MCP 2026-07-28 have no session. All of them with one token are one client's.
//!
//! A call is answered by a stream of events, in which progress and questions come before the result. Nothing is said outside
//! of an answer, so there is no stream to open with GET.

use std::collections::{BTreeSet, HashMap};
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{RawQuery, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{self, Next};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Extension, Router};
use futures_core::Stream;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;

use super::rpc::Message;
use super::stateless::{self, Era, VERSIONS};
use super::{Client, Gateway, lock};
use crate::access::{Access, Holder, bearer};
use crate::api::error::ApiError;
use crate::api::http::{self, Budget, Hosts, MAX_CONNECTIONS, json_body};
use crate::api::route::MCP;
use crate::desk::{Desk, fresh_token};

/// Where clients send their messages.
pub const PATH: &str = MCP;
/// The header that says whose message it is.
const SESSION: &str = "mcp-session-id";
/// Clients at once. Each has spokes of its own.
const MAX_CLIENTS: usize = 64;
/// A client that says nothing for this long is gone, with its spokes: few programs end their session. One that comes back all
/// the same still has what it was returned.
const IDLE: Duration = Duration::from_secs(3_600);
/// Bytes of all messages that are read at once.
const BODY_BYTES: usize = 64 << 20;
/// Selections of apps that one token has without a session.
const MAX_SELECTIONS: usize = 16;
/// Messages that wait for the client to read.
const OUTGOING: usize = 64;

/// Who may connect, and where.
pub struct HttpSetup {
    /// The address to listen at.
    pub address: SocketAddr,
    /// Whether other machines may connect.
    pub allow_remote: bool,
    /// Names by which other machines reach it.
    pub hosts: Vec<String>,
    /// What each request must send as `Authorization: Bearer TOKEN`.
    pub token: String,
    /// Where questions are answered over HTTP.
    pub desk: Option<Arc<Desk>>,
}

/// A gateway that listens.
pub struct HttpGateway {
    listener: tokio::net::TcpListener,
    address: SocketAddr,
    router: Router,
    routes: Routes,
}

/// What a gateway serves at [`PATH`], for an address of its own or beside a proxy.
pub struct Routes {
    pub(crate) router: Router,
    shared: Arc<Shared>,
}

/// What each request must show.
enum Door {
    /// This token, by its digest.
    Token([u8; 32]),
    /// One of a service.
    Agents(Access),
}

impl Door {
    async fn admit(&self, headers: &HeaderMap) -> Result<Holder, ApiError> {
        let own = match self {
            Self::Agents(access) => return access.admit_known(headers).await,
            Self::Token(digest) => digest,
        };
        // Digests are compared, so that the time tells nothing about the token.
        if bearer(headers).is_some_and(|given| <[u8; 32]>::from(Sha256::digest(given)) == *own) {
            return Ok(Holder {
                digest: *own,
                ..Holder::default()
            });
        }
        let message = "wrong token; send the one that sluice gateway printed at its start as Authorization: Bearer";
        Err(ApiError::new(StatusCode::UNAUTHORIZED, message))
    }
}

impl Routes {
    /// The routes of a gateway whose clients must send this token as `Authorization: Bearer TOKEN`. All have this session,
    /// for which another front leaves permits; without one, each has its own.
    pub fn new(gateway: Arc<Gateway>, token: &str, session: Option<String>) -> Self {
        let door = Door::Token(Sha256::digest(token).into());
        Self::behind(gateway, door, session)
    }

    /// The same for the agents of a service, each of which needs its own token.
    pub fn of_agents(gateway: Arc<Gateway>, access: Access) -> Self {
        Self::behind(gateway, Door::Agents(access), None)
    }

    fn behind(gateway: Arc<Gateway>, door: Door, session: Option<String>) -> Self {
        let shared = Arc::new(Shared {
            gateway,
            door,
            budget: Budget::new(BODY_BYTES),
            clients: Mutex::default(),
            session,
            stateless: Mutex::default(),
        });
        let router = Router::new()
            // There is no stream to open, and clients try.
            .route(
                PATH,
                post(take).delete(end).get(StatusCode::METHOD_NOT_ALLOWED),
            )
            .route_layer(middleware::from_fn_with_state(shared.clone(), check_token))
            .with_state(shared.clone());
        Self { router, shared }
    }

    /// Ends all clients, with what runs for them.
    pub(crate) async fn end(&self) {
        let clients: Vec<Arc<Client>> = lock(&self.shared.clients)
            .drain()
            .map(|(_, (client, _))| client)
            .collect();
        let stateless = std::mem::take(&mut *lock(&self.shared.stateless));
        for client in clients.iter().chain(stateless.values()) {
            client.end().await;
        }
    }
}

/// The digest of a token, and the apps that its requests name.
type Selection = ([u8; 32], BTreeSet<String>);

struct Shared {
    gateway: Arc<Gateway>,
    door: Door,
    budget: Budget,
    clients: Mutex<HashMap<String, (Arc<Client>, Instant)>>,
    session: Option<String>,
    /// The clients of all requests without a session. They stay as long as the gateway runs.
    stateless: Mutex<HashMap<Selection, Arc<Client>>>,
}

impl HttpGateway {
    /// Takes the address. Nothing is served before [`HttpGateway::serve`].
    ///
    /// # Errors
    /// The address is taken, or other machines reach it and may not.
    pub async fn bind(gateway: Arc<Gateway>, setup: HttpSetup) -> io::Result<Self> {
        let HttpSetup {
            address,
            allow_remote,
            hosts,
            token,
            desk,
        } = setup;
        if !address.ip().is_loopback() && !allow_remote {
            let why = format!(
                "{address} can be reached from other machines; use 127.0.0.1, or allow remote clients"
            );
            return Err(io::Error::other(why));
        }
        let (listener, address) = http::bind(address).await?;
        let routes = Routes::new(gateway, &token, None);
        let api = routes.router.clone();
        let all = match desk {
            Some(desk) => api.merge(desk.router()),
            None => api,
        };
        let hosts = Hosts::new(allow_remote, &hosts);
        let router = hosts.guard(all.fallback(http::nothing_here));
        Ok(Self {
            listener,
            address,
            router,
            routes,
        })
    }

    /// The address that was taken.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `shutdown` is ready. Nothing of any client runs afterwards.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) {
        let routes = self.routes;
        let ending = async move {
            shutdown.await;
            routes.end().await;
        };
        http::serve(self.listener, self.router, MAX_CONNECTIONS, ending).await;
    }
}

async fn check_token(
    State(shared): State<Arc<Shared>>,
    mut request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let holder = shared.door.admit(request.headers()).await?;
    request.extensions_mut().insert(holder);
    Ok(next.run(request).await)
}

/// The apps that a query names (`app=NAME&app=NAME`); without one, none, which is all.
fn apps(query: Option<&str>) -> Result<BTreeSet<String>, ApiError> {
    let parts = query.into_iter().flat_map(|query| query.split('&'));
    let names = parts
        .filter(|part| !part.is_empty())
        .map(|part| part.strip_prefix("app=").map(str::to_owned));
    let names: Option<_> = names.collect();
    names.ok_or_else(|| ApiError::invalid("the query names apps, as ?app=NAME&app=NAME"))
}

async fn take(
    State(shared): State<Arc<Shared>>,
    Extension(holder): Extension<Holder>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let apps = apps(query.as_deref())?;
    let (body, _held) = json_body(&headers, body, &shared.budget).await?;
    let text = String::from_utf8(body).map_err(|_| ApiError::invalid("the message is no UTF-8"))?;
    let message = match Message::read(&text) {
        Ok(message) => message,
        Err(refused) => return Ok((StatusCode::BAD_REQUEST, json(refused)).into_response()),
    };
    let method = message.method.as_deref();
    let is_request = method.is_some() && message.id.map(RawValue::get).is_some();
    let is_call = method.is_some_and(|method| shared.gateway.listing.runs(method));
    if is_call {
        let limits = &shared.gateway.parts.limits;
        limits.refresh(holder.tenant.as_deref()).await?;
    }
    let is_stateless = Era::is_stateless(&headers, &message);
    if is_stateless && headers.contains_key(SESSION) {
        let versions = VERSIONS.join(", ");
        return Err(ApiError::invalid(format!("a session speaks {versions}")));
    }
    if is_stateless
        && is_request
        && let Err(refused) = Era::check(&headers, &message)
    {
        return Ok((stateless::status(&refused), json(refused)).into_response());
    }
    let (client, session) = match method {
        _ if is_stateless => (shared.stateless(holder, apps)?, None),
        Some("initialize") => {
            let (client, session) = shared.begin(holder, &apps).await?;
            (client, Some(session))
        }
        _ => (shared.find(holder, &headers, &apps).await?.0, None),
    };
    let (out, mut outgoing) = mpsc::channel(OUTGOING);
    let handled = client.handle(text, out);
    if !is_request {
        handled.await;
        return Ok(StatusCode::ACCEPTED.into_response());
    }
    // Not bound to the connection: a client that breaks off has to cancel its call.
    tokio::spawn(handled);
    if is_call {
        let events = Sse::new(Events(outgoing));
        return Ok(events.keep_alive(KeepAlive::default()).into_response());
    }
    let answer = outgoing.recv().await.unwrap_or_default();
    if is_stateless {
        return Ok((stateless::status(&answer), json(answer)).into_response());
    }
    let session = session.map(|session| [(SESSION, session)]);
    Ok((session, json(answer)).into_response())
}

fn json(text: String) -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], text)
}

/// Ends a session, with its spokes.
async fn end(
    State(shared): State<Arc<Shared>>,
    Extension(holder): Extension<Holder>,
    headers: HeaderMap,
) -> Result<StatusCode, ApiError> {
    let (client, session) = shared.find(holder, &headers, &BTreeSet::new()).await?;
    lock(&shared.clients).remove(session);
    client.end().await;
    Ok(StatusCode::NO_CONTENT)
}

impl Shared {
    /// The client whose session this is, and its name. The session of another token is unknown.
    async fn find<'a>(
        &self,
        holder: Holder,
        headers: &'a HeaderMap,
        apps: &BTreeSet<String>,
    ) -> Result<(Arc<Client>, &'a str), ApiError> {
        let session = headers.get(SESSION).ok_or_else(|| {
            ApiError::invalid("the header Mcp-Session-Id is missing; initialize first")
        })?;
        let session = session.to_str().unwrap_or_default();
        if let Some(client) = self.known(&holder, session) {
            return Ok((client, session));
        }
        // Another replica has begun it, or this one before a reload or restart: labels and grants are in the store. It cannot
        // ask its client's user, since `initialize` is where a client says that it can.
        let store = self.gateway.store.as_ref();
        if store.is_some_and(|store| store.is_session_of(&holder.digest, session)) {
            return Ok((self.open(holder, session, apps).await?, session));
        }
        // With this status a client begins a new session.
        let message = "there is no such session; initialize again";
        Err(ApiError::new(StatusCode::NOT_FOUND, message))
    }

    fn known(&self, holder: &Holder, session: &str) -> Option<Arc<Client>> {
        let mut clients = lock(&self.clients);
        let (client, newest) = clients.get_mut(session)?;
        if client.holder.digest != holder.digest {
            return None;
        }
        *newest = Instant::now();
        Some(Arc::clone(client))
    }

    /// The client of requests without a session.
    fn stateless(&self, holder: Holder, apps: BTreeSet<String>) -> Result<Arc<Client>, ApiError> {
        let session = self.session.as_deref().unwrap_or_default();
        let mut all = lock(&self.stateless);
        let key = (holder.digest, apps);
        if let Some(client) = all.get(&key) {
            return Ok(Arc::clone(client));
        }
        if all.keys().filter(|(token, _)| *token == key.0).count() >= MAX_SELECTIONS {
            return Err(ApiError::busy());
        }
        let listing = self.gateway.listed(&key.1)?;
        let client = self.gateway.new_client(holder, session, true, listing);
        all.insert(key, Arc::clone(&client));
        Ok(client)
    }

    /// A new session.
    async fn begin(
        &self,
        holder: Holder,
        apps: &BTreeSet<String>,
    ) -> Result<(Arc<Client>, String), ApiError> {
        let mut session = fresh_token().map_err(ApiError::internal)?;
        if let Some(store) = &self.gateway.store {
            session = store.session(&holder.digest, &session);
        }
        Ok((self.open(holder, &session, apps).await?, session))
    }

    /// The client of a session that is new here. Where there is no room, it has that of the client which has said nothing for
    /// longest.
    async fn open(
        &self,
        holder: Holder,
        session: &str,
        apps: &BTreeSet<String>,
    ) -> Result<Arc<Client>, ApiError> {
        let listing = self.gateway.listed(apps)?;
        let idle: Vec<Arc<Client>> = lock(&self.clients)
            .values()
            .filter(|(_, newest)| newest.elapsed() > IDLE)
            .map(|(client, _)| Arc::clone(client))
            .collect();
        for client in idle {
            client.end().await;
        }
        let (client, gone) = {
            let mut clients = lock(&self.clients);
            // Two of its requests may come at once.
            if let Some((client, _)) = clients.get(session) {
                return Ok(Arc::clone(client));
            }
            let mut gone = None;
            if clients.len() >= MAX_CLIENTS {
                let idle = clients.iter().filter(|(_, (client, _))| !client.is_busy());
                let oldest = idle.min_by_key(|(_, (_, newest))| *newest);
                let oldest = oldest.map(|(session, _)| session.clone());
                let oldest = oldest.and_then(|oldest| clients.remove(&oldest));
                gone = Some(oldest.ok_or_else(ApiError::busy)?.0);
            }
            let own = self.session.as_deref().unwrap_or(session);
            let client = self.gateway.new_client(holder, own, false, listing);
            clients.insert(session.to_owned(), (Arc::clone(&client), Instant::now()));
            (client, gone)
        };
        if let Some(gone) = gone {
            gone.end().await;
        }
        Ok(client)
    }
}

/// Messages as events of a stream, which ends with the last sender.
struct Events(mpsc::Receiver<String>);

impl Stream for Events {
    type Item = Result<Event, io::Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let message = self.0.poll_recv(context);
        message.map(|message| message.map(|text| Ok(Event::default().event("message").data(text))))
    }
}

#[cfg(test)]
mod tests {
    use hub::Permits;
    use ifc::{Call, Label, Labeled, Lattice, Policy, PolicyError, Rule, Sink};
    use llm::{Broker, Scripted, text_answer};

    use super::super::GatewaySetup;
    use super::*;
    use crate::parts::Parts;

    struct NoRules;

    impl Policy for NoRules {
        fn rule(&self, _: &Sink<'_>) -> Result<Rule, PolicyError> {
            Err(PolicyError("none".to_owned()))
        }

        fn label_result(&self, _: &Call, result: String, _: bool) -> Labeled {
            Labeled::unknown(result)
        }
    }

    #[tokio::test]
    async fn a_quiet_client_is_forgotten_only_where_there_is_no_room() {
        let model = Scripted::new("model", |_| text_answer("hello"));
        let broker = Arc::new(Broker::new(Arc::new(model), Label::top()));
        let lattice = Arc::new(Lattice::four_point());
        let screener = Arc::new(screen::NaiveTainting);
        let traces = tempfile::tempdir().unwrap();
        let gateway = Gateway::start(GatewaySetup {
            name: "gateway".to_owned(),
            traces: traces.path().to_owned(),
            parts: Parts::new(broker, Arc::new(NoRules), lattice, screener),
            apps: Vec::new(),
            prefixed: true,
            search: None,
            permissions: None,
            asks_client: true,
            approver: None,
            approval_timeout: Duration::from_secs(1),
            observe: false,
            permits: Arc::new(Mutex::new(Permits::default())),
            told: None,
            state: None,
        });
        let shared = Shared {
            gateway: gateway.unwrap(),
            door: Door::Token([0; 32]),
            budget: Budget::new(BODY_BYTES),
            clients: Mutex::default(),
            session: None,
            stateless: Mutex::default(),
        };
        let holder = |number| Holder {
            digest: [number; 32],
            ..Holder::default()
        };
        let quiet = |session: &str| {
            let mut clients = lock(&shared.clients);
            let (_, newest) = clients.get_mut(session).unwrap();
            *newest = newest.checked_sub(IDLE * 2).unwrap();
        };
        let all = BTreeSet::new();
        let (client, session) = shared.begin(holder(1), &all).await.unwrap();
        quiet(&session);
        for _ in 1..MAX_CLIENTS {
            shared.begin(holder(1), &all).await.unwrap();
        }
        let known = shared.known(&holder(1), &session).unwrap();
        assert!(Arc::ptr_eq(&known, &client));
        quiet(&session);
        let (_, newest) = shared.begin(holder(1), &all).await.unwrap();
        assert!(shared.known(&holder(1), &session).is_none());
        assert!(shared.known(&holder(1), &newest).is_some());
        // A session is its token's.
        assert!(shared.known(&holder(2), &newest).is_none());
        // Nobody is there who could give way to another.
        for (client, _) in lock(&shared.clients).values() {
            lock(&client.calls).insert("1".to_owned(), Arc::default());
        }
        assert!(shared.begin(holder(1), &all).await.is_err());
    }
}
