//! Why permissions refuse.

use std::io;

use crate::{DatabaseError, PermissionId};

/// Why an operation on permissions was not done. In doubt nothing is allowed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PermissionError {
    /// The file.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// A limit of ⊤, or with taints that have no name.
    #[error("what is unknown cannot be allowed in advance; allow it once")]
    Unlimited,
    /// A permission that would expire at once.
    #[error("the permission would expire before it begins; choose a later time")]
    AlreadyExpired,
    /// Too many permissions.
    #[error("there are {0} permissions already; revoke some first")]
    Full(usize),
    /// A permission that makes no sense.
    #[error("permission {id} cannot be read ({reason}); revoke it")]
    Unreadable {
        /// Which one.
        id: PermissionId,
        /// Why.
        reason: String,
    },
    /// No random numbers for an id.
    #[error("the system gives no random numbers: {0}")]
    Random(#[source] io::Error),
    /// It could not be written as JSON.
    #[error("the permissions cannot be written as JSON: {0}")]
    Json(#[source] serde_json::Error),
}
