//! Connections, and what is asked of every request before it is read.

use std::{
    convert::Infallible,
    future::Future,
    io,
    net::{IpAddr, SocketAddr},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    http::{
        HeaderMap, Request, StatusCode,
        header::{CONTENT_TYPE, HOST},
    },
};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{sleep, timeout},
};

use super::response::ApiError;

/// Bytes of a request's body. As many as our own client sends.
pub(crate) const BODY_LIMIT: usize = 32 << 20;
/// How long a connection may take for the head of its next request, and stay idle before it.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a body may take: at loopback it is there at once; this is for somebody who holds the
/// line.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// Connections at once. Each holds a file descriptor and some kilobytes.
const MAX_CONNECTIONS: usize = 2048;
/// How long requests under way may go on once the server is told to stop.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(30);
/// How long to wait after a failed accept: there are no more file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Who is at the other end of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// Serves connections until `shutdown` is ready, and then the requests under way.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT);
    let connections = GracefulShutdown::new();
    let router = TowerToHyperService::new(router);
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut shutdown = pin!(shutdown);
    loop {
        let (slot, (stream, peer)) = tokio::select! {
            accepted = accept(&listener, &slots) => match accepted {
                Some(accepted) => accepted,
                None => {
                    sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            },
            () = &mut shutdown => break,
        };
        // Answers are small and must not wait for each other.
        let _ = stream.set_nodelay(true);
        let router = router.clone();
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(Peer(peer));
            hyper::service::Service::call(&router, request)
        });
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        let connection = connections.watch(connection);
        tokio::spawn(async move {
            // A client that breaks off is its own affair.
            let _ = connection.await;
            drop(slot);
        });
    }
    // Whoever is still at it after that is cut off with the runtime.
    let _ = timeout(SHUTDOWN_TIMEOUT, connections.shutdown()).await;
    Ok(())
}

/// The next connection, once there is room for it; `None` if the system has none left.
async fn accept(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
) -> Option<(OwnedSemaphorePermit, (TcpStream, SocketAddr))> {
    let slot = slots.clone().acquire_owned().await.ok()?;
    Some((slot, listener.accept().await.ok()?))
}

/// Whether the `Host` header names this machine's loopback: a web page that has made its own host
/// name resolve to loopback (DNS rebinding) shows its own.
pub(crate) fn names_loopback(headers: &HeaderMap) -> bool {
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

/// The refusal of a request that [`names_loopback`] does not hold for.
pub(crate) fn wrong_host() -> ApiError {
    ApiError::invalid("the `Host` header must name this machine's loopback address")
        .with_status(StatusCode::FORBIDDEN)
}

/// The body of a request that says it is JSON, within the limits.
pub(crate) async fn json_body(headers: &HeaderMap, body: Body) -> Result<Bytes, ApiError> {
    // A web page can send other types to us without being asked for permission (CORS).
    let json = headers
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    if !json.is_some_and(|kind| kind.starts_with("application/json")) {
        return Err(ApiError::invalid("`Content-Type` must be application/json")
            .with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE));
    }
    let read = timeout(BODY_TIMEOUT, axum::body::to_bytes(body, BODY_LIMIT)).await;
    let read = read.map_err(|_| {
        ApiError::invalid("the body took too long").with_status(StatusCode::REQUEST_TIMEOUT)
    })?;
    read.map_err(|_| {
        ApiError::invalid(format!(
            "the body is larger than {BODY_LIMIT} bytes, or was cut"
        ))
        .with_status(StatusCode::PAYLOAD_TOO_LARGE)
    })
}

/// What answers where nothing is.
pub(crate) async fn nothing_here() -> Result<Infallible, ApiError> {
    Err(ApiError::invalid("no such path").with_status(StatusCode::NOT_FOUND))
}
