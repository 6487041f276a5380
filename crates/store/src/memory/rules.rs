//! What every back end demands of new entries.

use ifc::Label;

use super::{Draft, MemoryError};
use crate::names::Names;

/// How much a memory holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one entry, all its texts together.
    pub entry_bytes: usize,
    /// Entries of one label in one namespace.
    pub entries: usize,
    /// Bytes of all entries of one label in one namespace. The words of a namespace that is searched are
    /// held in memory: this bounds them for each label, and labels are those of the configuration.
    pub bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // A long mail. What is longer is a file's to keep.
            entry_bytes: 32 << 10,
            // Queries and answers of thirty turns a day for a year.
            entries: 20_000,
            bytes: 16 << 20,
        }
    }
}

/// Sources of one entry: a summary of a whole context window has hundreds.
const MAX_SOURCES: usize = 1024;

/// Entries that are added at once: a turn, with all facts in it.
const MAX_BATCH: usize = 256;

impl Limits {
    /// Checks what can be checked without looking at what is there.
    pub(super) fn check(&self, drafts: &[Draft]) -> Result<(), MemoryError> {
        if drafts.len() > MAX_BATCH {
            return Err(MemoryError::TooManyAtOnce {
                count: drafts.len(),
                most: MAX_BATCH,
            });
        }
        for draft in drafts {
            let bytes = draft.bytes();
            if bytes > self.entry_bytes {
                let most = self.entry_bytes;
                return Err(MemoryError::TooLong { bytes, most });
            }
            let count = draft.sources.len();
            if count > MAX_SOURCES {
                let most = MAX_SOURCES;
                return Err(MemoryError::TooManySources { count, most });
            }
        }
        Ok(())
    }
}

/// A derived entry is at least as restricted as each of its sources.
pub(super) fn contains(draft: &Draft, source: &Label, names: &Names) -> Result<(), MemoryError> {
    // What a model makes of a text may say what the text says: below it, a reader of the one would have the other.
    if source.flows_to(&draft.label) {
        return Ok(());
    }
    Err(MemoryError::LabelTooLow {
        id: draft.id,
        missing: names.label_names(&source.beyond(&draft.label)),
    })
}

/// A count or a size, as it is stored. They are bounded by [`Limits`].
pub(super) fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A count that was stored. Below zero is damage: there is no room then.
pub(super) fn size(number: i64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
