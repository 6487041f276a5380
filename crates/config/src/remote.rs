//! `url` of an app: a server that is not started here, and what is said to it.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use names::WebUrl;

use crate::toml_reader::Table;

/// A server that an app is, reached over HTTP from a spoke.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    /// Its address.
    pub url: WebUrl,
    /// Headers of every request, by their names in lower case.
    pub headers: BTreeMap<String, Header>,
    /// Addresses that its name may stand for although they are not public.
    pub addresses: Vec<IpAddr>,
    /// Certificates that are believed beside the system's: a file with PEM, absolute.
    pub ca_file: Option<PathBuf>,
}

/// The value of a header, before it is put together.
#[derive(Clone, PartialEq, Eq)]
pub struct Header(Vec<Piece>);

/// A piece of a header.
#[derive(Clone, PartialEq, Eq)]
pub enum Piece {
    /// As it is. In files of other programs it may be a secret all the same.
    Text(String),
    /// `secret:NAME`: a secret that the user has set, for one origin.
    Secret(String),
    /// `${NAME}`: a variable of the user's environment.
    Variable(String),
    /// `${KIND:NAME}`: what only the program knows to which the file belongs.
    Foreign(String),
}

/// How a secret is named.
const SECRET: &str = "secret:";
/// Longest name of a secret.
const MAX_NAME: usize = 64;
/// Where a spoke's resolver listens.
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
/// What the names of headers begin with that the protocol makes of arguments.
const OF_ARGUMENTS: &str = "mcp-param-";
/// Parts of names of headers whose values are secrets.
const SENSITIVE: [&str; 5] = ["auth", "cookie", "key", "secret", "token"];

impl Header {
    /// Reads a value.
    ///
    /// # Errors
    /// What is wrong with it. The value is not quoted.
    pub(crate) fn read(text: &str) -> Result<Self, &'static str> {
        // A line break would begin another header, and bytes beyond ASCII have no agreed meaning (RFC 9110 §5.5).
        if !text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
            return Err("a header has visible letters of ASCII only");
        }
        let mut pieces = Vec::new();
        let mut rest = text;
        // Variables first: a secret reaches to the end, so it can only stand behind them.
        while let Some((before, after)) = rest.split_once("${") {
            let (inside, after) = after
                .split_once('}')
                .ok_or("there is '${' without '}' after it")?;
            pieces.push(Piece::Text(before.to_owned()));
            pieces.push(variable(inside));
            rest = after;
        }
        let secret = match rest.find(SECRET) {
            // A word of its own, so that no word which ends so is one.
            Some(at)
                if rest
                    .get(..at)
                    .is_some_and(|b| b.is_empty() || b.ends_with(' ')) =>
            {
                rest.get(at + SECRET.len()..).map(|name| (at, name))
            }
            _ => None,
        };
        if let Some((at, name)) = secret {
            if !is_secret_name(name) {
                return Err(
                    "after 'secret:' there is a name of at most 64 letters, digits, '-' and '_', to the end",
                );
            }
            pieces.push(Piece::Text(rest.get(..at).unwrap_or_default().to_owned()));
            pieces.push(Piece::Secret(name.to_owned()));
        } else {
            pieces.push(Piece::Text(rest.to_owned()));
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

    /// As it is written.
    fn text(&self) -> String {
        let piece = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Secret(name) => format!("{SECRET}{name}"),
            Piece::Variable(name) => format!("${{{name}}}"),
            Piece::Foreign(text) => format!("${{{text}}}"),
        };
        self.0.iter().map(piece).collect()
    }
}

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.0).finish()
    }
}

impl fmt::Debug for Piece {
    /// Text may be a secret, and is only counted.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "{} bytes", text.len()),
            Self::Secret(name) => write!(f, "{SECRET}{name}"),
            Self::Variable(name) | Self::Foreign(name) => write!(f, "${{{name}}}"),
        }
    }
}

/// Whether a secret can have this name.
#[must_use]
pub fn is_secret_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(allowed)
}

fn variable(inside: &str) -> Piece {
    // Some programs write `${env:NAME}`, others `${NAME}`.
    let name = inside.strip_prefix("env:").unwrap_or(inside);
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    match !name.is_empty() && name.bytes().all(allowed) {
        true => Piece::Variable(name.to_owned()),
        false => Piece::Foreign(inside.to_owned()),
    }
}

/// The name of a header in lower case, if it can be set.
///
/// # Errors
/// Why it cannot.
pub(crate) fn header_name(name: &str) -> Result<String, String> {
    let name = name.to_ascii_lowercase();
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if name.is_empty() || !name.bytes().all(allowed) {
        return Err("is no name of a header".to_owned());
    }
    match RESERVED.contains(&&*name) || name.starts_with(OF_ARGUMENTS) {
        true => Err("is set by the protocol".to_owned()),
        false => Ok(name),
    }
}

impl Remote {
    /// A server of which only the address is known.
    ///
    /// # Errors
    /// Why a spoke cannot ask a server there, and what would be right.
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

    /// Everything that makes it this server, in one text that is only hashed.
    pub(crate) fn identity(&self) -> String {
        // Names every field, so that a new one cannot be left out.
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

/// `url` and what belongs to it. `None` without one, or after an error.
pub(crate) fn remote(table: &Table<'_>) -> Option<Remote> {
    let url = table.string("url");
    // The one that is left, which files of before may name.
    let _ = table.choice("transport", &[("http", ())]);
    let addresses = table.addresses();
    let ca_file = table.string("ca_file");
    let ca_file = ca_file.map(|file| table.context.file.absolute(file.value));
    let headers = headers(table);
    let Some(url) = url else {
        for key in ["transport", "headers", "addresses", "ca_file"] {
            if table.has(key) && !table.has("url") {
                let message = format!("'{key}' is about a server with a url");
                let help = "add url = \"https://…\", or leave it out";
                table.context.error(&table.span, message, help);
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
            let message = "the url is no address of a server that can be asked";
            table.context.error(&url.span, message, why);
            None
        }
    }
}

fn headers(table: &Table<'_>) -> BTreeMap<String, Header> {
    let mut headers = BTreeMap::new();
    // Not where a header stands: the line would be shown, and a value with it.
    let wrong = |message: String, help: &str| table.context.error(&table.span, message, help);
    for (name, value) in table.named_strings("headers") {
        match (header_name(name.value), Header::read(value.value)) {
            (Err(why), _) => wrong(format!("the header '{}' {why}", name.value), "leave it out"),
            (_, Err(why)) => wrong(format!("the header '{}' cannot be sent", name.value), why),
            (Ok(known), Ok(header)) => {
                let sensitive = SENSITIVE.iter().any(|part| known.contains(part));
                if sensitive && header.is_literal() {
                    let help = "run `sluice secret set NAME --for URL`, and write \"secret:NAME\", or \"Bearer secret:NAME\"";
                    wrong(format!("the header '{}' holds a secret", name.value), help);
                }
                if headers.insert(known, header).is_some() {
                    let message = format!("the header '{}' stands there twice", name.value);
                    wrong(message, "leave one out");
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
        let variable = |name: &str| Piece::Variable(name.to_owned());
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
