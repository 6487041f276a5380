//! Streamable HTTP (MCP 2025-03-26 to 2026-07-28): a request is a POST, its answer is the body or a stream of events.

use std::sync::Arc;
use std::time::{Duration, Instant};

use names::WebUrl;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Response, StatusCode};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::http::{Content, Events, Http, body, content};
use crate::message;
use crate::mirror::{Mirrored, value};
use crate::output::{Output, gone, refuse};
use crate::trouble::Trouble;

/// The version without a handshake and sessions.
const STATELESS: &str = "2026-07-28";
/// Longest id of a session. Servers use a UUID or a signed token.
const MAX_SESSION: usize = 4 << 10;
/// How often a stream that broke off is taken up again without anything new on it.
const RESUMPTIONS: usize = 5;
/// How long to wait before, if the server does not say.
const PAUSE: Duration = Duration::from_secs(1);
/// The shortest wait that a server may ask for: each try is a connection, with a handshake here and one in the hub.
const SHORTEST_PAUSE: Duration = Duration::from_millis(500);
/// The longest.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How long a goodbye may take.
const GOODBYE: Duration = Duration::from_secs(2);

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// A server that has said how it speaks.
pub(crate) struct Streamable {
    http: Arc<Http>,
    output: Output,
    session: Option<HeaderValue>,
    version: String,
    /// The handshake was one between us and the client alone.
    stateless: bool,
    mirrored: Mirrored,
}

/// What came of the first message.
pub(crate) enum Begun {
    /// The client has its answer.
    Speaks(Streamable),
    /// The server does not know this way of speaking; what it said.
    Unknown(Option<Trouble>),
}

impl Streamable {
    /// Sends the client's `initialize`, and where the server knows no handshake, asks it what it is.
    pub(crate) async fn begin(
        http: Arc<Http>,
        output: Output,
        first: &[u8],
        id: &str,
    ) -> Result<Begun, Trouble> {
        let url = http.url().clone();
        let response = http.post(&url, first.to_vec(), &HeaderMap::new()).await?;
        let status = response.status();
        let session = session(&response)?;
        if !status.is_success() && !unknown_here(status) {
            return Err(Trouble::Status(status));
        }
        // Of a 400, 404 or 405 too: what counts is whether there is a result of the handshake.
        let answer = match answer(response, id).await {
            Ok(answer) => answer,
            // Whatever it says, it does not know what it was asked.
            Err(_) if unknown_here(status) => Vec::new(),
            Err(trouble) => return Err(trouble),
        };
        let version = result(&answer).and_then(|result| {
            let version = result.get("protocolVersion")?.as_str()?;
            Some(version.to_owned())
        });
        let (answer, version, stateless) = match version {
            Some(version) => (answer, version, false),
            None => match discover(&http, &url, first, id).await? {
                Some(answer) => (answer, STATELESS.to_owned(), true),
                None if status.is_success() => {
                    // The server has refused in its own words, which the client is told.
                    output.message(answer).await.map_err(gone)?;
                    return Err(Trouble::Form("it refuses the handshake"));
                }
                None => return Ok(Begun::Unknown(Some(Trouble::Status(status)))),
            },
        };
        output.message(answer).await.map_err(gone)?;
        Ok(Begun::Speaks(Self {
            http,
            output,
            session,
            version,
            stateless,
            mirrored: Mirrored::default(),
        }))
    }

    /// Sends a request, and passes on what comes until it is answered.
    pub(crate) async fn ask(
        &self,
        line: Vec<u8>,
        id: &str,
        method: &str,
        name: Option<String>,
    ) -> Result<(), Trouble> {
        let headers = match self.headers_of(&line, method, name.as_deref()) {
            Ok(headers) => headers,
            Err(trouble) => return refuse(&self.output, id, &trouble).await,
        };
        let url = self.http.url();
        let response = match self.http.post(url, line, &headers).await {
            Ok(response) => response,
            // It was never sent, is not there, or was not done.
            Err(
                trouble @ (Trouble::NoConnection(_) | Trouble::Redirect(_) | Trouble::Scope(_)),
            ) => {
                return refuse(&self.output, id, &trouble).await;
            }
            // It may have been done. The error ends this program, and the hub knows no more of the call than that.
            Err(trouble) => return Err(trouble),
        };
        let status = response.status();
        match content(&response) {
            // With a session this is how a server says that it is over, whatever was asked for.
            _ if status == StatusCode::NOT_FOUND && self.session.is_some() => {
                Err(Trouble::Form("it has ended the session"))
            }
            Content::Json => {
                let answer = body(response).await?;
                match message::answers(&answer, id) {
                    true => self.answered(answer, method).await,
                    false if status.is_success() => Err(Trouble::Form("its answer is another's")),
                    false => self.refused(id, status).await,
                }
            }
            Content::Events if status.is_success() => self.follow(response, id, method).await,
            _ if status.is_success() => Err(Trouble::Form("its answer is neither JSON nor events")),
            _ => self.refused(id, status).await,
        }
    }

    /// A refusal is an answer. What a gateway says of a server that it lost is none: the call may have been made.
    async fn refused(&self, id: &str, status: StatusCode) -> Result<(), Trouble> {
        let trouble = Trouble::Status(status);
        match status.is_server_error() {
            true => Err(trouble),
            false => refuse(&self.output, id, &trouble).await,
        }
    }

    /// Passes on the events of an answer, and takes it up again where it breaks off.
    async fn follow(&self, response: Response, id: &str, method: &str) -> Result<(), Trouble> {
        let mut events = Events::new(response);
        let mut tries = 0;
        loop {
            match events.next().await {
                Ok(Some(event)) => {
                    tries = 0;
                    if message::answers(&event.data, id) {
                        return self.answered(event.data, method).await;
                    }
                    self.pass(event).await?;
                    continue;
                }
                // Taken up again, it would be as long.
                Err(trouble @ Trouble::TooLong(_)) => return Err(trouble),
                // Whether it broke or ended, the answer is owed.
                Ok(None) | Err(_) => {}
            }
            // Without the id of an event it cannot be said where to go on, and asked once more the call might run
            // twice.
            let (Some(last), pause) = events.resumption() else {
                return Err(Trouble::Broken("there was no answer".to_owned()));
            };
            tries += 1;
            if tries > RESUMPTIONS {
                return Err(Trouble::Broken("the answer did not come".to_owned()));
            }
            sleep(wait(pause)).await;
            let response = self.http.listen(&self.resuming(&last)?).await?;
            if !response.status().is_success() || content(&response) != Content::Events {
                return Err(Trouble::Broken(
                    "the answer cannot be taken up again".into(),
                ));
            }
            events = Events::new(response);
        }
    }

    /// Passes on an answer.
    async fn answered(&self, mut answer: Vec<u8>, method: &str) -> Result<(), Trouble> {
        if method == "tools/list" && self.has_mirrored() {
            let (rest, left_out) = self.mirrored.listed(answer);
            answer = rest;
            for tool in left_out {
                self.output.warning(tool);
            }
        }
        self.output.message(answer).await.map_err(gone)
    }

    /// Sends a notification, or an answer: what the server does not reply to.
    pub(crate) async fn tell(&self, line: Vec<u8>, method: Option<&str>) -> Result<(), Trouble> {
        // By that version nothing is told but requests; one is given up by listening no longer.
        if self.stateless {
            return Ok(());
        }
        let Some(headers) = self.headers(method, None) else {
            return Ok(());
        };
        match self.http.post(self.http.url(), line, &headers).await {
            // What a server says to it changes nothing; that it wants to know who asks does.
            Ok(_) => Ok(()),
            Err(trouble @ (Trouble::Login(_) | Trouble::NoToken(_))) => Err(trouble),
            Err(_) => Ok(()),
        }
    }

    /// Whether the server may say something unasked.
    pub(crate) fn speaks_unasked(&self) -> bool {
        !self.stateless
    }

    /// Passes on what the server says unasked, as long as it does.
    pub(crate) async fn listen(&self) {
        let mut last: Option<String> = None;
        let mut tries = 0;
        while tries < RESUMPTIONS {
            let headers = match &last {
                Some(last) => self.resuming(last).ok(),
                None => self.headers(None, None),
            };
            let Some(headers) = headers else { break };
            // Servers that have nothing to say answer with 405.
            let Ok(response) = self.http.listen(&headers).await else {
                break;
            };
            if !response.status().is_success() || content(&response) != Content::Events {
                break;
            }
            let mut events = Events::new(response);
            let opened = Instant::now();
            let mut spoke = false;
            while let Ok(Some(event)) = events.next().await {
                spoke = true;
                if self.pass(event).await.is_err() {
                    return;
                }
            }
            tries = tries_after(tries, spoke, opened.elapsed());
            let (id, pause) = events.resumption();
            last = id.or(last);
            sleep(wait(pause)).await;
        }
    }

    /// Says that the session is over.
    pub(crate) async fn leave(&self) {
        if let (Some(_), Some(headers)) = (&self.session, self.headers(None, None)) {
            // Servers that keep sessions open forget them by themselves.
            let _ = timeout(GOODBYE, self.http.delete(&headers)).await;
        }
    }

    async fn pass(&self, event: crate::sse::Event) -> Result<(), Trouble> {
        match &*event.name {
            // An event without text only says an id, from which the stream can be taken up again.
            "" | "message" if !event.data.is_empty() => {
                self.output.message(event.data).await.map_err(gone)
            }
            _ => Ok(()),
        }
    }

    /// Whether its version has headers that repeat the message.
    fn has_mirrored(&self) -> bool {
        // Versions are dates, and compare as text.
        self.version.as_str() >= STATELESS
    }

    /// What a request has beside its message, with what repeats it.
    fn headers_of(
        &self,
        line: &[u8],
        method: &str,
        name: Option<&str>,
    ) -> Result<HeaderMap, Trouble> {
        let headers = self.headers(Some(method), name);
        let mut headers = headers.ok_or(Trouble::Form("its name cannot stand in a header"))?;
        if method == "tools/call" && self.has_mirrored() {
            let more = self.mirrored.headers(name.unwrap_or_default(), line);
            headers.extend(more.map_err(Trouble::Unsendable)?);
        }
        Ok(headers)
    }

    /// What each request has beside its message; `None` if that cannot stand in a header.
    fn headers(&self, method: Option<&str>, name: Option<&str>) -> Option<HeaderMap> {
        let mut headers = HeaderMap::new();
        headers.insert(VERSION, HeaderValue::from_str(&self.version).ok()?);
        if let Some(session) = &self.session {
            headers.insert(SESSION, session.clone());
        }
        if self.has_mirrored() {
            standard(&mut headers, method, name)?;
        }
        Some(headers)
    }

    fn resuming(&self, last: &str) -> Result<HeaderMap, Trouble> {
        let wrong = Trouble::Form("the id of an event cannot stand in a header");
        let last = HeaderValue::from_str(last).ok();
        match self.headers(None, None).zip(last) {
            Some((mut headers, last)) => {
                headers.insert(LAST_EVENT, last);
                Ok(headers)
            }
            None => Err(wrong),
        }
    }
}

/// How often a stream was opened in vain, with one that has ended. One that spoke, or was open for a while, is worth
/// coming back to: whatever lies between closes silent connections after some minutes.
fn tries_after(tries: usize, spoke: bool, open: Duration) -> usize {
    match spoke || open >= LONGEST_PAUSE {
        true => 0,
        false => tries + 1,
    }
}

/// How long to wait before a stream is taken up again, if the server says this.
fn wait(said: Option<Duration>) -> Duration {
    said.unwrap_or(PAUSE).clamp(SHORTEST_PAUSE, LONGEST_PAUSE)
}

/// The headers by which 2026-07-28 lets others route a request.
fn standard(headers: &mut HeaderMap, method: Option<&str>, name: Option<&str>) -> Option<()> {
    if let Some(method) = method {
        headers.insert(METHOD, HeaderValue::from_str(method).ok()?);
        let has_name = ["tools/call", "prompts/get", "resources/read"].contains(&method);
        if let Some(name) = name.filter(|_| has_name) {
            headers.insert(NAME, value(name)?);
        }
    }
    Some(())
}

/// How a server says that it does not know the way that it was asked in.
fn unknown_here(status: StatusCode) -> bool {
    [
        StatusCode::BAD_REQUEST,
        StatusCode::NOT_FOUND,
        StatusCode::METHOD_NOT_ALLOWED,
    ]
    .contains(&status)
}

fn session(response: &Response) -> Result<Option<HeaderValue>, Trouble> {
    let session = response.headers().get(SESSION).cloned();
    match session.as_ref().map(HeaderValue::len) {
        Some(length) if length > MAX_SESSION => {
            Err(Trouble::Form("the id of its session is too long"))
        }
        _ => Ok(session),
    }
}

/// The answer to a request with nothing before it but what nobody waits for.
async fn answer(response: Response, id: &str) -> Result<Vec<u8>, Trouble> {
    match content(&response) {
        Content::Json => body(response).await,
        Content::Events => {
            let mut events = Events::new(response);
            while let Some(event) = events.next().await? {
                if message::answers(&event.data, id) {
                    return Ok(event.data);
                }
            }
            Err(Trouble::Broken("there was no answer".to_owned()))
        }
        Content::Other => Err(Trouble::Form("its answer is neither JSON nor events")),
    }
}

fn result(answer: &[u8]) -> Option<Value> {
    let mut answer: Value = serde_json::from_slice(answer).ok()?;
    answer.get_mut("result").map(Value::take)
}

/// Asks a server of 2026-07-28 what it is. What it says is brought into the form of a handshake, since that is what the client
/// knows; from then on the client puts into each request what the handshake said. `None` if the server does not know it.
async fn discover(
    http: &Http,
    url: &WebUrl,
    first: &[u8],
    id: &str,
) -> Result<Option<Vec<u8>>, Trouble> {
    let first: Value =
        serde_json::from_slice(first).map_err(|_| Trouble::Form("the client's first message"))?;
    let of_client = |name: &str| first.get("params").and_then(|params| params.get(name));
    let own_id: Value = serde_json::from_str(id).unwrap_or_default();
    let question = json!({
        "jsonrpc": "2.0", "id": own_id, "method": "server/discover",
        "params": { "_meta": {
            "io.modelcontextprotocol/protocolVersion": STATELESS,
            "io.modelcontextprotocol/clientInfo": of_client("clientInfo"),
            "io.modelcontextprotocol/clientCapabilities": of_client("capabilities"),
        } },
    });
    let mut headers = HeaderMap::new();
    headers.insert(VERSION, HeaderValue::from_static(STATELESS));
    headers.insert(METHOD, HeaderValue::from_static("server/discover"));
    let response = http
        .post(url, question.to_string().into_bytes(), &headers)
        .await?;
    if !response.status().is_success() {
        return Ok(None);
    }
    let Ok(answer) = answer(response, id).await else {
        return Ok(None);
    };
    let Some(found) = result(&answer) else {
        return Ok(None);
    };
    let versions = found.get("supportedVersions").and_then(Value::as_array);
    let speaks = versions.is_some_and(|all| all.iter().any(|version| version == STATELESS));
    if !speaks {
        return Ok(None);
    }
    let meta = found.get("_meta");
    let info = meta.and_then(|meta| meta.get("io.modelcontextprotocol/serverInfo"));
    let unnamed = json!({ "name": url.host(), "version": "" });
    let mut handshake = json!({
        "protocolVersion": STATELESS,
        "capabilities": found.get("capabilities").cloned().unwrap_or_else(|| json!({})),
        "serverInfo": info.cloned().unwrap_or(unnamed),
    });
    if let (Some(instructions), Some(handshake)) =
        (found.get("instructions"), handshake.as_object_mut())
    {
        handshake.insert("instructions".to_owned(), instructions.clone());
    }
    let answer = json!({ "jsonrpc": "2.0", "id": own_id, "result": handshake });
    Ok(Some(answer.to_string().into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server asks its client by this stream too, for as long as the session lasts.
    #[test]
    fn a_silent_stream_that_was_open_for_a_while_is_opened_again() {
        let minutes = Duration::from_secs(300);
        let mut tries = RESUMPTIONS - 1;
        for _ in 0..100 {
            tries = tries_after(tries, false, minutes);
            assert!(tries < RESUMPTIONS);
        }
        let mut opened = 0;
        while tries < RESUMPTIONS {
            tries = tries_after(tries, false, Duration::from_secs(1));
            opened += 1;
        }
        assert_eq!(opened, RESUMPTIONS);
        assert_eq!(tries_after(4, true, Duration::ZERO), 0);
    }

    #[test]
    fn no_server_is_asked_again_and_again_without_a_pause() {
        for (said, expected) in [
            (None, PAUSE),
            (Some(Duration::ZERO), SHORTEST_PAUSE),
            (Some(Duration::from_secs(2)), Duration::from_secs(2)),
            (Some(Duration::MAX), LONGEST_PAUSE),
        ] {
            assert_eq!(wait(said), expected);
        }
    }
}
