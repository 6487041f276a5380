//! The steps of a login by OAuth 2.1, as the MCP specification has it: what a server says of logins (RFC 9728), what an
//! authorization server says of itself (RFC 8414), a registration of this client there (RFC 7591), and tokens (RFC 6749,
//! 7636, 8707).
//!
//! Each step is a process of its own, in a spoke of its own, that can reach one origin and gets no more than this step
//! needs. That is why `rmcp`'s `AuthorizationManager` is not used: it contacts the authorization server in the same call
//! that finds it, before the user has agreed to it, and one process would hold all secrets and reach all origins. What
//! comes back was written by strangers, and the hub checks it again.

mod document;
mod register;

use names::WebUrl;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use rmcp::transport::Transport;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use url::form_urlencoded::Serializer;

use self::document::{document, post, well_known};
use crate::bridge::{Output, connect, lines, message};
use crate::challenge::{Challenge, scopes};
use crate::http::Http;
use crate::mask::Mask;
use crate::settings::Settings;
use crate::step::{Discovery, Granted, LoginStep, Report, TOOL};
use crate::trouble::Trouble;

/// Authorization servers that are read of one document.
const MAX_ISSUERS: usize = 8;
/// The longest token: one that carries claims has a few thousand bytes.
const MAX_TOKEN: usize = 16 << 10;
const FORM: &str = "application/x-www-form-urlencoded";

/// Serves one tool to the client on stdin, which does the step.
pub(crate) async fn serve(
    settings: &Settings,
    step: &LoginStep,
    output: &Output,
) -> Result<(), Trouble> {
    let http = Http::new(settings, &Mask::default())?;
    let mut lines = lines();
    while let Some(line) = lines.recv().await {
        let request: Value = serde_json::from_slice(&line).unwrap_or_default();
        let (Some(id), Some(method)) = (request.get("id"), request.get("method")) else {
            continue;
        };
        let result = match method.as_str().unwrap_or_default() {
            "initialize" => json!({
                "protocolVersion": request.pointer("/params/protocolVersion"),
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "sluice-remote", "version": env!("CARGO_PKG_VERSION") },
            }),
            "tools/list" => {
                json!({ "tools": [{ "name": TOOL, "inputSchema": { "type": "object" } }] })
            }
            "tools/call" => {
                let done = run(&http, step).await;
                let is_error = done.is_err();
                let text = done.unwrap_or_else(|trouble| trouble.to_string());
                json!({ "content": [{ "type": "text", "text": text }], "isError": is_error })
            }
            _ => json!({}),
        };
        let answer = json!({ "jsonrpc": "2.0", "id": id, "result": result });
        output.message(&answer).await?;
    }
    Ok(())
}

async fn run(http: &Http, step: &LoginStep) -> Result<String, Trouble> {
    let report = match step {
        LoginStep::Discover => Report::Discovered(find(http).await?),
        LoginStep::Register {
            client,
            has_secret,
            redirect,
            scopes,
        } => register::register(http, client.as_deref(), *has_secret, redirect, scopes).await?,
        LoginStep::Token {
            endpoint,
            form,
            basic,
        } => tokens(http, endpoint, form, basic.as_deref()).await?,
    };
    serde_json::to_string(&report).map_err(|_| Trouble::Form("its answer cannot be written"))
}

#[derive(Deserialize)]
struct Metadata {
    resource: String,
    #[serde(default)]
    authorization_servers: Vec<String>,
    #[serde(default)]
    scopes_supported: Vec<String>,
}

/// Asks an MCP server, without a token, who gives out tokens for it: its protected resource metadata (RFC 9728).
async fn find(http: &Http) -> Result<Discovery, Trouble> {
    let server = http.url();
    let demand = demand(http).await?;
    let is_demanded = demand.is_some();
    let challenge = demand.unwrap_or_default();
    let named = challenge.metadata.as_deref();
    let places = match named.map(|place| server.join(place)).transpose()? {
        // Another host may not say who logs in at this one.
        Some(place) if place.origin() != server.origin() => {
            return Err(Trouble::Form("its metadata is on another host"));
        }
        Some(place) => vec![place],
        None => {
            // The document about this server first: a host may have several servers.
            let name = "oauth-protected-resource";
            vec![
                well_known(server, name),
                well_known(&server.with_path("/"), name),
            ]
        }
    };
    for place in places {
        if let Some(metadata) = document::<Metadata>(http, &place).await? {
            return read_metadata(server, metadata, challenge);
        }
    }
    // A server with metadata may want a token for some of its tools only; any other wants none.
    if !is_demanded {
        return Err(Trouble::Form("it asks for no login"));
    }
    // Servers of MCP 2025-03-26 are their own authorization servers, and do not say so.
    Ok(Discovery {
        resource: server.with_path(server.path()).to_string(),
        issuers: vec![server.origin().to_string()],
        scopes: challenge.scopes,
    })
}

fn read_metadata(
    server: &WebUrl,
    metadata: Metadata,
    challenge: Challenge,
) -> Result<Discovery, Trouble> {
    // Tokens for another resource could be used there.
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
    Ok(Discovery {
        resource: metadata.resource,
        issuers,
        // What it asks for now is less than all that there is.
        scopes: match challenge.scopes.is_empty() {
            true => scopes(supported),
            false => challenge.scopes,
        },
    })
}

/// The server's demand for a token, if it makes one before a tool is called. Some servers accept the handshake from everyone,
/// and demand a token for the list of their tools.
async fn demand(http: &Http) -> Result<Option<Challenge>, Trouble> {
    match list_tools(http).await {
        Err(Trouble::Login(challenge)) => Ok(Some(challenge)),
        Ok(()) | Err(Trouble::Status(_) | Trouble::Form(_)) => Ok(None),
        Err(trouble) => Err(trouble),
    }
}

async fn list_tools(http: &Http) -> Result<(), Trouble> {
    let initialize = message(&json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": { "name": "sluice", "version": env!("CARGO_PKG_VERSION") },
        },
    }))?;
    let mut server = connect(http, initialize).await?.server;
    let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    server.send(message(&initialized)?).await?;
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    server.send(message(&list)?).await?;
    server.close().await?;
    Ok(())
}

#[derive(Deserialize)]
struct Answer {
    access_token: String,
    token_type: String,
    refresh_token: Option<String>,
    #[serde(default, deserialize_with = "seconds")]
    expires_in: Option<u64>,
}

/// A number of seconds, which some servers write as text or with a fraction of zeros. A token without one is used until it
/// is refused, so an unreadable one counts as none.
fn seconds<'de, D: Deserializer<'de>>(said: D) -> Result<Option<u64>, D::Error> {
    let text = match Value::deserialize(said)? {
        Value::Number(number) => number.to_string(),
        Value::String(text) => text,
        _ => return Ok(None),
    };
    let whole = match text.split_once('.') {
        Some((whole, zeros)) if zeros.bytes().all(|digit| digit == b'0') => whole,
        _ => &*text,
    };
    Ok(whole.parse().ok())
}

/// Asks for tokens, with a code or a refresh token (RFC 6749 §4.1.3 and §6). `Http::raw` refuses an endpoint of another
/// origin before the form is sent.
async fn tokens(
    http: &Http,
    endpoint: &str,
    form: &[(String, String)],
    basic: Option<&str>,
) -> Result<Report, Trouble> {
    let endpoint = WebUrl::new(endpoint)?;
    let form = Serializer::new(String::new()).extend_pairs(form).finish();
    let mut headers = HeaderMap::new();
    if let Some(credentials) = basic {
        let value = HeaderValue::try_from(format!("Basic {credentials}"));
        let mut value = value.map_err(|_| Trouble::Form("the secret cannot be sent"))?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    let answer: Answer = match post(http, &endpoint, (FORM, form.into_bytes()), headers).await? {
        Ok(answer) => answer,
        Err(code) => return Ok(Report::Refused(code)),
    };
    // Other kinds take a proof with each request, which this client cannot give.
    if !answer.token_type.eq_ignore_ascii_case("bearer") {
        return Err(Trouble::Form("its token is of another kind than bearer"));
    }
    let is_token = |text: &&String| {
        (1..=MAX_TOKEN).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
    };
    let tokens = [Some(&answer.access_token), answer.refresh_token.as_ref()];
    if !tokens.iter().flatten().all(is_token) {
        return Err(Trouble::Form("its token cannot be sent"));
    }
    Ok(Report::Granted(Granted {
        access: answer.access_token,
        refresh: answer.refresh_token,
        seconds: answer.expires_in,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lifetime_of_a_token_is_read_in_each_form() {
        for (written, expected) in [
            ("3600", Some(3600)),
            ("3600.0", Some(3600)),
            ("\"3600\"", Some(3600)),
            ("null", None),
            ("3600.5", None),
            ("-1", None),
            ("\"an hour\"", None),
            ("[3600]", None),
        ] {
            let text =
                format!(r#"{{"access_token":"t","token_type":"Bearer","expires_in":{written}}}"#);
            let answer: Answer = serde_json::from_str(&text).unwrap();
            assert_eq!(answer.expires_in, expected, "{written}");
        }
    }
}
