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

    /// The file that could not be written, or the service on loopback that could not be connected to, if an error of Node,
    /// Python, Go or a shell says so.
    #[must_use]
    pub fn refused(error: &str) -> Option<Self> {
        const WORDS: [&str; 4] = ["EROFS", "EACCES", "[Errno 13]", "ead-only file system"];
        const UNCONNECTED: [&str; 4] = ["EACCES", "REFUSED", " refused", "ermission denied"];
        let says = |words: &[&str]| words.iter().any(|word| error.contains(word));
        let service = Self::service(error).filter(|_| says(&UNCONNECTED));
        if service.is_some() || !says(&WORDS) {
            return service.map(Self);
        }
        let is_path = |word: &&str| word.len() > 1 && word.starts_with('/');
        let path = error.split(['\'', '"']).find(is_path);
        let path = path.or_else(|| error.split([' ', ':', '\n']).find(is_path))?;
        Some(path.into())
    }

    /// A service on loopback that a text names, as `127.0.0.1:5432`: the text may have `localhost:5432`,
    /// `"127.0.0.1", port 5432` or `--host ::1 --port 5432`.
    #[must_use]
    pub fn service(text: &str) -> Option<String> {
        // Longer than the words between the two.
        const FAR: usize = 12;
        let find = |host: &str| {
            let mut parts = text.split(host);
            let mut before = parts.next()?;
            for after in parts {
                let is_part = before.ends_with(|c: char| c.is_alphanumeric() || ".-:".contains(c));
                let digit = after.find(|c: char| c.is_ascii_digit());
                let (gap, number) = after.split_at(digit.unwrap_or(after.len()));
                let number = number.split(|c: char| !c.is_ascii_digit()).next()?;
                let is_near = matches!(gap, ":" | "]:")
                    || gap.len() <= FAR && gap.to_lowercase().contains("port");
                let port = number.parse().unwrap_or(0_u16);
                if port != 0 && is_near && !is_part {
                    return Some(format!("{host}:{port}").replace("::1:", "[::1]:"));
                }
                before = after;
            }
            None
        };
        ["127.0.0.1", "localhost", "::1"].into_iter().find_map(find)
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
