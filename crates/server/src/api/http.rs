//! Connections, and what is asked of every request before it is read.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    future::{Future, poll_fn},
    io,
    net::{IpAddr, SocketAddr},
    pin::{Pin, pin},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    extract::{self, State},
    http::{
        HeaderMap, HeaderValue, Request, StatusCode,
        header::{CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, HOST, ORIGIN},
    },
    middleware::{self, Next},
    response::Response,
};
use futures_core::Stream;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use rustix::net::sockopt::set_tcp_user_timeout;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
    time::{sleep, timeout},
};

use super::error::ApiError;
use crate::locks::lock;

/// Bytes of a request's body. As many as our own client sends.
pub(crate) const BODY_LIMIT: usize = 32 << 20;
/// How long a connection may take for the head of its next request, which is also how long it may
/// stay idle. Clients close idle connections after 4 to 15 seconds themselves.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Milliseconds for which a client may leave an answer unread before its connection is closed.
const WRITE_TIMEOUT_MS: u32 = 60_000;
/// How long a body may take. From this machine it is there at once.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// Connections at once. Each holds a file descriptor and some kilobytes.
pub(crate) const MAX_CONNECTIONS: usize = 2048;
/// How long requests under way may go on once the server is told to stop.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(30);
/// How long to wait for a slot or a file descriptor before the next silent connection is closed for it.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// Serves at most `connections` connections at once until `shutdown` is ready, and then the requests under way. Where there
/// are more, the oldest of those that have sent no complete head of a request is closed.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    connections: usize,
    shutdown: impl Future<Output = ()>,
) {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT);
    let slots = Arc::new(Semaphore::new(connections));
    let silent = Silent::default();
    let graceful = GracefulShutdown::new();
    let (mut tasks, mut count) = (JoinSet::new(), 0);
    let router = TowerToHyperService::new(router);
    let mut shutdown = pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &slots, &silent) => accepted,
            () = &mut shutdown => break,
        };
        let Some((slot, stream, peer)) = accepted else {
            break;
        };
        // Answers are small and must not wait for each other.
        let _ = stream.set_nodelay(true);
        // The kernel closes the connection of a client that does not read. Without this it only stays open longer.
        let _ = set_tcp_user_timeout(&stream, WRITE_TIMEOUT_MS);
        let (closed, number) = (Arc::new(Notify::new()), count);
        count += 1;
        silent.all().insert(number, Arc::clone(&closed));
        let (router, slots, of_connection) = (router.clone(), slots.clone(), silent.clone());
        let service = service_fn(move |mut request: Request<Incoming>| {
            of_connection.all().remove(&number);
            request.extensions_mut().insert(Peer(peer));
            let answer = hyper::service::Service::call(&router, request);
            // One that waits for its next request is not silent, so there is no waiting where half of the slots are taken.
            let is_crowded = slots.available_permits() < connections / 2;
            async move { answer.await.map(|answer| closes(answer, is_crowded)) }
        });
        let (builder, watcher, silent) = (builder.clone(), graceful.watcher(), silent.clone());
        // A `JoinSet` keeps finished tasks until they are taken out.
        while tasks.try_join_next().is_some() {}
        tasks.spawn(async move {
            let connection = builder.serve_connection(TokioIo::new(stream), service);
            tokio::select! {
                // A client that breaks off needs no answer.
                _ = watcher.watch(connection) => {}
                () = closed.notified() => {}
            }
            silent.all().remove(&number);
            // Held as long as the connection, however many requests it carries.
            drop(slot);
        });
    }
    // A connection that goes on after that is cut off with its task.
    let _ = timeout(SHUTDOWN_TIMEOUT, graceful.shutdown()).await;
}

/// A refused request may not have been read to its end, and the connection of such a request is closed. The answer says so:
/// otherwise the client could send its next request into it, and lose that one.
fn closes(mut response: Response, is_crowded: bool) -> Response {
    if is_crowded || response.status().is_client_error() {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
    }
    response
}

/// The next connection, once there is a slot for it: a silent one gives way, so that many of them keep nobody out.
async fn accept(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
    silent: &Silent,
) -> Option<(OwnedSemaphorePermit, TcpStream, SocketAddr)> {
    let (stream, peer) = loop {
        match listener.accept().await {
            Ok(accepted) => break accepted,
            // There are no more file descriptors.
            Err(_) => {
                silent.close_oldest();
                sleep(ACCEPT_PAUSE).await;
            }
        }
    };
    if let Ok(slot) = slots.clone().try_acquire_owned() {
        return Some((slot, stream, peer));
    }
    loop {
        silent.close_oldest();
        // None may have been silent: the next try closes one that is by then.
        if let Ok(slot) = timeout(ACCEPT_PAUSE, slots.clone().acquire_owned()).await {
            return slot.ok().map(|slot| (slot, stream, peer));
        }
    }
}

/// The connections that have sent no complete head of a request yet, by age, and what tells each of them to go.
#[derive(Default, Clone)]
struct Silent(Arc<Mutex<BTreeMap<u64, Arc<Notify>>>>);

impl Silent {
    fn all(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Notify>>> {
        lock(&self.0)
    }

    fn close_oldest(&self) {
        if let Some((_, closed)) = self.all().pop_first() {
            closed.notify_one();
        }
    }
}

/// Which names a server answers to. A web page that has made its own host name resolve to us (DNS
/// rebinding) shows that name; a page of another origin shows its own in `Origin`.
#[derive(Debug, Clone)]
pub(crate) struct Hosts {
    names: Vec<String>,
    /// Whether any address will do, and not only those of loopback.
    any_address: bool,
}

impl Hosts {
    /// Loopback alone; or, where other machines may connect, any address and the names that this
    /// machine is known by. An address cannot be rebound.
    pub(crate) fn new(allow_remote: bool, names: &[String]) -> Self {
        let mut names: Vec<String> = names.iter().map(|name| name.to_ascii_lowercase()).collect();
        if allow_remote {
            let own = rustix::system::uname();
            let own = own.nodename().to_string_lossy().to_ascii_lowercase();
            names.push(format!("{own}.local"));
            names.push(own);
        }
        Self {
            names,
            any_address: allow_remote,
        }
    }

    /// The same routes, for requests that name this server and come from no web page.
    pub(crate) fn guard(self, router: Router) -> Router {
        router.layer(middleware::from_fn_with_state(self, check_host))
    }

    /// Lets a request through, or says why not.
    pub(crate) fn admit(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        let forbidden = |message| ApiError::invalid(message).with_status(StatusCode::FORBIDDEN);
        // Two readers could take each another one for it.
        if headers.get_all(HOST).iter().count() > 1 {
            return Err(ApiError::invalid("two `Host` headers"));
        }
        let host = headers.get(HOST).and_then(|host| host.to_str().ok());
        // No page is served here, so one that comes from here is none.
        let own = host.map(|host| format!("http://{host}"));
        let mut origins = headers.get_all(ORIGIN).iter();
        if origins.any(|origin| own.as_ref().is_none_or(|own| origin != own.as_str())) {
            return Err(forbidden(
                "web pages have no access; the `Origin` header must be left out",
            ));
        }
        match host.is_some_and(|host| self.names(host)) {
            true => Ok(()),
            false => Err(forbidden(
                "the `Host` header must name this server; add the name to `hosts` of [service], or to --host of `sluice proxy`",
            )),
        }
    }

    fn names(&self, host: &str) -> bool {
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => host,
        };
        let bare = name.trim_start_matches('[').trim_end_matches(']');
        let address = bare.parse::<IpAddr>();
        let is_known = |known: &String| name.eq_ignore_ascii_case(known);
        name == "localhost"
            || address.is_ok_and(|ip| self.any_address || ip.is_loopback())
            || self.names.iter().any(is_known)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Budget(Arc<Semaphore>);

/// Room for a body, until it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Held(Option<OwnedSemaphorePermit>);

impl Budget {
    pub(crate) fn new(bytes: usize) -> Self {
        Self(Arc::new(Semaphore::new(bytes.min(Semaphore::MAX_PERMITS))))
    }

    fn grow(&self, held: &mut Held, bytes: usize) -> Result<(), ApiError> {
        let count = u32::try_from(bytes).map_err(|_| ApiError::busy())?;
        let more = self.0.clone().try_acquire_many_owned(count);
        let more = more.map_err(|_| ApiError::busy())?;
        match &mut held.0 {
            Some(held) => held.merge(more),
            none => *none = Some(more),
        }
        Ok(())
    }
}

/// A request's place among those that are served at once, and the room that its body takes.
pub(crate) type Slot = (OwnedSemaphorePermit, Held);

/// Reads the body of a request, and takes a slot for it. A slow body takes none.
pub(crate) async fn admit(
    headers: &HeaderMap,
    body: Body,
    budget: &Budget,
    slots: &Arc<Semaphore>,
) -> Result<(Vec<u8>, Slot), ApiError> {
    let (bytes, held) = json_body(headers, body, budget).await?;
    let slot = slots.clone().try_acquire_owned();
    Ok((bytes, (slot.map_err(|_| ApiError::busy())?, held)))
}

/// The body of a request that says it is JSON, within the limits, and the room that it takes.
pub(crate) async fn json_body(
    headers: &HeaderMap,
    body: Body,
    budget: &Budget,
) -> Result<(Vec<u8>, Held), ApiError> {
    // A web page can send other types to us without being asked for permission (CORS).
    let json = headers
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    if !json.is_some_and(|kind| kind.starts_with("application/json")) {
        return Err(ApiError::invalid("`Content-Type` must be application/json")
            .with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE));
    }
    let encoding = headers.get(CONTENT_ENCODING);
    if encoding.is_some_and(|encoding| encoding != "identity") {
        return Err(ApiError::invalid(
            "a body must not be compressed; Codex needs --disable enable_request_compression",
        )
        .with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE));
    }
    match timeout(BODY_TIMEOUT, read(body, budget)).await {
        Ok(read) => read,
        Err(_) => {
            Err(ApiError::invalid("the body took too long")
                .with_status(StatusCode::REQUEST_TIMEOUT))
        }
    }
}

/// Reads a body piece by piece: room is taken for what has come, and not for what was announced.
async fn read(body: Body, budget: &Budget) -> Result<(Vec<u8>, Held), ApiError> {
    let too_large = || {
        ApiError::invalid(format!(
            "the body is larger than {BODY_LIMIT} bytes, or was cut"
        ))
        .with_status(StatusCode::PAYLOAD_TOO_LARGE)
    };
    let (mut bytes, mut held) = (Vec::new(), Held::default());
    let mut pieces = body.into_data_stream();
    while let Some(piece) = poll_fn(|context| Pin::new(&mut pieces).poll_next(context)).await {
        let piece = piece.map_err(|_| too_large())?;
        if bytes.len() + piece.len() > BODY_LIMIT {
            return Err(too_large());
        }
        // An announced length would let a client take all the room by sending nothing.
        budget.grow(&mut held, piece.len())?;
        bytes.extend_from_slice(&piece);
    }
    Ok((bytes, held))
}

async fn check_host(
    State(hosts): State<Hosts>,
    request: extract::Request,
    next: Next,
) -> Result<Response, ApiError> {
    hosts.admit(request.headers())?;
    Ok(next.run(request).await)
}

/// Takes the address; port 0 takes a free one.
pub(crate) async fn bind(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

pub(crate) async fn nothing_here() -> Result<Infallible, ApiError> {
    Err(ApiError::invalid("no such path").with_status(StatusCode::NOT_FOUND))
}
