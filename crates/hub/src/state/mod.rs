//! What outlives a process, as text: labels by the names of their taints, and what is made of them.
//!
//! Core types are not serializable; each has a twin here. A taint that the lattice does not have any more makes a label ⊤. What
//! allows something by a label (a grant, trust, an approval) is dropped instead, since ⊤ would allow more. Text of any other
//! form is an error, and no member is optional: what cannot be read must not be taken for less.

mod attempt;
mod labels;
mod permit;
mod session;

pub use attempt::{Attempt, Step, WRITES};
pub use labels::{
    Stored, StoredApproval, StoredCall, StoredLabel, StoredRefinement, StoredText, StoredUnread,
    present, read_all, write_all,
};
pub use permit::{permit_key, read_permit, write_permit};
pub use session::SessionDoc;

/// An error of the stored state, with what it is about.
fn unreadable(what: impl std::fmt::Display) -> String {
    format!("the stored state cannot be read: {what}")
}
