//! A permit that one front leaves for the other, as text.

use ifc::{Arguments, Basis, Lattice, Permit};
use serde::{Deserialize, Serialize};

use super::labels::StoredCall;
use super::twin::{Stored, Word, unreadable};
use crate::twin;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredPermit {
    call: StoredCall,
    basis: StoredBasis,
    id: Word,
}

twin! {
    enum StoredBasis of Basis {
        Policy { rule => rule: String, }
        UserOnce {}
        UserSession {}
        UserTrust {}
        UserBefore {}
        Permission { id => id: String, }
    }
}

/// What a permit is looked up by: its app, its tool, and its arguments by value, since clients write numbers anew.
#[must_use]
pub fn permit_key(app: &str, tool: &str, arguments: &Arguments) -> String {
    format!("{app:?}{tool:?}{}", arguments.by_value([].iter()))
}

/// The text of a permit. The permit itself is [left](Permit::leave) once the text is where another front redeems it, once.
#[must_use]
pub fn write_permit(permit: &Permit, lattice: &Lattice) -> String {
    let stored = StoredPermit {
        call: Stored::write(permit.call(), lattice),
        basis: Stored::write(permit.basis(), lattice),
        id: Stored::write(&permit.receipt().id(), lattice),
    };
    // It has strings and numbers only, so it can be written. An empty text is no permit.
    serde_json::to_string(&stored).unwrap_or_default()
}

/// The permit of such a text, which must have been redeemed just now.
///
/// # Errors
/// It has another form.
pub fn read_permit(text: &str, lattice: &Lattice) -> Result<Permit, String> {
    let stored: StoredPermit = serde_json::from_str(text).map_err(unreadable)?;
    let (call, basis) = (stored.call.read(lattice)?, stored.basis.read(lattice)?);
    Ok(Permit::redeemed_tcb(call, basis, stored.id.read(lattice)?))
}
