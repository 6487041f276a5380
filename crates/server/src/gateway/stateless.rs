//! MCP 2026-07-28, which has no handshake and no sessions: each request says its version and what its client can do.

use axum::http::{HeaderMap, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::rpc::{self, Message, Meta};

/// The version without a handshake.
pub(super) const VERSION: &str = "2026-07-28";
/// The versions of the protocol that have a handshake, newest first.
pub(super) const VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
/// The header with the version.
pub(super) const VERSION_HEADER: &str = "mcp-protocol-version";
/// How long in milliseconds a client may keep a list that stays the same as long as the gateway runs.
pub(super) const TTL: u64 = 60_000;

/// The headers that repeat a request's method and what it names.
const METHOD: &str = "mcp-method";
const NAME: &str = "mcp-name";
/// What a header's value stands between that is written in base64.
const ENCODED: (&str, &str) = ("=?base64?", "?=");

/// How a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Era {
    /// In a session, which a handshake has begun.
    Session,
    /// Without one. `elicits` says whether it can ask its user.
    Stateless { elicits: bool },
}

/// What the headers of a request repeat.
#[derive(Default, Deserialize)]
struct Named {
    name: Option<Value>,
    uri: Option<Value>,
    #[serde(default, rename = "_meta")]
    meta: Meta,
}

impl Era {
    /// How this request is spoken.
    ///
    /// # Errors
    /// The answer to a request that does not say what it must.
    pub(super) fn of(message: &Message<'_>) -> Result<Self, String> {
        let Named { meta, .. } = message.params().unwrap_or_default();
        match meta.version {
            None if message.method.as_deref() != Some("server/discover") => Ok(Self::Session),
            None => Err(missing(message, "protocolVersion")),
            // Some clients say it in a session too.
            Some(version) if VERSIONS.iter().any(|it| version == *it) => Ok(Self::Session),
            Some(version) if version != VERSION => {
                let data = json!({ "supported": versions(), "requested": version });
                let text = "this version is not spoken here";
                Err(refused(message, rpc::UNSUPPORTED_VERSION, text, &data))
            }
            Some(_) => match &meta.capabilities {
                Some(Value::Object(_)) => Ok(Self::Stateless {
                    elicits: elicits(meta.capabilities.as_ref()),
                }),
                _ => Err(missing(message, "clientCapabilities")),
            },
        }
    }

    /// Checks a request over HTTP, whose headers have to say what it says.
    ///
    /// # Errors
    /// Its answer.
    pub(super) fn check(headers: &HeaderMap, message: &Message<'_>) -> Result<(), String> {
        let Named { name, uri, meta } = message.params().unwrap_or_default();
        let version = meta
            .version
            .ok_or_else(|| missing(message, "protocolVersion"))?;
        let method = message.method.as_deref().unwrap_or_default();
        let name = match method {
            "tools/call" | "prompts/get" => name,
            "resources/read" => uri,
            _ => None,
        };
        let method = Some(Value::from(method));
        for (header, expected) in [
            (VERSION_HEADER, Some(version)),
            (METHOD, method),
            (NAME, name),
        ] {
            let given = headers
                .get(header)
                .and_then(|it| it.to_str().ok())
                .map(decoded);
            if expected.is_some_and(|expected| given.is_none_or(|given| expected != *given)) {
                let text = format!("the header {header} does not say what the request says");
                return Err(refused(message, rpc::HEADER_MISMATCH, &text, &Value::Null));
            }
        }
        Self::of(message).map(|_| ())
    }

    /// Whether a message over HTTP that names no session is of this version, or of one that is not known.
    pub(super) fn is_stateless(headers: &HeaderMap, message: &Message<'_>) -> bool {
        let Named { meta, .. } = message.params().unwrap_or_default();
        let version = headers.get(VERSION_HEADER).and_then(|it| it.to_str().ok());
        let mut versions = meta.version.into_iter().chain(version.map(Value::from));
        versions.any(|version| !VERSIONS.iter().any(|it| version == *it))
    }

    /// A result of ours, which is an object, with what this client looks for in it. `ttl`: how long it may keep the
    /// result, if it may.
    pub(super) fn complete(self, result: String, ttl: Option<u64>) -> String {
        if self == Self::Session {
            return result;
        }
        let ttl = ttl.map_or_else(String::new, |ttl| {
            format!(r#","ttlMs":{ttl},"cacheScope":"private""#)
        });
        let rest = result.strip_suffix('}').unwrap_or("{");
        let comma = if rest == "{" { "" } else { "," };
        format!(r#"{rest}{comma}"resultType":"complete"{ttl}}}"#)
    }
}

/// What answers a request.
pub(super) enum Reply {
    /// A result, and for how many milliseconds a client may keep it, if it may.
    Result(String, Option<u64>),
    /// Not done, and why.
    Refused(String),
    /// The client has to make the request again, with what this asks for.
    InputRequired(String),
    /// An error, with its data.
    Error(i32, String, Value),
}

impl Reply {
    /// As it answers a request whose results have no place for a refusal.
    pub(super) fn or_error(self) -> Self {
        match self {
            Self::Refused(why) => Self::Error(rpc::REFUSED, why, Value::Null),
            other => other,
        }
    }

    /// How the request ended, in a word of a fixed list.
    pub(super) fn outcome(&self) -> Result<(), String> {
        match self {
            Self::Result(..) | Self::InputRequired(_) => Ok(()),
            Self::Refused(_) => Err("refused".to_owned()),
            Self::Error(code, ..) => Err(code.to_string()),
        }
    }

    pub(super) fn into_message(self, id: &str, era: Era) -> String {
        match self {
            Self::Result(result, ttl) => rpc::answer(id, &era.complete(result, ttl)),
            Self::Refused(why) => rpc::answer(id, &era.complete(rpc::text(&why, true), None)),
            Self::InputRequired(result) => rpc::answer(id, &result),
            Self::Error(code, message, data) => rpc::error_with(id, code, &message, &data),
        }
    }
}

/// Whether a client with these capabilities can ask its user. `{}` is a client that knows no modes and asks in forms.
pub(super) fn elicits(capabilities: Option<&Value>) -> bool {
    let modes = capabilities.and_then(|it| it.get("elicitation")?.as_object());
    modes.is_some_and(|modes| modes.is_empty() || modes.contains_key("form"))
}

/// All versions, newest first.
pub(super) fn versions() -> Vec<&'static str> {
    [VERSION].into_iter().chain(VERSIONS).collect()
}

/// The status of an answer over HTTP.
pub(super) fn status(answer: &str) -> StatusCode {
    let answer: Value = serde_json::from_str(answer).unwrap_or_default();
    match answer.pointer("/error/code").and_then(Value::as_i64) {
        None => StatusCode::OK,
        Some(code) if code == i64::from(rpc::NO_METHOD) => StatusCode::NOT_FOUND,
        Some(_) => StatusCode::BAD_REQUEST,
    }
}

fn missing(message: &Message<'_>, name: &str) -> String {
    let text = format!("_meta has no io.modelcontextprotocol/{name}");
    refused(message, rpc::INVALID_PARAMS, &text, &Value::Null)
}

fn refused(message: &Message<'_>, code: i32, text: &str, data: &Value) -> String {
    rpc::error_with(message.id.map_or("null", RawValue::get), code, text, data)
}

fn decoded(value: &str) -> String {
    let encoded = value
        .strip_prefix(ENCODED.0)
        .and_then(|it| it.strip_suffix(ENCODED.1));
    let bytes = encoded.and_then(|encoded| STANDARD.decode(encoded).ok());
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    text.unwrap_or_else(|| value.to_owned())
}
