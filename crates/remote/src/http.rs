//! Requests to one server, and nowhere else.

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use names::{Place, WebUrl};
use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION,
};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, Method, Response, StatusCode};

use crate::challenge::Challenge;
use crate::mask::Mask;
use crate::settings::Settings;
use crate::sse::{Event, Parser};
use crate::tokens::Tokens;
use crate::trouble::Trouble;

/// Longest message of a server: the line that the spoke would accept.
pub(crate) const MAX_MESSAGE: usize = 4 << 20;
/// How long a connection may take. The hub gives up earlier.
const CONNECT: Duration = Duration::from_secs(20);
pub(crate) const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

/// A server, and what every request to it has.
pub(crate) struct Http {
    client: Client,
    url: WebUrl,
    headers: HeaderMap,
    tokens: Option<Tokens>,
}

/// A request, before it is known what a server says to it.
pub(crate) struct Request<'a> {
    pub(crate) method: Method,
    pub(crate) to: &'a WebUrl,
    /// The kinds of content that an answer may have.
    pub(crate) accept: &'static str,
    /// The kind of what is sent, and that.
    pub(crate) body: Option<(&'static str, Vec<u8>)>,
    pub(crate) headers: HeaderMap,
}

impl Http {
    /// Makes the client; nothing is connected yet.
    ///
    /// What requests carry of secrets is known to `mask` from now on.
    pub(crate) fn new(settings: &Settings, mask: &Mask) -> Result<Self, Trouble> {
        let url = WebUrl::new(&settings.url)?;
        let mut headers = HeaderMap::new();
        for (name, value) in &settings.headers {
            mask.add(value);
            // Neither is quoted: a value is mostly a secret, and may stand in the wrong place.
            let wrong = || Trouble::Settings("a header cannot be sent as it is".to_owned());
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
            let mut value = HeaderValue::from_str(value).map_err(|_| wrong())?;
            // So that `Debug` does not show it.
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let client = client(&url, settings).map_err(Trouble::Settings)?;
        Ok(Self {
            client,
            url,
            headers,
            tokens: settings.tokens.map(|port| Tokens::new(port, mask.clone())),
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
        self.send(Request {
            method: Method::POST,
            to,
            accept: "application/json, text/event-stream",
            body: Some((JSON, message)),
            headers: more.clone(),
        })
        .await
    }

    /// Opens a stream of events.
    pub(crate) async fn listen(&self, more: &HeaderMap) -> Result<Response, Trouble> {
        self.send(Request {
            method: Method::GET,
            to: &self.url,
            accept: EVENTS,
            body: None,
            headers: more.clone(),
        })
        .await
    }

    /// Says that a session is over.
    pub(crate) async fn delete(&self, more: &HeaderMap) -> Result<Response, Trouble> {
        self.send(Request {
            method: Method::DELETE,
            to: &self.url,
            accept: "*/*",
            body: None,
            headers: more.clone(),
        })
        .await
    }

    /// Sends a request with the token of the login, if there is one, and once more with another token if the server does
    /// not take it: what is answered with 401 was not done.
    async fn send(&self, mut request: Request<'_>) -> Result<Response, Trouble> {
        let response = match &self.tokens {
            None => self.raw(&request).await?,
            Some(tokens) => {
                let token = tokens.current().await?;
                request.headers.insert(AUTHORIZATION, bearer(&token)?);
                let response = self.raw(&request).await?;
                match response.status() {
                    // Once: a server that refuses the new token too wants another login.
                    StatusCode::UNAUTHORIZED => {
                        let other = tokens.other_than(&token).await?;
                        request.headers.insert(AUTHORIZATION, bearer(&other)?);
                        self.raw(&request).await?
                    }
                    _ => response,
                }
            }
        };
        match response.status() {
            StatusCode::UNAUTHORIZED => {
                let challenge = Challenge::of(response.headers());
                Err(Trouble::Login(challenge.unwrap_or_default()))
            }
            StatusCode::FORBIDDEN => match Challenge::of(response.headers()) {
                Some(challenge) if challenge.is_about_scope() => {
                    Err(Trouble::Scope(challenge.scopes))
                }
                _ => Ok(response),
            },
            _ => Ok(response),
        }
    }

    /// Sends a request as it is. Whatever a server says but a redirect is an answer.
    pub(crate) async fn raw(&self, request: &Request<'_>) -> Result<Response, Trouble> {
        // The headers are for this origin, and whatever a server says leads to no other one.
        if request.to.origin() != self.url.origin() {
            return Err(Trouble::Redirect(request.to.origin().to_string()));
        }
        let mut sent = self
            .client
            .request(request.method.clone(), request.to.as_str())
            .headers(self.headers.clone())
            .headers(request.headers.clone())
            .header(ACCEPT, request.accept);
        if let Some((kind, body)) = &request.body {
            sent = sent.header(CONTENT_TYPE, *kind).body(body.clone());
        }
        let response = sent
            .send()
            .await
            .map_err(|error| match error.is_connect() {
                // Nothing was sent then, so the call may be refused as not made. Any later error leaves that
                // open.
                true => Trouble::NoConnection(describe(error)),
                false => Trouble::Broken(describe(error)),
            })?;
        if response.status().is_redirection() {
            let location = response.headers().get(LOCATION);
            let location = location.and_then(|to| to.to_str().ok()).unwrap_or_default();
            let meant = self.url.join(location);
            let meant = meant.map_or("nowhere".to_owned(), |url| url.origin().to_string());
            return Err(Trouble::Redirect(meant));
        }
        Ok(response)
    }
}

/// The header that carries a token.
fn bearer(token: &str) -> Result<HeaderValue, Trouble> {
    let value = HeaderValue::from_str(&format!("Bearer {token}"));
    let mut value = value.map_err(|_| Trouble::NoToken("it cannot be sent".to_owned()))?;
    value.set_sensitive(true);
    Ok(value)
}

fn client(url: &WebUrl, settings: &Settings) -> Result<Client, String> {
    // Fails when one was chosen already; that one serves as well.
    drop(rustls::crypto::ring::default_provider().install_default());
    let mut builder = Client::builder()
        // It would take headers such as `X-Api-Key` along to wherever the server says.
        .redirect(Policy::none())
        // There is no proxy in a spoke, and no variable is to lead requests anywhere else.
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
pub(crate) async fn body(response: Response) -> Result<Vec<u8>, Trouble> {
    bounded(response, MAX_MESSAGE).await
}

/// The whole body of an answer that has no more bytes than this.
pub(crate) async fn bounded(mut response: Response, max: usize) -> Result<Vec<u8>, Trouble> {
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(broken)? {
        // As it comes: a length that the server has announced may be missing, or a lie.
        if body.len() + piece.len() > max {
            return Err(Trouble::TooLong(max));
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
            let events = self
                .parser
                .feed(&piece)
                .map_err(|_| Trouble::TooLong(MAX_MESSAGE))?;
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
