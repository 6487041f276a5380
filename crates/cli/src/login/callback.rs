//! Where the user's browser comes back to: a port of 127.0.0.1, for one answer (RFC 8252 §7.3).
//!
//! Every program of the machine can ask there, and so can every page that the user has open. So an answer counts by its
//! state alone, which nobody but the authorization server was told; nothing of a request is shown or sent back.

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Context, Result};
use names::WebUrl;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use url::form_urlencoded;

/// The path of the address, where an authorization server knows no other.
const PATH: &str = "/callback";
/// Bytes of a digest in a path: enough that nobody makes two alike.
const DIGEST_BYTES: usize = 16;
/// Longest request. A browser brings its cookies for 127.0.0.1.
const MAX_REQUEST: usize = 32 << 10;
/// How long one request may take. It is sent at once.
const REQUEST: Duration = Duration::from_secs(5);
/// Requests at a time.
const REQUESTS: usize = 16;
/// How long nobody is let in after that has failed, as when there are no descriptors left.
const PAUSE: Duration = Duration::from_millis(100);
/// How long the user may take to log in.
const PATIENCE: Duration = Duration::from_secs(600);

/// To which path the user comes back.
///
/// An authorization server that means ill can send the browser on to another one, where the user is known, and would be
/// brought that one's code, by us (RFC 9700 §4.4). Answers that say who they are from (RFC 9207) are told apart by that.
/// The others are by the path: each authorization server knows its own, and sends nobody to another's, at whichever port.
#[derive(Clone, Copy)]
pub(crate) enum Back<'a> {
    /// One of this authorization server's own.
    Of(&'a WebUrl),
    /// The same for all of them, of which the user has told those where Sluice was registered by hand.
    Common,
}

impl Back<'_> {
    fn path(self) -> String {
        let Self::Of(issuer) = self else {
            return PATH.to_owned();
        };
        let digest = Sha256::digest(issuer.as_str());
        let first = digest.iter().take(DIGEST_BYTES);
        let first: String = first.map(|byte| format!("{byte:02x}")).collect();
        format!("{PATH}/{first}")
    }
}

/// Waits for the user to come back.
pub(crate) struct Callback {
    listener: TcpListener,
    port: u16,
    path: String,
}

/// The query of a request.
pub(super) type Query = Vec<(String, String)>;

impl Callback {
    /// Listens at this port, 0 is any that is free, for the answer of an authorization server.
    ///
    /// # Errors
    /// Somebody else does.
    pub(crate) async fn open(port: u16, at: Back<'_>) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await;
        let listener = listener.with_context(|| format!("port {port} of 127.0.0.1"))?;
        let port = listener.local_addr()?.port();
        let path = at.path();
        Ok(Self {
            listener,
            port,
            path,
        })
    }

    /// The address.
    pub(crate) fn redirect(&self) -> String {
        format!("http://127.0.0.1:{}{}", self.port, self.path)
    }

    /// The query of the one request that has this state. Afterwards nobody listens here any more.
    ///
    /// # Errors
    /// It did not come in time.
    pub(crate) async fn wait(self, state: &str) -> Result<Query> {
        let waiting = timeout(PATIENCE, self.answer(state)).await;
        waiting.with_context(|| {
            let minutes = PATIENCE.as_secs() / 60;
            format!(
                "there was no answer from the browser within {minutes} minutes; nothing was saved"
            )
        })
    }

    async fn answer(&self, state: &str) -> Query {
        let mut requests: JoinSet<Option<Query>> = JoinSet::new();
        // Digests are compared, so that the time that it takes tells nothing of the state.
        let state = Sha256::digest(state);
        let host = format!("127.0.0.1:{}", self.port);
        loop {
            tokio::select! {
                Some(done) = requests.join_next() => {
                    // Any other request ends nothing: everybody on this machine can send one.
                    if let Ok(Some(query)) = done {
                        return query;
                    }
                }
                accepted = self.listener.accept() => {
                    let (host, path) = (host.clone(), self.path.clone());
                    let is_right = move |own: &str| Sha256::digest(own) == state;
                    match accepted {
                        Ok((stream, _)) => {
                            // A browser sends its request at once: what has been open for longer only blocks the way.
                            if requests.len() >= REQUESTS {
                                requests.abort_all();
                            }
                            requests.spawn(async move {
                                timeout(REQUEST, one(stream, &host, &path, is_right)).await.ok().flatten()
                            });
                        }
                        // Without a free descriptor the connection stays in the queue, and the next `accept` would fail
                        // at once.
                        Err(_) => sleep(PAUSE).await,
                    }
                }
            }
        }
    }
}

/// Reads one request and answers it. Its query, if it is the one.
async fn one(
    mut stream: TcpStream,
    host: &str,
    path: &str,
    is_right: impl Fn(&str) -> bool,
) -> Option<Query> {
    let mut head = Vec::new();
    let mut reader = BufReader::new(&mut stream);
    while !head.ends_with(b"\r\n\r\n") {
        // Read byte by byte out of the buffer, so that the head ends where it ends whatever follows.
        if head.len() >= MAX_REQUEST {
            return None;
        }
        head.push(reader.read_u8().await.ok()?);
    }
    let query = query(&head, host, path);
    let states = query.iter().flatten().filter(|(name, _)| name == "state");
    let states: Vec<&str> = states.map(|(_, state)| state.as_str()).collect();
    let (status, text, query) = match (states.as_slice(), &query) {
        // Exactly one state: of two, this could compare one and a later reader take the other.
        ([state], Some(_)) if is_right(state) => (
            "200 OK",
            "Sluice has the answer. You can close this page.",
            query,
        ),
        (_, Some(_)) => (
            "400 Bad Request",
            "This is no answer that Sluice waits for.",
            None,
        ),
        (_, None) => ("404 Not Discovery", "There is nothing here.", None),
    };
    let page = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
         Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nX-Content-Type-Options: nosniff\r\n\
         Connection: close\r\n\r\n{text}",
        text.len()
    );
    // The answer counts whether or not the browser reads this page.
    let _ = stream.write_all(page.as_bytes()).await;
    let _ = stream.shutdown().await;
    query
}

/// The query of a request for the one address that there is; `None` for any other.
pub(super) fn query(head: &[u8], host: &str, path: &str) -> Option<Query> {
    let head = std::str::from_utf8(head).ok()?;
    let mut lines = head.split("\r\n");
    let target = lines
        .next()?
        .strip_prefix("GET ")?
        .strip_suffix(" HTTP/1.1")?;
    let (asked, query) = target.split_once('?')?;
    let mut hosts = lines.filter_map(|line| line.split_once(':'));
    let mut hosts = hosts
        .by_ref()
        .filter(|(name, _)| name.eq_ignore_ascii_case("host"));
    // A page of another name that leads to 127.0.0.1 says that name.
    let own_host = hosts
        .next()
        .is_some_and(|(_, own)| without_usual_port(own.trim()) == without_usual_port(host));
    let own = asked == path && own_host && hosts.next().is_none();
    own.then(|| {
        form_urlencoded::parse(query.as_bytes())
            .into_owned()
            .collect()
    })
}

/// A host without the port that an address of `http` has anyway: browsers leave it out.
fn without_usual_port(host: &str) -> &str {
    host.strip_suffix(":80").unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_leaves_out_the_usual_port_and_no_other() {
        let comes_back = |own: &str, host: &str| {
            let head = format!("GET /callback?state=right HTTP/1.1\r\nHost: {own}\r\n\r\n");
            query(head.as_bytes(), host, PATH).is_some()
        };
        assert!(comes_back("127.0.0.1", "127.0.0.1:80"));
        assert!(comes_back("127.0.0.1:80", "127.0.0.1:80"));
        for (own, host) in [
            ("127.0.0.1", "127.0.0.1:8080"),
            ("127.0.0.1:80", "127.0.0.1:8080"),
            ("127.0.0.1:8080", "127.0.0.1:80"),
            ("evil.example", "127.0.0.1:80"),
            ("evil.example:80", "127.0.0.1:80"),
        ] {
            assert!(!comes_back(own, host), "{own} is not {host}");
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
        // Nobody else can have the port meanwhile.
        assert!(Callback::open(port, Back::Common).await.is_err());
        let waiting = tokio::spawn(callback.wait("right"));
        // One that never says anything is in nobody's way.
        let _silent = TcpStream::connect((Ipv4Addr::LOCALHOST, port))
            .await
            .unwrap();
        let host = format!("Host: 127.0.0.1:{port}");
        for (request, status) in [
            (
                format!("GET /callback?code=evil&state=wrong HTTP/1.1\r\n{host}"),
                "400",
            ),
            (format!("GET /callback?code=evil HTTP/1.1\r\n{host}"), "400"),
            (
                format!("GET /callback?state=right&state=wrong&code=evil HTTP/1.1\r\n{host}"),
                "400",
            ),
            (
                format!("GET /?state=right&code=evil HTTP/1.1\r\n{host}"),
                "404",
            ),
            (
                format!("GET /callback/?state=right&code=evil HTTP/1.1\r\n{host}"),
                "404",
            ),
            (
                format!("POST /callback?state=right&code=evil HTTP/1.1\r\n{host}"),
                "404",
            ),
            (
                "GET /callback?state=right&code=evil HTTP/1.1\r\nHost: evil.example".to_owned(),
                "404",
            ),
            (
                "GET /callback?state=right&code=evil HTTP/1.1\r\nA: b".to_owned(),
                "404",
            ),
            (
                format!(
                    "GET /callback?state=right&code=evil HTTP/1.1\r\n{host}\r\nHost: evil.example"
                ),
                "404",
            ),
        ] {
            let heard = ask(port, &format!("{request}\r\n\r\n")).await;
            assert!(
                heard.starts_with(&format!("HTTP/1.1 {status}")),
                "{request}: {heard}"
            );
            assert!(!heard.contains("evil"), "{heard}");
        }
        assert!(!waiting.is_finished());
        let heard = ask(
            port,
            &format!(
                "GET /callback?code=a%26b&state=right HTTP/1.1\r\nCookie: x\r\n{host}\r\n\r\n"
            ),
        )
        .await;
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

    /// Every user of the machine can connect, and say nothing.
    #[tokio::test]
    async fn silent_connections_do_not_block_the_answer() {
        let callback = Callback::open(0, Back::Common).await.unwrap();
        let port = callback.port;
        let waiting = tokio::spawn(callback.wait("right"));
        let mut silent = Vec::new();
        for _ in 0..REQUESTS {
            let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await;
            silent.push(stream.unwrap());
        }
        let request = format!("GET /callback?state=right HTTP/1.1\r\nHost: 127.0.0.1:{port}");
        let heard = ask(port, &format!("{request}\r\n\r\n")).await;
        assert!(heard.starts_with("HTTP/1.1 200"), "{heard}");
        assert_eq!(waiting.await.unwrap().unwrap().len(), 1);
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
