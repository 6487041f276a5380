//! What survives a session: labelled memory (SecGPT appendix C) and permissions (appendix A).
//!
//! [`Memory`] is a trait with two back ends, [`SqliteMemory`] in a file and, with the feature `redis`,
//! `RedisMemory` in a server on this machine. Both keep the label of every entry, hold a derived entry
//! at or above its sources, and rank a search by the entries that its reader may see and no others.
//! [`Permissions`] keeps what the user allowed, bound to the identities of the apps involved.
//!
//! Nothing here decides: the hub asks, and the monitor has the word. What cannot be read is ⊤ in a
//! memory and no permission at all.

mod database;
mod hex;
mod id;
mod memory;
mod name;
mod names;
mod permission;
mod time;

pub use database::DatabaseError;
pub use id::{BadId, EntryId, PermissionId};
#[cfg(feature = "redis")]
pub use memory::redis::{RedisError, RedisMemory};
pub use memory::{
    Content, Draft, Entry, Family, Forgotten, Found, Kind, Limits, MAX_QUERY_BYTES,
    MAX_QUERY_WORDS, Memory, MemoryError, Namespace, Page, Query, QueryError, Removed, Speaker,
    sqlite::SqliteMemory,
};
pub use name::{BadName, Name};
pub use permission::{
    Action, App, Apps, BadDomain, Domain, Grant, Identity, Irreversible, Kept, PermissionError,
    Permissions, ReversibleTool, Standing,
};
pub use time::Time;
