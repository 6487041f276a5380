//! Data that outlives a session: labelled memory (SecGPT appendix C) and permissions (appendix A).
//!
//! [`Memory`] is a trait; [`SqliteMemory`] keeps memories in a SQLite file. Each entry keeps its label, a
//! derived entry is at or above its sources, and a search ranks the entries that its reader may see and no
//! others. [`Permissions`] keeps what the user allowed, bound to the identities of the apps involved. [`Desk`] keeps
//! questions until they are answered, and the tokens of agents, approvers and admins. [`Store`] is what a service keeps, in
//! SQLite or PostgreSQL; [`SessionState`] is its state of conversations, [`AuditLog`] its audit log.
//!
//! Nothing here decides: the hub asks, and the monitor decides. A label that cannot be read is ⊤, and a
//! permission that cannot be read allows nothing.

mod archive;
mod audit;
mod database;
mod desk;
mod failure;
mod id;
mod memory;
mod name;
mod names;
mod permission;
mod postgres;
mod state;
mod store;
mod tables;
mod time;

pub use archive::ArchiveError;
pub use audit::{AuditBatch, AuditChain, AuditEntry, AuditLog};
pub use database::{DatabaseError, DatabaseFault};
pub use desk::{
    Answerer, Asked, Desk, DeskError, KeptAnswer, KeptQuestion, KeptToken, NewQuestion, NewToken,
    QuestionHead, QuestionKey, Questions, Role, Taken,
};
pub use failure::StateError;
pub use id::{BadId, ChainId, EntryId, PermissionId, QuestionId};
pub use memory::{
    Content, Draft, Entry, Family, Forgotten, Found, Limits, Memory, MemoryError, Namespace, Query,
    Speaker, sqlite::SqliteMemory,
};
pub use name::{BadName, Name};
pub use permission::{
    Action, App, Apps, BadDomain, Domain, Grant, Identity, Irreversible, Kept, PermissionError,
    Permissions, ReversibleTool, Standing,
};
pub use postgres::PoolSettings;
pub use state::{
    Commit, Committed, Digest, Document, LeftPermit, Loaded, PAGE, SessionState, SessionWrite,
    Usage,
};
pub use store::Store;
pub use time::Time;
