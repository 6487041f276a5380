//! The audit log: every decision, question, answer and change of who may do what, without any content.
//!
//! Each process run writes a chain of entries of its own: an entry names the digest of the one before it, and the newest
//! digest is in a signed head. The first entry of a chain names the ends of the other chains. Heads are also written to a file
//! and to the program's log, where a change of the store does not reach them. [`verify`] checks all of it.

mod entry;
mod events;
mod keys;
mod ocsf;
mod verify;
mod writer;

pub use entry::{Entry, Head, Link, Note};
pub use keys::AuditKeys;
pub use ocsf::{OCSF_VERSION, ocsf};
pub use verify::{Fault, Report, verify};
pub use writer::{Audit, AuditSetup};
