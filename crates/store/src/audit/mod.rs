//! The audit log as rows: chains of entries, each chain with one signed head.
//!
//! The store keeps the texts as they are given. It neither makes nor checks digests and signatures: `server::audit` does.

mod postgres;
mod sqlite;

use async_trait::async_trait;

use crate::{ChainId, DatabaseError, StateError, Time};

pub(crate) use postgres::PostgresAudit;
pub(crate) use sqlite::{SCHEMA, SqliteAudit};

/// Entries that one [`AuditLog::read`] returns at most.
pub const AUDIT_PAGE: usize = 512;

/// Why the audit log cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The store failed.
    #[error("the audit log: {0}")]
    Store(#[from] StateError),
    /// The chain in the store does not end where its writer left it.
    #[error(
        "the audit log: the chain {0} in the store is not as this process left it; run `sluice audit verify`, then start again"
    )]
    Conflict(ChainId),
}

impl From<DatabaseError> for AuditError {
    fn from(error: DatabaseError) -> Self {
        Self::Store(error.into())
    }
}

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// Its place in the chain, from 1.
    pub number: u64,
    /// When; for the order of entries of several chains.
    pub at: Time,
    /// The entry as JSON, byte for byte what its digest is of.
    pub text: String,
}

/// Entries that continue a chain, and the head that the chain has with them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditBatch {
    /// The chain.
    pub chain: ChainId,
    /// The number of the last entry before these; 0 begins the chain.
    pub base: u64,
    /// The entries, at least one, with the numbers from `base + 1`.
    pub entries: Vec<AuditEntry>,
    /// The signed head, as JSON.
    pub head: String,
    /// Where other chains ended when this one began, as its first entry says. Empty for a chain that goes on.
    pub links: Vec<(ChainId, u64)>,
}

impl AuditBatch {
    fn last(&self) -> u64 {
        (self.entries.last()).map_or(self.base, |entry| entry.number)
    }

    /// What becomes of the batch if the chain in the store is this one: it is to be written (`true`), or it is written.
    fn follows(&self, found: Option<&AuditChain>) -> Result<bool, AuditError> {
        match found {
            None if self.base == 0 => Ok(true),
            Some(found) if found.number == self.base && self.base > 0 => Ok(true),
            Some(found)
                if found.number == self.last() && found.head.as_ref() == Some(&self.head) =>
            {
                Ok(false)
            }
            _ => Err(AuditError::Conflict(self.chain)),
        }
    }
}

/// A chain of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditChain {
    /// Which one.
    pub chain: ChainId,
    /// The number of its last entry; 0 where there are entries without a chain.
    pub number: u64,
    /// Up to which entry the first entry of another chain names it; 0: none does.
    pub linked: u64,
    /// Its signed head. `None`: there are entries, and no head.
    pub head: Option<String>,
}

/// Where entries of all chains are read on, in the order of their times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditPlace {
    /// The time of the last entry that was read.
    pub at: Time,
    /// Its chain.
    pub chain: ChainId,
    /// Its number.
    pub number: u64,
}

impl AuditPlace {
    /// The place before all entries of this time and later.
    pub fn since(at: Time) -> Self {
        Self {
            at,
            chain: ChainId::from_bytes([0; 16]),
            number: 0,
        }
    }
}

/// The audit log in a store. Each method is one transaction.
#[async_trait]
pub trait AuditLog: Send + Sync {
    /// Appends all of the entries and replaces the head, durably, or does nothing. The same batch may be appended again after
    /// an error, whether it was written before or not.
    ///
    /// # Errors
    /// [`AuditError::Conflict`] if the chain does not end at `base`, and what the store says.
    async fn append(&self, batch: &AuditBatch) -> Result<(), AuditError>;

    /// At most `most` chains that have entries which no other chain names.
    async fn unlinked(&self, most: usize) -> Result<Vec<AuditChain>, AuditError>;

    /// All chains, and those of entries without one.
    async fn chains(&self) -> Result<Vec<AuditChain>, AuditError>;

    /// The chain as it is now.
    async fn chain(&self, chain: ChainId) -> Result<Option<AuditChain>, AuditError>;

    /// The entries of a chain behind this number, at most [`AUDIT_PAGE`].
    async fn entries(&self, chain: ChainId, after: u64) -> Result<Vec<AuditEntry>, AuditError>;

    /// The entries of all chains behind this place in the order of their times, at most [`AUDIT_PAGE`].
    async fn read(&self, after: AuditPlace) -> Result<Vec<(ChainId, AuditEntry)>, AuditError>;

    /// Removes the entries of a chain that ends at this number, and leaves this head. False if it does not end there.
    async fn remove(&self, chain: ChainId, number: u64, head: &str) -> Result<bool, AuditError>;
}

/// A number as the databases have it.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// What entries behind this number are greater than. No writer leaves an entry that is not behind 0; all are behind it.
fn behind(number: u64) -> i64 {
    match number {
        0 => i64::MIN,
        number => signed(number),
    }
}

/// A number of the databases. A negative one, which no writer leaves, is out of any order.
fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
