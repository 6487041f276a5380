//! All fronts at one address: replaced as a whole while they run, and drained at the end.
//!
//! The page of the desk has names of its own, at which nothing else is served. Every other name reaches the proxy, the gateway
//! and the API of the desk.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, RwLock, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::http::header::{CONNECTION, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::any;
use hyper::body::{Frame, SizeHint};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::api::error::ApiError;
use crate::api::http::{self, Hosts, MAX_CONNECTIONS, Peer};
use crate::api::route::Route;
use crate::desk::Desk;
use crate::desk::page::PageRoutes;
use crate::gateway::Routes;
use crate::locks::{lock, read, write};
use crate::proxy::ProxyRoutes;
use crate::sink;
use crate::telemetry::{Check, Endpoints, MeasuredRequest, Metrics};

/// Where the page of the desk is found, at any name of the service.
pub const DESK: &str = "/sluice/desk";
/// How long requests may go on at fronts that were replaced. A stream that a client leaves open ends then.
const REPLACED: Duration = Duration::from_secs(600);
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
        let no_proxy = move |request: Request| async move {
            let message = format!("this service has no proxy for models: {why}");
            let error = ApiError::invalid(message).with_status(StatusCode::NOT_FOUND);
            Route::of(request.uri().path()).response(error)
        };
        let router = router
            .route("/v1/{*path}", any(no_proxy))
            .fallback(http::nothing_here);
        Self {
            router: checked.guard(router),
            desk: Some(desk),
            ends: Ends::Gateway(gateway),
            running: watch::Sender::default(),
        }
    }

    /// Waits until no request is under way.
    async fn idle(&self) {
        let mut running = self.running.subscribe();
        let _ = running.wait_for(|count| *count == 0).await;
    }

    /// Lets requests end that wait for an answer to a question. The question waits on, for the one who repeats the request.
    async fn leave_questions(&self) {
        if let Some(desk) = &self.desk {
            desk.close().await;
        }
    }

    /// Ends them once their last request is over, or after this time.
    async fn end(&self, patience: Duration) {
        let _ = timeout(patience, self.idle()).await;
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
    /// Where a browser of this machine finds the page.
    pub desk: String,
    /// What is watched from outside, and counts its requests.
    pub endpoints: Endpoints,
    /// How long running requests may go on once it stops.
    pub drain: Duration,
    /// Who learns that it stops.
    pub stopping: Stopping,
}

/// Fronts at one address.
pub struct Service {
    listener: Listener,
    shared: Arc<Shared>,
}

struct Shared {
    fronts: RwLock<Arc<Fronts>>,
    /// Those that were replaced, whose last requests may still run.
    replaced: Mutex<Vec<Weak<Fronts>>>,
    page: Option<PageRoutes>,
    desk: String,
    /// Served while the service stops, too.
    watched: Router,
    metrics: Arc<Metrics>,
    drain: Duration,
    stopping: Stopping,
}

/// Replaces the fronts of a service.
#[derive(Clone)]
pub struct ServiceHandle(Arc<Shared>);

impl ServiceHandle {
    /// New requests go to these fronts. Those under way go on at the fronts that they have begun at.
    pub fn replace(&self, fronts: Fronts) {
        let mut current = write(&self.0.fronts);
        let before = std::mem::replace(&mut *current, Arc::new(fronts));
        drop(current);
        let mut replaced = lock(&self.0.replaced);
        replaced.retain(|fronts| fronts.strong_count() > 0);
        replaced.push(Arc::downgrade(&before));
        tokio::spawn(async move { before.end(REPLACED).await });
    }
}

impl Service {
    /// Nothing is served before [`Service::serve`].
    pub fn new(listener: Listener, setup: ServiceSetup) -> Self {
        let shared = Arc::new(Shared {
            fronts: RwLock::new(Arc::new(setup.fronts)),
            replaced: Mutex::default(),
            page: setup.page,
            desk: setup.desk,
            watched: setup.endpoints.router(),
            metrics: setup.endpoints.metrics,
            drain: setup.drain,
            stopping: setup.stopping,
        });
        Self { listener, shared }
    }

    /// Replaces its fronts.
    pub fn handle(&self) -> ServiceHandle {
        ServiceHandle(Arc::clone(&self.shared))
    }

    /// Serves until `shutdown` is ready. Then requests that begin are refused with 503, and those under way go on until they
    /// are over or the time is up; what is left is answered with 503.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) {
        let Self { listener, shared } = self;
        let router = Router::new().fallback(pass).with_state(Arc::clone(&shared));
        let ending = async {
            shutdown.await;
            shared.stopping.0.send_replace(Phase::Draining);
            let fronts = shared.fronts();
            // A request that has begun before a reload has the same time.
            let running = shared.running();
            let over = async {
                for fronts in &running {
                    fronts.leave_questions().await;
                }
                for fronts in &running {
                    fronts.idle().await;
                }
            };
            let _ = timeout(shared.drain, over).await;
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
        let fronts = read(&self.fronts);
        Arc::clone(&fronts)
    }

    /// All fronts that requests may be under way at.
    fn running(&self) -> Vec<Arc<Fronts>> {
        let replaced = lock(&self.replaced);
        let replaced = replaced.iter().filter_map(Weak::upgrade);
        replaced.chain([self.fronts()]).collect()
    }

    /// The answer of a front, and what its body is held by.
    async fn answer(&self, route: Route, request: Request) -> (Response, Option<Running>) {
        let fronts = self.fronts();
        // Counted before the phase is looked at, so that none begins unseen after it was decided that nothing runs.
        fronts.running.send_modify(|count| *count += 1);
        let mut running = Running {
            cut: Box::pin(Stopping::cut(self.stopping.0.subscribe())),
            fronts,
        };
        if self.stopping.has_begun() {
            return (stopped(route), None);
        }
        let answering = call(running.fronts.router.clone(), request);
        tokio::select! {
            biased;
            response = answering => (response, Some(running)),
            () = &mut running.cut => (stopped(route), None),
        }
    }
}

/// Brings a request to where it belongs.
async fn pass(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let page = shared.page.as_ref();
    let own_page = page.filter(|page| page.is_asked(request.headers()));
    let path = request.uri().path();
    let route = Route::of(path);
    if own_page.is_none() && route == Route::Watched {
        return call(shared.watched.clone(), request).await;
    }
    // The name is for a browser of this machine, which is behind no proxy. It lets no one in.
    let peer = request.extensions().get::<Peer>();
    let is_here = peer.is_some_and(|peer| peer.0.ip().to_canonical().is_loopback())
        && Hosts::new(false, &[]).admit(request.headers()).is_ok();
    let is_page = path == DESK;
    let to_page = page.filter(|_| is_page && is_here);
    let measured = shared.metrics.request(route);
    let answering = async {
        match (own_page, to_page) {
            (Some(page), _) => (call(page.router.clone(), request).await, None),
            (_, Some(page)) => (Redirect::to(&page.url()).into_response(), None),
            // The desk has an address of its own, which agents need not reach.
            _ if route == Route::Desk && (page.is_none() || is_page) => {
                let error = ApiError::invalid(match page {
                    None if is_here => format!(
                        "the questions are at the address of desk_listen, {}",
                        shared.desk
                    ),
                    None => "the questions are at the address of desk_listen".to_owned(),
                    Some(_) => {
                        "other machines reach the page under a name of desk_hosts".to_owned()
                    }
                });
                (
                    error.with_status(StatusCode::NOT_FOUND).into_response(),
                    None,
                )
            }
            _ => shared.answer(route, request).await,
        }
    };
    let (sender, (response, running)) = sink::with_sender(answering).await;
    measured.answered(&response, &sender);
    let kind = response.headers().get(CONTENT_TYPE);
    let is_stream = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
    let last = is_stream.then(|| route.last_event(&error())).flatten();
    response.map(|body| {
        Body::new(HeldBody {
            body,
            last: last.map(|frame| frame.text().into()),
            is_cut: false,
            running,
            _measured: measured,
        })
    })
}

async fn call(router: Router, request: Request) -> Response {
    let answered = hyper::service::Service::call(&TowerToHyperService::new(router), request).await;
    answered.unwrap_or_else(|never: Infallible| match never {})
}

fn error() -> ApiError {
    ApiError::unavailable("the service stops; try again at the next one")
}

fn stopped(route: Route) -> Response {
    let mut response = route.response(error());
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(CONNECTION, close);
    response
}

/// A request of fronts that is not over, and what ends it early.
struct Running {
    fronts: Arc<Fronts>,
    cut: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.fronts.running.send_modify(|count| *count -= 1);
    }
}

/// The body of an answer. Its request is over with it, and one of fronts is cut with the service.
struct HeldBody {
    body: Body,
    /// What is sent in the place of the rest, if it is cut.
    last: Option<Bytes>,
    is_cut: bool,
    running: Option<Running>,
    _measured: MeasuredRequest,
}

impl HttpBody for HeldBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.is_cut {
            return Poll::Ready(None);
        }
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            return Poll::Ready(frame);
        }
        let cut = self
            .running
            .as_mut()
            .map(|it| it.cut.as_mut().poll(context));
        if cut.is_none_or(|cut| cut.is_pending()) {
            return Poll::Pending;
        }
        self.is_cut = true;
        Poll::Ready(Some(match self.last.take() {
            Some(last) => Ok(Frame::data(last)),
            // The connection is closed: half of an answer is not taken for all of it.
            None => Err(axum::Error::new(io::Error::other("the service stops"))),
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.is_cut || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
