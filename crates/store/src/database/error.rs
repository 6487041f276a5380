//! Why a file of the store cannot be used.

use std::io;
use std::path::PathBuf;

/// Why a file of the store cannot be used. Each error names the file and a remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatabaseError {
    /// Other users could read or replace the file, or it is not a plain file.
    #[error("{}: {reason}; {remedy}", path.display())]
    Unsafe {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
        /// What to do.
        remedy: String,
    },
    /// The file system failed.
    #[error("{}: {error}; check the path, its permissions and the free space", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        #[source]
        error: io::Error,
    },
    /// A newer version of Sluice wrote the file.
    #[error(
        "{}: its schema is version {found}, and this program knows version {known}; use the newer program, or move the file away to begin with an empty one",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: i32,
        /// Ours.
        known: i32,
    },
    /// The file is not one of ours.
    #[error("{}: this is another program's database; choose another path", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The file is damaged.
    #[error(
        "{}: the file is damaged ({reason}); restore it from a backup, or save what is left with `sqlite3 FILE .recover` and move it away, its -wal and -shm included, to begin with an empty one",
        path.display()
    )]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// SQLite's words.
        reason: String,
    },
    /// Another process holds the write lock for too long.
    #[error("{}: another process is writing and does not finish; end it, or try again", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// Another connection reads a state of the file from before a deletion.
    #[error(
        "{}: another program reads an older state of the file, so deleted text is still in its log; it goes with the next deletion or start after that program has finished",
        path.display()
    )]
    Read {
        /// The file.
        path: PathBuf,
    },
    /// SQLite failed otherwise.
    #[error("{}: {error}; check the free space and that the file can be written", path.display())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// SQLite's reason.
        #[source]
        error: rusqlite::Error,
    },
}
