//! The writers of results.

use std::fmt;

/// The writer of a part of a result, as the user's rules tell it: a sender, the host of a page, the folder of a file, an
/// issue. Two are the same only to the byte, so a name with a letter that looks alike is another one.
///
/// `Debug` does not show the name, which is as secret as the result.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Writer {
    /// The app whose rules name it.
    pub app: String,
    /// The tool whose results it wrote. A member of the same name can mean something else in results of another tool.
    pub tool: String,
    /// The member or the arguments by which it is known: `sender`, `host of url`.
    pub by: String,
    /// Its name there.
    pub value: String,
}

/// In words for the user, not escaped.
impl fmt::Display for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            tool, by, value, ..
        } = self;
        match by.is_empty() {
            true => write!(f, "{tool} with {value}"),
            false => write!(f, "{by} {value} (results of {tool})"),
        }
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Writer({}, {:?})", self.tool, self.by)
    }
}
