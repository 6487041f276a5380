//! The steps of a login by OAuth 2.1 as the MCP specification has it: what a server says of logins (RFC 9728), what an
//! authorization server says of itself (RFC 8414), a name for this client there (RFC 7591), and tokens (RFC 6749, 7636, 8707).
//!
//! Each step is an errand: a process of its own, in a spoke of its own, that can reach one origin and is told no more than
//! this step needs. What comes back was said by strangers, and is judged by the hub again.

mod ask;
mod find;
mod meet;
mod tokens;

use std::sync::Arc;

use serde_json::{Value, json};

use crate::errand::{Errand, Report, TOOL};
use crate::http::Http;
use crate::input::lines;
use crate::mask::Mask;
use crate::message::Message;
use crate::output::{Output, gone};
use crate::settings::Settings;
use crate::trouble::Trouble;

/// Does an errand when it is called, for the client on stdin.
pub(crate) async fn serve(
    settings: &Settings,
    errand: &Errand,
    output: &Output,
) -> Result<(), Trouble> {
    let http = Arc::new(Http::new(settings, &Mask::default())?);
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

async fn run(http: &Arc<Http>, errand: &Errand) -> Result<Report, Trouble> {
    match errand {
        Errand::Find => find::find(http).await.map(Report::Found),
        Errand::Meet {
            client,
            has_secret,
            redirect,
            scopes,
        } => {
            let client = client.as_deref();
            meet::meet(http, client, *has_secret, redirect, scopes).await
        }
        Errand::Tokens {
            endpoint,
            form,
            basic,
        } => tokens::ask(http, endpoint, form, basic.as_deref()).await,
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
