//! Who gives out tokens for an MCP server: its protected resource metadata (RFC 9728).

use names::WebUrl;
use reqwest::header::HeaderMap;
use reqwest::{Method, StatusCode};
use serde::Deserialize;
use serde_json::json;

use super::ask::{document, well_known};
use crate::challenge::{Challenge, scopes};
use crate::errand::Found;
use crate::http::{Http, JSON, Request};
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
pub(super) async fn find(http: &Http) -> Result<Found, Trouble> {
    let server = http.url();
    let challenge = challenge(http).await?;
    let named = challenge.metadata.as_deref();
    let places = match named.map(|place| server.join(place)).transpose()? {
        // Whoever may answer for another host may not say who logs in at this one.
        Some(place) if place.origin() != server.origin() => {
            return Err(Trouble::Form("its metadata is on another host"));
        }
        Some(place) => vec![place],
        None => {
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

/// The server's demand for a token, by either way of speaking.
async fn challenge(http: &Http) -> Result<Challenge, Trouble> {
    let initialize = json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": { "name": "sluice", "version": env!("CARGO_PKG_VERSION") },
        },
    });
    let mut request = Request {
        method: Method::POST,
        to: http.url(),
        accept: "application/json, text/event-stream",
        body: Some((JSON, initialize.to_string().into_bytes())),
        headers: HeaderMap::new(),
    };
    let mut response = http.raw(&request).await?;
    if response.status().is_client_error() && response.status() != StatusCode::UNAUTHORIZED {
        request.method = Method::GET;
        request.body = None;
        response = http.raw(&request).await?;
    }
    match response.status() {
        StatusCode::UNAUTHORIZED => Ok(Challenge::of(response.headers()).unwrap_or_default()),
        status if status.is_success() => Err(Trouble::Form("it asks for no login")),
        status => Err(Trouble::Status(status)),
    }
}
