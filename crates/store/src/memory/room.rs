//! Room for new entries: the oldest of the same label make way.
//!
//! Each label has as much room in a namespace as every other one, whatever else is there. So nothing
//! that is above a reader decides on what it may still see, and text of one label, however much an
//! attacker writes, pushes out nothing of another label but what was derived from it.

use std::collections::BTreeMap;

use super::stored::Stored;
use super::{Draft, Limits, MemoryError, Namespace};

/// What is there at once is forgotten in sixteenths, so that indexes are made anew rarely.
const PARTS: usize = 16;

/// What the entries of one label take, or may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Room {
    pub(super) entries: usize,
    pub(super) bytes: usize,
}

impl Room {
    pub(super) fn of_one(bytes: usize) -> Self {
        Self { entries: 1, bytes }
    }

    pub(super) fn add(&mut self, other: Self) {
        self.entries = self.entries.saturating_add(other.entries);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }

    pub(super) fn take(&mut self, other: Self) {
        self.entries = self.entries.saturating_sub(other.entries);
        self.bytes = self.bytes.saturating_sub(other.bytes);
    }

    pub(super) fn fits(self, most: Self) -> bool {
        self.entries <= most.entries && self.bytes <= most.bytes
    }
}

/// What new entries take, by their labels as they are written.
pub(super) fn added<'a>(all: &'a [(&Draft, Stored)]) -> BTreeMap<&'a str, Room> {
    let mut added: BTreeMap<&str, Room> = BTreeMap::new();
    for (draft, stored) in all {
        let room = added.entry(&stored.label).or_default();
        room.add(Room::of_one(draft.bytes()));
    }
    added
}

impl Limits {
    /// How much of what is there of a label may stay, if so much of it is added; `None` if all of it may.
    ///
    /// # Errors
    /// What is added is more than one label may have.
    pub(super) fn staying(
        &self,
        namespace: &Namespace,
        there: Room,
        added: Room,
    ) -> Result<Option<Room>, MemoryError> {
        let most = Room {
            entries: self.entries,
            bytes: self.bytes,
        };
        if !added.fits(most) {
            let namespace = namespace.to_string();
            let limit = format!("{} entries, {} bytes", most.entries, most.bytes);
            return Err(MemoryError::Full { namespace, limit });
        }
        let mut all = there;
        all.add(added);
        if all.fits(most) {
            return Ok(None);
        }
        // Neither goes below zero: what is added was found to fit.
        Ok(Some(Room {
            entries: most.entries - added.entries.max(most.entries / PARTS),
            bytes: most.bytes - added.bytes.max(most.bytes / PARTS),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        entry_bytes: 100,
        entries: 32,
        bytes: 1600,
    };

    fn room(entries: usize, bytes: usize) -> Room {
        Room { entries, bytes }
    }

    #[test]
    fn a_sixteenth_goes_at_once_and_more_where_more_comes() {
        let staying = |there, added| LIMITS.staying(&Namespace::Hub, there, added).unwrap();
        assert_eq!(staying(room(31, 1500), room(1, 100)), None);
        assert_eq!(staying(room(32, 100), room(1, 10)), Some(room(30, 1500)));
        assert_eq!(staying(room(2, 1600), room(1, 10)), Some(room(30, 1500)));
        assert_eq!(staying(room(32, 0), room(8, 0)), Some(room(24, 1500)));
    }

    #[test]
    fn more_than_fits_is_refused() {
        for added in [room(33, 1), room(1, 1601)] {
            let refused = LIMITS.staying(&Namespace::Hub, room(0, 0), added);
            assert!(
                matches!(refused, Err(MemoryError::Full { .. })),
                "{added:?}"
            );
        }
    }
}
