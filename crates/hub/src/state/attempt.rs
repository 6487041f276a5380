//! How a request acts once where several processes share its conversation.
//!
//! A request is decided on by the working copy of one process. Its calls are released after they are in the document of the
//! conversation, which is written over the version that the working copy knows, and no other. If another process was faster,
//! the working copy absorbs what that one wrote ([`Monitor::absorb_tcb`]), and finds out whether the decisions still hold.
//!
//! [`Monitor::absorb_tcb`]: ifc::Monitor::absorb_tcb

use ifc::Receipt;

/// Most writes of one request. Each has failed because another request of the conversation was written meanwhile, so the
/// conversation as a whole goes on.
pub const WRITES: usize = 32;

/// One request on its way from the decision to the release of its calls.
#[derive(Debug)]
pub struct Attempt {
    calls: Vec<Receipt>,
    writes: usize,
    is_written: bool,
}

/// What the request does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Write the document that was read before this step was asked for, over the version that it was made from.
    Write,
    /// Release the calls.
    Release,
    /// Drop the permits. The client asks again, and the calls are decided on anew.
    GiveUp,
}

impl Attempt {
    /// An attempt to release the calls with these receipts.
    #[must_use]
    pub fn new(calls: Vec<Receipt>) -> Self {
        Self {
            calls,
            writes: 0,
            is_written: false,
        }
    }

    /// What to do next. It is asked after the document was made from the working copy, not before: else another request of this
    /// process could absorb, between the two, what makes a call late, and the document would count as one that knows it.
    pub fn poll(&mut self) -> Step {
        if self.is_written {
            return Step::Release;
        }
        // A call that other code has sent or dropped is not this request's to release.
        if self.writes >= WRITES || self.calls.iter().any(Receipt::is_late) {
            return Step::GiveUp;
        }
        self.writes += 1;
        Step::Write
    }

    /// The document was written. Where another version was found instead, or nothing is known of the write, this is not called.
    pub fn handle_written(&mut self) {
        self.is_written = true;
    }
}
