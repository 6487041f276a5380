//! The store of a gateway, and where in it a client is.

use std::sync::{Arc, Mutex};

use ifc::Monitor;
use sha2::{Digest as _, Sha256};
use store::Digest;

use crate::state::{Log, SharedSession, StateHandle};

/// The store of a gateway.
pub(super) struct Store {
    pub(super) state: StateHandle,
    pub(super) secret: Digest,
    /// A random number, by which this process tells its sessions from those of others.
    pub(super) seed: u64,
}

/// The client of a token in the store.
pub(super) struct StoredClient {
    pub(super) log: Arc<Log>,
    pub(super) key: Digest,
    pub(super) session: SharedSession,
    /// Records that were not written yet.
    pub(super) news: Mutex<Vec<String>>,
}

impl StoredClient {
    pub(super) fn new(store: &Store, tenant: Digest, monitor: Monitor) -> Self {
        let own = [b"gateway".as_slice(), &store.secret, &tenant].concat();
        Self {
            log: store.state.log(tenant, || None),
            key: Sha256::digest(own).into(),
            session: SharedSession::new(monitor),
            news: Mutex::default(),
        }
    }
}
