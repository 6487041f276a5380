//! Why there is no answer of a server.

use std::fmt;

use names::BadUrl;
use reqwest::StatusCode;

use crate::challenge::Challenge;

/// Why there is no answer. The text is for the user, and quotes nothing of the server's but addresses.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// Nothing was sent.
    NoConnection(String),
    /// It ended before there was an answer: nobody knows what became of what was sent.
    Broken(String),
    /// The server wants to know who asks; what it says of that.
    Login(Challenge),
    /// The hub has no token for it.
    NoToken(String),
    /// The token that it was sent is not for this; the scopes that it names.
    Scope(String),
    /// The server answers from elsewhere.
    Redirect(String),
    /// The server refuses.
    Status(StatusCode),
    /// What it sends is nothing that the protocol knows.
    Form(&'static str),
    /// What it sends is longer than this.
    TooLong(usize),
    /// The settings cannot be used.
    Settings(String),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoConnection(why) => write!(f, "no connection: {why}"),
            Self::Broken(why) => write!(f, "the connection broke: {why}"),
            Self::Login(_) => f.write_str("it wants a token (HTTP 401)"),
            Self::NoToken(why) => write!(f, "there is no token for it: {why}"),
            Self::Scope(scopes) => write!(
                f,
                "the login is not for this (HTTP 403); it would have to be for: {scopes}"
            ),
            Self::Redirect(to) => write!(
                f,
                "it redirects to {to}, which is not followed; if you mean that address, write it as the url"
            ),
            Self::Status(status) => write!(f, "it answers with HTTP {status}"),
            Self::Form(why) => write!(f, "it breaks the protocol: {why}"),
            Self::TooLong(max) => write!(f, "it sends a message of more than {max} bytes"),
            Self::Settings(why) => f.write_str(why),
        }
    }
}

impl From<BadUrl> for Trouble {
    fn from(error: BadUrl) -> Self {
        Self::Settings(error.to_string())
    }
}
