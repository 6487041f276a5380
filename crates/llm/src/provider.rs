//! What a language-model provider is, and how it fails.

use std::time::Duration;

use async_trait::async_trait;
use hub::Completion;

use crate::Cleared;

/// Characters of a provider's own words that an error quotes. Enough for any message that we have
/// seen from a real server; a hostile one must not flood the trace.
const MESSAGE_LIMIT: usize = 300;

/// A language model: answers one request at a time.
///
/// A provider is a sink: it sees only a [`Cleared`] request, which only [`crate::Broker`] makes,
/// after it compared the prompt's label with the provider's clearance.
///
/// Cancelling is dropping the future: a provider must then stop its work promptly.
#[async_trait]
pub trait Provider: Send + Sync {
    /// The name under which it is configured; errors and records carry it.
    fn name(&self) -> &str;

    /// Answers one request.
    ///
    /// Text goes to `sink` as it is generated; all of it, in order, is also in the result's
    /// [`Completion::text`]. An answer that does not fit the asked [`hub::AnswerShape`] is
    /// returned as it is, for the caller to judge.
    ///
    /// # Errors
    /// Says why there is no answer, see [`ProviderError`]. Text that `sink` has already got is
    /// then not part of any answer.
    async fn complete(
        &self,
        request: &Cleared<'_>,
        sink: &mut dyn DeltaSink,
    ) -> Result<Completion, ProviderError>;
}

/// Takes the text of an answer while it is generated.
pub trait DeltaSink: Send {
    /// The next piece of text; never empty.
    fn text(&mut self, piece: &str);
}

/// A sink for callers that wait for the whole answer.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoDeltas;

impl DeltaSink for NoDeltas {
    fn text(&mut self, _piece: &str) {}
}

impl DeltaSink for String {
    fn text(&mut self, piece: &str) {
        self.push_str(piece);
    }
}

/// What a server calls an error, in words of the API: letters, digits, `_`, `.`, `-`. As labelled
/// as its message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ErrorNames {
    /// Such as `invalid_request_error`.
    pub kind: Option<String>,
    /// Such as `invalid_api_key`.
    pub code: Option<String>,
}

/// A provider gave no answer.
///
/// It can hold a server's own words, and a server has seen the prompt: treat them as text under the prompt's label.
/// They hold no keys, are one line and of limited length when made by [`one_line`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("provider `{provider}`: {kind}")]
pub struct ProviderError {
    /// The name of the provider that failed; the first one of the route where none is cleared for the prompt.
    pub provider: String,
    /// Why.
    pub kind: ErrorKind,
}

/// Why a provider gave no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ErrorKind {
    /// No connection, or it broke: what the network said.
    #[error("unreachable: {0}; check its address and that it runs")]
    Unreachable(String),
    /// The answer ended before its end.
    #[error("the answer broke off before its end; try again, or look at the server's log")]
    Cut,
    /// It took too long.
    #[error("{what} took longer than {} ms; raise the timeout or use another provider", after.as_millis())]
    Timeout {
        /// Which phase: connecting, the next byte, the complete call.
        what: &'static str,
        /// The limit that was passed.
        after: Duration,
    },
    /// The server refused with an HTTP status.
    #[error("status {code}: {message}; {}", advice(*code))]
    Status {
        /// The HTTP status, or the one that the server names in an answer of status 200.
        code: u16,
        /// The server's message, limited.
        message: String,
        /// The server's own names for the error, if it gave any: for programs.
        names: Box<ErrorNames>,
    },
    /// Too many requests, even after the retries. The wait is the one that the server asks for; the server's message,
    /// limited.
    #[error("too many requests{}{}; wait{} and try again", if .1.is_empty() { "" } else { ": " }, .1, wait(*.0))]
    RateLimited(Option<Duration>, String),
    /// The answer breaks the protocol.
    #[error("malformed answer: {0}; check that the provider's address and its kind are of one API")]
    Malformed(String),
    /// A size limit of ours was passed, in either direction.
    #[error("{what} is larger than {limit} bytes; shorten it or raise the limit")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// The limit in bytes.
        limit: usize,
    },
    /// The server takes no request of this size (status 413): its message, limited.
    #[error(
        "the server refuses a request of this size: {0}; shorten the history or raise the server's limit"
    )]
    RequestTooLarge(String),
    /// The prompt does not fit the model's context: lengths, or the server's message.
    #[error("the prompt is longer than the model's context: {0}; shorten the history")]
    ContextLength(String),
    /// The request cannot be written for this provider. Nothing was sent.
    #[error("the request cannot be sent: {0}")]
    Unsendable(String),
    /// The prompt's label does not flow to the provider's clearance. Nothing was sent.
    #[error(
        "the prompt is above its clearance, nothing was sent; configure a provider that is cleared for it"
    )]
    AboveClearance,
    /// The embedded model failed: its file, its memory, its grammar. Says what to do next.
    #[error("the model failed: {0}")]
    Model(String),
}

impl ErrorKind {
    /// The error of this provider.
    pub fn at(self, provider: impl Into<String>) -> ProviderError {
        ProviderError {
            provider: provider.into(),
            kind: self,
        }
    }

    /// Whether another provider may answer the same request: this one is away or busy.
    pub fn is_outage(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::Timeout { .. } | Self::RateLimited(..) | Self::Cut => true,
            // Below 500 it is about the request, the key or the model's name, which the user must correct. Another
            // provider would only be one more that has seen the prompt.
            Self::Status { code, .. } => *code >= 500,
            _ => false,
        }
    }
}

/// One line of limited length without control characters, for quoting foreign text in an error.
pub fn one_line(text: &str) -> String {
    let mut line = String::new();
    let mut words = text.split(|c: char| c.is_whitespace() || c.is_control());
    let mut length = 0;
    for word in words.by_ref().filter(|word| !word.is_empty()) {
        let gap = usize::from(!line.is_empty());
        // By characters and not by bytes, so that the cut is never inside one.
        let room = MESSAGE_LIMIT.saturating_sub(length + gap);
        if gap == 1 {
            line.push(' ');
        }
        line.extend(word.chars().take(room));
        length += gap + word.chars().count();
        if length > MESSAGE_LIMIT {
            line.push('…');
            break;
        }
    }
    line
}

/// What to do after a status.
fn advice(code: u16) -> &'static str {
    match code {
        // 408 is about the network, and from 500 on it is the server's own trouble.
        408 | 500.. => "try again later or use another provider",
        // A limit of requests has an error of its own; this is a spent quota.
        402 | 429 => "check the plan and the billing of the account",
        404 => "check the model's name, and that the address has its /v1",
        _ => "check the model's name and the key",
    }
}

fn wait(retry_after: Option<Duration>) -> String {
    retry_after.map_or_else(String::new, |wait| format!(" {} s", wait.as_secs().max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_becomes_one_short_line() {
        assert_eq!(one_line("a\r\n\tb\u{1b}[31mc"), "a b [31mc");
        let long = one_line(&"é".repeat(10_000));
        assert_eq!(long.chars().count(), MESSAGE_LIMIT + 1);
        assert!(long.ends_with('…'));
        assert_eq!(one_line(""), "");
    }

    #[test]
    fn errors_are_one_line_that_names_the_provider() {
        let error =
            ErrorKind::RateLimited(Some(Duration::from_secs(3)), "slow".to_owned()).at("main");
        assert_eq!(
            error.to_string(),
            "provider `main`: too many requests: slow; wait 3 s and try again"
        );
        assert!(error.kind.is_outage());
        for (code, help) in [(401, "key"), (404, "/v1"), (429, "billing"), (503, "later")] {
            assert!(advice(code).contains(help), "{code}");
        }
    }
}
