//! Where things are in a Redis database.

use super::Namespace;
use crate::EntryId;

/// The version of what is written here.
pub(super) const VERSION: &str = "sluice:memory:version";

/// Set of the keys of all namespaces.
pub(super) const NAMESPACES: &str = "sluice:memory:namespaces";

/// The last sequence number that was given out.
pub(super) const SEQUENCE: &str = "sluice:memory:sequence";

/// Hash: `namespace`, `sequence`, `bytes`, `sources` (ids, parted by blanks), `data` (JSON).
pub(super) fn entry(id: EntryId) -> String {
    format!("sluice:memory:entry:{id}")
}

/// Set of the ids of what was derived from an entry.
pub(super) fn derived(id: EntryId) -> String {
    format!("sluice:memory:derived:{id}")
}

/// Sorted set of the ids of a namespace's entries, by sequence number.
pub(super) fn order(namespace: &Namespace) -> String {
    format!("sluice:memory:order:{}", namespace.key())
}

/// Hash: `entries`, `bytes`, `last` (sequence number), `forgotten`.
pub(super) fn state(namespace: &Namespace) -> String {
    format!("sluice:memory:state:{}", namespace.key())
}
