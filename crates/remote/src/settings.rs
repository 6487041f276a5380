//! What the program is told by the hub when it is started.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::errand::Errand;

/// The variable that holds the settings, as JSON. Only this process and the spoke around it can read it.
pub const VARIABLE: &str = "SLUICE_REMOTE";

/// Whom to ask, and with what.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The app's name in the configuration, for messages.
    pub app: String,
    /// The server's address.
    pub url: String,
    /// How it is spoken to.
    pub transport: Transport,
    /// Headers of every request to that address's origin. Their values may be secrets.
    pub headers: BTreeMap<String, String>,
    /// Certificates that are believed beside those of the system: a file with PEM, as seen in the sandbox.
    pub ca_file: Option<PathBuf>,
    /// The port of the spoke's own 127.0.0.1 at which the hub says what token to send, if the user has logged in.
    #[serde(default)]
    pub tokens: Option<u16>,
    /// A step of a login, to be done instead of speaking for a client.
    #[serde(default)]
    pub errand: Option<Errand>,
}

/// How a server is spoken to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// By streamable HTTP, and where a server does not know it, by SSE.
    #[default]
    Any,
    /// By streamable HTTP (MCP 2025-03-26 and later).
    Http,
    /// By HTTP with server-sent events (MCP 2024-11-05).
    Sse,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("app", &self.app)
            .field("url", &self.url)
            .field("transport", &self.transport)
            .field("headers", &self.headers.keys())
            .field("ca_file", &self.ca_file)
            .field("tokens", &self.tokens)
            .field("errand", &self.errand)
            .finish()
    }
}
