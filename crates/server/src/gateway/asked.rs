//! A question to the user while it waits, and what came of it.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use ifc::Answer;
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// What came of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AskOutcome {
    Answer(Answer),
    /// The answer was for one call, and an equal one has used it.
    UsedUp,
    /// No answer came, and why.
    Unanswered(String),
}

/// A question that waits, or its answer.
pub(super) struct Asked {
    pub(super) outcome: watch::Sender<Option<AskOutcome>>,
    pub(super) since: Instant,
    pub(super) is_used: AtomicBool,
    pub(super) task: AbortHandle,
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.task.abort();
    }
}
