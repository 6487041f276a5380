//! Who gives out tokens for an MCP server: its protected resource metadata (RFC 9728).

use std::sync::Arc;

use names::WebUrl;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::sink;

use super::ask::{document, well_known};
use crate::bridge::{Server, Tasks, connect};
use crate::challenge::{Challenge, scopes};
use crate::errand::Found;
use crate::http::Http;
use crate::mask::Mask;
use crate::output::Output;
use crate::settings::Transport;
use crate::trouble::Trouble;

/// Authorization servers that are read of one document.
const MAX_ISSUERS: usize = 8;

#[derive(Deserialize)]
struct Metadata {
    resource: String,
    #[serde(default)]
    authorization_servers: Vec<String>,
    #[serde(default)]
    scopes_supported: Vec<String>,
}

/// Asks the server without a token, and reads what it says of tokens.
pub(super) async fn find(http: &Arc<Http>) -> Result<Found, Trouble> {
    let server = http.url();
    let demand = demand(http).await?;
    let is_demanded = demand.is_some();
    let challenge = demand.unwrap_or_default();
    let named = challenge.metadata.as_deref();
    let places = match named.map(|place| server.join(place)).transpose()? {
        // Whoever may answer for another host may not say who logs in at this one.
        Some(place) if place.origin() != server.origin() => {
            return Err(Trouble::Form("its metadata is on another host"));
        }
        Some(place) => vec![place],
        None => {
            // The one about this server first: a host may have several, and documents about each.
            let name = "oauth-protected-resource";
            vec![
                well_known(server, name),
                well_known(&server.with_path("/"), name),
            ]
        }
    };
    for place in places {
        if let Some(metadata) = document::<Metadata>(http, &place).await? {
            return read(server, metadata, challenge);
        }
    }
    // One that says who gives out tokens for it may want one for some of its tools alone; any other wants none.
    if !is_demanded {
        return Err(Trouble::Form("it asks for no login"));
    }
    // Servers of MCP 2025-03-26 are their own authorization servers, and do not say so.
    Ok(Found {
        resource: server.with_path(server.path()).to_string(),
        issuers: vec![server.origin().to_string()],
        scopes: challenge.scopes,
    })
}

fn read(server: &WebUrl, metadata: Metadata, challenge: Challenge) -> Result<Found, Trouble> {
    // Tokens for another resource would be of use there.
    let resource = WebUrl::new(&metadata.resource)?;
    if !server.is_within(&resource) {
        return Err(Trouble::Form("its metadata is about another server"));
    }
    let mut issuers = metadata.authorization_servers;
    issuers.truncate(MAX_ISSUERS);
    if issuers.is_empty() {
        return Err(Trouble::Form("its metadata names no authorization server"));
    }
    let supported = metadata.scopes_supported.iter().map(String::as_str);
    Ok(Found {
        resource: metadata.resource,
        issuers,
        // What it asks for now is less than all that there is.
        scopes: match challenge.scopes.is_empty() {
            true => scopes(supported),
            false => challenge.scopes,
        },
    })
}

/// The server's demand for a token, if it makes one before a tool is called. Some servers shake hands with everybody, and
/// ask who it is when they are asked for their tools.
async fn demand(http: &Arc<Http>) -> Result<Option<Challenge>, Trouble> {
    match ask_for_tools(http).await {
        Err(Trouble::Login(challenge)) => Ok(Some(challenge)),
        Err(trouble) => Err(trouble),
        Ok(()) => Ok(None),
    }
}

/// Asks the server for its tools as a client does. What it offers is of no interest here.
async fn ask_for_tools(http: &Arc<Http>) -> Result<(), Trouble> {
    let message = |message: Value| message.to_string().into_bytes();
    let initialize = json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": { "name": "sluice", "version": env!("CARGO_PKG_VERSION") },
        },
    });
    let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    let output = Output::new(sink(), Mask::default());
    // A stream that a server opens ends with them.
    let mut tasks = Tasks::new();
    let initialize = message(initialize);
    let server = connect(Transport::Any, http, &output, initialize, "0", &mut tasks).await?;
    match server {
        Server::Streamable(server) => {
            let method = "notifications/initialized";
            server.tell(message(initialized), Some(method)).await?;
            server.ask(message(list), "1", "tools/list", None).await?;
            server.leave().await;
        }
        Server::TwoStreams(server) => {
            server.send(message(initialized)).await?;
            server.send(message(list)).await?;
        }
    }
    Ok(())
}
