//! The steps of a login by OAuth 2.1 as the MCP specification has it: what a server says of logins (RFC 9728), what an
//! authorization server says of itself (RFC 8414), a name for this client there (RFC 7591), and tokens (RFC 6749, 7636, 8707).
//!
//! Each step is an errand: a process of its own, in a spoke of its own, that can reach one origin and is told no more than
//! this step needs. What comes back was said by strangers, and is judged by the hub again.

mod challenge;
mod find;
mod meet;
mod tokens;

use std::fmt;

use names::WebUrl;
use reqwest::header::HeaderMap;
use reqwest::{Method, Response};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::bridge::{gone, lines};
use crate::http::{Http, JSON, Request, Trouble, bounded};
use crate::mask::Mask;
use crate::message::Message;
use crate::output::Output;
use crate::settings::Settings;

pub(crate) use self::challenge::Challenge;

/// The one tool of a process on an errand.
pub const TOOL: &str = "log_in";
/// Longest document about a server, or about tokens. They have a few thousand bytes.
const MAX_DOCUMENT: usize = 64 << 10;

/// A step of a login, for which the origin of [`Settings::url`] is asked.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Errand {
    /// Ask an MCP server who gives out tokens for it.
    Find,
    /// Ask an authorization server what it is, and what this client is called there.
    Meet {
        /// The client's name there, if the user has one; otherwise it registers.
        client: Option<String>,
        /// Where the user comes back to.
        redirect: String,
        /// What the tokens are to be for.
        scopes: Vec<String>,
    },
    /// Ask an authorization server for tokens.
    Tokens {
        /// Where.
        endpoint: String,
        /// The form that is sent.
        form: Vec<(String, String)>,
    },
}

impl fmt::Debug for Errand {
    /// A form holds secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Find => "Find",
            Self::Meet { .. } => "Meet",
            Self::Tokens { .. } => "Tokens",
        })
    }
}

/// What came of an errand.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Report {
    /// Of [`Errand::Find`].
    Found(Found),
    /// Of [`Errand::Meet`].
    Met(Met),
    /// Of [`Errand::Tokens`].
    Granted(Granted),
    /// The authorization server refuses, with a code of RFC 6749 §5.2 or RFC 7591 §3.2.2.
    Refused(String),
}

/// Who gives out tokens for a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Found {
    /// What tokens are to be for (RFC 8707): the server, as it calls itself.
    pub resource: String,
    /// The authorization servers. At least one.
    pub issuers: Vec<String>,
    /// The scopes that it asks for.
    pub scopes: Vec<String>,
}

/// An authorization server, and this client there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Met {
    /// Where the user says yes.
    pub authorization: String,
    /// Where tokens are.
    pub tokens: String,
    /// What this client is called.
    pub client: String,
    /// Whether it says who it is when the user comes back (RFC 9207).
    pub says_who: bool,
}

/// Tokens.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Granted {
    /// What the server is sent.
    pub access: String,
    /// What the next one is asked for with.
    pub refresh: Option<String>,
    /// For how many seconds it is good, if that is said.
    pub seconds: Option<u64>,
}

/// Does an errand when it is called, for the client on stdin.
pub(crate) async fn serve(
    settings: &Settings,
    errand: &Errand,
    output: &Output,
) -> Result<(), Trouble> {
    let http = Http::new(settings, &Mask::default())?;
    let mut lines = lines();
    while let Some(line) = lines.recv().await {
        let Some(Message::Request { id, method, .. }) = Message::read(&line) else {
            continue;
        };
        let result = match &*method {
            "initialize" => handshake(&line),
            "tools/list" => {
                json!({ "tools": [{ "name": TOOL, "inputSchema": { "type": "object" } }] })
            }
            "tools/call" => content(run(&http, errand).await),
            _ => json!({}),
        };
        let id: Value = serde_json::from_str(&id).unwrap_or_default();
        let answer = json!({ "jsonrpc": "2.0", "id": id, "result": result });
        let written = output.message(answer.to_string().into_bytes()).await;
        written.map_err(gone)?;
    }
    Ok(())
}

async fn run(http: &Http, errand: &Errand) -> Result<Report, Trouble> {
    match errand {
        Errand::Find => find::find(http).await.map(Report::Found),
        Errand::Meet {
            client,
            redirect,
            scopes,
        } => meet::meet(http, client.as_deref(), redirect, scopes).await,
        Errand::Tokens { endpoint, form } => tokens::ask(http, endpoint, form).await,
    }
}

fn handshake(line: &[u8]) -> Value {
    let message: Value = serde_json::from_slice(line).unwrap_or_default();
    // Whatever the client speaks: there is one tool without arguments.
    let version = message.pointer("/params/protocolVersion");
    json!({
        "protocolVersion": version, "capabilities": { "tools": {} },
        "serverInfo": { "name": "sluice-remote", "version": env!("CARGO_PKG_VERSION") },
    })
}

fn content(done: Result<Report, Trouble>) -> Value {
    let text = |text: String, is_error| json!({ "content": [{ "type": "text", "text": text }], "isError": is_error });
    let report = done.and_then(|report| {
        serde_json::to_string(&report).map_err(|_| Trouble::Form("it cannot be told"))
    });
    match report {
        Ok(report) => text(report, false),
        Err(trouble) => text(trouble.to_string(), true),
    }
}

/// The document at this address; `None` if there is none.
async fn document<T: DeserializeOwned>(http: &Http, at: &WebUrl) -> Result<Option<T>, Trouble> {
    let request = Request {
        method: Method::GET,
        to: at,
        accept: JSON,
        body: None,
        headers: HeaderMap::new(),
    };
    let response = http.raw(&request).await?;
    match response.status() {
        status if status.is_success() => read(response).await.map(Some),
        status if status.is_client_error() => Ok(None),
        status => Err(Trouble::Status(status)),
    }
}

/// Sends this to an authorization server. What it answers, or the code of its refusal.
async fn post<T: DeserializeOwned>(
    http: &Http,
    to: &WebUrl,
    body: (&'static str, Vec<u8>),
) -> Result<Result<T, String>, Trouble> {
    #[derive(Deserialize)]
    struct Refusal {
        error: String,
    }
    let request = Request {
        method: Method::POST,
        to,
        accept: JSON,
        body: Some(body),
        headers: HeaderMap::new(),
    };
    let response = http.raw(&request).await?;
    match response.status() {
        status if status.is_success() => read(response).await.map(Ok),
        status if status.is_client_error() => match read::<Refusal>(response).await {
            Ok(refusal) if is_code(&refusal.error) => Ok(Err(refusal.error)),
            _ => Err(Trouble::Status(status)),
        },
        status => Err(Trouble::Status(status)),
    }
}

async fn read<T: DeserializeOwned>(response: Response) -> Result<T, Trouble> {
    let text = bounded(response, MAX_DOCUMENT).await?;
    // The reason would quote the text.
    serde_json::from_slice(&text)
        .map_err(|_| Trouble::Form("its document is not what was asked for"))
}

/// Whether this is a code of an error, which can be shown as it is.
fn is_code(text: &str) -> bool {
    let of_code = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    (1..=64).contains(&text.len()) && text.bytes().all(of_code)
}

/// The address of a document about what is at `of`: its path stands behind that of the document (RFC 8414 §3.1).
fn well_known(of: &WebUrl, document: &str) -> WebUrl {
    let path = of.path().trim_end_matches('/');
    of.with_path(&format!("/.well-known/{document}{path}"))
}
