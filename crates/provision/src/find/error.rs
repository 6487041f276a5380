//! Errors of [`find`](super::find).

use std::io;
use std::path::{Path, PathBuf};

/// Why a command cannot be run in a spoke as it is. Each names the file and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FindError {
    /// There is no command at all.
    #[error("it has no command")]
    Empty,
    /// No folder of `PATH` has the program.
    #[error(
        "there is no program '{program}' in PATH ({path}); install it, or write its whole path"
    )]
    NotInPath {
        /// The program.
        program: String,
        /// Where it was looked for.
        path: String,
    },
    /// A file is not there.
    #[error("there is no '{}'{wanted_by}; correct the path, or install it", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
        /// Which file names it; empty for the command itself.
        wanted_by: WantedBy,
    },
    /// A file cannot be read.
    #[error("'{}' cannot be read: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        reason: String,
    },
    /// A file is neither a binary nor a script with a `#!` line, or it may not be executed.
    #[error("'{}' cannot be executed: {reason}", path.display())]
    NoProgram {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: &'static str,
    },
    /// An app may write a part of the program.
    #[error(
        "'{}' is in a folder that an app may write, and decides what that app sees; use a program outside of that folder, or leave out 'write' there", path.display()
    )]
    Writable {
        /// The file.
        path: PathBuf,
    },
    /// A place gives away more than a program or its data.
    #[error("it would have to see '{}', and {reason}; {help}", path.display())]
    TooMuch {
        /// The place.
        path: PathBuf,
        /// Why it is too much.
        reason: String,
        /// What to do.
        help: &'static str,
    },
    /// A shim that chooses a version when it is started.
    #[error("'{}' only chooses among installed versions; write the path of the real program", path.display())]
    Shim {
        /// The shim.
        path: PathBuf,
    },
    /// It needs too many places.
    #[error("it needs more than {limit} places of this machine; mount a folder that holds them")]
    TooMany {
        /// The most that are looked for.
        limit: usize,
    },
}

impl FindError {
    /// A file could not be read.
    pub(super) fn unreadable(file: &Path, error: &io::Error) -> Self {
        Self::Unreadable {
            path: file.to_owned(),
            reason: error.to_string(),
        }
    }
}

/// Which file names a missing one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WantedBy(pub Option<PathBuf>);

impl std::fmt::Display for WantedBy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Some(path) => write!(f, ", which '{}' names", path.display()),
            None => Ok(()),
        }
    }
}
