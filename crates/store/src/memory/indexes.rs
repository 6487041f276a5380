//! The indexes of the namespaces that were searched last.

use std::sync::{Mutex, PoisonError};

use super::ranking::Index;
use super::{MemoryError, Namespace, Removed};
use crate::EntryId;

/// Namespaces whose words are held. With [`Limits::bytes`](super::Limits::bytes) this bounds the
/// memory that searching needs.
const MOST: usize = 8;

/// The index of a namespace, and how far it goes.
#[derive(Default)]
pub(super) struct Held {
    pub(super) index: Index,
    /// The entries that cannot be read, which are not in it.
    pub(super) unreadable: Vec<EntryId>,
    /// The sequence number of the last entry in it.
    pub(super) last: i64,
    /// How many entries the namespace had forgotten when it was begun. An entry cannot be taken out
    /// of an index, so one with another count is made anew.
    pub(super) forgotten: i64,
}

/// The newest last.
#[derive(Default)]
pub(super) struct Indexes(Mutex<Vec<(Namespace, Held)>>);

impl Indexes {
    /// The index of a namespace that has forgotten so many entries, out of the collection: whoever
    /// fails while it brings it up to date leaves no half-made one behind.
    pub(super) fn take(&self, namespace: &Namespace, forgotten: i64) -> Held {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = all.iter().position(|(name, _)| name == namespace);
        let held = found.map(|at| all.remove(at).1);
        held.filter(|held| held.forgotten == forgotten)
            .unwrap_or_else(|| Held {
                forgotten,
                ..Held::default()
            })
    }

    /// Keeps an index for the next search.
    pub(super) fn put(&self, namespace: &Namespace, held: Held) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(name, _)| name != namespace);
        if all.len() == MOST {
            all.remove(0);
        }
        all.push((namespace.clone(), held));
    }

    /// Drops all, of which words of forgotten entries are a part, and erases their text with `erase`.
    pub(super) fn forgot(
        &self,
        count: usize,
        erase: impl FnOnce() -> Result<(), MemoryError>,
    ) -> Removed {
        if count == 0 {
            return Removed::none();
        }
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.clear();
        // Not held during the erasure, which can take seconds.
        drop(all);
        Removed {
            count,
            erased: erase(),
        }
    }
}
