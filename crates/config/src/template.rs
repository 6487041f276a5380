//! Texts with references to variables of the user's environment: `${NAME}`, and `${NAME:-DEFAULT}`.

use std::borrow::Cow;
use std::fmt;

/// A piece of a text.
#[derive(Clone, PartialEq, Eq)]
pub enum Piece {
    /// Literal text. In files of other programs it may be a secret.
    Text(String),
    /// `secret:NAME`, in headers: a secret that the user has set, for one origin.
    Secret(String),
    /// `${NAME}` or `${NAME:-DEFAULT}`: a variable of the user's environment, and its value if it is not set.
    Variable(String, Option<String>),
    /// `${KIND:NAME}`: a value that only the program knows to which the file belongs.
    Foreign(String),
}

impl fmt::Debug for Piece {
    /// Text may be a secret; only its length is shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "{} bytes", text.len()),
            Self::Secret(name) => write!(f, "secret:{name}"),
            Self::Variable(name, _) | Self::Foreign(name) => write!(f, "${{{name}}}"),
        }
    }
}

impl fmt::Display for Piece {
    /// Why it has no value: the rest of a sentence about what it is a part of.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name, _) => {
                write!(f, "needs the variable {name}, which is not set; export it")
            }
            other => write!(f, "uses {other:?}, which only another program can fill in"),
        }
    }
}

/// The pieces of a text, in their order.
///
/// # Errors
/// A reference has no end.
pub fn pieces(text: &str) -> Result<Vec<Piece>, &'static str> {
    let (mut pieces, mut rest) = (Vec::new(), text);
    while let Some((before, after)) = rest.split_once("${") {
        let (inside, after) = after.split_once('}').ok_or("'${' has no '}' after it")?;
        pieces.extend([Piece::Text(before.to_owned()), variable(inside)]);
        rest = after;
    }
    pieces.push(Piece::Text(rest.to_owned()));
    pieces.retain(|piece| !matches!(piece, Piece::Text(text) if text.is_empty()));
    Ok(pieces)
}

fn variable(inside: &str) -> Piece {
    // Some programs write `${env:NAME}`, others `${NAME}`.
    let reference = inside.strip_prefix("env:").unwrap_or(inside);
    let (name, default) = match reference.split_once(":-") {
        Some((name, default)) => (name, Some(default.to_owned())),
        None => (reference, None),
    };
    match is_name(name) {
        true => Piece::Variable(name.to_owned(), default),
        false => Piece::Foreign(inside.to_owned()),
    }
}

/// Whether a variable that is referred to can have this name, of at most 128 letters, digits and `_`.
pub(crate) fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    (1..=128).contains(&name.len()) && name.bytes().all(allowed)
}

/// A text with the values of its variables; one whose references do not end is taken literally.
///
/// # Errors
/// The piece that has no value.
pub fn filled_in(text: &str, look: impl Fn(&str) -> Option<String>) -> Result<String, Piece> {
    let Ok(pieces) = pieces(text) else {
        return Ok(text.to_owned());
    };
    let value = |piece| match piece {
        Piece::Text(text) => Ok(text),
        Piece::Variable(name, default) => {
            let value = look(&name).or_else(|| default.clone());
            value.ok_or(Piece::Variable(name, default))
        }
        other => Err(other),
    };
    pieces.into_iter().map(value).collect()
}

/// The variable of the app that an entry of `env_from` sets, and the text of its value: `NAME` stands for `NAME=${NAME}`.
#[must_use]
pub fn from_environment(entry: &str) -> (&str, Cow<'_, str>) {
    match entry.split_once('=') {
        Some((name, text)) => (name, Cow::from(text)),
        None => (entry, Cow::from(format!("${{{entry}}}"))),
    }
}
