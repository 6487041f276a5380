//! What the conversations of a session have been told by memory and have left there.
//!
//! A memory may take longer than a turn waits for it, and what it keeps then is kept all the same:
//! all that follows from it must name it as a source. So the task that stores an entry notes it, and
//! what comes later asks the memory only when that is done.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use hub::Apps;
use hub::memory::Thread;
use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::locks::lock;

/// How long a turn waits for its memory: many times what a search among all entries takes. The user
/// would rather have an answer without it.
const PATIENCE: Duration = Duration::from_secs(3);

/// Why nothing is known of work that the user did not wait for.
pub(super) const INTERRUPTED: &str = "interrupted";

/// The conversations by their apps, and whose turn it is to ask the memory.
#[derive(Default)]
pub(super) struct Threads {
    of: BTreeMap<Apps, Arc<Mutex<Thread>>>,
    asking: Arc<tokio::sync::Mutex<()>>,
}

impl Threads {
    /// What the conversation of these apps has to do with memory.
    pub(super) fn of(&mut self, apps: &Apps) -> Told {
        let own = Arc::clone(self.of.entry(apps.clone()).or_default());
        let parts = match apps {
            Apps::Each(parts) => parts.iter().map(|app| Apps::One(app.clone())).collect(),
            _ => Vec::new(),
        };
        let parts = parts.iter().filter_map(|part| self.of.get(part));
        Told {
            own,
            parts: parts.map(Arc::clone).collect(),
        }
    }

    pub(super) fn retain(&mut self, stays: impl Fn(&Apps) -> bool) {
        self.of.retain(|apps, _| stays(apps));
    }

    /// Does work that waits for files or servers, for as long as the turn can wait; one after another. What
    /// has begun is done to its end, also when the turn waits no more.
    pub(super) async fn unless_slow<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, String> + Send + 'static,
        cancel: &Notify,
    ) -> Result<T, String> {
        let asking = Arc::clone(&self.asking);
        let asked = async move {
            let asking = asking.lock_owned().await;
            let work = move || {
                let done = work();
                drop(asking);
                done
            };
            spawn_blocking(work).await
        };
        tokio::select! {
            done = timeout(PATIENCE, asked) => match done {
                Ok(Ok(done)) => done,
                Ok(Err(_)) => Err("the memory failed unexpectedly".to_owned()),
                Err(_) => Err(format!("no answer within {} s", PATIENCE.as_secs())),
            },
            () = cancel.notified() => Err(INTERRUPTED.to_owned()),
        }
    }
}

/// What one conversation was told by memory and has left there.
#[derive(Clone)]
pub(super) struct Told {
    own: Arc<Mutex<Thread>>,
    /// Those whose answers it puts together.
    parts: Vec<Arc<Mutex<Thread>>>,
}

impl Told {
    pub(super) fn now(&self) -> MutexGuard<'_, Thread> {
        let mut own = lock(&self.own);
        for part in &self.parts {
            // So that what the parts were told by memory counts as a source of what is made of their answers.
            own.absorb(&lock(part));
        }
        own
    }
}
