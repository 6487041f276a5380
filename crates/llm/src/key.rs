//! Keys of servers.

use std::fmt;

/// A secret that is neither printed nor logged.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey {
    text: String,
    is_bearer: bool,
}

/// How tokens of a login with Anthropic begin.
const LOGIN: &str = "sk-ant-oat";

impl ApiKey {
    /// Wraps a key, or a token of a login.
    pub fn new(key: impl Into<String>) -> Self {
        let text = key.into();
        let is_bearer = text.starts_with(LOGIN);
        Self { text, is_bearer }
    }

    /// Wraps a token that is sent as `Authorization: Bearer` in every API.
    pub fn bearer(token: impl Into<String>) -> Self {
        Self {
            text: token.into(),
            is_bearer: true,
        }
    }

    pub(crate) fn expose(&self) -> &str {
        &self.text
    }

    pub(crate) fn is_bearer(&self) -> bool {
        self.is_bearer
    }

    /// Whether it is of a login with Anthropic, which its server takes with a beta feature of its own alone.
    pub(crate) fn is_login(&self) -> bool {
        self.text.starts_with(LOGIN)
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(hidden)")
    }
}
