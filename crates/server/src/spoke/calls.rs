//! Calls that a spoke has not answered yet.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use hub::CallOutcome;
use tokio::sync::{mpsc, oneshot};
use wire::{Form, Progress};

use crate::locks::lock;

/// Most requests of the app during one call. Few are granted, and each of the others costs a record with the whole
/// call in it; the time of the call does not run while one is answered.
pub(super) const MAX_REQUESTS: usize = 1_024;

/// What an app says of its progress that waits. More is dropped: the next says more.
const MAX_PROGRESS: usize = 16;

/// What became of a call.
#[derive(Debug)]
pub struct Executed {
    /// The outcome, as the hub labels it.
    pub outcome: CallOutcome,
    /// The result as the app wrote it, if [`Offer::exact`](wire::Offer::exact) asks for it: JSON text of an object. It has its images.
    pub exact: Option<String>,
}

impl From<CallOutcome> for Executed {
    fn from(outcome: CallOutcome) -> Self {
        let exact = None;
        Self { outcome, exact }
    }
}

#[derive(Default)]
pub(super) struct Calls(Mutex<Pending>);

#[derive(Default)]
struct Pending {
    last: u64,
    waiting: HashMap<u64, Waiting>,
}

/// A call whose frame may have been sent.
struct Waiting {
    answer: oneshot::Sender<Executed>,
    /// Where a request of the app goes. It has room for one: the spoke sends no second one before
    /// the first is answered.
    requests: mpsc::Sender<Asked>,
    progress: mpsc::Sender<Progress>,
    /// The request that has no answer, and the last one that had.
    open: Option<u64>,
    last: Option<u64>,
    asked: usize,
    /// Whether the spoke was told that the hub waits no more. Only then may it cancel.
    given_up: bool,
}

pub(super) struct Begun {
    pub(super) id: u64,
    pub(super) answer: oneshot::Receiver<Executed>,
    /// What the app asks for meanwhile.
    pub(super) requests: mpsc::Receiver<Asked>,
    /// How far it says it has come.
    pub(super) progress: mpsc::Receiver<Progress>,
}

pub(super) struct Asked {
    pub(super) request: u64,
    pub(super) form: Form,
}

impl Calls {
    pub(super) fn begin(&self) -> Begun {
        let (outcome, answer) = oneshot::channel();
        let (asked, requests) = mpsc::channel(1);
        let (said, progress) = mpsc::channel(MAX_PROGRESS);
        let mut pending = self.pending();
        pending.last += 1;
        let id = pending.last;
        let waiting = Waiting {
            answer: outcome,
            requests: asked,
            progress: said,
            open: None,
            last: None,
            asked: 0,
            given_up: false,
        };
        pending.waiting.insert(id, waiting);
        Begun {
            id,
            answer,
            requests,
            progress,
        }
    }

    /// Takes what the app says of its progress with a call.
    ///
    /// # Errors
    /// How it breaks the protocol.
    pub(super) fn progress(&self, id: u64, progress: Progress) -> Result<(), &'static str> {
        let pending = self.pending();
        let Some(waiting) = pending.waiting.get(&id) else {
            return Err("the progress of a call that does not run");
        };
        let _ = waiting.progress.try_send(progress);
        Ok(())
    }

    /// Takes a request of the app for a call.
    ///
    /// # Errors
    /// How it breaks the protocol.
    pub(super) fn ask(&self, id: u64, request: u64, form: Form) -> Result<(), &'static str> {
        let mut pending = self.pending();
        let Some(waiting) = pending.waiting.get_mut(&id) else {
            return Err("a request for a call that does not run");
        };
        // It crossed the end of the call, which answers it.
        if waiting.given_up {
            return Ok(());
        }
        if waiting.open.is_some() {
            return Err("two requests at once for one call");
        }
        if waiting.last.is_some_and(|last| request <= last) {
            return Err("a request with a number that was used before");
        }
        if waiting.asked >= MAX_REQUESTS {
            return Err("requests without end for one call");
        }
        waiting.asked += 1;
        waiting.open = Some(request);
        let sent = waiting.requests.try_send(Asked { request, form });
        sent.map_err(|_| "a request that nobody can take")
    }

    pub(super) fn replied(&self, id: u64) {
        let mut pending = self.pending();
        if let Some(waiting) = pending.waiting.get_mut(&id) {
            // Kept, so that a number which was answered cannot be asked about again.
            waiting.last = waiting.open.take();
        }
    }

    /// The call was never sent, so an answer to it is a breach.
    pub(super) fn forget(&self, id: u64) {
        let mut pending = self.pending();
        pending.waiting.remove(&id);
    }

    /// The hub waits no more, and is about to tell the spoke so.
    pub(super) fn give_up(&self, id: u64) {
        let mut pending = self.pending();
        if let Some(waiting) = pending.waiting.get_mut(&id) {
            waiting.given_up = true;
        }
    }

    /// Whether the call has no answer yet, and whether it was given up.
    pub(super) fn state(&self, id: u64) -> Option<bool> {
        let pending = self.pending();
        pending.waiting.get(&id).map(|waiting| waiting.given_up)
    }

    /// Returns whether the hub had asked for this.
    pub(super) fn finish(&self, id: u64, executed: impl Into<Executed>) -> bool {
        let mut pending = self.pending();
        match pending.waiting.remove(&id) {
            // The caller may have given up; that is not the spoke's fault.
            Some(waiting) => {
                let _ = waiting.answer.send(executed.into());
                true
            }
            None => false,
        }
    }

    pub(super) fn drop_all(&self) {
        let mut pending = self.pending();
        pending.waiting.clear();
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        // Each change is one insertion or removal: a thread that died leaves it whole.
        lock(&self.0)
    }
}
