//! Why there is no answer of a server.

use names::BadUrl;
use reqwest::StatusCode;

use crate::challenge::Challenge;

/// Scopes that are shown. A call takes one or two.
const MOST_SCOPES: usize = 8;

/// Why there is no answer. The text is for the user, and quotes nothing of the server's but addresses.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    /// Nothing was sent.
    #[error("no connection: {0}")]
    NoConnection(String),
    /// The connection ended before the answer: the request may have been carried out.
    #[error("the connection broke: {0}")]
    Broken(String),
    /// The server wants to know who asks; what it says of that.
    #[error("it wants a token (HTTP 401)")]
    Login(Challenge),
    #[error("there is no token for it: {0}")]
    NoToken(String),
    /// The token that it was sent is not for this; the scopes that it names.
    #[error("the login is not for this (HTTP 403); it would have to be for: {}", quoted(.0))]
    Scope(Vec<String>),
    #[error(
        "it redirects to {0}, which is not followed; if you mean that address, write it as the url"
    )]
    Redirect(String),
    #[error("it answers with HTTP {0}")]
    Status(StatusCode),
    /// What it sends is nothing that the protocol knows.
    #[error("it breaks the protocol: {0}")]
    Form(&'static str),
    #[error("it sends a message of more than {0} bytes")]
    TooLong(usize),
    #[error("{0}")]
    Settings(String),
}

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
