//! Long-term memory with labels (SecGPT appendix C).

mod entry;
mod error;
mod indexes;
mod query;
mod ranking;
#[cfg(feature = "redis")]
pub(crate) mod redis;
mod room;
mod rules;
pub(crate) mod sqlite;
mod stored;

use ifc::Label;

pub use entry::{Content, Draft, Entry, Forgotten, Found, Kind, Namespace, Page, Speaker};
pub use error::MemoryError;
pub use query::{MAX_QUERY_BYTES, MAX_QUERY_WORDS, Query, QueryError};
pub use rules::Limits;

use crate::{EntryId, Time};

/// A place that keeps labelled memories. One conformance suite holds for every implementation.
///
/// Readers say at which label they read (`at`): what does not flow there is not given to them and has
/// no influence on what is. ⊤ reads everything, and is for the user alone. An exception, which a caller
/// must know: the time that an operation takes depends on all entries.
///
/// Entries of one label have room of their own in each namespace ([`Limits`]). Where it is used up, the
/// oldest of them are forgotten for new ones, with what was derived from them.
///
/// An entry whose label has a name that the lattice no longer has is ⊤ ([`Entry::unknown`]).
pub trait Memory: Send + Sync {
    /// Adds all of these entries, or none. They are on disk when this returns.
    ///
    /// A draft may name earlier ones of the same call as its sources.
    ///
    /// Returns how many entries were forgotten to make room, in the same transaction.
    ///
    /// # Errors
    /// They have no room at all, an id is taken, a source does not exist or would have to make room, a
    /// label does not contain the labels of its sources; or the back end fails.
    fn append(&self, namespace: &Namespace, drafts: &[Draft]) -> Result<usize, MemoryError>;

    /// The newest entries of a namespace, newest first.
    ///
    /// # Errors
    /// The back end fails, or an entry cannot be read.
    fn list(
        &self,
        namespace: &Namespace,
        page: &Page,
        at: &Label,
    ) -> Result<Vec<Entry>, MemoryError>;

    /// One entry; none if it does not exist or does not flow to `at`.
    ///
    /// # Errors
    /// The back end fails, or the entry cannot be read.
    fn show(&self, id: EntryId, at: &Label) -> Result<Option<Entry>, MemoryError>;

    /// The entries that answer a query best, best first, at most `most`; of equal ones the newer
    /// first. Entries, order and scores (BM25) are a function of the query and of the entries that flow
    /// to `at`: no count, length or order of others shows. A fact is not found if a later one about the same
    /// property of the same entity flows to its label.
    ///
    /// # Errors
    /// The back end fails, or an entry cannot be read.
    fn search(
        &self,
        namespace: &Namespace,
        query: &Query,
        at: &Label,
        most: usize,
    ) -> Result<Vec<Found>, MemoryError>;

    /// The labels that the entries of a namespace have, each once. For whoever decides at which labels
    /// to search; a reader is told of none above its own.
    ///
    /// # Errors
    /// The back end fails, or an entry cannot be read.
    fn labels(&self, namespace: &Namespace) -> Result<Vec<Label>, MemoryError>;

    /// Everything that was derived from an entry, in any namespace, and the entry itself, oldest first:
    /// what [`Memory::forget`] would remove. Empty if it does not exist. For the user's eyes.
    ///
    /// # Errors
    /// The back end fails, or an entry cannot be read.
    fn derived(&self, id: EntryId) -> Result<Vec<Entry>, MemoryError>;

    /// Removes an entry and everything that was derived from it, in any namespace, or nothing. An id
    /// that does not exist is nothing to forget.
    ///
    /// # Errors
    /// The back end fails; nothing is forgotten then.
    fn forget(&self, id: EntryId) -> Result<Forgotten, MemoryError>;

    /// Removes every entry that is older than `before`, and everything that was derived from one, in any
    /// namespace, or nothing. Returns how many there were.
    ///
    /// # Errors
    /// The back end fails; nothing is forgotten then.
    fn expire(&self, before: Time) -> Result<usize, MemoryError>;

    /// Tries again to remove from the disk what [`Memory::forget`] could not ([`Forgotten::erased`]).
    /// False if it still cannot.
    ///
    /// # Errors
    /// The back end fails.
    fn erase(&self) -> Result<bool, MemoryError>;

    /// Every namespace that ever had an entry, sorted.
    ///
    /// # Errors
    /// The back end fails.
    fn namespaces(&self) -> Result<Vec<Namespace>, MemoryError>;
}
