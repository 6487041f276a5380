//! The page: questions are read and answered in a browser, on this machine or on a phone.
//!
//! Everything is rendered here; nothing needs JavaScript. The gate stands before all handlers: it checks the name that was
//! asked for, where a request comes from, its login, and the CSRF field of every form.

pub(super) mod layout;
mod list;
mod login;
pub(super) mod logins;
mod one;
mod shared;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Form, FromRequest, Request, State};
use axum::http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use serde::Deserialize;
use tokio::net::TcpListener;
use tokio::sync::watch;

use self::shared::{FETCH_USER, Shared, is_harmless};
use super::front::fresh_token;
use super::views::{self, Overview};
use crate::api::http::{self, Hosts};
use crate::audit::Audit;

/// Connections at once. A browser has up to six.
const MAX_CONNECTIONS: usize = 256;
/// Bytes of a form. An answer and the CSRF field are a hundred.
const FORM_BYTES: usize = 64 << 10;
/// The headers of every answer. `connect-src` is for the script that looks for news.
const HEADERS: [(&str, &str); 6] = [
    (
        "content-security-policy",
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; form-action 'self'; \
         frame-ancestors 'none'; base-uri 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cache-control", "no-store"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
];
/// Whose questions the page shows, and where.
pub struct PageSetup {
    /// The questions and the tokens.
    pub store: Arc<store::Desk>,
    /// The address; port 0 takes a free one.
    pub address: SocketAddr,
    /// The names under which a proxy with TLS serves the page to other machines.
    pub hosts: Vec<String>,
    /// Who answers after a login by code: the user who started the desk.
    pub user: String,
    /// What the other pages show that user; `None`: there are questions alone.
    pub overview: Option<Arc<dyn Overview>>,
    /// Where logins are noted, good and failed ones, before they count.
    pub audit: Option<Arc<Audit>>,
    /// Takes a line for the user: a browser has logged in.
    pub report: fn(&str),
}

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// The address is not loopback, and nothing is known that would protect the way to it.
    #[error(
        "{0} can be reached from other machines, and the page has no TLS of its own; listen on 127.0.0.1, or say with --host \
         NAME under which name a proxy with TLS or a VPN serves it"
    )]
    NotLoopback(SocketAddr),
    /// The network refused.
    #[error("the page cannot listen on {0}: {1}; choose another port")]
    Io(SocketAddr, io::Error),
    /// There are no random numbers.
    #[error("{0}")]
    Random(String),
}

/// The page, listening.
pub struct Page {
    listener: TcpListener,
    /// What it serves.
    pub routes: PageRoutes,
}

/// The page, for an address of its own or among the fronts of a service.
pub struct PageRoutes {
    pub(crate) router: Router,
    shared: Arc<Shared>,
}

impl Page {
    /// Takes the address. Nothing is served before [`Page::serve`].
    ///
    /// # Errors
    /// See [`PageError`].
    pub async fn bind(setup: PageSetup) -> Result<Self, PageError> {
        let address = setup.address;
        if !address.ip().is_loopback() && setup.hosts.is_empty() {
            return Err(PageError::NotLoopback(address));
        }
        let bound = http::bind(address).await;
        let (listener, address) = bound.map_err(|error| PageError::Io(address, error))?;
        let routes = PageRoutes::new(PageSetup { address, ..setup })?;
        Ok(Self { listener, routes })
    }

    /// Serves until `shutdown` is ready and the requests under way are answered.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) {
        let routes = self.routes;
        let ending = async {
            shutdown.await;
            routes.close();
        };
        http::serve(
            self.listener,
            routes.router.clone(),
            MAX_CONNECTIONS,
            ending,
        )
        .await;
    }
}

impl PageRoutes {
    /// The page at a port that another one listens at. `setup.address` is that one's.
    ///
    /// # Errors
    /// There are no random numbers.
    pub fn new(setup: PageSetup) -> Result<Self, PageError> {
        let random = fresh_token().map_err(PageError::Random)?;
        // 128 random bits. A name of the DNS has at most 63 characters.
        let random = random.get(..32).unwrap_or_default();
        let shared = Arc::new(Shared {
            store: setup.store,
            user: setup.user,
            report: setup.report,
            audit: setup.audit,
            own: format!("{random}.localhost:{}", setup.address.port()),
            hosts: setup.hosts,
            logins: Mutex::default(),
            closing: watch::Sender::new(false),
        });
        let router = router(&shared, setup.overview);
        Ok(Self { router, shared })
    }

    /// Whether a request asks for the page by one of its names, at which nothing else may be served.
    pub(crate) fn is_asked(&self, headers: &HeaderMap) -> bool {
        self.shared.origin(headers).is_some()
    }

    /// No request waits for news any more.
    pub(crate) fn close(&self) {
        self.shared.closing.send_replace(true);
    }

    /// Where a browser on this machine finds the page.
    pub fn url(&self) -> String {
        format!("http://{}", self.shared.own)
    }

    /// Addresses that log a browser in: once, within ten minutes, and until the next ones are made.
    pub fn logins(&self) -> impl Fn() -> Result<String, PageError> + Send + Sync + use<> {
        let shared = Arc::clone(&self.shared);
        move || {
            let code = shared.new_code().map_err(PageError::Random)?;
            Ok(format!("http://{}/login?code={code}", shared.own))
        }
    }
}

fn router(shared: &Arc<Shared>, overview: Option<Arc<dyn Overview>>) -> Router {
    let file = |kind: &'static str, text: &'static str| {
        get(move || async move { ([(CONTENT_TYPE, kind)], text) })
    };
    let views = overview.map(|it| views::router(it, shared.closing.subscribe()));
    let pages = Router::new()
        .route("/", get(list::show))
        .route("/version", get(list::version))
        .route("/questions/{id}", get(one::show).post(one::answer))
        .route("/login", get(login::show).post(login::admit))
        .route(
            "/logout",
            post(login::leave).get(|| async { Redirect::to("/") }),
        )
        .route("/style.css", file("text/css", include_str!("style.css")))
        .route("/desk.js", file("text/javascript", include_str!("desk.js")))
        .merge(views.unwrap_or_default())
        .fallback(list::nothing_here)
        .layer(from_fn_with_state(Arc::clone(shared), gate))
        .with_state(Arc::clone(shared));
    // For programs, which have a token and no cookie: at the addresses of loopback too.
    let hosts = Hosts::new(false, &shared.hosts);
    let api = hosts.guard(super::router(Arc::clone(&shared.store)));
    pages.merge(api).layer(from_fn(with_headers))
}

async fn with_headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = HEADERS.map(|(name, value)| {
        (
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        )
    });
    response.headers_mut().extend(headers);
    response
}

/// Lets a request through to its page: under a name of ours, from no other site, with a login, and with the field that only
/// a form of ours has. Without a login all paths have one answer, so that it says nothing about the questions.
async fn gate(State(shared): State<Arc<Shared>>, mut request: Request, next: Next) -> Response {
    let forbidden = |why: &'static str| (StatusCode::FORBIDDEN, why).into_response();
    let Some(origin) = shared.origin(request.headers()) else {
        return forbidden("Open the address that `sluice desk` or `sluice serve` printed.\n");
    };
    let is_read = [Method::GET, Method::HEAD].contains(request.method());
    let is_ours = match is_read {
        true => is_harmless(request.headers()),
        false => origin.sent(request.headers()),
    };
    if !is_ours {
        return forbidden("Other sites have no access to this page.\n");
    }
    request.extensions_mut().insert(origin.clone());
    if ["/login", "/style.css"].contains(&request.uri().path()) {
        return next.run(request).await;
    }
    let is_use = !is_read || request.headers().contains_key(FETCH_USER);
    let Some(login) = shared.login(request.headers(), &origin, is_use).await else {
        return login::to_login();
    };
    if !is_read {
        let (parts, body) = request.into_parts();
        let Ok(body) = to_bytes(body, FORM_BYTES).await else {
            return StatusCode::PAYLOAD_TOO_LARGE.into_response();
        };
        let form = Request::from_parts(parts.clone(), Body::from(body.clone()));
        let form = Form::<Csrf>::from_request(form, &()).await;
        if !form.is_ok_and(|form| login.is_csrf(&form.csrf)) {
            return forbidden("The form is not of this login. Load the page again.\n");
        }
        request = Request::from_parts(parts, Body::from(body));
    }
    request.extensions_mut().insert(login);
    next.run(request).await
}

#[derive(Deserialize)]
struct Csrf {
    csrf: String,
}
