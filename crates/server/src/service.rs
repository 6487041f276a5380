//! All fronts at one address: replaced as a whole while they run, and drained at the end.
//!
//! The page of the desk has names of its own, at which nothing else is served. Every other name reaches the proxy, the gateway
//! and the API of the desk.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::http::header::{CONNECTION, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::any;
use hyper::body::{Frame, SizeHint};
use hyper_util::service::TowerToHyperService;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::api::answer::messages::AnthropicMessage;
use crate::api::answer::responses::OpenAiResponse;
use crate::api::error::ApiError;
use crate::api::http::{self, Hosts, MAX_CONNECTIONS, Peer};
use crate::api::{Dialect, frame::Frame as EventFrame};
use crate::desk::Desk;
use crate::desk::page::PageRoutes;
use crate::gateway::Routes;
use crate::proxy::ProxyRoutes;
use crate::telemetry::{Check, Endpoints, Metrics};

/// Where the page of the desk is found, at any name of the service.
pub const DESK: &str = "/sluice/desk";
/// What is watched from outside. It is served while the service stops, too.
const WATCHED: [&str; 3] = ["/healthz", "/readyz", "/metrics"];
/// The API of the desk.
const QUESTIONS: &str = "/sluice/v1/";
/// How long requests may take to answer that they were cut.
const FLUSH: Duration = Duration::from_secs(1);

/// Whether a service stops, for all who have to know. A handle.
#[derive(Clone, Default)]
pub struct Stopping(Arc<watch::Sender<Phase>>);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    #[default]
    Serving,
    /// What runs goes on, and nothing new begins.
    Draining,
    /// What still runs is answered that the service stops.
    Cut,
}

impl Stopping {
    /// Whether nothing new begins.
    pub fn has_begun(&self) -> bool {
        *self.0.borrow() > Phase::Serving
    }

    /// For `/readyz`.
    pub fn check(&self) -> Arc<dyn Check> {
        Arc::new(self.clone())
    }

    async fn cut(mut seen: watch::Receiver<Phase>) {
        // The sender lives as long as the service.
        let _ = seen.wait_for(|phase| *phase == Phase::Cut).await;
    }
}

#[async_trait]
impl Check for Stopping {
    async fn check(&self) -> Result<(), String> {
        match self.has_begun() {
            true => Err("the service stops".to_owned()),
            false => Ok(()),
        }
    }
}

/// What is watched from outside. `hosts` are the names by which other machines reach the service, if they may.
pub fn watched(endpoints: &Endpoints, hosts: Option<&[String]>) -> Router {
    let hosts = Hosts::new(hosts.is_some(), hosts.unwrap_or_default());
    let check = middleware::from_fn_with_state(hosts, http::check_host);
    // The checks of a cluster name no host that is known here, and learn only whether this runs.
    let health = endpoints.health();
    health.merge(endpoints.guarded_metrics().layer(check))
}

/// The address of a service, taken.
pub struct Listener {
    listener: TcpListener,
    address: SocketAddr,
}

impl Listener {
    /// Takes the address; port 0 takes a free one.
    ///
    /// # Errors
    /// The network refuses.
    pub async fn bind(address: SocketAddr) -> io::Result<Self> {
        let (listener, address) = http::bind(address).await?;
        Ok(Self { listener, address })
    }

    /// The address that was taken.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves this, and nothing else, until the future is dropped.
    pub async fn serve(self, router: Router) {
        http::serve(
            self.listener,
            router,
            MAX_CONNECTIONS,
            std::future::pending(),
        )
        .await;
    }
}

/// What is replaced as a whole: the proxy, the gateway and the API of the desk, by one configuration.
pub struct Fronts {
    router: Router,
    ends: Ends,
    desk: Option<Arc<Desk>>,
    running: watch::Sender<usize>,
}

enum Ends {
    Proxy(Box<ProxyRoutes>),
    Gateway(Routes),
}

impl Fronts {
    /// A proxy, with the gateway beside it.
    pub fn of_proxy(proxy: ProxyRoutes) -> Self {
        Self {
            router: proxy.router.clone(),
            desk: proxy.desk.clone(),
            ends: Ends::Proxy(Box::new(proxy)),
            running: watch::Sender::default(),
        }
    }

    /// A gateway alone. `hosts` are the names by which other machines reach it, if they may. Requests for a model are told why
    /// there is no proxy.
    pub fn of_gateway(
        gateway: Routes,
        desk: Arc<Desk>,
        hosts: Option<&[String]>,
        why: &'static str,
    ) -> Self {
        let checked = Hosts::new(hosts.is_some(), hosts.unwrap_or_default());
        let router = gateway.router.clone().merge(desk.router());
        let no_proxy = move |request: Request| async move { no_proxy(request.uri().path(), why) };
        let router = router
            .route("/v1/{*path}", any(no_proxy))
            .fallback(http::nothing_here);
        Self {
            router: router.layer(middleware::from_fn_with_state(checked, http::check_host)),
            desk: Some(desk),
            ends: Ends::Gateway(gateway),
            running: watch::Sender::default(),
        }
    }

    /// Waits until no request is under way, for this time at most.
    async fn idle(&self, patience: Duration) {
        let mut running = self.running.subscribe();
        let _ = timeout(patience, running.wait_for(|count| *count == 0)).await;
    }

    /// Lets requests end that wait for an answer to a question. The question waits on, for the one who repeats the request.
    async fn leave_questions(&self) {
        if let Some(desk) = &self.desk {
            desk.close().await;
        }
    }

    /// Ends them once their last request is over, or after this time.
    async fn end(&self, patience: Duration) {
        self.idle(patience).await;
        self.leave_questions().await;
        match &self.ends {
            Ends::Proxy(proxy) => proxy.end().await,
            Ends::Gateway(gateway) => gateway.end().await,
        }
    }
}

/// What a service is made of.
pub struct ServiceSetup {
    /// The first fronts.
    pub fronts: Fronts,
    /// The page of the desk, if it is served at this address. Without it the API of the desk is not served here either.
    pub page: Option<PageRoutes>,
    /// What is watched from outside: `/healthz`, `/readyz` and `/metrics`.
    pub watched: Router,
    /// How long running requests may go on once it stops.
    pub drain: Duration,
    /// Who learns that it stops.
    pub stopping: Stopping,
}

/// Fronts at one address.
pub struct Service {
    listener: Listener,
    shared: Arc<Shared>,
    metrics: Option<Arc<Metrics>>,
}

struct Shared {
    fronts: RwLock<Arc<Fronts>>,
    page: Option<PageRoutes>,
    watched: Router,
    drain: Duration,
    stopping: Stopping,
}

/// Replaces the fronts of a service.
#[derive(Clone)]
pub struct ServiceHandle(Arc<Shared>);

impl ServiceHandle {
    /// New requests go to these fronts. Those under way go on at the fronts that they have begun at.
    pub fn replace(&self, fronts: Fronts) {
        let mut current = self
            .0
            .fronts
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *current, Arc::new(fronts));
        drop(current);
        let patience = self.0.drain;
        tokio::spawn(async move { before.end(patience).await });
    }
}

impl Service {
    /// Nothing is served before [`Service::serve`].
    pub fn new(listener: Listener, setup: ServiceSetup) -> Self {
        let shared = Arc::new(Shared {
            fronts: RwLock::new(Arc::new(setup.fronts)),
            page: setup.page,
            watched: setup.watched,
            drain: setup.drain,
            stopping: setup.stopping,
        });
        Self {
            listener,
            shared,
            metrics: None,
        }
    }

    /// Counts and times its requests in these metrics.
    #[must_use]
    pub fn measured(mut self, metrics: Arc<Metrics>) -> Self {
        self.metrics = Some(metrics);
        self
    }

    /// Replaces its fronts.
    pub fn handle(&self) -> ServiceHandle {
        ServiceHandle(Arc::clone(&self.shared))
    }

    /// Serves until `shutdown` is ready. Then requests that begin are refused with 503, and those under way go on until they
    /// are over or the time is up; what is left is answered with 503.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) {
        let Self {
            listener,
            shared,
            metrics,
        } = self;
        let router = Router::new().fallback(pass).with_state(Arc::clone(&shared));
        let router = match metrics {
            Some(metrics) => metrics.watch(router),
            None => router,
        };
        let ending = async {
            shutdown.await;
            shared.stopping.0.send_replace(Phase::Draining);
            let fronts = shared.fronts();
            fronts.leave_questions().await;
            fronts.idle(shared.drain).await;
            shared.stopping.0.send_replace(Phase::Cut);
            if let Some(page) = &shared.page {
                page.close();
            }
            fronts.end(FLUSH).await;
        };
        http::serve(listener.listener, router, MAX_CONNECTIONS, ending).await;
    }
}

impl Shared {
    fn fronts(&self) -> Arc<Fronts> {
        let fronts = self.fronts.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&fronts)
    }
}

/// Brings a request to where it belongs.
async fn pass(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let page = shared.page.as_ref();
    if let Some(page) = page.filter(|page| page.is_asked(request.headers())) {
        return call(page.router.clone(), request).await;
    }
    let path = request.uri().path().to_owned();
    if WATCHED.contains(&path.as_str()) {
        return call(shared.watched.clone(), request).await;
    }
    // The name is for a browser of this machine. It lets no one in.
    let peer = request.extensions().get::<Peer>();
    let is_here = peer.is_some_and(|peer| peer.0.ip().to_canonical().is_loopback());
    if let Some(page) = page.filter(|_| path == DESK && is_here) {
        return Redirect::to(&page.url()).into_response();
    }
    // The desk has an address of its own, which agents need not reach.
    if page.is_none() && path.starts_with(QUESTIONS) {
        let error = ApiError::invalid("the questions are at the address of desk_listen");
        return error.with_status(StatusCode::NOT_FOUND).into_response();
    }
    let fronts = shared.fronts();
    // Counted before the phase is looked at, so that none begins unseen after it was decided that nothing runs.
    let running = Running::new(&fronts);
    if shared.stopping.has_begun() {
        return stopped(&path);
    }
    let mut cut = Box::pin(Stopping::cut(shared.stopping.0.subscribe()));
    let response = tokio::select! {
        biased;
        response = call(fronts.router.clone(), request) => response,
        () = &mut cut => return stopped(&path),
    };
    let (head, body) = response.into_parts();
    let kind = head.headers.get(CONTENT_TYPE);
    let is_stream = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
    let end = is_stream.then(|| last_event(&path)).flatten();
    let body = Counted {
        body,
        cut,
        end,
        is_over: false,
        _running: running,
    };
    Response::from_parts(head, Body::new(body))
}

async fn call(router: Router, request: Request) -> Response {
    let answered = hyper::service::Service::call(&TowerToHyperService::new(router), request).await;
    answered.unwrap_or_else(|never: Infallible| match never {})
}

fn error() -> ApiError {
    ApiError::unavailable("the service stops; try again at the next one")
}

/// An error in the form of the API at this path.
fn refused(path: &str, error: ApiError) -> Response {
    match path {
        _ if path.starts_with(AnthropicMessage::PATH) => AnthropicMessage::response(&error),
        OpenAiResponse::PATH => OpenAiResponse::response(&error),
        _ => error.into_response(),
    }
}

fn no_proxy(path: &str, why: &str) -> Response {
    let error = ApiError::invalid(format!("this service has no proxy for models: {why}"));
    refused(path, error.with_status(StatusCode::NOT_FOUND))
}

fn stopped(path: &str) -> Response {
    let mut response = refused(path, error());
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(CONNECTION, close);
    response
}

/// What ends a stream of the API at this path that is cut. A client that does not know it sees a stream without its end.
fn last_event(path: &str) -> Option<Bytes> {
    let frame = match path {
        _ if path.starts_with(AnthropicMessage::PATH) => {
            EventFrame::named("error", AnthropicMessage::error(&error()))
        }
        OpenAiResponse::PATH => {
            let body = error().body();
            EventFrame::named("error", body.get("error").cloned().unwrap_or_default())
        }
        super::gateway::PATH => return None,
        _ => EventFrame::data(&json!(error().body())),
    };
    Some(frame.text().into())
}

/// A request that is not over.
struct Running(Arc<Fronts>);

impl Running {
    fn new(fronts: &Arc<Fronts>) -> Self {
        fronts.running.send_modify(|count| *count += 1);
        Self(Arc::clone(fronts))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.send_modify(|count| *count -= 1);
    }
}

/// The body of an answer, which counts as running until its end and is cut with the service.
struct Counted {
    body: Body,
    cut: Pin<Box<dyn Future<Output = ()> + Send>>,
    end: Option<Bytes>,
    is_over: bool,
    _running: Running,
}

impl HttpBody for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            return Poll::Ready(frame);
        }
        if self.cut.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        self.is_over = true;
        let end = self.end.take();
        Poll::Ready(Some(match end {
            Some(end) => Ok(Frame::data(end)),
            // The connection is closed: half of an answer is not taken for all of it.
            None => Err(axum::Error::new(io::Error::other("the service stops"))),
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.is_over || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
