//! A store whose operations are measured.

use std::sync::Arc;

use async_trait::async_trait;
use store::{Commit, Committed, Digest, LeftPermit, Loaded, SessionState, StateError, Time};

use super::metrics::Metrics;

/// The same store, with its times and failures in the metrics.
pub struct MeteredState {
    store: Arc<dyn SessionState>,
    metrics: Arc<Metrics>,
}

impl MeteredState {
    /// Measures this store.
    pub fn new(store: Arc<dyn SessionState>, metrics: Arc<Metrics>) -> Self {
        Self { store, metrics }
    }
}

#[async_trait]
impl SessionState for MeteredState {
    async fn load(
        &self,
        tenant: &Digest,
        seen: u64,
        session: Option<&Digest>,
    ) -> Result<Loaded, StateError> {
        let work = self.store.load(tenant, seen, session);
        self.metrics.stored("load", work).await
    }

    async fn commit(&self, tenant: &Digest, commit: Commit) -> Result<Committed, StateError> {
        self.metrics
            .stored("commit", self.store.commit(tenant, commit))
            .await
    }

    async fn redeem(
        &self,
        tenant: &Digest,
        key: &Digest,
        now: Time,
    ) -> Result<Option<LeftPermit>, StateError> {
        let work = self.store.redeem(tenant, key, now);
        self.metrics.stored("redeem", work).await
    }

    async fn withdraw(&self, tenant: &Digest, names: &[String]) -> Result<Vec<String>, StateError> {
        let work = self.store.withdraw(tenant, names);
        self.metrics.stored("withdraw", work).await
    }

    async fn usage(&self, tenant: &str, since: Time) -> Result<Vec<(String, u64)>, StateError> {
        self.metrics
            .stored("usage", self.store.usage(tenant, since))
            .await
    }

    async fn prune(&self, before: Time) -> Result<u64, StateError> {
        self.metrics.stored("prune", self.store.prune(before)).await
    }

    async fn ping(&self) -> Result<(), StateError> {
        self.metrics.stored("ping", self.store.ping()).await
    }
}
