//! The state of a front in a store that all replicas of a service share.
//!
//! What a front has in memory is a working copy. Before a request is decided on, [`StateHandle::load`] applies what other
//! replicas have appended to the log of its tenant, and reads the document of its conversation. Before an answer leaves,
//! [`StateHandle::commit`] writes what is new. If the store fails, the request is refused: nothing is permitted from memory.

mod session;

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use hub::recognise::Hold;
use store::{Commit, Committed, Digest, Document, Loaded, SessionState, StateError, Time};
use tokio::sync::Mutex as AsyncMutex;

pub(crate) use self::session::{Beside, SharedSession, Unwritten};
use crate::api::error::ApiError;
use crate::locks::lock;

/// Tenants whose log is followed. Beyond them the one that was used least recently is forgotten, and its log is read from
/// the start when it comes again. Below the number of tenants whose texts are recognised.
const MAX_LOGS: usize = 4_000;
/// Pages of one log that are read for one request. A log has a week of a tenant's texts at most.
const MAX_PAGES: usize = 4_096;

/// The store of a front.
#[derive(Clone)]
pub struct StateSetup {
    /// The store that all replicas share.
    pub store: Arc<dyn SessionState>,
    /// The secret of the deployment, the same at all replicas: conversations are named by digests under it.
    pub secret: Digest,
}

/// The store, and how far this front has followed it.
pub(crate) struct StateHandle {
    pub(crate) store: Arc<dyn SessionState>,
    logs: Mutex<Logs>,
}

#[derive(Default)]
struct Logs {
    all: HashMap<Digest, (Arc<Log>, u64)>,
    uses: u64,
}

/// The log of one tenant.
pub(crate) struct Log {
    pub(crate) tenant: Digest,
    position: AsyncMutex<Position>,
    /// Whether news will be written soon, even if their request fails.
    pub(crate) is_scheduled: AtomicBool,
    _hold: Option<Hold>,
}

#[derive(Default)]
struct Position {
    /// The number of the last record that was applied with all before it.
    seen: u64,
    /// The numbers of later records which this front has written itself.
    own: BTreeSet<u64>,
}

impl StateHandle {
    pub(crate) fn new(store: Arc<dyn SessionState>) -> Self {
        let logs = Mutex::default();
        Self { store, logs }
    }

    /// The log of a tenant. `hold` keeps the working copy of it as long as the log is known.
    pub(crate) fn log(&self, tenant: Digest, hold: impl FnOnce() -> Option<Hold>) -> Arc<Log> {
        let mut logs = lock(&self.logs);
        logs.uses += 1;
        let uses = logs.uses;
        if let Some((log, used)) = logs.all.get_mut(&tenant) {
            *used = uses;
            return Arc::clone(log);
        }
        if logs.all.len() >= MAX_LOGS {
            let idle = logs.all.iter();
            let idle = idle.filter(|(_, (log, _))| Arc::strong_count(log) == 1);
            let oldest = idle.min_by_key(|(_, (_, used))| *used);
            let oldest = oldest.map(|(name, _)| *name);
            oldest.and_then(|oldest| logs.all.remove(&oldest));
        }
        let log = Arc::new(Log {
            tenant,
            position: AsyncMutex::default(),
            is_scheduled: AtomicBool::new(false),
            _hold: hold(),
        });
        logs.all.insert(tenant, (Arc::clone(&log), uses));
        log
    }

    /// Applies what is new in the log, and returns the document of the session.
    ///
    /// # Errors
    /// The store fails, or a record cannot be read.
    pub(crate) async fn load(
        &self,
        log: &Log,
        session: Option<&Digest>,
        apply: impl Fn(&str) -> Result<(), String>,
    ) -> Result<Option<Document>, ApiError> {
        let mut seen = log.position.lock().await.seen;
        let mut loaded = self
            .store
            .load(&log.tenant, seen, session)
            .await
            .map_err(refused)?;
        let document = loaded.session.take();
        let mut position = log.position.lock().await;
        for _ in 0..MAX_PAGES {
            let more = loaded.more;
            position.apply(seen, loaded, &apply).map_err(damaged)?;
            if !more {
                return Ok(document);
            }
            seen = position.seen;
            let next = self.store.load(&log.tenant, seen, None).await;
            loaded = next.map_err(refused)?;
        }
        Err(damaged("the log of this client is too long".to_owned()))
    }

    /// Writes all of it, or nothing.
    ///
    /// # Errors
    /// The store fails. It may have written it all the same.
    pub(crate) async fn commit(&self, log: &Log, commit: Commit) -> Result<Committed, ApiError> {
        let count = u64::try_from(commit.records.len()).unwrap_or(u64::MAX);
        let committed = self
            .store
            .commit(&log.tenant, commit)
            .await
            .map_err(refused)?;
        if let Committed::At { head, .. } = committed {
            log.position.lock().await.wrote(head, count);
        }
        Ok(committed)
    }
}

impl Position {
    /// Applies the records of a page that are not known yet. The page is of those after `asked`.
    fn apply(
        &mut self,
        asked: u64,
        loaded: Loaded,
        apply: impl Fn(&str) -> Result<(), String>,
    ) -> Result<(), String> {
        let count = u64::try_from(loaded.records.len()).unwrap_or(u64::MAX);
        if loaded.head < asked && count > 0 {
            // The store is an older backup: its numbers are new ones. A page that is older than what another request has
            // read meanwhile is none.
            *self = Self::default();
        }
        let numbers = loaded.head.saturating_sub(count) + 1..;
        for (number, record) in numbers.zip(&loaded.records) {
            if number > self.seen && !self.own.contains(&number) {
                apply(record)?;
            }
        }
        self.reach(loaded.head);
        Ok(())
    }

    /// This front has written records, which it need not read.
    fn wrote(&mut self, head: u64, count: u64) {
        self.own.extend(head.saturating_sub(count) + 1..=head);
        self.reach(self.seen);
    }

    fn reach(&mut self, seen: u64) {
        self.seen = self.seen.max(seen);
        while let Some(own) = self.own.first().filter(|own| **own <= self.seen + 1) {
            self.seen = self.seen.max(*own);
            self.own.pop_first();
        }
    }
}

/// A random number, by which a front tells its sessions from those of other replicas, and of its own past.
pub(crate) fn seed() -> u64 {
    // Its keys are the system's random numbers, and others each time.
    RandomState::new().hash_one("seed")
}

pub(crate) fn now() -> Time {
    SystemTime::now().into()
}

/// What a client is told whose request needs the store. The reason may name a path of this machine, so it is in the log.
pub(crate) fn refused(error: StateError) -> ApiError {
    tracing::error!(target: "sluice::state", %error, "the state cannot be used");
    ApiError::unavailable(
        "the state of this service cannot be used, so nothing is permitted; try again",
    )
}

/// What a client is told of a record or document that cannot be read.
pub(crate) fn damaged(why: String) -> ApiError {
    ApiError::unavailable(format!(
        "the state of this conversation cannot be read, so nothing is permitted: {why}"
    ))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn page(head: u64, records: &[&str]) -> Loaded {
        Loaded {
            records: records.iter().map(|it| (*it).to_owned()).collect(),
            head,
            ..Loaded::default()
        }
    }

    #[test]
    fn each_record_of_another_replica_is_applied_once() {
        let mut position = Position::default();
        let applied = RefCell::new(Vec::new());
        let apply = |record: &str| {
            applied.borrow_mut().push(record.to_owned());
            Ok(())
        };
        position.apply(0, page(2, &["1", "2"]), apply).unwrap();
        // 4 and 5 are ours, and 3 is of another one.
        position.wrote(5, 2);
        assert_eq!(position.seen, 2);
        position
            .apply(2, page(6, &["3", "4", "5", "6"]), apply)
            .unwrap();
        // Another request has read the same.
        position.apply(2, page(4, &["3", "4"]), apply).unwrap();
        position.wrote(7, 1);
        assert_eq!((position.seen, position.own.len()), (7, 0));
        assert_eq!(*applied.borrow(), ["1", "2", "3", "6"]);
        // Records that were removed for their age leave a gap.
        position.apply(7, page(12, &["11", "12"]), apply).unwrap();
        assert_eq!(position.seen, 12);
        assert!(
            position
                .apply(12, page(13, &["13"]), |_| Err(String::new()))
                .is_err()
        );
        assert_eq!(position.seen, 12);
        // An older backup.
        position.apply(12, page(1, &["1"]), apply).unwrap();
        assert_eq!(position.seen, 1);
    }
}
