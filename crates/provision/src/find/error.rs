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
    #[error("there is no '{}'{}; correct the path, or install it", path.display(), naming(named_by))]
    Missing {
        /// The file.
        path: PathBuf,
        /// Which file names it; none for the command itself.
        named_by: Option<PathBuf>,
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
        "'{}' is in a folder that an app may write, and decides what that app sees; use a program outside of that folder, or leave out 'write' there", .0.display()
    )]
    Writable(PathBuf),
    /// A place gives away more than a program or its data.
    #[error(
        "it would have to see '{}', and {reason}; {first}, or mount it: [[app.NAME.mount]] in sluice.toml",
        path.display()
    )]
    TooMuch {
        /// The place.
        path: PathBuf,
        /// Why it is too much.
        reason: String,
        /// The first remedy.
        first: &'static str,
    },
    /// A shim that chooses a version when it is started.
    #[error("'{}' only chooses among installed versions; write the path of the real program", .0.display())]
    Shim(PathBuf),
    /// It needs more places than this.
    #[error("it needs more than {0} places of this machine; mount a folder that holds them")]
    TooMany(usize),
}

impl FindError {
    pub(super) fn unreadable(file: &Path, error: &io::Error) -> Self {
        Self::Unreadable {
            path: file.to_owned(),
            reason: error.to_string(),
        }
    }
}

fn naming(file: &Option<PathBuf>) -> String {
    let file = file.as_ref().map(|file| file.display());
    file.map_or(String::new(), |file| format!(", which '{file}' names"))
}
