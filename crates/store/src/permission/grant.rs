//! What the user allows, and why an operation on permissions was not done.

use std::io;

use ifc::Label;

use super::action::Action;
use crate::{DatabaseError, PermissionId, Time};

/// What the user allows until it is revoked (appendix A.1). The monitor holds what is allowed for a session
/// (A.2) or once (A.3), and nothing stores it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// What is allowed.
    pub action: Action,
    /// It is allowed under labels that flow to this one.
    pub limit: Label,
    /// When it ends.
    pub expires: Option<Time>,
    /// Whether it counts where no user is at a terminal.
    pub scripts: bool,
}

/// Why an operation on permissions was not done. In doubt nothing is allowed.
#[derive(Debug, thiserror::Error)]
pub enum PermissionError {
    /// The file.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// The limit is ⊤, or has taints that have no name.
    #[error("a permission cannot cover unknown labels; allow the call once")]
    Unlimited,
    /// The permission would expire at once.
    #[error("the permission would expire before it begins; choose a later time")]
    AlreadyExpired,
    /// There are too many permissions.
    #[error("there are {0} permissions already; revoke some first")]
    Full(usize),
    /// The permission is damaged.
    #[error("permission {id} cannot be read ({reason}); revoke it")]
    Unreadable {
        /// Which one.
        id: PermissionId,
        /// Why.
        reason: String,
    },
    /// The system gave no random numbers for an id.
    #[error("the system gives no random numbers: {0}")]
    Random(#[source] io::Error),
}
