//! Why a memory refuses.

use crate::{DatabaseError, EntryId};

/// Why an operation on a memory was not done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// The file.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// The Redis server.
    #[cfg(feature = "redis")]
    #[error(transparent)]
    Redis(#[from] crate::RedisError),
    /// An entry is too long.
    #[error("a memory of {bytes} bytes is longer than the {most} that one may have; shorten it")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The longest.
        most: usize,
    },
    /// Too many entries at once.
    #[error("{count} memories are more than the {most} that are added at once; add them in parts")]
    TooManyAtOnce {
        /// How many there are.
        count: usize,
        /// The most.
        most: usize,
    },
    /// An entry has too many sources.
    #[error("{count} sources are more than the {most} that a memory may have; summarise in steps")]
    TooManySources {
        /// How many it has.
        count: usize,
        /// The most.
        most: usize,
    },
    /// More at once than there is room for.
    #[error(
        "this is more than the memory of {namespace} holds of one label ({limit}); raise the limit"
    )]
    Full {
        /// Which one.
        namespace: String,
        /// Which limit is reached.
        limit: String,
    },
    /// An id that exists already.
    #[error("there is already a memory {0}")]
    Taken(EntryId),
    /// A source, or the beginning of a page, that does not exist.
    #[error("there is no memory {0}")]
    Missing(EntryId),
    /// A derived entry below its sources.
    #[error(
        "the label of memory {id} lacks what its sources have: {}; label it with all of them",
        missing.join(", ")
    )]
    LabelTooLow {
        /// The entry.
        id: EntryId,
        /// Names of the taints it lacks.
        missing: Vec<String>,
    },
    /// An entry that makes no sense.
    #[error("memory {id} cannot be read ({reason}); forget it")]
    Unreadable {
        /// The entry.
        id: EntryId,
        /// Why.
        reason: String,
    },
    /// The entries change faster than they can be read.
    #[error("the memory of {0} changes all the time; try again")]
    Unsteady(String),
}
