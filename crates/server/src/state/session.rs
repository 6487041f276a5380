//! The session of a conversation that several replicas share: a monitor, and its document in the store.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::http::StatusCode;
use hub::state::{Attempt, SessionDoc, Step};
use ifc::state::MonitorState;
use ifc::{Lattice, Monitor, Receipt};
use sha2::{Digest as _, Sha256};
use store::{Commit, Committed, Digest, Document, SessionWrite};
use tokio::sync::Mutex as AsyncMutex;

use super::{Log, StateHandle, damaged, lock, now};
use crate::api::error::ApiError;

/// A session that several replicas share. A handle.
#[derive(Clone)]
pub(crate) struct SharedSession {
    monitor: Monitor,
    known: Arc<Mutex<Known>>,
    /// Held while the document is written, so that requests of this process do not overtake each other.
    writing: Arc<AsyncMutex<()>>,
}

/// What the store has of a session, as far as is known.
#[derive(Default)]
struct Known {
    version: u64,
    /// When it was written, in milliseconds of Unix time.
    at: u64,
    /// The digest of the document.
    body: Digest,
}

/// What a document has beside the monitor. A front has one for each session.
pub(crate) trait Beside: Sync {
    /// What it holds now, with the monitor's part. The time is filled in later.
    fn document(&self, monitor: MonitorState) -> SessionDoc;

    /// A document that was not written for longer than this counts as empty.
    fn age(&self) -> Duration;

    /// Takes over what another replica has written. The monitor's part is taken over already.
    fn absorb(&self, document: SessionDoc);
}

/// Why a session was not written.
#[derive(Debug)]
pub(crate) enum Unwritten {
    /// Another replica has permitted an equal call meanwhile. What was permitted has to be given up and decided on anew.
    Overtaken,
    /// The store fails.
    Failed(ApiError),
}

impl From<Unwritten> for ApiError {
    fn from(unwritten: Unwritten) -> Self {
        match unwritten {
            Unwritten::Failed(error) => error,
            Unwritten::Overtaken => {
                let message = "another request of this conversation was faster; try again";
                Self::unavailable(message).with_status(StatusCode::CONFLICT)
            }
        }
    }
}

impl SharedSession {
    pub(crate) fn new(monitor: Monitor) -> Self {
        Self {
            monitor,
            known: Arc::default(),
            writing: Arc::default(),
        }
    }

    /// Takes over what the store has of this session.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn absorb(
        &self,
        document: Option<&Document>,
        beside: &dyn Beside,
        lattice: &Lattice,
    ) -> Result<(), ApiError> {
        let mut known = lock(&self.known);
        let Some(document) = document else {
            // It was never written, or is too old to be kept.
            *known = Known::default();
            return Ok(());
        };
        if document.version <= known.version {
            return Ok(());
        }
        let mut read = SessionDoc::read(&document.body, lattice).map_err(damaged)?;
        let at = read.at;
        if Duration::from_millis(millis().saturating_sub(at)) <= beside.age() {
            self.monitor.absorb_tcb(std::mem::take(&mut read.monitor));
            beside.absorb(read);
        }
        *known = Known {
            version: document.version,
            at,
            body: digest(&document.body),
        };
        Ok(())
    }

    /// Writes the session with all that `commit` has. Only then the calls with these receipts may run.
    ///
    /// # Errors
    /// See [`Unwritten`].
    pub(crate) async fn commit(
        &self,
        (state, log): (&StateHandle, &Log),
        key: Digest,
        commit: Commit,
        calls: Vec<Receipt>,
        beside: &dyn Beside,
        lattice: &Lattice,
    ) -> Result<(), Unwritten> {
        let _writing = self.writing.lock().await;
        let mut attempt = Attempt::new(calls);
        loop {
            // Before the rest is read: what is absorbed meanwhile has another version.
            let (base, at, known) = {
                let known = lock(&self.known);
                (known.version, known.at, known.body)
            };
            let mut document = beside.document(self.monitor.snapshot());
            document.at = at;
            match attempt.poll() {
                Step::Write => {}
                Step::Release => return Ok(()),
                Step::GiveUp => return Err(Unwritten::Overtaken),
            }
            let mut commit = commit.clone();
            let mut written = Known {
                version: 0,
                at: millis(),
                body: known,
            };
            // One that has nothing new but its time is not written.
            let is_kept = base > 0 || !document.is_empty();
            if is_kept && digest(&document.write(lattice)) != known {
                document.at = written.at;
                let body = document.write(lattice);
                written.body = digest(&body);
                commit.session = Some(SessionWrite { key, base, body });
            } else if commit.records.is_empty() && commit.permits.is_empty() {
                return Ok(());
            }
            match state.commit(log, commit).await.map_err(Unwritten::Failed)? {
                Committed::At { version, .. } => {
                    attempt.handle_written();
                    let mut known = lock(&self.known);
                    // 0 where no document was written.
                    if version > known.version {
                        *known = Known { version, ..written };
                    }
                }
                Committed::Behind(document) => {
                    let absorbed = self.absorb(document.as_ref(), beside, lattice);
                    absorbed.map_err(Unwritten::Failed)?;
                }
            }
        }
    }
}

fn millis() -> u64 {
    now().millis().unsigned_abs()
}

fn digest(body: &str) -> Digest {
    Sha256::digest(body).into()
}
