//! The page: questions are read and answered in a browser, on this machine or on a phone.
//!
//! Everything is rendered here; nothing needs JavaScript. [`gate`] stands before all handlers: it checks the name that was
//! asked for, where a request comes from, its login, and the CSRF field of every form.

mod layout;
mod list;
mod login;
mod one;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Form, FromRequest, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderName, HeaderValue, ORIGIN,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::Deserialize;
use tokio::net::TcpListener;
use tokio::sync::watch;

use self::login::Logins;
use super::front::fresh_token;
use crate::api::http::{self, Hosts};

/// Connections at once. A browser has up to six.
const MAX_CONNECTIONS: usize = 256;
/// Bytes of a form. An answer and the CSRF field are a hundred.
const FORM_BYTES: usize = 64 << 10;
/// The headers of every answer. `connect-src` is for the script that looks for news.
const HEADERS: [(HeaderName, &str); 6] = [
    (
        CONTENT_SECURITY_POLICY,
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; form-action 'self'; \
         frame-ancestors 'none'; base-uri 'none'",
    ),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
    (CACHE_CONTROL, "no-store"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];
/// The headers of a request by which a browser says where it comes from.
const FETCH_SITE: &str = "sec-fetch-site";
const FETCH_MODE: &str = "sec-fetch-mode";
const FETCH_USER: &str = "sec-fetch-user";

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
    /// The network or the system refused.
    #[error("the page cannot listen on {0}: {1}; choose another port")]
    Io(SocketAddr, io::Error),
    /// There are no random numbers.
    #[error("{0}")]
    Random(String),
}

/// The page, listening.
pub struct Page {
    listener: TcpListener,
    shared: Arc<Shared>,
}

struct Shared {
    store: Arc<store::Desk>,
    names: Names,
    logins: Logins,
    report: fn(&str),
    /// Whether the page ends, so that no request may wait for news.
    closing: watch::Sender<bool>,
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
        let random = fresh_token().map_err(PageError::Random)?;
        // 128 random bits. A name of the DNS has at most 63 characters.
        let random = random.get(..32).unwrap_or_default();
        let names = Names {
            own: format!("{random}.localhost:{}", address.port()),
            hosts: setup.hosts,
        };
        let shared = Arc::new(Shared {
            logins: Logins::new(Arc::clone(&setup.store), setup.user),
            store: setup.store,
            report: setup.report,
            names,
            closing: watch::Sender::new(false),
        });
        Ok(Self { listener, shared })
    }

    /// Where a browser on this machine finds the page.
    pub fn url(&self) -> String {
        format!("http://{}", self.shared.names.own)
    }

    /// Addresses that log a browser in: once, within ten minutes, and until the next ones are made.
    pub fn logins(&self) -> impl Fn() -> Result<String, PageError> + Send + Sync + use<> {
        let shared = Arc::clone(&self.shared);
        move || {
            let code = shared.logins.new_code().map_err(PageError::Random)?;
            Ok(format!("http://{}/login?code={code}", shared.names.own))
        }
    }

    /// Serves until `shutdown` is ready and the requests under way are answered.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) {
        let router = router(&self.shared);
        let ending = async {
            shutdown.await;
            self.shared.closing.send_replace(true);
        };
        http::serve(self.listener, router, MAX_CONNECTIONS, ending).await;
    }
}

fn router(shared: &Arc<Shared>) -> Router {
    let file = |kind: &'static str, text: &'static str| {
        get(move || async move { ([(CONTENT_TYPE, kind)], text) })
    };
    let pages = Router::new()
        .route("/", get(list::show))
        .route("/version", get(list::version))
        .route("/questions/{id}", get(one::show).post(one::answer))
        .route("/login", get(login::show).post(login::admit))
        .route("/logout", post(login::leave))
        .route("/style.css", file("text/css", include_str!("style.css")))
        .route("/desk.js", file("text/javascript", include_str!("desk.js")))
        .fallback(list::nothing_here)
        .layer(from_fn_with_state(Arc::clone(shared), gate))
        .with_state(Arc::clone(shared));
    // For programs, which have a token and no cookie: at the addresses of loopback too.
    let hosts = Hosts::new(false, &shared.names.hosts);
    let api = super::router(Arc::clone(&shared.store));
    let api = api.layer(from_fn_with_state(hosts, http::check_host));
    pages.merge(api).layer(from_fn(with_headers))
}

async fn with_headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    for (name, value) in HEADERS {
        let value = HeaderValue::from_static(value);
        response.headers_mut().insert(name, value);
    }
    response
}

/// Lets a request through to its page: under a name of ours, from no other site, with a login, and with the field that only
/// a form of ours has. Without a login all paths have one answer, so that it says nothing about the questions.
async fn gate(State(shared): State<Arc<Shared>>, mut request: Request, next: Next) -> Response {
    let forbidden = |why: &'static str| (StatusCode::FORBIDDEN, why).into_response();
    let Some(origin) = shared.names.origin(request.headers()) else {
        return forbidden("Open the address that sluice desk printed.\n");
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
    let login = shared.logins.of(request.headers(), &origin, is_use).await;
    let Some(login) = login else {
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

/// Whether a request that changes nothing may be answered: a person may follow a link of another site, and the browser
/// sends no cookie then; other sites may embed and load nothing.
fn is_harmless(headers: &HeaderMap) -> bool {
    let is = |name, value: &str| headers.get(name).is_some_and(|it| it == value);
    let is_own = is(FETCH_SITE, "same-origin") || is(FETCH_SITE, "none");
    is_own || is(FETCH_MODE, "navigate") || !headers.contains_key(FETCH_SITE)
}

/// The names under which the page is served.
///
/// On this machine it has a random one: cookies do not know ports, and at `127.0.0.1` the browser would send ours to every
/// other server on this machine, and treat that server's pages as of the same site. Browsers resolve `*.localhost` themselves.
struct Names {
    /// With its port.
    own: String,
    hosts: Vec<String>,
}

impl Names {
    /// The name that a request asks for, if it is one of ours. Another one was made to resolve to us (DNS rebinding).
    fn origin(&self, headers: &HeaderMap) -> Option<Origin> {
        let mut hosts = headers.get_all(HOST).iter();
        let (host, None) = (hosts.next()?.to_str().ok()?, hosts.next()) else {
            return None;
        };
        if host.eq_ignore_ascii_case(&self.own) {
            let url = format!("http://{}", self.own);
            return Some(Origin {
                url,
                is_secure: false,
            });
        }
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
        let is_known = self.hosts.iter().any(|it| it.eq_ignore_ascii_case(name));
        let url = format!("https://{}", host.to_ascii_lowercase());
        is_known.then_some(Origin {
            url,
            is_secure: true,
        })
    }
}

/// The name under which a request came.
#[derive(Debug, Clone)]
struct Origin {
    url: String,
    /// Whether TLS is in front.
    is_secure: bool,
}

impl Origin {
    /// The name of the cookie.
    fn cookie(&self) -> &'static str {
        match self.is_secure {
            true => "__Host-sluice",
            false => "sluice",
        }
    }

    fn set_cookie(&self, value: &str, more: &str) -> String {
        let secure = if self.is_secure { "; Secure" } else { "" };
        let name = self.cookie();
        format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict{secure}{more}")
    }

    /// Whether a page of ours sent this. Browsers say so in one of two headers at least, and `null` in `Origin` for a page
    /// whose referrer policy is ours.
    fn sent(&self, headers: &HeaderMap) -> bool {
        let site = headers.get(FETCH_SITE).map(|it| it == "same-origin");
        let origin = headers.get(ORIGIN).filter(|it| *it != "null");
        let origin = origin.map(|it| it.as_bytes() == self.url.as_bytes());
        let mut known = site.into_iter().chain(origin).peekable();
        known.peek().is_some() && known.all(|is_own| is_own)
    }
}
