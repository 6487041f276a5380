//! Names of apps, functionalities, tools and data items.

use std::fmt;

/// Longest name, in bytes: a question that shows it must fit a screen.
const MAX_BYTES: usize = 256;

/// The name of an app, a functionality, a tool or a data item: 1 to 256 bytes without control
/// characters, compared byte by byte.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(String);

/// A text that is no [`Name`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a name has 1 to {MAX_BYTES} bytes and no control characters")]
pub struct BadName;

impl Name {
    /// Makes a name of a text.
    ///
    /// # Errors
    /// The text is empty, too long or has control characters.
    pub fn new(name: impl Into<String>) -> Result<Self, BadName> {
        let name = name.into();
        let good = (1..=MAX_BYTES).contains(&name.len()) && !name.chars().any(char::is_control);
        good.then_some(Self(name)).ok_or(BadName)
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_bounds_and_no_control_characters() {
        for bad in ["", "a\nb", "\u{85}", &"a".repeat(MAX_BYTES + 1)] {
            assert_eq!(Name::new(bad), Err(BadName), "{bad:?}");
        }
        assert!(Name::new("a".repeat(MAX_BYTES)).is_ok());
    }
}
