//! Why a server gave no answer, in our own words and one short line of the server's.

use std::{
    error::Error,
    time::{Duration, SystemTime},
};

use reqwest::Response;
use serde_json::Value;

use super::answer::refused::{ApiError, Refused};
use super::config::HttpConfig;
use super::retry;
use crate::ApiKey;
use crate::provider::{ErrorKind, ErrorNames, ProviderError, one_line};

/// Bytes of an error's body that are read: enough for any message.
const ERROR_BODY_LIMIT: usize = 64 << 10;

/// Why one attempt failed, and what may help.
pub(super) struct Failure {
    pub(super) error: ProviderError,
    /// Another attempt.
    pub(super) retry: bool,
    /// How long the server asks to wait before it.
    pub(super) asked: Option<Duration>,
}

impl Failure {
    /// One after which the same request may be sent again, or not.
    pub(super) fn new(error: ProviderError, retry: bool) -> Self {
        Self {
            error,
            retry,
            asked: None,
        }
    }

    /// One after which nothing helps.
    pub(super) fn last(error: ProviderError) -> Self {
        Self::new(error, false)
    }
}

impl HttpConfig {
    /// The error for an HTTP status that is not a success.
    pub(super) async fn refusal(&self, response: Response, key: Option<&ApiKey>) -> Failure {
        let code = response.status().as_u16();
        let asked = retry::retry_after(response.headers(), SystemTime::now());
        let body = read_body(response, ERROR_BODY_LIMIT).await;
        // A body that cannot be read must not hide the status, which decides what happens next.
        let body = body.map(|(body, _)| body).unwrap_or_default();
        let text = String::from_utf8_lossy(&body);
        // Not JSON, such as a gateway's HTML: its words are quoted, cut to one line.
        let reported = match serde_json::from_str(&text) {
            Ok(value) => ApiError::of(&value, true).unwrap_or_default(),
            Err(_) => ApiError::words(&text),
        };
        self.reported(code, &reported, asked, key)
    }

    /// The error for an answer that is refused, of which something had come or not.
    pub(super) fn refused(
        &self,
        refused: Refused,
        has_begun: bool,
        key: Option<&ApiKey>,
    ) -> Failure {
        let error = match refused {
            Refused::Malformed(reason) => return Failure::last(self.malformed(&reason, key)),
            // What has reached the sink cannot be sent again.
            Refused::Cut => return Failure::new(ErrorKind::Cut.at(&self.name), !has_begun),
            Refused::TooLarge { what, limit } => return self.too_large(what, limit),
            Refused::Reported(error) => error,
        };
        let failure = self.reported(status(&error).unwrap_or(200), &error, None, key);
        // What has reached the sink cannot be sent again, and a server that had begun to answer knew all of the
        // request.
        if has_begun {
            Failure::last(failure.error)
        } else {
            failure
        }
    }

    /// The failure for an error that a server reports with this status before anything of an answer.
    fn reported(
        &self,
        code: u16,
        reported: &ApiError,
        asked: Option<Duration>,
        key: Option<&ApiKey>,
    ) -> Failure {
        let mut message = self.quote(&reported.message, key);
        message.push_str(hint(&reported.message));
        let kind = match code {
            429 if !is_spent(reported, asked) => ErrorKind::RateLimited(asked, message),
            _ if is_context_length(reported) => ErrorKind::ContextLength(message),
            413 => ErrorKind::RequestTooLarge(message),
            _ => ErrorKind::Status {
                code,
                message,
                names: Box::new(names(reported)),
            },
        };
        Failure {
            // 408 means that the server did not get the request in time: it has done nothing yet.
            retry: kind.is_outage() || code == 408,
            error: kind.at(&self.name),
            asked,
        }
    }

    pub(super) fn network(&self, error: reqwest::Error) -> ProviderError {
        let kind = if !error.is_timeout() {
            ErrorKind::Unreachable(self.quote(&describe(error), None))
        } else if error.is_connect() {
            ErrorKind::Timeout {
                what: "connecting",
                after: self.timeouts.connect,
            }
        } else {
            ErrorKind::Timeout {
                what: "the next piece of the answer",
                after: self.timeouts.read,
            }
        };
        kind.at(&self.name)
    }

    pub(super) fn malformed(&self, reason: &str, key: Option<&ApiKey>) -> ProviderError {
        ErrorKind::Malformed(self.quote(reason, key)).at(&self.name)
    }

    pub(super) fn too_large(&self, what: &'static str, limit: usize) -> Failure {
        Failure::last(ErrorKind::TooLarge { what, limit }.at(&self.name))
    }

    /// A server's words for an error: one short line, and never the key, which some servers echo.
    fn quote(&self, text: &str, key: Option<&ApiKey>) -> String {
        let key = key.or(self.api_key.as_ref());
        match key.map(ApiKey::expose) {
            // `replace` finds an empty key between all characters.
            Some(key) if !key.is_empty() => one_line(&text.replace(key, "(key)")),
            _ => one_line(text),
        }
    }
}

/// The error with its causes: the outermost one says only that sending failed.
pub(super) fn describe(error: reqwest::Error) -> String {
    // The message names the provider already.
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(&format!(": {inner}"));
        cause = inner.source();
    }
    text
}

/// An error's names, where they look like names and not like other text.
fn names(error: &ApiError) -> ErrorNames {
    let is_name = |name: &&str| {
        (1..=64).contains(&name.len())
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
    };
    let code = error.code.as_ref().and_then(|code| code.as_str());
    ErrorNames {
        kind: error.r#type.as_deref().filter(is_name).map(str::to_owned),
        code: code.filter(is_name).map(str::to_owned),
    }
}

/// The status of an error that came in the place of an answer with status 200. Routers and gateways pass on the status
/// of the server behind them, as a number or in its digits, and a stream that has begun has no status of its own.
fn status(error: &ApiError) -> Option<u16> {
    let code = error.code.as_ref();
    let number = code.and_then(|code| code.as_u64().or_else(|| code.as_str()?.parse().ok()));
    let status = number.and_then(|number| u16::try_from(number).ok());
    // The originals' names, and Ollama's (`api_error`), for errors that come with these statuses elsewhere.
    let names: [(u16, &[&str]); 3] = [
        (500, &["server_error", "api_error", "timeout_error"]),
        (
            429,
            &[
                "rate_limit_exceeded",
                "insufficient_quota",
                "rate_limit_error",
            ],
        ),
        (529, &["overloaded_error"]),
    ];
    let named = || names.iter().find(|(_, names)| is_called(error, names));
    status
        .filter(|status| (400..=599).contains(status))
        .or_else(|| named().map(|(status, _)| *status))
}

/// The setting of the provider that may help, by the words of the refusal: the codes differ from server to server.
fn hint(message: &str) -> &'static str {
    if message.contains("max_completion_tokens") {
        " (write token_limit = \"max_completion_tokens\" at this provider)"
    } else if ["response_format", "json_schema", "output_config"]
        .iter()
        .any(|it| message.contains(it))
    {
        " (write json = \"words\" at this provider if it does not know JSON schemas)"
    } else if message.contains("maximum allowed number of output tokens") {
        " (write completion_tokens at this provider)"
    } else {
        ""
    }
}

fn is_context_length(error: &ApiError) -> bool {
    is_called(
        error,
        &["context_length_exceeded", "exceed_context_size_error"],
    )
        // Of servers that give no code; the words are the originals'.
        || ["maximum context length", "prompt is too long", "exceed context limit"]
            .iter()
            .any(|words| error.message.contains(words))
}

/// Whether the server names a spent quota, which is no limit on the rate: waiting does not help. Some servers say "quota" of
/// their rates too, and then say how long to wait.
fn is_spent(error: &ApiError, asked: Option<Duration>) -> bool {
    let words = error.message.to_ascii_lowercase();
    let spent = ["quota", "billing", "credits", "insufficient balance"];
    is_called(error, &["insufficient_quota", "insufficient_balance"])
        || (asked.is_none() && spent.iter().any(|word| words.contains(word)))
}

/// Whether a server calls an error by one of these names.
fn is_called(error: &ApiError, names: &[&str]) -> bool {
    let code = error.code.as_ref().and_then(Value::as_str);
    let mut given = [code, error.r#type.as_deref()].into_iter().flatten();
    given.any(|name| names.contains(&name))
}

/// At most `limit` bytes of a body, and whether there were more.
pub(super) async fn read_body(
    mut response: Response,
    limit: usize,
) -> reqwest::Result<(Vec<u8>, bool)> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        let room = limit - body.len();
        // Of a body that is too long, the first bytes are kept: they hold the message.
        if chunk.len() > room {
            body.extend(chunk.into_iter().take(room));
            return Ok((body, true));
        }
        body.extend_from_slice(&chunk);
    }
    Ok((body, false))
}
