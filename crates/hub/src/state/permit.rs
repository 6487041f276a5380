//! A permit that one front leaves for the other, as text.

use ifc::{Arguments, Basis, Lattice, Permit};
use serde::{Deserialize, Serialize};

use super::labels::{Stored, StoredCall};
use super::session::{id_name, read_id};
use super::unreadable;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredPermit {
    call: StoredCall,
    basis: StoredBasis,
    id: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredBasis {
    Policy(String),
    Permission(String),
    Once,
    Session,
    Trust,
    Before,
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
        call: StoredCall::write(permit.call(), lattice),
        basis: match permit.basis().clone() {
            Basis::Policy { rule } => StoredBasis::Policy(rule),
            Basis::Permission { id } => StoredBasis::Permission(id),
            Basis::UserOnce => StoredBasis::Once,
            Basis::UserSession => StoredBasis::Session,
            Basis::UserTrust => StoredBasis::Trust,
            Basis::UserBefore => StoredBasis::Before,
        },
        id: id_name(permit.receipt().id()),
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
    let basis = match stored.basis {
        StoredBasis::Policy(rule) => Basis::Policy { rule },
        StoredBasis::Permission(id) => Basis::Permission { id },
        StoredBasis::Once => Basis::UserOnce,
        StoredBasis::Session => Basis::UserSession,
        StoredBasis::Trust => Basis::UserTrust,
        StoredBasis::Before => Basis::UserBefore,
    };
    let call = stored.call.read(lattice)?;
    Ok(Permit::redeemed_tcb(call, basis, read_id(&stored.id)?))
}
