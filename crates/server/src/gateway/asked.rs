//! A question to the user while it waits, and what came of it.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use ifc::Answer;
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// What came of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Heard {
    Answer(Answer),
    /// The answer was for one call, and an equal one has used it.
    Again,
    /// Nobody answered, and why.
    Nobody(String),
}

/// A question that waits, or its answer.
pub(super) struct Asked {
    pub(super) heard: watch::Sender<Option<Heard>>,
    pub(super) since: Instant,
    pub(super) is_used: AtomicBool,
    pub(super) task: AbortHandle,
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.task.abort();
    }
}
