//! What outlives a process, as text: labels by the names of their taints, and what is made of them.
//!
//! Core types are not serializable; each has a twin here ([`twin!`](crate::twin)). A taint that the lattice does not have any
//! more makes a label ⊤. What would allow more by ⊤ (a grant, trust, an approval) then allows nothing
//! ([`absorb_tcb`](ifc::Monitor::absorb_tcb), [`given_tcb`](ifc::Approval::given_tcb)). Text of any other form is an error, and
//! no member is optional: what cannot be read must not be taken for less.

mod attempt;
mod labels;
mod permit;
mod session;
mod twin;

pub use attempt::{Attempt, Step, WRITES};
pub use labels::{
    StoredApproval, StoredCall, StoredLabel, StoredRefinement, StoredText, StoredUnread,
};
pub use permit::{permit_key, read_permit, write_permit};
pub use session::SessionDoc;
pub use twin::{Stored, Word, hex, present};
