//! The port of 127.0.0.1 to which the user's browser comes back, for one answer (RFC 8252 §7.3).
//!
//! Every program and every open page can send requests there. An answer counts only by its state, which the authorization
//! server alone knows; nothing of a request is shown or sent back.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::header::{CACHE_CONTROL, CONNECTION, HOST, REFERRER_POLICY};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use names::WebUrl;
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use url::form_urlencoded;

use crate::hex::hex;

const PATH: &str = "/callback";
/// Bytes of a digest in a path.
const DIGEST_BYTES: usize = 16;
/// How long the browser may take to read the last page.
const GOODBYE: Duration = Duration::from_secs(1);
/// How long the user may take to log in.
const PATIENCE: Duration = Duration::from_secs(600);

/// The path to which the browser comes back.
///
/// A hostile authorization server can redirect the browser to another one, where the user is logged in, and would get that
/// one's code from us (RFC 9700 §4.4). `iss` (RFC 9207) tells answers apart, and so does a path for each authorization server.
#[derive(Clone, Copy)]
pub(crate) enum Back<'a> {
    /// The path of this authorization server.
    Of(&'a WebUrl),
    /// The common path, for clients that were registered by hand.
    Common,
}

impl Back<'_> {
    fn path(self) -> String {
        let Self::Of(issuer) = self else {
            return PATH.to_owned();
        };
        let digest = Sha256::digest(issuer.as_str());
        format!("{PATH}/{}", hex(digest.iter().take(DIGEST_BYTES)))
    }
}

/// The listener for the answer.
pub(crate) struct Callback {
    listener: TcpListener,
    port: u16,
    path: String,
}

pub(super) type Query = Vec<(String, String)>;

/// The one request that is waited for.
struct Expected {
    /// The digest: comparing digests takes a time that does not depend on the state.
    state: Vec<u8>,
    host: String,
    found: mpsc::Sender<Query>,
}

impl Callback {
    /// Listens at this port; 0 lets the system choose.
    pub(crate) async fn open(port: u16, at: Back<'_>) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await;
        let listener = listener.with_context(|| format!("cannot listen at 127.0.0.1:{port}"))?;
        let port = listener.local_addr()?.port();
        let path = at.path();
        Ok(Self {
            listener,
            port,
            path,
        })
    }

    pub(crate) fn redirect(&self) -> String {
        format!("http://127.0.0.1:{}{}", self.port, self.path)
    }

    /// The query of the one request that has this state. Afterwards the port is free again.
    pub(crate) async fn wait(self, state: &str) -> Result<Query> {
        let (found, mut query) = mpsc::channel(1);
        let expected = Expected {
            state: Sha256::digest(state).to_vec(),
            host: format!("127.0.0.1:{}", self.port),
            found,
        };
        let router = Router::new()
            .route(&self.path, get(answer).fallback(nothing))
            .fallback(nothing)
            .with_state(Arc::new(expected));
        // Dropped with this future, which ends the server.
        let (running, ended) = oneshot::channel::<()>();
        let served = axum::serve(self.listener, router).with_graceful_shutdown(async {
            let _ = ended.await;
        });
        let served = tokio::spawn(served.into_future());
        let query = timeout(PATIENCE, query.recv()).await.ok().flatten();
        drop(running);
        // The browser gets its page before the program ends.
        let _ = timeout(GOODBYE, served).await;
        let minutes = PATIENCE.as_secs() / 60;
        query.with_context(|| {
            format!(
                "there was no answer from the browser within {minutes} minutes; nothing was saved"
            )
        })
    }
}

/// Answers a request. A wrong request does not end the wait, since any program can send one.
async fn answer(
    State(expected): State<Arc<Expected>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    // A page whose name resolves to 127.0.0.1 sends that name.
    let mut hosts = headers.get_all(HOST).iter();
    let host = hosts.next().and_then(|host| host.to_str().ok());
    let is_own = host.is_some_and(|host| is_same_host(host, &expected.host));
    let (Some(query), true, None) = (query, is_own, hosts.next()) else {
        return nothing().await;
    };
    let query: Query = form_urlencoded::parse(query.as_bytes())
        .into_owned()
        .collect();
    let states = query.iter().filter(|(name, _)| name == "state");
    let states: Vec<&str> = states.map(|(_, state)| state.as_str()).collect();
    match states.as_slice() {
        // Exactly one state: a later reader could take another one.
        [state] if *Sha256::digest(state) == *expected.state => {
            // The first answer counts.
            let _ = expected.found.try_send(query);
            let done = "Sluice has the answer. You can close this page.";
            page(StatusCode::OK, done)
        }
        _ => {
            let other = "Sluice does not expect this answer.";
            page(StatusCode::BAD_REQUEST, other)
        }
    }
}

async fn nothing() -> Response {
    page(StatusCode::NOT_FOUND, "Not found.")
}

fn page(status: StatusCode, text: &'static str) -> Response {
    let headers = [
        (CACHE_CONTROL, "no-store"),
        (REFERRER_POLICY, "no-referrer"),
        (CONNECTION, "close"),
    ];
    (status, headers, text).into_response()
}

/// Whether two hosts are the same. Browsers leave out port 80.
fn is_same_host(one: &str, other: &str) -> bool {
    let usual = |host: &str| host.strip_suffix(":80").unwrap_or(host).to_owned();
    usual(one) == usual(other)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    #[test]
    fn a_browser_leaves_out_the_usual_port_and_no_other() {
        assert!(is_same_host("127.0.0.1", "127.0.0.1:80"));
        assert!(is_same_host("127.0.0.1:80", "127.0.0.1:80"));
        for (own, host) in [
            ("127.0.0.1", "127.0.0.1:8080"),
            ("127.0.0.1:80", "127.0.0.1:8080"),
            ("127.0.0.1:8080", "127.0.0.1:80"),
            ("evil.example", "127.0.0.1:80"),
            ("evil.example:80", "127.0.0.1:80"),
        ] {
            assert!(!is_same_host(own, host), "{own} is not {host}");
        }
    }

    async fn ask(port: u16, request: &str) -> String {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))
            .await
            .unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut heard = String::new();
        stream.read_to_string(&mut heard).await.unwrap();
        heard
    }

    #[tokio::test]
    async fn one_request_counts_and_it_is_the_one_with_the_state() {
        let callback = Callback::open(0, Back::Common).await.unwrap();
        let port = callback.port;
        let redirect = callback.redirect();
        assert_eq!(redirect, format!("http://127.0.0.1:{port}/callback"));
        // No other program can have the port meanwhile.
        assert!(Callback::open(port, Back::Common).await.is_err());
        let waiting = tokio::spawn(callback.wait("right"));
        // A silent connection does not block others.
        let _silent = TcpStream::connect((Ipv4Addr::LOCALHOST, port))
            .await
            .unwrap();
        let host = format!("Host: 127.0.0.1:{port}");
        let two_hosts = format!("{host}\r\nHost: evil.example");
        for (target, headers, status) in [
            ("GET /callback?code=evil&state=wrong", &*host, 400),
            ("GET /callback?code=evil", &host, 400),
            (
                "GET /callback?state=right&state=wrong&code=evil",
                &host,
                400,
            ),
            ("GET /?state=right&code=evil", &host, 404),
            ("GET /callback/?state=right&code=evil", &host, 404),
            ("POST /callback?state=right&code=evil", &host, 404),
            (
                "GET /callback?state=right&code=evil",
                "Host: evil.example",
                404,
            ),
            ("GET /callback?state=right&code=evil", "A: b", 404),
            ("GET /callback?state=right&code=evil", &two_hosts, 404),
        ] {
            let heard = ask(port, &format!("{target} HTTP/1.1\r\n{headers}\r\n\r\n")).await;
            let expected = format!("HTTP/1.1 {status}");
            assert!(
                heard.starts_with(&expected) && !heard.contains("evil"),
                "{target}: {heard}"
            );
        }
        assert!(!waiting.is_finished());
        let right = "GET /callback?code=a%26b&state=right HTTP/1.1\r\nCookie: x";
        let heard = ask(port, &format!("{right}\r\n{host}\r\n\r\n")).await;
        assert!(heard.starts_with("HTTP/1.1 200"), "{heard}");
        let query = waiting.await.unwrap().unwrap();
        let own = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(query, [own("code", "a&b"), own("state", "right")]);
        assert!(
            TcpStream::connect((Ipv4Addr::LOCALHOST, port))
                .await
                .is_err()
        );
    }

    #[tokio::test]
    async fn each_authorization_server_has_its_own_way_back() {
        let path = |issuer: &str| Back::Of(&WebUrl::new(issuer).unwrap()).path();
        let own = path("https://login.example.org/a");
        assert_eq!(own.len(), PATH.len() + 1 + 2 * DIGEST_BYTES);
        for other in ["https://login.example.org/", "https://login.example.org/b"] {
            assert_ne!(path(other), own);
        }
        let issuer = WebUrl::new("https://login.example.org/a").unwrap();
        let callback = Callback::open(0, Back::Of(&issuer)).await.unwrap();
        let (port, redirect) = (callback.port, callback.redirect());
        assert_eq!(redirect, format!("http://127.0.0.1:{port}{own}"));
        let waiting = tokio::spawn(callback.wait("right"));
        let go = async |path: &str| {
            let target = format!("GET {path}?code=a&state=right HTTP/1.1");
            let request = format!("{target}\r\nHost: 127.0.0.1:{port}\r\n\r\n");
            ask(port, &request).await
        };
        for other in [PATH, &path("https://login.example.org/b")] {
            assert!(go(other).await.starts_with("HTTP/1.1 404"), "{other}");
        }
        assert!(!waiting.is_finished());
        assert!(go(&own).await.starts_with("HTTP/1.1 200"));
        assert_eq!(waiting.await.unwrap().unwrap().len(), 2);
    }
}
