//! The steps of a login: what the hub asks for, and what it gets back.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The one tool of a process that does a step.
pub const TOOL: &str = "log_in";

/// A step of a login, for which the origin of [`crate::Settings::url`] is asked.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum LoginStep {
    /// Ask an MCP server who gives out tokens for it.
    Discover,
    /// Ask an authorization server what it is, and what this client is called there.
    Register {
        /// The client's name there, if the user has one; otherwise it registers.
        client: Option<String>,
        /// Whether the user has a secret of that client, too.
        has_secret: bool,
        /// Where the user comes back to.
        redirect: String,
        /// What the tokens are to be for.
        scopes: Vec<String>,
    },
    /// Ask an authorization server for tokens.
    Token {
        /// Where.
        endpoint: String,
        /// The form that is sent.
        form: Vec<(String, String)>,
        /// Credentials of the scheme `Basic` (RFC 7617) that go along, where the client authenticates by them.
        basic: Option<String>,
    },
}

impl fmt::Debug for LoginStep {
    /// A form holds secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Discover => "Discover",
            Self::Register { .. } => "Register",
            Self::Token { .. } => "Token",
        })
    }
}

/// The result of a step.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Report {
    /// Of [`LoginStep::Discover`].
    Discovered(Discovery),
    /// Of [`LoginStep::Register`].
    Registered(Registration),
    /// Of [`LoginStep::Token`].
    Granted(Granted),
    /// The authorization server refuses, with a code of RFC 6749 §5.2 or RFC 7591 §3.2.2.
    Refused(String),
}

/// Whether this is a code of an error, which can be shown as it is.
pub fn is_code(text: &str) -> bool {
    let of_code = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    (1..=64).contains(&text.len()) && text.bytes().all(of_code)
}

/// Who gives out tokens for a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Discovery {
    /// What tokens are to be for (RFC 8707): the server, as it calls itself.
    pub resource: String,
    /// The authorization servers. At least one.
    pub issuers: Vec<String>,
    /// The scopes that it asks for.
    pub scopes: Vec<String>,
}

/// How a client authenticates where it asks for tokens, by the names of RFC 7591 §2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuthMethod {
    /// No authentication: the client states its name only, and PKCE (RFC 7636) shows that the code is for it.
    None,
    /// By a secret in the form.
    ClientSecretPost,
    /// By a secret in the header.
    ClientSecretBasic,
}

/// An authorization server, and this client there.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Registration {
    /// Its name, as it writes it itself: so it says who it is when the user comes back (RFC 9207).
    pub issuer: String,
    /// Where the user says yes.
    pub authorization: String,
    /// Where tokens are.
    pub tokens: String,
    /// What this client is called.
    pub client: String,
    /// How it authenticates.
    pub method: AuthMethod,
    /// The secret that it got when it registered.
    pub secret: Option<String>,
    /// Whether it says who it is when the user comes back (RFC 9207).
    pub says_who: bool,
}

/// Tokens.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Granted {
    /// The access token, which the server is sent.
    pub access: String,
    /// The refresh token, by which the next access token is asked for.
    pub refresh: Option<String>,
    /// For how many seconds the access token is valid, if the server says so.
    pub seconds: Option<u64>,
}
