//! The errors of a tool that are its own words.

use ifc::{Arguments, Labeled};
use serde_json::Value;

/// Most digits of a number in an error. With more a stranger could choose what it names.
const MAX_DIGITS: usize = 5;

/// An error that the tool writes itself: `no file {path}`, `timeout after {#} s`.
///
/// `{NAME}` is the value of this argument of the call, whose label the result has in any case, and `{#}` a number of at most
/// five digits. All else is literal, so the error says one of a few things, as a value of [`Form::OneOf`](super::Form).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorText(String);

impl ErrorText {
    /// The error of this pattern.
    #[must_use]
    pub fn new(pattern: impl Into<String>) -> Self {
        Self(pattern.into())
    }

    /// The arguments that it names.
    pub fn arguments(&self) -> impl Iterator<Item = &str> {
        let parts = self.0.split('{').skip(1);
        let names = parts.filter_map(|part| Some(part.split_once('}')?.0));
        // Other braces are literal, as in a text that is JSON.
        let is_word = |name: &&str| {
            name.chars()
                .all(|c| c.is_alphanumeric() || c == '_' || c == '-')
        };
        names.filter(is_word)
    }

    /// Whether a text is this error of a call with these arguments. Blanks around it do not count.
    pub(super) fn matches(&self, arguments: &Arguments, text: &str) -> bool {
        let mut pattern = self.0.as_str();
        let mut text = text.trim();
        while let Some((literal, rest)) = pattern.split_once('{') {
            let Some(after) = text.strip_prefix(literal) else {
                return false;
            };
            let placeholder = rest.split_once('}').and_then(|(name, rest)| {
                let length = match name {
                    "#" => digits(after),
                    name => written(arguments, name)
                        .map(|value| after.starts_with(&value).then_some(value.len()))?,
                };
                Some((length, rest))
            });
            match placeholder {
                Some((Some(length), rest)) => {
                    (pattern, text) = (rest, after.get(length..).unwrap_or_default());
                }
                Some((None, _)) => return false,
                // A brace that begins no placeholder is literal.
                None => match after.strip_prefix('{') {
                    Some(after) => (pattern, text) = (rest, after),
                    None => return false,
                },
            }
        }
        pattern == text
    }
}

/// The length of the number at the beginning of a text.
fn digits(text: &str) -> Option<usize> {
    let count = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    (1..=MAX_DIGITS).contains(&count).then_some(count)
}

/// The value of an argument as a tool writes it: the text of a string, and JSON of anything else.
fn written(arguments: &Arguments, name: &str) -> Option<String> {
    let json = arguments.get(name).map(Labeled::reveal_tcb)?;
    Some(match serde_json::from_str(json) {
        Ok(Value::String(text)) => text,
        _ => json.to_owned(),
    })
}
