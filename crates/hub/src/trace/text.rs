//! Text in a trace.

use std::fmt;
use std::ops::Deref;

use ifc::Labeled;
use serde::{Deserialize, Serialize};

/// Text that a user, a model, an app or a provider wrote, or that may quote one.
///
/// It is for the readers of the trace: no decision depends on it. `Debug` shows its length only, so that it does not get
/// into a log.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Text(String);

impl Text {
    /// The words of labelled text. Its label goes into the same event.
    pub fn reveal_tcb(text: &Labeled) -> Self {
        Self(text.reveal_tcb().to_owned())
    }

    /// The file that could not be written, if an error of Node, Python, Go or a shell says so.
    #[must_use]
    pub fn unwritten(error: &str) -> Option<Self> {
        const WORDS: [&str; 4] = ["EROFS", "EACCES", "[Errno 13]", "ead-only file system"];
        WORDS.iter().find(|word| error.contains(*word))?;
        let is_path = |word: &&str| word.len() > 1 && word.starts_with('/');
        let path = error.split(['\'', '"']).find(is_path);
        let path = path.or_else(|| error.split([' ', ':', '\n']).find(is_path))?;
        Some(path.into())
    }

    /// What was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Text({} bytes)", self.0.len())
    }
}
