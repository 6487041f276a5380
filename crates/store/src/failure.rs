//! Why the store of a service cannot be used.

use crate::DatabaseError;

/// Why the store of a service cannot be used. No message has the password of a URL.
///
/// Any of them means deny.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// PostgreSQL is down, too slow, full, or does not let us write. It may be back soon.
    #[error("the database cannot be used now: {0}")]
    Unavailable(String),
    /// PostgreSQL refused a statement, or a row of it cannot be read.
    #[error("the database failed: {0}")]
    Failed(String),
    /// A newer version of Sluice made the tables.
    #[error(
        "the tables of the database have version {found}, and this program knows version {known}; use the newer program"
    )]
    Newer {
        /// The version of the tables.
        found: i32,
        /// Ours.
        known: i32,
    },
    /// The URL is not one of PostgreSQL.
    #[error("the URL of the database is unusable: {0}; write postgres://USER:PASSWORD@HOST/NAME")]
    Url(&'static str),
    /// One text, or all of a commit, is too long, or has a NUL character.
    #[error("{0}")]
    Limit(&'static str),
    /// The SQLite file cannot be used.
    #[error(transparent)]
    Database(#[from] DatabaseError),
}

impl StateError {
    /// The same of a database at this place.
    pub(crate) fn at(self, place: &str) -> Self {
        match self {
            Self::Unavailable(why) => Self::Unavailable(format!("{place}: {why}")),
            Self::Failed(why) => Self::Failed(format!("{place}: {why}")),
            other => other,
        }
    }
}
