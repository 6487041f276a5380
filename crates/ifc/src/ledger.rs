//! The ledger of effects: which calls were permitted, and what is known of each.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::{Call, json};

/// The state of a call that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ran {
    /// It was answered, with a result or an error. After an error it may have had an effect all the same.
    Answered,
    /// Its permit was spent and no answer has come, so it may have run.
    Unknown,
}

impl Ran {
    /// `answered` or `unknown`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Unknown => "unknown",
        }
    }
}

const PERMITTED: u8 = 0;
const SPENT: u8 = 1;
const ANSWERED: u8 = 2;
const VOID: u8 = 3;

/// The state of one permitted call, shared by its permit, the ledger and the code that waits for it.
#[derive(Debug, Clone)]
pub struct Receipt(Arc<AtomicU8>);

impl Receipt {
    pub(crate) fn new() -> Self {
        Self(Arc::new(AtomicU8::new(PERMITTED)))
    }

    /// The state of the call; `None` if its permit was dropped unspent. An unspent permit may be spent at any moment,
    /// so its call is [`Ran::Unknown`].
    #[must_use]
    pub fn ran(&self) -> Option<Ran> {
        match self.0.load(Ordering::Acquire) {
            VOID => None,
            ANSWERED => Some(Ran::Answered),
            _ => Some(Ran::Unknown),
        }
    }

    /// The call was answered. This has no effect on a call that was not sent.
    pub fn answered(&self) {
        self.change(SPENT, ANSWERED);
    }

    pub(crate) fn spent(&self) {
        self.change(PERMITTED, SPENT);
    }

    fn change(&self, from: u8, to: u8) {
        // Another state than `from` stays as it is.
        let _ = (self.0).compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
    }
}

/// The permit's side of a receipt: a permit that is dropped unspent has allowed nothing.
#[derive(Debug)]
pub(crate) struct Stub(pub(crate) Receipt);

impl Drop for Stub {
    fn drop(&mut self) {
        self.0.change(PERMITTED, VOID);
    }
}

/// Two irreversible calls with the same key are the same call: app, tool, and the arguments as their rule compares them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Key(String);

impl Key {
    /// The key of a call whose arguments `compared` appends as they are compared.
    pub(crate) fn of(call: &Call, compared: impl FnOnce(&mut String)) -> Self {
        let mut key = String::with_capacity(256);
        // In quotes, so that no name runs into the next one.
        json::write_string(&call.app, &mut key);
        json::write_string(&call.tool, &mut key);
        compared(&mut key);
        Self(key)
    }
}

/// The newest irreversible calls of a session, whatever the label of the step that made them.
///
/// A step that is re-run below the label of a payment does not see the payment, and would make it once more.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Oldest first.
    calls: VecDeque<(Key, Receipt)>,
}

impl Ledger {
    /// Most calls. For one more, those that never ran are forgotten, and then the oldest one. The monitor finds a forgotten
    /// call in the history, as long as that has it.
    pub(crate) const MAX: usize = 4096;

    /// The state of the newest equal call.
    pub(crate) fn find(&self, key: &Key) -> Option<Ran> {
        let equal = self.calls.iter().rev().filter(|(known, _)| known == key);
        // A permit that was dropped unspent is skipped: its call has not run.
        equal.map(|(_, receipt)| receipt).find_map(Receipt::ran)
    }

    /// Enters a call that is about to be permitted.
    pub(crate) fn enter(&mut self, key: Key, receipt: &Receipt) {
        if self.calls.len() >= Self::MAX {
            self.calls.retain(|(_, receipt)| receipt.ran().is_some());
        }
        if self.calls.len() >= Self::MAX {
            self.calls.pop_front();
        }
        self.calls.push_back((key, receipt.clone()));
    }
}
