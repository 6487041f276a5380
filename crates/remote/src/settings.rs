//! What the program is told by the hub when it is started.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::step::LoginStep;

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
    /// Headers of every request to that address's origin. Their values may be secrets.
    pub headers: BTreeMap<String, String>,
    /// Certificates that are believed beside those of the system: a file with PEM, as seen in the sandbox.
    pub ca_file: Option<PathBuf>,
    /// The port of the spoke's own 127.0.0.1 at which the hub says what token to send, if the user has logged in.
    #[serde(default)]
    pub tokens: Option<u16>,
    /// A step of a login, to be done instead of speaking for a client.
    #[serde(default)]
    pub step: Option<LoginStep>,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("app", &self.app)
            .field("url", &self.url)
            .field("headers", &self.headers.keys())
            .field("ca_file", &self.ca_file)
            .field("tokens", &self.tokens)
            .field("step", &self.step)
            .finish()
    }
}
