//! Why a Redis server cannot be used.

use std::path::PathBuf;

/// Why a Redis server cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RedisError {
    /// The address is none.
    #[error("this is no address of a Redis server; write unix:///PATH or redis://127.0.0.1:PORT")]
    BadAddress,
    /// A space whose name would be confused with a part of another's.
    #[error("the memory's space {0:?} has a colon in its name; choose another")]
    BadSpace(String),
    /// The address is on another machine.
    #[error(
        "{0} is another machine, and memories are not sent over a network in the clear; use a server on this one"
    )]
    Elsewhere(String),
    /// Somebody else listens at the socket.
    #[error(
        "{}: user {uid} listens there, who is neither you nor root, and others than that user could have put the socket or a folder above it in place; run the server as yourself, or keep its socket where its user and root alone can write",
        path.display()
    )]
    Stranger {
        /// The socket.
        path: PathBuf,
        /// The user's number.
        uid: u32,
    },
    /// A setting of the server is not as it must be.
    #[error(
        "the Redis server has {name} {found:?}; set `{name} {}` in its configuration and start it again",
        if wanted.is_empty() { "\"\"" } else { wanted }
    )]
    Setting {
        /// The setting.
        name: &'static str,
        /// As it is.
        found: String,
        /// As it must be.
        wanted: &'static str,
    },
    /// It has not written its file anew, without what was deleted, in the time that it is given.
    #[error(
        "the Redis server takes long to write its file anew, and what was deleted may still be in the old one; it goes with the next that is forgotten, or when the memory is opened next"
    )]
    Slow,
    /// It could not write its file anew, without what was deleted.
    #[error(
        "the Redis server could not write its file anew, and what was deleted is still in the old one; see its log and its free space"
    )]
    NotRewritten,
    /// Another version wrote what is there.
    #[error(
        "the memory in the Redis server is of version {found:?}, and this program knows {known}; use the program that wrote it, or another database number"
    )]
    Version {
        /// Its version.
        found: String,
        /// Ours.
        known: u32,
    },
    /// The server failed, or the connection to it. Whether the last operation was done is not known:
    /// an id that is taken when it is appended again tells.
    #[error("the Redis server: {0}; check that it runs and has free space")]
    Server(#[from] redis::RedisError),
}
