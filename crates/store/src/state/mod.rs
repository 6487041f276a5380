//! The state of a service: a log of news for each tenant, a document for each conversation, permits that one front leaves for
//! another, and counters.
//!
//! Several processes use one store. The numbers of the records of a tenant have no gaps and become visible in their order, so
//! a process that remembers the last number it has read misses no record. A document is replaced only by a writer that knows
//! its version.

mod rows;

use async_trait::async_trait;

use crate::{StateError, Time};

pub(crate) use rows::StateRows;

/// The digest that names a tenant, a conversation or a call.
pub type Digest = [u8; 32];

/// Most records of one [`Loaded`]. A replica that starts reads a long log in pages.
pub const PAGE: usize = 1024;
/// Most bytes of the records of one [`Loaded`], unless the first record alone is longer.
const PAGE_BYTES: usize = 16 << 20;
/// Longest record, document or permit: a conversation with results of some megabytes.
const MOST_TEXT: usize = 32 << 20;
/// Most bytes of one commit, and most records.
const MOST_COMMIT: usize = 64 << 20;
const MOST_RECORDS: usize = 16 * PAGE;
/// Counters are kept by the hour, in milliseconds.
const HOUR_MS: i64 = 3600 * 1000;
/// Rows that [`SessionState::prune`] removes in one transaction, so that no commit waits long for it.
const PRUNED: i64 = 2000;

/// The state that outlives a process. Each method is one transaction. A future that is dropped has done all of its work or
/// none.
#[async_trait]
pub trait SessionState: Send + Sync {
    /// The records of the tenant after number `seen`, the oldest first, at most [`PAGE`] of them, and the document of
    /// `session`, both as of one moment. If the store has fewer than `seen` records (it is an older backup), it returns them
    /// from the first.
    async fn load(
        &self,
        tenant: &Digest,
        seen: u64,
        session: Option<&Digest>,
    ) -> Result<Loaded, StateError>;

    /// Appends the records, writes the document if its version still is `base`, adds to the counters, and leaves the permits:
    /// all of it or nothing.
    ///
    /// After [`StateError::Unavailable`] it is unknown whether the commit was made; a second one with the same `base` is
    /// [`Committed::Behind`] if it was.
    async fn commit(&self, tenant: &Digest, commit: Commit) -> Result<Committed, StateError>;

    /// Takes the oldest permit with this key that has not expired. Each permit is taken once.
    async fn redeem(
        &self,
        tenant: &Digest,
        key: &Digest,
        now: Time,
    ) -> Result<Option<LeftPermit>, StateError>;

    /// Removes the permits with these names. Returns the names of those that waited: no one has taken them.
    async fn withdraw(&self, tenant: &Digest, names: &[String]) -> Result<Vec<String>, StateError>;

    /// The sums of the counters of a tenant by thing, from the hour in which `since` is.
    async fn usage(&self, tenant: &str, since: Time) -> Result<Vec<(String, u64)>, StateError>;

    /// Removes records, documents, permits and counters that are older than `before`. Returns how many rows it removed.
    ///
    /// The numbers of later records stay as they are, and a version is never used a second time.
    async fn prune(&self, before: Time) -> Result<u64, StateError>;

    /// Whether a commit could be made now.
    async fn ping(&self) -> Result<(), StateError>;
}

/// What [`SessionState::load`] has read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Loaded {
    /// The records, the oldest first.
    pub records: Vec<String>,
    /// `seen` of the next call.
    pub head: u64,
    /// Whether there are more records.
    pub more: bool,
    /// The document of the session, if there is one.
    pub session: Option<Document>,
}

/// The document of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Grows with each change. A document that is removed and written anew has a version of its own.
    pub version: u64,
    /// JSON.
    pub body: String,
}

/// One transaction.
#[derive(Debug, Clone)]
pub struct Commit {
    /// When; records and documents are kept from then on.
    pub at: Time,
    /// To be appended to the log of the tenant: JSON.
    pub records: Vec<String>,
    /// The document to write.
    pub session: Option<SessionWrite>,
    /// To be added to the counters.
    pub usage: Vec<Usage>,
    /// To be left for another front.
    pub permits: Vec<LeftPermit>,
}

impl Commit {
    /// A commit of nothing.
    pub fn new(at: Time) -> Self {
        Self {
            at,
            records: Vec::new(),
            session: None,
            usage: Vec::new(),
            permits: Vec::new(),
        }
    }

    /// # Errors
    /// It is too long, or has a text that PostgreSQL cannot keep. Both stores refuse the same.
    fn check(&self) -> Result<(), StateError> {
        let session = self.session.iter().map(|write| &write.body);
        let permits = self.permits.iter().flat_map(|it| [&it.name, &it.body]);
        let usage = self.usage.iter().flat_map(|it| [&it.tenant, &it.thing]);
        let texts = self.records.iter().chain(session).chain(permits);
        let mut bytes = 0_usize;
        for text in texts.chain(usage) {
            bytes = bytes.saturating_add(text.len());
            if text.len() > MOST_TEXT {
                return Err(StateError::Limit("a text of the state exceeds 32 MiB"));
            }
            if text.contains('\0') {
                return Err(StateError::Limit("a text of the state has a NUL character"));
            }
        }
        if bytes > MOST_COMMIT || self.records.len() > MOST_RECORDS {
            return Err(StateError::Limit("a change of the state exceeds 64 MiB"));
        }
        Ok(())
    }
}

/// A document to write.
#[derive(Debug, Clone)]
pub struct SessionWrite {
    /// The conversation.
    pub key: Digest,
    /// The version that it replaces. 0: there is none.
    pub base: u64,
    /// JSON.
    pub body: String,
}

/// What is to be added to a counter.
#[derive(Debug, Clone)]
pub struct Usage {
    /// The tenant, by its name in the configuration.
    pub tenant: String,
    /// What is counted.
    pub thing: String,
    /// How many.
    pub count: u64,
}

/// A permit that one front leaves for another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftPermit {
    /// The name of the call.
    pub name: String,
    /// The digest of what it permits.
    pub key: Digest,
    /// JSON.
    pub body: String,
    /// Until when it can be taken.
    pub until: Time,
}

/// What became of a [`Commit`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Committed {
    /// It was made.
    At {
        /// The number of the last record of the tenant. Other processes may have appended records before ours.
        head: u64,
        /// The version of the document; 0 if none was written.
        version: u64,
    },
    /// Nothing was written: the document is this one now.
    Behind(Option<Document>),
}

/// The hour of a time, since 1970-01-01 UTC.
fn hour(time: Time) -> i64 {
    time.millis().div_euclid(HOUR_MS)
}

/// A number of the database, which has no negative ones here.
fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// A number for the database, which has no larger ones.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
