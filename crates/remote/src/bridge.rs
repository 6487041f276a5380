//! From the client's lines to a server and back. `rmcp` speaks streamable HTTP (MCP 2025-03-26 to 2026-07-28) with the
//! server: sessions, streams, their resumption, and the headers that repeat a message.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use reqwest::StatusCode;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ErrorCode, ErrorData, JsonRpcMessage, RequestId,
    ServerJsonRpcMessage, ServerResult,
};
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClientTransportConfig, StreamableHttpClientWorker, StreamableHttpError,
};
use rmcp::transport::{Transport, WorkerTransport};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, stdin, stdout};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::http::{Http, MAX_MESSAGE, tools};
use crate::mask::Mask;
use crate::settings::Settings;
use crate::trouble::Trouble;

/// The version without a handshake and sessions.
const STATELESS: &str = "2026-07-28";
const QUEUE: usize = 4;
/// How often a stream is opened again without success.
const RESUMPTIONS: usize = 5;
/// The longest pause before.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
const GOODBYE: Duration = Duration::from_secs(2);
/// Letters of a tool's name that are shown.
const MAX_SHOWN: usize = 64;
/// Marks an error that `rmcp` makes for a request whose stream ended before its answer.
const NO_ANSWER: &str = "io.modelcontextprotocol/transportClosed";

type Server = WorkerTransport<StreamableHttpClientWorker<Http>>;

pub(crate) struct Connected {
    pub(crate) server: Server,
    /// The answer to the client's first request.
    answer: ServerJsonRpcMessage,
    /// The server knows no handshake and no sessions.
    stateless: bool,
}

/// Passes the messages of the client on stdin to the server and back, until stdin ends.
pub(crate) async fn serve(settings: &Settings, mask: &Mask, output: Output) -> Result<(), Trouble> {
    let http = Http::new(settings, mask)?;
    let mut lines = lines();
    let (first, line) = loop {
        let Some(line) = lines.recv().await else {
            return Ok(());
        };
        // What comes before the client's first request is passed over.
        if let Ok(first @ JsonRpcMessage::Request(_)) = serde_json::from_slice(&line) {
            break (first, line);
        }
    };
    http.send_as(&first, line);
    let Connected {
        mut server,
        answer,
        stateless,
    } = connect(&http, first).await?;
    output.message(&answer).await?;
    let mut sent = JoinSet::new();
    loop {
        tokio::select! {
            Some(ended) = sent.join_next() => {
                if let Ok(Err(trouble)) = ended {
                    return Err(trouble);
                }
            }
            message = server.receive() => {
                let message = message.ok_or_else(|| Trouble::Broken("it has ended".to_owned()))?;
                if is_lost(&message) {
                    // The call may have been made. The error ends this program, and the hub knows no more of it.
                    let why = format!("no answer came, or one of more than {MAX_MESSAGE} bytes");
                    return Err(Trouble::Broken(why));
                }
                if let Some(tools) = tools(&message) {
                    let kept: BTreeSet<String> = tools.collect();
                    for tool in http.listed().difference(&kept) {
                        output.warn_of(tool);
                    }
                }
                output.message(&message).await?;
            }
            line = lines.recv() => {
                let Some(line) = line else { break };
                let Ok(message) = serde_json::from_slice::<ClientJsonRpcMessage>(&line) else {
                    continue;
                };
                // Without sessions nothing is sent but requests; one is cancelled by not listening any more.
                if stateless && !is_for_stateless(&message) {
                    continue;
                }
                let id = id(&message);
                http.send_as(&message, line);
                let (send, output) = (server.send(message), output.clone());
                // Beside the others: a call may take minutes, and its cancellation comes by the same lines.
                sent.spawn(async move {
                    let Err(error) = send.await else { return Ok(()) };
                    match (Trouble::from(error), id) {
                        // It was never sent, is not there, or was not done.
                        (trouble, Some(id)) if trouble.is_refusal() => {
                            output.message(&refusal(id, &trouble)).await
                        }
                        (_, None) => Ok(()),
                        (trouble, Some(_)) => Err(trouble),
                    }
                });
            }
        }
    }
    let _ = timeout(GOODBYE, server.close()).await;
    Ok(())
}

/// Opens a connection with the client's first request. A server that knows no handshake is asked what it is, and its answer
/// is brought into the form of a handshake, since that is what the client knows.
pub(crate) async fn connect(
    http: &Http,
    first: ClientJsonRpcMessage,
) -> Result<Connected, Trouble> {
    let mut server = open(http);
    let connected = |server, answer, stateless| Connected {
        server,
        answer,
        stateless,
    };
    let refused = match ask(&mut server, first.clone()).await {
        Ok(answer) if is_handshake(&answer) => return Ok(connected(server, answer, false)),
        Ok(answer) => Ok(connected(server, answer, false)),
        Err(Trouble::Status(status)) if is_unknown_here(status) => Err(Trouble::Status(status)),
        Err(trouble) => return Err(trouble),
    };
    let mut modern = open(http);
    let question = serde_json::to_value(&first).unwrap_or_default();
    match ask(&mut modern, message(&discover(&question))?).await {
        Ok(answer) => match handshake(&answer, &question, http) {
            Some(handshake) => Ok(connected(modern, message(&handshake)?, true)),
            // The client is told the server's refusal in the server's words.
            None => refused,
        },
        Err(_) => refused,
    }
}

fn open(http: &Http) -> Server {
    let mut backoff = ExponentialBackoff::default();
    backoff.max_times = Some(RESUMPTIONS);
    backoff.max_delay = Some(LONGEST_PAUSE);
    let mut config = StreamableHttpClientTransportConfig::with_uri(http.url().as_str());
    config.retry_config = Arc::new(backoff);
    // Once for each request: it was not done in the session that has ended.
    config.reinit_on_expired_session = true;
    WorkerTransport::spawn(StreamableHttpClientWorker::new(http.clone(), config))
}

async fn ask(
    server: &mut Server,
    question: ClientJsonRpcMessage,
) -> Result<ServerJsonRpcMessage, Trouble> {
    server.send(question).await?;
    let answer = server.receive().await;
    answer.ok_or(Trouble::Form("its first answer is none"))
}

fn is_handshake(answer: &ServerJsonRpcMessage) -> bool {
    match answer {
        JsonRpcMessage::Response(response) => {
            matches!(response.result, ServerResult::InitializeResult(_))
        }
        _ => false,
    }
}

/// The question what a server of 2026-07-28 is, with the id of the client's handshake.
fn discover(first: &Value) -> Value {
    let of_client = |name: &str| first.pointer(&format!("/params/{name}"));
    json!({
        "jsonrpc": "2.0", "id": first.get("id"), "method": "server/discover",
        "params": { "_meta": {
            "io.modelcontextprotocol/protocolVersion": STATELESS,
            "io.modelcontextprotocol/clientInfo": of_client("clientInfo"),
            "io.modelcontextprotocol/clientCapabilities": of_client("capabilities"),
        } },
    })
}

/// What a server says of itself, as the answer to the client's handshake. From then on the client puts into each request what
/// the handshake said. `None` if the server does not speak this version.
fn handshake(answer: &ServerJsonRpcMessage, first: &Value, http: &Http) -> Option<Value> {
    let answer = serde_json::to_value(answer).ok()?;
    let found = answer.get("result")?;
    let versions = found.get("supportedVersions")?.as_array()?;
    if !versions.iter().any(|version| version == STATELESS) {
        return None;
    }
    let info = found.pointer("/_meta/io.modelcontextprotocol~1serverInfo");
    let unnamed = json!({ "name": http.url().host(), "version": "" });
    let mut result = json!({
        "protocolVersion": STATELESS,
        "capabilities": found.get("capabilities").cloned().unwrap_or_else(|| json!({})),
        "serverInfo": info.cloned().unwrap_or(unnamed),
    });
    if let (Some(instructions), Some(result)) = (found.get("instructions"), result.as_object_mut())
    {
        result.insert("instructions".to_owned(), instructions.clone());
    }
    Some(json!({ "jsonrpc": "2.0", "id": first.get("id"), "result": result }))
}

/// A message of JSON that this program has put together.
pub(crate) fn message<T: serde::de::DeserializeOwned>(json: &Value) -> Result<T, Trouble> {
    serde_json::from_value(json.clone()).map_err(|_| Trouble::Form("its answer is no message"))
}

/// How a server says that it does not know the method or the protocol.
fn is_unknown_here(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED
    )
}

fn is_lost(message: &ServerJsonRpcMessage) -> bool {
    match message {
        JsonRpcMessage::Error(error) => {
            let data = error.error.data.as_ref();
            data.is_some_and(|data| data.get(NO_ANSWER).is_some())
        }
        _ => false,
    }
}

fn is_for_stateless(message: &ClientJsonRpcMessage) -> bool {
    match message {
        JsonRpcMessage::Request(_) => true,
        JsonRpcMessage::Notification(it) => {
            matches!(
                it.notification,
                ClientNotification::CancelledNotification(_)
            )
        }
        _ => false,
    }
}

fn id(message: &ClientJsonRpcMessage) -> Option<RequestId> {
    match message {
        JsonRpcMessage::Request(request) => Some(request.id.clone()),
        _ => None,
    }
}

/// An error as the answer to a request. The code is the one for what the protocol has no word for.
fn refusal(id: RequestId, trouble: &Trouble) -> ServerJsonRpcMessage {
    let error = ErrorData::new(ErrorCode(-32000), trouble.to_string(), None);
    JsonRpcMessage::error(error, Some(id))
}

impl From<StreamableHttpError<Trouble>> for Trouble {
    fn from(error: StreamableHttpError<Trouble>) -> Self {
        match error {
            StreamableHttpError::Client(trouble) => trouble,
            StreamableHttpError::SessionExpired => Self::Form("it has ended the session"),
            other => Self::Broken(other.to_string()),
        }
    }
}

/// The client's lines. The client is the spoke, whose lines are bounded; a longer one ends them.
pub(crate) fn lines() -> mpsc::Receiver<Vec<u8>> {
    let (sender, lines) = mpsc::channel(QUEUE);
    tokio::spawn(async move {
        let mut input = BufReader::new(stdin());
        loop {
            let mut line = Vec::new();
            let mut bounded = (&mut input).take(2 * MAX_MESSAGE as u64);
            match bounded.read_until(b'\n', &mut line).await {
                Ok(1..) if line.ends_with(b"\n") => {}
                _ => return,
            }
            if sender.send(line).await.is_err() {
                return;
            }
        }
    });
    lines
}

/// Writes messages to the spoke, one line each and one after the other, without the secrets that the server was sent.
#[derive(Clone)]
pub(crate) struct Output {
    writer: Arc<Mutex<tokio::io::Stdout>>,
    mask: Mask,
}

impl Output {
    /// Writes to stdout what is left after `mask`.
    pub(crate) fn new(mask: Mask) -> Self {
        Self {
            writer: Arc::new(Mutex::new(stdout())),
            mask,
        }
    }

    pub(crate) async fn message(&self, message: &impl Serialize) -> Result<(), Trouble> {
        let line = serde_json::to_value(message).map(|message| self.mask.value(message));
        let line = line.map_err(|_| Trouble::Form("its answer is no message"))?;
        let line = format!("{line}\n");
        // Held for the whole line: several requests are answered at a time.
        let mut writer = self.writer.lock().await;
        let written = match writer.write_all(line.as_bytes()).await {
            Ok(()) => writer.flush().await,
            failed => failed,
        };
        written.map_err(|error| Trouble::Broken(error.to_string()))
    }

    /// Says on stderr, of which the spoke quotes the end, that a tool is left out.
    fn warn_of(&self, tool: &str) {
        let name: String = tool.chars().take(MAX_SHOWN).collect();
        let line = format!("the tool {name:?} is left out: its x-mcp-header marks break a rule\n");
        // The program works as well where nothing reads stderr.
        let _ = io::stderr().write_all(self.mask.text(&line).as_bytes());
    }
}
