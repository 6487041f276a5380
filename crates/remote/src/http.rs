//! Requests to one server, and nowhere else.

use std::error::Error;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use names::{BadUrl, Place, WebUrl};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, Method, Response, StatusCode};

use crate::settings::Settings;
use crate::sse::{Event, Parser};

/// Longest message of a server: the line that the spoke would accept.
pub(crate) const MAX_MESSAGE: usize = 4 << 20;
/// How long a connection may take. The hub gives up earlier.
const CONNECT: Duration = Duration::from_secs(20);
const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

/// A server, and what every request to it has.
pub(crate) struct Http {
    client: Client,
    url: WebUrl,
    headers: HeaderMap,
}

/// Why there is no answer. The text is for the user, and quotes nothing of the server's but addresses.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// Nothing was sent.
    NoConnection(String),
    /// It ended before there was an answer: nobody knows what became of what was sent.
    Broken(String),
    /// The server wants to know who asks.
    Login,
    /// The server answers from elsewhere.
    Redirect(String),
    /// The server refuses.
    Status(StatusCode),
    /// What it sends is nothing that the protocol knows.
    Form(&'static str),
    /// What it sends has no end.
    TooLong,
    /// The settings cannot be used.
    Settings(String),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoConnection(why) => write!(f, "no connection: {why}"),
            Self::Broken(why) => write!(f, "the connection broke: {why}"),
            Self::Login => f.write_str("it wants a token (HTTP 401)"),
            Self::Redirect(to) => write!(
                f,
                "it redirects to {to}, which is not followed; if you mean that address, write it as the url"
            ),
            Self::Status(status) => write!(f, "it answers with HTTP {status}"),
            Self::Form(why) => write!(f, "it breaks the protocol: {why}"),
            Self::TooLong => write!(f, "it sends a message of more than {MAX_MESSAGE} bytes"),
            Self::Settings(why) => f.write_str(why),
        }
    }
}

impl From<BadUrl> for Trouble {
    fn from(error: BadUrl) -> Self {
        Self::Settings(error.to_string())
    }
}

impl Http {
    /// Makes the client; nothing is connected yet.
    pub(crate) fn new(settings: &Settings) -> Result<Self, Trouble> {
        let url = WebUrl::new(&settings.url)?;
        let mut headers = HeaderMap::new();
        for (name, value) in &settings.headers {
            // Neither is quoted: a value is mostly a secret, and may stand in the wrong place.
            let wrong = || Trouble::Settings("a header cannot be sent as it is".to_owned());
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
            let mut value = HeaderValue::from_str(value).map_err(|_| wrong())?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let client = client(&url, settings).map_err(Trouble::Settings)?;
        Ok(Self {
            client,
            url,
            headers,
        })
    }

    /// The server's address.
    pub(crate) fn url(&self) -> &WebUrl {
        &self.url
    }

    /// Sends a message and takes either kind of answer.
    pub(crate) async fn post(
        &self,
        to: &WebUrl,
        message: Vec<u8>,
        more: &HeaderMap,
    ) -> Result<Response, Trouble> {
        let both = HeaderValue::from_static("application/json, text/event-stream");
        self.send(Method::POST, to, both, Some(message), more).await
    }

    /// Opens a stream of events.
    pub(crate) async fn listen(&self, more: &HeaderMap) -> Result<Response, Trouble> {
        let events = HeaderValue::from_static(EVENTS);
        self.send(Method::GET, &self.url, events, None, more).await
    }

    /// Says that a session is over.
    pub(crate) async fn delete(&self, more: &HeaderMap) -> Result<Response, Trouble> {
        let any = HeaderValue::from_static("*/*");
        self.send(Method::DELETE, &self.url, any, None, more).await
    }

    async fn send(
        &self,
        method: Method,
        to: &WebUrl,
        accept: HeaderValue,
        body: Option<Vec<u8>>,
        more: &HeaderMap,
    ) -> Result<Response, Trouble> {
        // The headers are for this origin, and whatever a server says leads to no other one.
        if to.origin() != self.url.origin() {
            return Err(Trouble::Redirect(to.origin().to_string()));
        }
        let mut request = self.client.request(method, to.as_str());
        request = request.headers(self.headers.clone()).headers(more.clone());
        request = request.header(ACCEPT, accept);
        if let Some(body) = body {
            request = request.header(CONTENT_TYPE, JSON).body(body);
        }
        let sent = request.send().await;
        let response = sent.map_err(|error| match error.is_connect() {
            true => Trouble::NoConnection(describe(error)),
            false => Trouble::Broken(describe(error)),
        })?;
        match response.status() {
            StatusCode::UNAUTHORIZED => Err(Trouble::Login),
            status if status.is_redirection() => {
                let location = response.headers().get(LOCATION);
                let location = location.and_then(|to| to.to_str().ok()).unwrap_or_default();
                let meant = self.url.join(location);
                let meant = meant.map_or("nowhere".to_owned(), |url| url.origin().to_string());
                Err(Trouble::Redirect(meant))
            }
            _ => Ok(response),
        }
    }
}

fn client(url: &WebUrl, settings: &Settings) -> Result<Client, String> {
    // Fails when one was chosen already; that one serves as well.
    drop(rustls::crypto::ring::default_provider().install_default());
    let mut builder = Client::builder()
        .redirect(Policy::none())
        .no_proxy()
        .connect_timeout(CONNECT)
        .user_agent(concat!("sluice/", env!("CARGO_PKG_VERSION")));
    if url.place() == Place::ThisMachine {
        // What is `localhost` is said by nobody's resolver.
        let here = SocketAddr::from((Ipv4Addr::LOCALHOST, url.port()));
        builder = builder.resolve("localhost", here);
    }
    if !url.is_tls() {
        // Never used, and must not be missed where there are no certificates.
        builder = builder.tls_certs_only([]);
    }
    if let Some(file) = &settings.ca_file {
        let pem = std::fs::read(file).map_err(|error| format!("ca_file: {error}"))?;
        let certificates = Certificate::from_pem_bundle(&pem).map_err(describe);
        let certificates = certificates.map_err(|error| format!("ca_file: {error}"))?;
        builder = builder.tls_certs_merge(certificates);
    }
    builder.build().map_err(describe)
}

/// The kind of content of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    Json,
    Events,
    Other,
}

/// What an answer holds, as it says.
pub(crate) fn content(response: &Response) -> Content {
    let kind = response.headers().get(CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    match () {
        () if kind.eq_ignore_ascii_case(JSON) => Content::Json,
        () if kind.eq_ignore_ascii_case(EVENTS) => Content::Events,
        () => Content::Other,
    }
}

/// The whole body of an answer.
pub(crate) async fn body(mut response: Response) -> Result<Vec<u8>, Trouble> {
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(broken)? {
        if body.len() + piece.len() > MAX_MESSAGE {
            return Err(Trouble::TooLong);
        }
        body.extend_from_slice(&piece);
    }
    Ok(body)
}

/// The events of an answer.
pub(crate) struct Events {
    response: Response,
    parser: Parser,
    ready: std::collections::VecDeque<Event>,
}

impl Events {
    pub(crate) fn new(response: Response) -> Self {
        Self {
            response,
            parser: Parser::new(MAX_MESSAGE),
            ready: std::collections::VecDeque::new(),
        }
    }

    /// The next event; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, Trouble> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            let Some(piece) = self.response.chunk().await.map_err(broken)? else {
                return Ok(None);
            };
            let events = self.parser.feed(&piece).map_err(|_| Trouble::TooLong)?;
            self.ready.extend(events);
        }
    }

    /// Where the stream is to go on, and how long to wait before.
    pub(crate) fn resumption(&self) -> (Option<String>, Option<Duration>) {
        (
            self.parser.last_id().map(str::to_owned),
            self.parser.retry(),
        )
    }
}

fn broken(error: reqwest::Error) -> Trouble {
    Trouble::Broken(describe(error))
}

/// An error with its causes, and without the address, whose query may hold a secret.
fn describe(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}
