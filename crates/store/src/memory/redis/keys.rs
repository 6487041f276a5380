//! Where things are in a Redis database.

use crate::memory::Namespace;
use crate::{EntryId, Name};

/// The keys of one space: a server may hold several memories, which know nothing of each other.
#[derive(Debug, Clone)]
pub(super) struct Keys(String);

impl Keys {
    pub(super) fn new(space: &Name) -> Self {
        Self(format!("sluice:memory:{space}"))
    }

    /// The version of what is written here.
    pub(super) fn version(&self) -> String {
        format!("{}:version", self.0)
    }

    /// Set of the keys of all namespaces.
    pub(super) fn namespaces(&self) -> String {
        format!("{}:namespaces", self.0)
    }

    /// The last sequence number that was given out.
    pub(super) fn sequence(&self) -> String {
        format!("{}:sequence", self.0)
    }

    /// Hash: `namespace`, `sequence`, `bytes`, `sources` (ids, parted by blanks), `data` (JSON).
    pub(super) fn entry(&self, id: EntryId) -> String {
        format!("{}:entry:{id}", self.0)
    }

    /// Set of the ids of what was derived from an entry.
    pub(super) fn derived(&self, id: EntryId) -> String {
        format!("{}:derived:{id}", self.0)
    }

    /// Hash: `deletions`, `erased` (how many of them are in no byte of the server's file).
    pub(super) fn erasure(&self) -> String {
        format!("{}:erasure", self.0)
    }

    /// Sorted set of the ids of a namespace's entries, by sequence number.
    pub(super) fn order(&self, namespace: &Namespace) -> String {
        format!("{}:order:{}", self.0, namespace.key())
    }

    /// Sorted set of the ids of a namespace's entries with one label, as it is written, by sequence
    /// number.
    pub(super) fn labelled(&self, namespace: &Namespace, label: &str) -> String {
        format!("{}:labelled:{}:{label}", self.0, namespace.key())
    }

    /// Hash: the bytes of a namespace's entries, by their labels as they are written.
    pub(super) fn bytes(&self, namespace: &Namespace) -> String {
        format!("{}:bytes:{}", self.0, namespace.key())
    }

    /// Hash: `last` (sequence number), `forgotten`.
    pub(super) fn state(&self, namespace: &Namespace) -> String {
        format!("{}:state:{}", self.0, namespace.key())
    }
}
