//! A client on standard input and output, at the gateway of a running service.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, bail};
use reqwest::Client;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader, stdin};
use tokio::task::JoinSet;

use crate::exit::Exit;
use crate::service::Known;
use crate::terminal::{message, print};

const SESSION: &str = "mcp-session-id";
/// The error of JSON-RPC for what the bridge cannot do.
const FAILED: i32 = -32_000;

struct Bridge {
    client: Client,
    url: String,
    token: String,
    session: Mutex<Option<String>>,
}

/// Passes messages on until the client closes its end. The service offers the tools of these apps alone, or of all.
pub(super) async fn serve(known: Known, apps: &[String]) -> Result<Exit> {
    message(&format!("using the service at {}", known.url));
    let query = apps.iter().map(|app| format!("app={app}"));
    let query = match apps.is_empty() {
        true => String::new(),
        false => format!("?{}", query.collect::<Vec<_>>().join("&")),
    };
    let bridge = Arc::new(Bridge {
        client: Known::client()?,
        url: format!("{}{}{query}", known.url, server::gateway::PATH),
        token: known.token,
        session: Mutex::default(),
    });
    let (mut lines, mut tasks) = (BufReader::new(stdin()).lines(), JoinSet::new());
    while let Some(line) = lines.next_line().await? {
        let parsed: Value = serde_json::from_str(&line).unwrap_or_default();
        let is_first = parsed.get("method").is_some_and(|it| it == "initialize");
        // The rest needs its session.
        match is_first {
            true => bridge.pass(&line, &parsed).await,
            false => {
                let own = Arc::clone(&bridge);
                tasks.spawn(async move { own.pass(&line, &parsed).await });
            }
        }
        while tasks.try_join_next().is_some() {}
    }
    while tasks.join_next().await.is_some() {}
    let session = lock(&bridge.session).take();
    if let Some(session) = session {
        let end = bridge.client.delete(&bridge.url).bearer_auth(&bridge.token);
        // It ends by itself when it is idle.
        let _ = end.header(SESSION, session).send().await;
    }
    Ok(Exit::Done)
}

impl Bridge {
    /// Sends a message, and prints what answers it. A request that cannot be passed on is answered here.
    async fn pass(&self, line: &str, parsed: &Value) {
        let id = parsed.get("method").and(parsed.get("id"));
        if let (Err(error), Some(id)) = (self.send(line).await, id) {
            let error = json!({"code": FAILED, "message": format!("{error:#}")});
            let answer = json!({"jsonrpc": "2.0", "id": id, "error": error});
            // A client that is gone needs no answer.
            let _ = print(&answer.to_string());
        }
    }

    /// Sends a message, and prints what answers it.
    async fn send(&self, line: &str) -> Result<()> {
        let mut request = self.client.post(&self.url).bearer_auth(&self.token);
        request = request.header(CONTENT_TYPE, "application/json");
        request = request.header(ACCEPT, "application/json, text/event-stream");
        if let Some(session) = lock(&self.session).as_ref() {
            request = request.header(SESSION, session);
        }
        let sent = request.body(line.to_owned()).send().await;
        let sent = sent.map_err(reqwest::Error::without_url);
        let mut response =
            sent.context("the service does not answer; is `sluice serve` running?")?;
        let status = response.status();
        let header = |name| response.headers().get(name)?.to_str().ok();
        if let Some(session) = header(SESSION) {
            *lock(&self.session) = Some(session.to_owned());
        }
        let kind = header(CONTENT_TYPE.as_str()).unwrap_or_default();
        let is_stream = kind.starts_with("text/event-stream");
        let mut rest = Vec::new();
        while let Some(piece) = (response.chunk().await).map_err(reqwest::Error::without_url)? {
            rest.extend_from_slice(&piece);
            while is_stream && let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = rest.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line);
                if let Some(data) = line.strip_prefix("data:") {
                    print(data.trim())?;
                }
            }
        }
        let body = String::from_utf8_lossy(&rest);
        let answer: Value = serde_json::from_str(&body).unwrap_or_default();
        if answer.get("jsonrpc").is_some() {
            print(body.trim())?;
        } else if !status.is_success() {
            let why = answer.pointer("/error/message").and_then(Value::as_str);
            bail!("{}", why.unwrap_or("the service refuses the message"));
        }
        Ok(())
    }
}

fn lock(mutex: &Mutex<Option<String>>) -> MutexGuard<'_, Option<String>> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
