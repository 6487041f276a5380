//! Why a server's answer is refused.

use serde::Deserialize;
use serde_json::Value;

/// Why an answer is refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Breaks the protocol.
    Malformed(String),
    /// More than so many bytes.
    TooLarge {
        /// What: all of it, or an event of its stream.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// The server reports an error in the middle of its answer.
    Reported(ApiError),
}

/// An error as the API reports it.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct ApiError {
    pub(crate) message: String,
    pub(crate) r#type: Option<String>,
    /// A string on the original, a number on some others.
    pub(crate) code: Option<Value>,
}

#[derive(Deserialize)]
pub(crate) struct ErrorBody {
    pub(crate) error: ApiError,
}
