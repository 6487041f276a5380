//! The audit log as rows: chains of entries, each chain with one signed head.
//!
//! The store keeps the texts as they are given. It neither makes nor checks digests and signatures: `server::audit` does.

mod rows;

use async_trait::async_trait;

use crate::{ChainId, StateError, Time};

pub(crate) use rows::{AuditRows, SCHEMA};

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

    /// Whether the batch is to be written to the chain that is found in the store, or is written already.
    fn follows(&self, found: Option<&AuditChain>) -> Result<bool, StateError> {
        let end = found.map_or(0, |found| found.number);
        let head = found.and_then(|found| found.head.as_ref());
        match () {
            () if end == self.base && found.is_some() == (self.base > 0) => Ok(true),
            () if end == self.last() && head == Some(&self.head) => Ok(false),
            () => Err(StateError::Failed(format!(
                "the chain {} of the audit log is not as this process left it; run `sluice audit verify`, then start again",
                self.chain
            ))),
        }
    }
}

/// A chain of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditChain {
    /// Which one.
    pub chain: ChainId,
    /// The number of its last entry.
    pub number: u64,
    /// Up to which entry the first entry of another chain names it; 0: none does.
    pub linked: u64,
    /// Its signed head. `None`: there are entries, and no head.
    pub head: Option<String>,
}

/// The audit log in a store. Each method is one transaction.
#[async_trait]
pub trait AuditLog: Send + Sync {
    /// The name of the store, which its password is no part of: `files` for those of a state folder, wherever it is, or the
    /// address of a database. It is not kept in the store, so that no one who can write there changes it.
    fn store(&self) -> String;

    /// Appends all of the entries and replaces the head, durably, or does nothing. The same batch may be appended again after
    /// an error, whether it was written before or not.
    ///
    /// # Errors
    /// The chain does not end at `base`, and what the store says.
    async fn append(&self, batch: &AuditBatch) -> Result<(), StateError>;

    /// All chains, and those of entries without one; or with `most` that many chains with entries that no other chain names.
    async fn chains(&self, most: Option<usize>) -> Result<Vec<AuditChain>, StateError>;

    /// The first page of the entries of a chain behind this number.
    async fn entries(&self, chain: ChainId, after: u64) -> Result<Vec<AuditEntry>, StateError>;

    /// The first page of the entries of all chains behind this one, in the order of their times.
    async fn read(
        &self,
        after: (Time, ChainId, u64),
    ) -> Result<Vec<(ChainId, AuditEntry)>, StateError>;

    /// Removes the entries of a chain that ends at this number, and leaves this head. False if it does not end there.
    async fn remove(&self, chain: ChainId, number: u64, head: &str) -> Result<bool, StateError>;
}
