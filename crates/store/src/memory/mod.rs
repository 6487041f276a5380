//! Long-term memory with labels (SecGPT appendix C).

mod namespace;
mod search;
pub(crate) mod sqlite;

use std::fmt;

use ifc::Label;

pub use namespace::Namespace;
pub use search::Query;

use crate::{DatabaseError, EntryId, Time};

/// Labelled memories. One conformance suite holds for every implementation.
///
/// A reader names the label at which it reads (`at`). An entry that does not flow there is not returned and has no influence
/// on the result, only on the time. ⊤ reads everything, and is for the user alone.
///
/// The entries of one label have their own limits in each namespace ([`Limits`]). Above them the oldest entries are removed,
/// with everything derived from them.
///
/// An entry is ⊤ if the lattice lacks a name of its label ([`Entry::unknown`]).
///
/// Every method fails if the back end does. A failed change changes nothing.
pub trait Memory: Send + Sync {
    /// Adds all of these entries, or none, durably. A draft may name earlier drafts of the call as its sources. Returns how
    /// many old entries were removed in the same transaction.
    ///
    /// # Errors
    /// The drafts exceed the limits, an id is taken, a source is missing or would be removed, or a label is below those of
    /// its sources.
    fn append(&self, namespace: &Namespace, drafts: &[Draft]) -> Result<usize, MemoryError>;

    /// The newest readable entries of a namespace, at most `most`, newest first.
    fn list(
        &self,
        namespace: &Namespace,
        most: usize,
        at: &Label,
    ) -> Result<Vec<Entry>, MemoryError>;

    /// One entry; `None` if it does not exist or does not flow to `at`. It is an error if it cannot be read.
    fn show(&self, id: EntryId, at: &Label) -> Result<Option<Entry>, MemoryError>;

    /// The readable entries that match a query best, at most `most`, best first; of equal ones the newer first.
    ///
    /// Entries, order and scores (BM25) are a function of the query and of the entries that flow to `at` alone. A fact is not
    /// found if a later one about the same attribute of the same entity flows to its label.
    fn search(
        &self,
        namespace: &Namespace,
        query: &Query,
        at: &Label,
        most: usize,
    ) -> Result<Vec<Found>, MemoryError>;

    /// The labels of a namespace's entries, each once. For the choice of the labels to search at; a reader must not learn of
    /// labels above its own.
    fn labels(&self, namespace: &Namespace) -> Result<Vec<Label>, MemoryError>;

    /// The ids of the unreadable entries of a namespace, oldest first. For the user.
    fn unreadable(&self, namespace: &Namespace) -> Result<Vec<EntryId>, MemoryError>;

    /// The ids of all entries of a namespace, oldest first, including unreadable ones. For the user.
    fn ids(&self, namespace: &Namespace) -> Result<Vec<EntryId>, MemoryError>;

    /// The entries that [`Memory::forget`] would remove for these ids. For the user.
    fn derived(&self, ids: &[EntryId]) -> Result<Family, MemoryError>;

    /// Removes these entries and everything derived from them, in any namespace, or nothing. Missing ids are ignored.
    fn forget(&self, ids: &[EntryId]) -> Result<Forgotten, MemoryError>;

    /// Removes every entry older than `before` and everything derived from one, in any namespace, or nothing. Returns their
    /// number.
    fn expire(&self, before: Time) -> Result<usize, MemoryError>;

    /// Every namespace that ever had an entry, sorted.
    fn namespaces(&self) -> Result<Vec<Namespace>, MemoryError>;
}

/// Limits of a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one entry, all its texts together.
    pub entry_bytes: usize,
    /// Entries of one label in one namespace.
    pub entries: usize,
    /// Bytes of all entries of one label in one namespace. Their index is in memory.
    pub bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // A long mail. Longer texts belong in a file.
            entry_bytes: 32 << 10,
            // Queries and answers of thirty turns a day for a year.
            entries: 20_000,
            bytes: 16 << 20,
        }
    }
}

/// Sources of one entry: a summary of a whole context window has hundreds.
const MAX_SOURCES: usize = 1024;

/// Entries of one call of [`Memory::append`]: a turn with all its facts has a dozen.
const MAX_BATCH: usize = 256;

impl Limits {
    /// Checks the limits that do not depend on stored entries.
    fn check(&self, namespace: &Namespace, drafts: &[Draft]) -> Result<(), MemoryError> {
        for draft in drafts {
            let (bytes, most) = (draft.bytes(), self.entry_bytes);
            if bytes > most {
                return Err(MemoryError::TooLong { bytes, most });
            }
            let (count, most) = (draft.sources.len(), MAX_SOURCES);
            if count > most {
                return Err(MemoryError::TooManySources { count, most });
            }
        }
        let bytes: usize = drafts.iter().map(Draft::bytes).sum();
        if drafts.len() > self.entries.min(MAX_BATCH) || bytes > self.bytes {
            return Err(MemoryError::Full(namespace.to_string()));
        }
        Ok(())
    }
}

/// Errors of memories.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The file.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// An entry is too long.
    #[error("a memory of {bytes} bytes is longer than the {most} that one may have; shorten it")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The longest.
        most: usize,
    },
    /// An entry has too many sources.
    #[error("{count} sources are more than the {most} that a memory may have; summarise in steps")]
    TooManySources {
        /// How many it has.
        count: usize,
        /// The most.
        most: usize,
    },
    /// More entries or bytes in one call than the limits.
    #[error(
        "these are more memories than {0} takes at once; add them in parts, or raise the limit"
    )]
    Full(String),
    /// The id exists already.
    #[error("there is already a memory {0}")]
    Taken(EntryId),
    /// The source does not exist.
    #[error("there is no memory {0}")]
    Missing(EntryId),
    /// A derived entry is below its sources.
    #[error(
        "the label of memory {id} lacks taints of its sources: {}; label it with all of them",
        missing.join(", ")
    )]
    LabelTooLow {
        /// The entry.
        id: EntryId,
        /// Names of the taints it lacks.
        missing: Vec<String>,
    },
    /// The entry is damaged.
    #[error("memory {id} cannot be read ({reason}); forget it")]
    Unreadable {
        /// The entry.
        id: EntryId,
        /// Why.
        reason: String,
    },
}

/// The speaker of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Speaker {
    /// The user.
    User,
    /// The assistant, or an app by way of it.
    System,
}

/// The text of a memory. `Debug` shows its size only.
#[derive(Clone, PartialEq, Eq)]
pub enum Content {
    /// A turn of the interaction history.
    Interaction {
        /// Its speaker.
        speaker: Speaker,
        /// Its text.
        text: String,
    },
    /// Summarised knowledge.
    Summary {
        /// The summary.
        text: String,
    },
    /// A fact about an entity ("Karin", "telephone", "0123").
    Fact {
        /// The entity.
        entity: String,
        /// The attribute.
        attribute: String,
        /// The attribute's value.
        value: String,
    },
}

impl Content {
    fn bytes(&self) -> usize {
        match self {
            Self::Interaction { text, .. } | Self::Summary { text } => text.len(),
            Self::Fact {
                entity,
                attribute,
                value,
            } => entity.len() + attribute.len() + value.len(),
        }
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.bytes())
    }
}

/// An entry to be added.
#[derive(Clone, PartialEq, Eq)]
pub struct Draft {
    /// A new id ([`EntryId::random`]).
    pub id: EntryId,
    /// Its text.
    pub content: Content,
    /// The label of all its texts: at least the join of its sources' labels.
    pub label: Label,
    /// The entries that it was derived from. They exist, in any namespace.
    pub sources: Vec<EntryId>,
    /// Its origin, for display.
    pub origin: String,
    /// Its time.
    pub time: Time,
}

impl Draft {
    fn bytes(&self) -> usize {
        self.content.bytes() + self.origin.len()
    }
}

impl fmt::Debug for Draft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, label, .. } = self;
        write!(f, "Draft({id}, {:?}, {label:?})", self.content)
    }
}

/// An entry that was stored.
#[derive(Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its id.
    pub id: EntryId,
    /// Its namespace.
    pub namespace: Namespace,
    /// Its text.
    pub content: Content,
    /// The label of everything in it.
    pub label: Label,
    /// Names of its label that the lattice lacks. If there are any, the label is ⊤.
    pub unknown: Vec<String>,
    /// The entries that it was derived from.
    pub sources: Vec<EntryId>,
    /// Its origin, for display.
    pub origin: String,
    /// Its time.
    pub time: Time,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, label, .. } = self;
        write!(f, "Entry({id}, {:?}, {label:?})", self.content)
    }
}

/// A result of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The entry.
    pub entry: Entry,
    /// Above zero; comparable within one search only.
    pub score: f64,
}

/// Entries with everything derived from them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Family {
    /// The readable ones, oldest first.
    pub entries: Vec<Entry>,
    /// The unreadable ones.
    pub unreadable: Vec<EntryId>,
}

impl Family {
    /// Their number.
    pub fn count(&self) -> usize {
        self.entries.len() + self.unreadable.len()
    }
}

/// The result of [`Memory::forget`].
#[derive(Debug)]
pub struct Forgotten {
    /// The removed entries.
    pub family: Family,
    /// Why the back end's files may still have the text.
    pub erased: Result<(), MemoryError>,
}
