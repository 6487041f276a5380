//! Calls that a spoke has not answered yet.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hub::CallOutcome;
use tokio::sync::oneshot;

/// Calls on the way.
#[derive(Default)]
pub(super) struct Calls(Mutex<Pending>);

#[derive(Default)]
struct Pending {
    last: u64,
    waiting: HashMap<u64, Waiting>,
}

/// A call whose frame may have been sent.
struct Waiting {
    answer: oneshot::Sender<CallOutcome>,
    /// Whether the spoke was told that nobody waits any more. Only then may it cancel.
    given_up: bool,
}

impl Calls {
    /// A new call, and where its outcome comes.
    pub(super) fn begin(&self) -> (u64, oneshot::Receiver<CallOutcome>) {
        let (answer, waiting) = oneshot::channel();
        let mut pending = self.pending();
        pending.last += 1;
        let id = pending.last;
        let given_up = false;
        pending.waiting.insert(id, Waiting { answer, given_up });
        (id, waiting)
    }

    /// The call was never sent: whoever answers it answers nothing.
    pub(super) fn forget(&self, id: u64) {
        let mut pending = self.pending();
        pending.waiting.remove(&id);
    }

    /// Nobody waits any more, and the spoke is about to be told so.
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

    /// Whether somebody had asked for this.
    pub(super) fn finish(&self, id: u64, outcome: CallOutcome) -> bool {
        let mut pending = self.pending();
        match pending.waiting.remove(&id) {
            // Whoever asked may have given up; that is not the spoke's fault.
            Some(waiting) => {
                let _ = waiting.answer.send(outcome);
                true
            }
            None => false,
        }
    }

    /// No call will be answered any more.
    pub(super) fn drop_all(&self) {
        let mut pending = self.pending();
        pending.waiting.clear();
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        // Each change is one insertion or removal: a thread that died leaves it whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
