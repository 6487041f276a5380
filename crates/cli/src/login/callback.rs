//! Where the user's browser comes back to: a port of 127.0.0.1, for one answer (RFC 8252 §7.3).
//!
//! Every program of the machine can ask there, and so can every page that the user has open. So an answer counts by its
//! state alone, which nobody but the authorization server was told; nothing of a request is shown or sent back.

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;
use url::form_urlencoded;

/// The path of the address.
const PATH: &str = "/callback";
/// Longest request. A browser brings its cookies for 127.0.0.1.
const MAX_REQUEST: usize = 32 << 10;
/// How long one request may take. It is sent at once.
const REQUEST: Duration = Duration::from_secs(5);
/// Requests at a time; further ones wait.
const REQUESTS: usize = 16;
/// How long the user may take to log in.
const PATIENCE: Duration = Duration::from_secs(600);

/// Waits for the user to come back.
pub(crate) struct Callback {
    listener: TcpListener,
    port: u16,
}

/// The query of a request.
type Query = Vec<(String, String)>;

impl Callback {
    /// Listens at this port; 0 is any that is free.
    ///
    /// # Errors
    /// Somebody else does.
    pub(crate) async fn open(port: u16) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await;
        let listener = listener.with_context(|| format!("port {port} of 127.0.0.1"))?;
        let port = listener.local_addr()?.port();
        Ok(Self { listener, port })
    }

    /// The address.
    pub(crate) fn redirect(&self) -> String {
        format!("http://127.0.0.1:{}{PATH}", self.port)
    }

    /// The query of the one request that has this state. Afterwards nobody listens here any more.
    ///
    /// # Errors
    /// It did not come in time.
    pub(crate) async fn wait(self, state: &str) -> Result<Query> {
        let waiting = timeout(PATIENCE, self.answer(state)).await;
        waiting.with_context(|| {
            let minutes = PATIENCE.as_secs() / 60;
            format!("nobody came back from logging in within {minutes} minutes; nothing was kept")
        })
    }

    async fn answer(&self, state: &str) -> Query {
        let mut requests: JoinSet<Option<Query>> = JoinSet::new();
        // How long a comparison takes says nothing about digests.
        let state = Sha256::digest(state);
        let host = format!("127.0.0.1:{}", self.port);
        loop {
            tokio::select! {
                Some(done) = requests.join_next() => {
                    if let Ok(Some(query)) = done {
                        return query;
                    }
                }
                accepted = self.listener.accept(), if requests.len() < REQUESTS => {
                    let host = host.clone();
                    let is_right = move |own: &str| Sha256::digest(own) == state;
                    if let Ok((stream, _)) = accepted {
                        requests.spawn(async move {
                            timeout(REQUEST, one(stream, &host, is_right)).await.ok().flatten()
                        });
                    }
                }
            }
        }
    }
}

/// Reads one request and answers it. Its query, if it is the one.
async fn one(mut stream: TcpStream, host: &str, is_right: impl Fn(&str) -> bool) -> Option<Query> {
    let mut head = Vec::new();
    let mut reader = BufReader::new(&mut stream);
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() >= MAX_REQUEST {
            return None;
        }
        head.push(reader.read_u8().await.ok()?);
    }
    let query = query(&head, host);
    let states = query.iter().flatten().filter(|(name, _)| name == "state");
    let states: Vec<&str> = states.map(|(_, state)| state.as_str()).collect();
    let (status, text, query) = match (states.as_slice(), &query) {
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
        (_, None) => ("404 Not Found", "There is nothing here.", None),
    };
    let page = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
         Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nX-Content-Type-Options: nosniff\r\n\
         Connection: close\r\n\r\n{text}",
        text.len()
    );
    // Whoever does not read it has asked all the same.
    let _ = stream.write_all(page.as_bytes()).await;
    let _ = stream.shutdown().await;
    query
}

/// The query of a request for the one address that there is; `None` for any other.
fn query(head: &[u8], host: &str) -> Option<Query> {
    let head = std::str::from_utf8(head).ok()?;
    let mut lines = head.split("\r\n");
    let target = lines
        .next()?
        .strip_prefix("GET ")?
        .strip_suffix(" HTTP/1.1")?;
    let (path, query) = target.split_once('?')?;
    let mut hosts = lines.filter_map(|line| line.split_once(':'));
    let mut hosts = hosts
        .by_ref()
        .filter(|(name, _)| name.eq_ignore_ascii_case("host"));
    // A page of another name that leads to 127.0.0.1 says that name.
    let own_host = hosts.next().is_some_and(|(_, own)| own.trim() == host);
    let own = path == PATH && own_host && hosts.next().is_none();
    own.then(|| {
        form_urlencoded::parse(query.as_bytes())
            .into_owned()
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let callback = Callback::open(0).await.unwrap();
        let port = callback.port;
        let redirect = callback.redirect();
        assert_eq!(redirect, format!("http://127.0.0.1:{port}/callback"));
        // Nobody else can have the port meanwhile.
        assert!(Callback::open(port).await.is_err());
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
}
