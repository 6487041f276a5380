//! Requests to one server, and to no other: the HTTP client under `rmcp`'s transport, and under logins.

use std::collections::{BTreeSet, HashMap};
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::{BoxStream, try_unfold};
use names::{Place, WebUrl};
use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION,
};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, Method, Response, StatusCode};
use rmcp::model::{
    ClientJsonRpcMessage, JsonRpcMessage, RequestId, ServerJsonRpcMessage, ServerResult,
};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::{Sse, SseStream};

use crate::challenge::Challenge;
use crate::mask::Mask;
use crate::settings::Settings;
use crate::tokens::Tokens;
use crate::trouble::Trouble;

/// The longest message of a server: the longest line that the spoke accepts.
pub(crate) const MAX_MESSAGE: usize = 4 << 20;
/// The time for a connection. The hub gives up earlier.
const CONNECT: Duration = Duration::from_secs(20);
/// The shortest and longest pauses, in milliseconds, that a server may ask for before a stream is opened again. Each attempt
/// is a connection, with a TLS handshake here and one in the hub.
const PAUSE_MS: (u64, u64) = (500, 30_000);
/// The longest session id. Servers use a UUID or a signed token.
const MAX_SESSION: usize = 4 << 10;
pub(crate) const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// A server, and what every request to it carries. Copies share it.
#[derive(Clone)]
pub(crate) struct Http(Arc<Inner>);

struct Inner {
    client: Client,
    url: WebUrl,
    headers: HeaderMap,
    tokens: Option<Tokens>,
    /// The bytes of the client's requests that are not sent yet. `rmcp` would write the values that it read, in which long
    /// numbers are rounded, and the policy has permitted the text.
    lines: Mutex<HashMap<RequestId, Vec<u8>>>,
    /// The tools of the server's lists, with those that `rmcp` leaves out because of their `x-mcp-header` marks.
    listed: Mutex<BTreeSet<String>>,
    /// The server sent an event that is too long. It must not be resumed: it would be as long again.
    too_long: AtomicBool,
}

/// A request, before the server has answered it.
pub(crate) struct Request<'a> {
    pub(crate) method: Method,
    pub(crate) to: &'a WebUrl,
    /// The content types of an answer that are accepted.
    pub(crate) accept: &'static str,
    /// The content type of the body, and the body.
    pub(crate) body: Option<(&'static str, Vec<u8>)>,
    pub(crate) headers: HeaderMap,
}

impl Http {
    /// Makes the client; nothing is connected yet.
    ///
    /// `mask` knows the secrets that requests carry from now on.
    pub(crate) fn new(settings: &Settings, mask: &Mask) -> Result<Self, Trouble> {
        let url = WebUrl::new(&settings.url)?;
        let mut headers = HeaderMap::new();
        for (name, value) in &settings.headers {
            mask.add(value);
            // Neither is quoted: a value is mostly a secret, and may be in the wrong place.
            let wrong = || Trouble::Settings("a header cannot be sent as it is".to_owned());
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
            let mut value = HeaderValue::from_str(value).map_err(|_| wrong())?;
            // So that `Debug` does not show it.
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        Ok(Self(Arc::new(Inner {
            client: client(&url, settings).map_err(Trouble::Settings)?,
            url,
            headers,
            tokens: settings.tokens.map(|port| Tokens::new(port, mask.clone())),
            lines: Mutex::default(),
            listed: Mutex::default(),
            too_long: AtomicBool::new(false),
        })))
    }

    pub(crate) fn url(&self) -> &WebUrl {
        &self.0.url
    }

    pub(crate) fn send_as(&self, message: &ClientJsonRpcMessage, line: Vec<u8>) {
        if let JsonRpcMessage::Request(request) = message {
            lock(&self.0.lines).insert(request.id.clone(), line);
        }
    }

    /// The tools of the server's lists since the last call.
    pub(crate) fn listed(&self) -> BTreeSet<String> {
        std::mem::take(&mut lock(&self.0.listed))
    }

    fn note_tools(&self, message: &ServerJsonRpcMessage) {
        if let Some(tools) = tools(message) {
            lock(&self.0.listed).extend(tools);
        }
    }

    async fn of_transport(
        &self,
        method: Method,
        message: Option<Vec<u8>>,
        session: Option<&str>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<Response, Trouble> {
        let mut headers: HeaderMap = headers.into_iter().collect();
        if let Some(session) = session {
            let session = HeaderValue::from_str(session);
            let session = session.map_err(|_| Trouble::Form("the id of its session"))?;
            headers.insert(SESSION, session);
        }
        self.send(Request {
            accept: match method {
                Method::POST => "application/json, text/event-stream",
                Method::GET => EVENTS,
                _ => "*/*",
            },
            method,
            to: self.url(),
            body: message.map(|message| (JSON, message)),
            headers,
        })
        .await
    }

    /// Sends a request with the token of the login, if there is one, and again with another token if the server refuses
    /// the first: a request that is answered with 401 was not done.
    async fn send(&self, mut request: Request<'_>) -> Result<Response, Trouble> {
        let response = match &self.0.tokens {
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

    /// Sends a request as it is. Every response but a redirect is an answer.
    pub(crate) async fn raw(&self, request: &Request<'_>) -> Result<Response, Trouble> {
        // The headers are for this origin, and nothing that a server says leads to another one.
        if request.to.origin() != self.url().origin() {
            return Err(Trouble::Redirect(request.to.origin().to_string()));
        }
        let mut sent = self
            .0
            .client
            .request(request.method.clone(), request.to.as_str())
            .headers(self.0.headers.clone())
            .headers(request.headers.clone())
            .header(ACCEPT, request.accept);
        if let Some((kind, body)) = &request.body {
            sent = sent.header(CONTENT_TYPE, *kind).body(body.clone());
        }
        let sent = sent.send().await;
        let response = sent.map_err(|error| match error.is_connect() {
            // Nothing was sent then, so the call may be refused as not made. Any later error leaves that open.
            true => Trouble::NoConnection(describe(error)),
            false => broken(error),
        })?;
        if response.status().is_redirection() {
            let location = response.headers().get(LOCATION);
            let location = location.and_then(|to| to.to_str().ok()).unwrap_or_default();
            let meant = self.url().join(location);
            let meant = meant.map_or("nowhere".to_owned(), |url| url.origin().to_string());
            return Err(Trouble::Redirect(meant));
        }
        Ok(response)
    }

    /// The events of an answer, none longer than a message may be.
    fn events(&self, response: Response) -> BoxStream<'static, Result<Sse, SseError>> {
        let http = self.clone();
        let limit = EventLimit::default();
        let bytes = try_unfold((response, limit), move |(mut response, mut limit)| {
            let http = http.clone();
            async move {
                let Some(piece) = response.chunk().await.map_err(broken)? else {
                    return Ok(None);
                };
                if !limit.allows(&piece) {
                    http.0.too_long.store(true, Ordering::Relaxed);
                    return Err(Trouble::TooLong(MAX_MESSAGE));
                }
                Ok(Some((piece, (response, limit))))
            }
        });
        let http = self.clone();
        let events = SseStream::from_bytes_stream(bytes).map(move |event| {
            let mut event = event?;
            let (shortest, longest) = PAUSE_MS;
            event.retry = event.retry.map(|retry| retry.clamp(shortest, longest));
            // Only a list of tools is read here as well.
            if let Some(data) = &event.data
                && data.contains("inputSchema")
                && let Ok(message) = serde_json::from_str(data)
            {
                http.note_tools(&message);
            }
            Ok(event)
        });
        events.boxed()
    }
}

type Answered<T> = Result<T, StreamableHttpError<Trouble>>;

/// `rmcp` decides what is sent when; it gets no address and no token to choose.
impl StreamableHttpClient for Http {
    type Error = Trouble;

    async fn post_message(
        &self,
        _uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Answered<StreamableHttpPostResponse> {
        let JsonRpcMessage::Request(request) = &message else {
            let line = serde_json::to_vec(&message)?;
            // What a server answers to it changes nothing. One that wants a login says so to the next request as well.
            let post = self.of_transport(Method::POST, Some(line), session.as_deref(), headers);
            drop(post.await);
            return Ok(StreamableHttpPostResponse::Accepted);
        };
        let kept = lock(&self.0.lines).remove(&request.id);
        let line = kept.map_or_else(|| serde_json::to_vec(&message), Ok)?;
        let post = self.of_transport(Method::POST, Some(line), session.as_deref(), headers);
        let response = post.await.map_err(StreamableHttpError::Client)?;
        let status = response.status();
        // With a session, a 404 to any request says that the session has ended.
        if status == StatusCode::NOT_FOUND && session.is_some() {
            return Err(StreamableHttpError::SessionExpired);
        }
        let session = response.headers().get(SESSION);
        let session = session.and_then(|id| id.to_str().ok().map(str::to_owned));
        let answer = match content(&response) {
            _ if session.as_ref().is_some_and(|id| id.len() > MAX_SESSION) => {
                Err(Trouble::Form("the id of its session is too long"))
            }
            Content::Json => match body(response, MAX_MESSAGE).await {
                Ok(body) => match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
                    Ok(answer) if answers(&answer, &request.id) => {
                        self.note_tools(&answer);
                        Ok(StreamableHttpPostResponse::Json(answer, session))
                    }
                    _ if !status.is_success() => Err(Trouble::Status(status)),
                    Ok(_) => Err(Trouble::Form("its answer is another's")),
                    Err(_) => Err(Trouble::Form("its answer is no message")),
                },
                Err(trouble) => Err(trouble),
            },
            Content::Events if status.is_success() => Ok(StreamableHttpPostResponse::Sse(
                self.events(response),
                session,
            )),
            _ if status.is_success() => Err(Trouble::Form("its answer is neither JSON nor events")),
            _ => Err(Trouble::Status(status)),
        };
        answer.map_err(StreamableHttpError::Client)
    }

    async fn delete_session(
        &self,
        _uri: Arc<str>,
        session: Arc<str>,
        _auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Answered<()> {
        // Servers that keep sessions open forget them by themselves.
        let delete = self.of_transport(Method::DELETE, None, Some(&session), headers);
        drop(delete.await);
        Ok(())
    }

    async fn get_stream(
        &self,
        _uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        _auth: Option<String>,
        mut headers: HashMap<HeaderName, HeaderValue>,
    ) -> Answered<BoxStream<'static, Result<Sse, SseError>>> {
        // `rmcp` does not come back after this error.
        let none = StreamableHttpError::ServerDoesNotSupportSse;
        if self.0.too_long.load(Ordering::Relaxed) {
            return Err(none);
        }
        if let Some(last) = last_event {
            let last = HeaderValue::from_str(&last);
            let wrong = Trouble::Form("the id of an event cannot be in a header");
            let last = last.map_err(|_| StreamableHttpError::Client(wrong))?;
            headers.insert(LAST_EVENT, last);
        }
        let get = self.of_transport(Method::GET, None, session.as_deref(), headers);
        let response = get.await.map_err(StreamableHttpError::Client)?;
        match content(&response) {
            Content::Events if response.status().is_success() => Ok(self.events(response)),
            // Servers that have nothing to say unasked answer with 405.
            _ => Err(none),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The names in a list of tools, if the message is one.
pub(crate) fn tools(message: &ServerJsonRpcMessage) -> Option<impl Iterator<Item = String>> {
    match message {
        JsonRpcMessage::Response(response) => match &response.result {
            ServerResult::ListToolsResult(list) => {
                Some(list.tools.iter().map(|tool| tool.name.to_string()))
            }
            _ => None,
        },
        _ => None,
    }
}

/// Whether a message of the server answers this request.
fn answers(message: &ServerJsonRpcMessage, id: &RequestId) -> bool {
    match message {
        JsonRpcMessage::Response(response) => response.id == *id,
        JsonRpcMessage::Error(error) => error.id.as_ref() == Some(id),
        _ => false,
    }
}

/// Counts the bytes of an event: it may be one long line, or many short ones.
#[derive(Default)]
struct EventLimit {
    event: usize,
    line: usize,
    after_return: bool,
}

impl EventLimit {
    /// Takes a piece of the stream. `false` when an event is longer than a message may be.
    fn allows(&mut self, piece: &[u8]) -> bool {
        for byte in piece {
            let after_return = std::mem::replace(&mut self.after_return, *byte == b'\r');
            match byte {
                b'\n' if after_return => {}
                b'\n' | b'\r' => {
                    // A blank line ends the event.
                    self.event = match self.line {
                        0 => 0,
                        _ => self.event + 1,
                    };
                    self.line = 0;
                }
                _ => {
                    self.line += 1;
                    self.event += 1;
                }
            }
            if self.event > MAX_MESSAGE {
                return false;
            }
        }
        true
    }
}

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
        // A redirect would take headers such as `X-Api-Key` to an address that the server chooses.
        .redirect(Policy::none())
        // There is no proxy in a spoke, and no variable may lead requests elsewhere.
        .no_proxy()
        .connect_timeout(CONNECT)
        .user_agent(concat!("sluice/", env!("CARGO_PKG_VERSION")));
    if url.place() == Place::ThisMachine {
        // No resolver decides what `localhost` is.
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

enum Content {
    Json,
    Events,
    Other,
}

/// The kind of content of an answer, as its header says.
fn content(response: &Response) -> Content {
    let kind = response.headers().get(CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    match () {
        () if kind.eq_ignore_ascii_case(JSON) => Content::Json,
        () if kind.eq_ignore_ascii_case(EVENTS) => Content::Events,
        () => Content::Other,
    }
}

/// The body of an answer, if it has no more bytes than this.
pub(crate) async fn body(mut response: Response, max: usize) -> Result<Vec<u8>, Trouble> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_a_limit_however_its_lines_end() {
        for end in ["\n", "\r", "\r\n"] {
            let line = format!("data: {}{end}", "x".repeat(1 << 20));
            let check = |text: &str, allowed: bool| {
                let mut limit = EventLimit::default();
                let mut pieces = text.as_bytes().chunks(99_991);
                assert_eq!(pieces.all(|piece| limit.allows(piece)), allowed, "{end:?}");
            };
            check(&line.repeat(5), false);
            check(&line.repeat(3), true);
            check(&format!("{line}{end}").repeat(9), true);
        }
    }
}
