//! Why there is no answer of a server.

use std::fmt;

use names::BadUrl;
use reqwest::StatusCode;

use crate::challenge::Challenge;

/// Scopes that are shown. A call takes one or two.
const MOST_SCOPES: usize = 8;

/// Why there is no answer. The text is for the user, and quotes nothing of the server's but addresses.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// Nothing was sent.
    NoConnection(String),
    /// The connection ended before the answer: the request may have been carried out.
    Broken(String),
    /// The server wants to know who asks; what it says of that.
    Login(Challenge),
    /// The hub has no token for it.
    NoToken(String),
    /// The token that it was sent is not for this; the scopes that it names.
    Scope(Vec<String>),
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
                "the login is not for this (HTTP 403); it would have to be for: {}",
                quoted(scopes)
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

impl std::error::Error for Trouble {}

impl Trouble {
    /// Whether what was asked for was certainly not done: the server may be asked again. What a gateway says of a server
    /// that it lost is no refusal.
    pub(crate) fn is_refusal(&self) -> bool {
        match self {
            Self::NoConnection(_) | Self::Redirect(_) | Self::Scope(_) => true,
            Self::Status(status) => !status.is_server_error(),
            _ => false,
        }
    }
}

/// Scopes, each in quotes, which none has in it: with blanks alone between them they could be a sentence.
fn quoted(scopes: &[String]) -> String {
    let shown = scopes.iter().take(MOST_SCOPES);
    let shown: Vec<String> = shown.map(|scope| format!("\"{scope}\"")).collect();
    let more = match scopes.len().saturating_sub(MOST_SCOPES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    shown.join(", ") + &more
}

impl From<BadUrl> for Trouble {
    fn from(error: BadUrl) -> Self {
        Self::Settings(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// They have no quotes in them, and no blanks.
    #[test]
    fn scopes_make_no_sentence_of_ours() {
        let scopes = |text: &str| Trouble::Scope(text.split(' ').map(str::to_owned).collect());
        let text = scopes("files; run `evil`").to_string();
        assert!(
            text.ends_with(r#"for: "files;", "run", "`evil`""#),
            "{text}"
        );
        let many = scopes("scope ".repeat(MOST_SCOPES + 2).trim_end()).to_string();
        assert!(many.ends_with(r#""scope" and 2 more"#), "{many}");
    }
}
