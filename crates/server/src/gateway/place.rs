//! The store of a gateway, where in it a client is, and the names of sessions.

use std::sync::{Arc, Mutex};

use hub::state::hex;
use ifc::Monitor;
use ring::hmac::{Context, HMAC_SHA256, Key};
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

impl Store {
    /// The name of a session, by which every replica knows that it was given to the client with this token.
    pub(super) fn session(&self, token: &Digest, random: &str) -> String {
        let mut seal = Context::with_key(&Key::new(HMAC_SHA256, &self.secret));
        for part in [b"mcp session", token.as_slice(), random.as_bytes()] {
            seal.update(part);
        }
        let seal = hex(&Sha256::digest(seal.sign()).into());
        format!("{random}.{seal}")
    }

    /// Whether a replica has given this session to the client with this token.
    pub(super) fn is_session_of(&self, token: &Digest, session: &str) -> bool {
        // Digests are compared, so that the time tells nothing about the seal.
        session.split_once('.').is_some_and(|(random, _)| {
            Sha256::digest(self.session(token, random)) == Sha256::digest(session)
        })
    }
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
