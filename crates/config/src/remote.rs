//! `url` of an app: a remote server, and the headers of its requests.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use names::WebUrl;

use crate::template::{Piece, pieces};
use crate::toml_reader::Table;

/// A remote server, reached over HTTP from a spoke.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    /// Its address.
    pub url: WebUrl,
    /// Headers of every request, by their names in lower case.
    pub headers: BTreeMap<String, Header>,
    /// Addresses that its name may resolve to although they are not public.
    pub addresses: Vec<IpAddr>,
    /// A PEM file of certificates to trust beside the system's, absolute.
    pub ca_file: Option<PathBuf>,
}

/// The value of a header, in pieces.
#[derive(Clone, PartialEq, Eq)]
pub struct Header(Vec<Piece>);

/// The prefix of a secret's name.
pub(crate) const SECRET: &str = "secret:";
/// Longest name of a secret.
const MAX_NAME: usize = 64;
/// The port of a spoke's resolver.
const RESOLVER: u16 = 53;
/// Headers that the protocol sets, or HTTP.
const RESERVED: [&str; 11] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "host",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "transfer-encoding",
];
/// The prefix of headers that the protocol makes of arguments.
const OF_ARGUMENTS: &str = "mcp-param-";
/// Parts of the names of headers whose values are secrets.
const SENSITIVE: [&str; 5] = ["auth", "cookie", "key", "secret", "token"];

impl Header {
    /// Reads a value.
    ///
    /// # Errors
    /// What is wrong with it. The value is not quoted.
    pub(crate) fn read(text: &str) -> Result<Self, &'static str> {
        // A line break would begin another header; bytes beyond ASCII have no agreed meaning (RFC 9110 §5.5).
        if !text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
            return Err("a header value may have printable ASCII only");
        }
        // Variables first: a secret's name reaches to the end of the value.
        let mut pieces = pieces(text)?;
        let Some(Piece::Text(rest)) = pieces.pop_if(|last| matches!(last, Piece::Text(_))) else {
            return Ok(Self(pieces));
        };
        match rest.split_once(SECRET) {
            // Only as a word of its own.
            Some((before, name)) if before.is_empty() || before.ends_with(' ') => {
                if !is_secret_name(name) {
                    return Err(
                        "after 'secret:' write a name of at most 64 letters, digits, '-' and '_', and nothing else",
                    );
                }
                pieces.push(Piece::Text(before.to_owned()));
                pieces.push(Piece::Secret(name.to_owned()));
            }
            _ => pieces.push(Piece::Text(rest)),
        }
        pieces.retain(|piece| !matches!(piece, Piece::Text(text) if text.is_empty()));
        Ok(Self(pieces))
    }

    /// Its pieces, in their order.
    pub fn pieces(&self) -> &[Piece] {
        &self.0
    }

    fn is_literal(&self) -> bool {
        self.0.iter().all(|piece| matches!(piece, Piece::Text(_)))
    }

    /// The value as it was written.
    fn text(&self) -> String {
        let piece = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Secret(name) => format!("{SECRET}{name}"),
            Piece::Variable(name, Some(default)) => format!("${{{name}:-{default}}}"),
            Piece::Variable(name, None) | Piece::Foreign(name) => format!("${{{name}}}"),
        };
        self.0.iter().map(piece).collect()
    }
}

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.0).finish()
    }
}

/// Whether a secret can have this name.
#[must_use]
pub fn is_secret_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(allowed)
}

/// The name of a header in lower case, or why it cannot be set.
fn header_name(name: &str) -> Result<String, &'static str> {
    let name = name.to_ascii_lowercase();
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if name.is_empty() || !name.bytes().all(allowed) {
        return Err("has an invalid name");
    }
    match RESERVED.contains(&&*name) || name.starts_with(OF_ARGUMENTS) {
        true => Err("is set by the protocol"),
        false => Ok(name),
    }
}

impl Remote {
    /// A server with an address alone.
    ///
    /// # Errors
    /// Why a spoke cannot connect there, and how to correct it.
    pub(crate) fn at(url: &str) -> Result<Self, String> {
        let url = WebUrl::new(url).map_err(|error| error.to_string())?;
        if url.port() == RESOLVER {
            return Err("port 53 is where a spoke asks for names; choose another port".to_owned());
        }
        Ok(Self {
            url,
            headers: BTreeMap::new(),
            addresses: Vec::new(),
            ca_file: None,
        })
    }

    /// A text that differs for different servers. It is only hashed.
    pub(crate) fn identity(&self) -> String {
        // Names every field, so that a new one cannot be forgotten.
        let Self {
            url,
            headers,
            addresses,
            ca_file,
        } = self;
        let headers: Vec<_> = headers.iter().map(|(n, v)| (n, v.text())).collect();
        format!("{:?}", (url.as_str(), headers, addresses, ca_file))
    }
}

/// `url` and the keys that belong to it. `None` without a url, or after an error.
pub(crate) fn remote(table: &Table<'_>) -> Option<Remote> {
    let url = table.string("url");
    let addresses = table.addresses();
    let ca_file = table.string("ca_file");
    let ca_file = ca_file.map(|file| table.context.file.absolute(file.value));
    let written = table.named_strings("headers");
    let headers = written
        .iter()
        .map(|(name, value)| (name.value, value.value));
    // At the table, not at the header: its line would be shown, with a value that may be a secret.
    let refuse = |message: String, help: &str| table.wrong(message, help);
    let headers = read_headers(headers, false, refuse);
    let Some(url) = url else {
        for key in ["headers", "addresses", "ca_file"] {
            if table.has(key) && !table.has("url") {
                let help = "add url = \"https://…\", or leave it out";
                table.wrong(format!("'{key}' is about a server with a url"), help);
            }
        }
        return None;
    };
    match Remote::at(url.value) {
        Ok(at) => Some(Remote {
            headers,
            addresses,
            ca_file,
            ..at
        }),
        Err(why) => {
            let message = "the url is not the address of a server that can be asked";
            table.error(&url.span, message, why);
            None
        }
    }
}

/// Reads headers. `refuse` gets the message and the help for each wrong one, without its value.
pub(crate) fn read_headers<'h>(
    written: impl IntoIterator<Item = (&'h str, &'h str)>,
    literal_secrets: bool,
    refuse: impl Fn(String, &str),
) -> BTreeMap<String, Header> {
    let mut headers = BTreeMap::new();
    for (name, value) in written {
        match (header_name(name), Header::read(value)) {
            (Err(why), _) => refuse(format!("the header '{name}' {why}"), "leave it out"),
            (_, Err(why)) => refuse(format!("the header '{name}' cannot be sent"), why),
            (Ok(known), Ok(header)) => {
                let sensitive = SENSITIVE.iter().any(|part| known.contains(part));
                if sensitive && !literal_secrets && header.is_literal() {
                    let help = "run `sluice secret set NAME --for URL`, and write \"secret:NAME\", or \"Bearer secret:NAME\"";
                    refuse(format!("the header '{name}' holds a secret"), help);
                }
                // Two names that differ in case are one header.
                if headers.insert(known, header).is_some() {
                    let message = format!("the header '{name}' is written twice");
                    refuse(message, "leave one out");
                }
            }
        }
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_put_together_of_text_secrets_and_variables() {
        let text = |text: &str| Piece::Text(text.to_owned());
        let secret = |name: &str| Piece::Secret(name.to_owned());
        let variable = |name: &str| Piece::Variable(name.to_owned(), None);
        for (written, expected) in [
            ("plain", vec![text("plain")]),
            ("secret:github", vec![secret("github")]),
            (
                "Bearer secret:a-b_1",
                vec![text("Bearer "), secret("a-b_1")],
            ),
            ("nosecret:x", vec![text("nosecret:x")]),
            ("Bearer ${TOKEN}", vec![text("Bearer "), variable("TOKEN")]),
            (
                "${env:A}-${B}",
                vec![variable("A"), text("-"), variable("B")],
            ),
            (
                "${input:token}",
                vec![Piece::Foreign("input:token".to_owned())],
            ),
            ("", vec![]),
        ] {
            let read = Header::read(written).unwrap();
            assert_eq!(read.pieces(), expected, "{written}");
        }
        for wrong in [
            "secret:",
            "secret:a b",
            "secret:ü",
            "a\nb",
            "${A",
            "x\u{7f}",
        ] {
            assert!(Header::read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn no_value_is_shown_by_debug() {
        let header = Header::read("Bearer abc123").unwrap();
        assert!(!format!("{header:?}").contains("abc"));
    }
}
