//! Why a file of the store cannot be used.

use std::io;
use std::path::{Path, PathBuf};

/// Why a file of the store cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {fault}", path.display())]
pub struct DatabaseError {
    /// The file or folder.
    pub path: PathBuf,
    /// What is wrong with it, and a remedy.
    pub fault: DatabaseFault,
}

/// What is wrong with a file of the store, and a remedy.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseFault {
    /// Other users could read or replace the file, or it is not a plain file: why, and the remedy.
    #[error("{0}; {1}")]
    Unsafe(&'static str, String),
    /// The file system failed.
    #[error("{0}; check the path, its permissions and the free space")]
    Io(io::Error),
    /// A newer version of Sluice wrote the file.
    #[error(
        "its schema is version {found}, and this program knows version {known}; use the newer program, or move the file away to begin with an empty one"
    )]
    Newer {
        /// Its version.
        found: i32,
        /// Ours.
        known: i32,
    },
    /// The file is not one of ours.
    #[error("this is another program's database; choose another path")]
    Foreign,
    /// The file is damaged, in SQLite's words.
    #[error(
        "the file is damaged ({0}); restore it from a backup, or save what is left with `sqlite3 FILE .recover` and move it away, its -wal and -shm included, to begin with an empty one"
    )]
    Corrupt(String),
    /// Another process holds the write lock for too long.
    #[error("another process is writing and does not finish; end it, or try again")]
    Busy,
    /// Another connection reads a state of the file from before a deletion.
    #[error(
        "another program reads an older state of the file, so deleted text is still in its log; it goes with the next deletion or start after that program has finished"
    )]
    Read,
    /// SQLite failed otherwise.
    #[error("{0}; check the free space and that the file can be written")]
    Sqlite(rusqlite::Error),
}

impl DatabaseFault {
    pub(super) fn of(self, path: &Path) -> DatabaseError {
        let path = path.to_owned();
        DatabaseError { path, fault: self }
    }
}
