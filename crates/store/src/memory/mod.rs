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

pub use entry::{
    Content, Draft, Entry, Family, Forgotten, Found, Kind, Namespace, Page, Removed, Speaker,
};
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
    /// Returns what was forgotten to make room, in the same transaction.
    ///
    /// # Errors
    /// They have no room at all, an id is taken, a source does not exist or would have to make room, a
    /// label does not contain the labels of its sources; or the back end fails.
    fn append(&self, namespace: &Namespace, drafts: &[Draft]) -> Result<Removed, MemoryError>;

    /// The newest entries of a namespace, newest first, without what cannot be read.
    ///
    /// # Errors
    /// The back end fails.
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
    /// property of the same entity flows to its label. What cannot be read answers nothing.
    ///
    /// # Errors
    /// The back end fails.
    fn search(
        &self,
        namespace: &Namespace,
        query: &Query,
        at: &Label,
        most: usize,
    ) -> Result<Vec<Found>, MemoryError>;

    /// The labels that the entries of a namespace have, each once. For whoever decides at which labels
    /// to search; a reader is told of none above its own. What cannot be read has none.
    ///
    /// # Errors
    /// The back end fails.
    fn labels(&self, namespace: &Namespace) -> Result<Vec<Label>, MemoryError>;

    /// The ids of the entries of a namespace that cannot be read, oldest first. One that cannot is no
    /// reason to do without the others, but the user should be told of it.
    ///
    /// # Errors
    /// The back end fails.
    fn unreadable(&self, namespace: &Namespace) -> Result<Vec<EntryId>, MemoryError>;

    /// The ids of all entries of a namespace, oldest first, whether they can be read or not. For the
    /// user, who forgets what cannot be read.
    ///
    /// # Errors
    /// The back end fails.
    fn ids(&self, namespace: &Namespace) -> Result<Vec<EntryId>, MemoryError>;

    /// These entries and everything that was derived from them, in any namespace, each once: what
    /// [`Memory::forget`] would remove. An id that does not exist is left out. For the user's eyes.
    ///
    /// # Errors
    /// The back end fails.
    fn derived(&self, ids: &[EntryId]) -> Result<Family, MemoryError>;

    /// Removes these entries and everything that was derived from them, in any namespace, or nothing. An
    /// id that does not exist is nothing to forget.
    ///
    /// # Errors
    /// The back end fails; nothing is forgotten then.
    fn forget(&self, ids: &[EntryId]) -> Result<Forgotten, MemoryError>;

    /// Removes every entry that is older than `before`, and everything that was derived from one, in any
    /// namespace, or nothing.
    ///
    /// # Errors
    /// The back end fails; nothing is forgotten then.
    fn expire(&self, before: Time) -> Result<Removed, MemoryError>;

    /// Hands every entry of a namespace over to another one, all of them or none, whether they can be
    /// read or not: the user says that its apps may be told. Entries keep their ids, labels, sources and
    /// order. Returns how many there were. Where they are more than there is room for, the next
    /// [`Memory::append`] makes it.
    ///
    /// # Errors
    /// The back end fails; nothing is handed over then.
    fn hand_over(&self, from: &Namespace, to: &Namespace) -> Result<usize, MemoryError>;

    /// Tries again to remove from the disk what was forgotten ([`Forgotten::erased`]).
    ///
    /// # Errors
    /// It still cannot be removed.
    fn erase(&self) -> Result<(), MemoryError>;

    /// Every namespace that ever had an entry, sorted.
    ///
    /// # Errors
    /// The back end fails.
    fn namespaces(&self) -> Result<Vec<Namespace>, MemoryError>;
}
