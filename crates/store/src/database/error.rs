//! What goes wrong with a file, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

/// Why a file of the store cannot be used. Each names the file and a remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatabaseError {
    /// Others than its owner could read or replace it, or it is no plain file.
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
    /// A newer version wrote it.
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
    /// It is not one of our files.
    #[error("{}: this is another program's database; choose another path", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// It is damaged.
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
    /// Somebody reads a state of it in which what was deleted is still there.
    #[error(
        "{}: another program reads an older state of it at this moment, so what was deleted is still there; it goes with the next deletion or start after that program is done",
        path.display()
    )]
    Read {
        /// The file.
        path: PathBuf,
    },
    /// An operation was broken off inside; what the connection would do next is not known.
    #[error("{}: an earlier operation was broken off; start again", path.display())]
    Broken {
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

/// What SQLite says, with the file and what to do.
pub(super) fn fault(path: &Path, error: rusqlite::Error) -> DatabaseError {
    let path = path.to_owned();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => DatabaseError::Corrupt {
            path,
            reason: error.to_string(),
        },
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => DatabaseError::Busy { path },
        _ => match error {
            // A column that does not have the type that it was declared with.
            rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::Utf8Error(..) => DatabaseError::Corrupt {
                path,
                reason: error.to_string(),
            },
            error => DatabaseError::Sqlite { path, error },
        },
    }
}

pub(super) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
    )
}
