//! Text that an app wrote, kept apart from our own.

use serde::{Deserialize, Deserializer, Serialize};

use crate::limits::MAX_QUOTE_BYTES;

/// At most [`MAX_QUOTE_BYTES`] of text whose author is the app: the end of its stderr, the message
/// of an error answer, a schema's words, the names of its tools. Before a model sees it, it is labelled like any other
/// output of that app; before a person sees it, it is escaped.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(transparent)]
pub struct Quote(String);

impl Quote {
    /// Keeps the first bytes of a text.
    pub fn head(text: &str) -> Self {
        Self(head(text, MAX_QUOTE_BYTES).to_owned())
    }

    /// Keeps the last bytes of a text, which is where a crash says its cause.
    pub fn tail(text: &str) -> Self {
        let start = text.ceil_char_boundary(text.len().saturating_sub(MAX_QUOTE_BYTES));
        Self(text.get(start..).unwrap_or_default().to_owned())
    }

    /// The text as the app wrote it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether there is any text.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'de> Deserialize<'de> for Quote {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        // The other end makes quotes by `head` and `tail`, unless it is hijacked.
        if text.len() > MAX_QUOTE_BYTES {
            return Err(serde::de::Error::custom("quote too long"));
        }
        Ok(Self(text))
    }
}

/// The longest prefix of `text` of at most `limit` bytes that ends between two characters.
pub fn head(text: &str, limit: usize) -> &str {
    text.get(..text.floor_char_boundary(limit))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_are_cut_between_characters() {
        let text = "é".repeat(MAX_QUOTE_BYTES);
        let odd = format!("x{text}y");
        for quote in [
            Quote::head(&text),
            Quote::tail(&text),
            Quote::head(&odd),
            Quote::tail(&odd),
        ] {
            assert!(quote.as_str().len() <= MAX_QUOTE_BYTES);
            assert!(quote.as_str().len() >= MAX_QUOTE_BYTES - 1);
        }
        assert!(Quote::tail(&odd).as_str().ends_with('y'));
        assert!(Quote::head(&odd).as_str().starts_with('x'));
        assert_eq!(Quote::head("short").as_str(), "short");
        assert_eq!(Quote::tail("short").as_str(), "short");
    }

    #[test]
    fn a_longer_quote_is_not_accepted_from_the_other_end() {
        let json = serde_json::to_string(&"x".repeat(MAX_QUOTE_BYTES + 1)).unwrap();
        assert!(serde_json::from_str::<Quote>(&json).is_err());
        let json = serde_json::to_string(&"x".repeat(MAX_QUOTE_BYTES)).unwrap();
        assert!(serde_json::from_str::<Quote>(&json).is_ok());
    }
}
