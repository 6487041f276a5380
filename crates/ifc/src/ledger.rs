//! The ledger of effects: which calls were permitted, and what is known of each.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::Call;

/// What is known of a call that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ran {
    /// It was answered, with a result or with an error: an error does not say that nothing happened.
    Answered,
    /// Its permit was spent and no answer has come: nobody knows whether it ran.
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

/// The state of one permitted call, shared by its permit, the ledger and whoever waits for it.
#[derive(Debug, Clone)]
pub struct Receipt(Arc<AtomicU8>);

impl Receipt {
    pub(crate) fn new() -> Self {
        Self(Arc::new(AtomicU8::new(PERMITTED)))
    }

    /// What is known of the call; `None` if its permit was dropped unspent, so that it never runs.
    /// While the permit is still there it may be spent at any moment: [`Ran::Unknown`].
    #[must_use]
    pub fn ran(&self) -> Option<Ran> {
        match self.0.load(Ordering::Acquire) {
            VOID => None,
            ANSWERED => Some(Ran::Answered),
            _ => Some(Ran::Unknown),
        }
    }

    /// The call was answered. Without effect on one that was not sent.
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

/// The irreversible calls of a session, whatever the label of the step that made them.
///
/// A step sees only what is below its own label, so a step that is taken again below the label of a
/// payment does not see the payment, and would make it once more. The ledger does see it.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// By app, tool and the canonical text of the arguments: what makes two calls the same.
    calls: BTreeMap<(String, String, String), Vec<Receipt>>,
    count: usize,
}

impl Ledger {
    /// Irreversible calls of one session, beyond what anybody would confirm or review. Without a
    /// bound a session of weeks would grow with its every call.
    pub(crate) const MAX: usize = 4096;

    /// What is known of the newest equal call.
    pub(crate) fn find(&self, call: &Call) -> Option<Ran> {
        // Permits that were dropped unspent are passed over: nothing has happened by them.
        let mut newest = self.calls.get(&key(call))?.iter().rev();
        newest.find_map(Receipt::ran)
    }

    /// Enters a call that is about to be permitted.
    ///
    /// # Errors
    /// The ledger is full: the call must not be permitted.
    pub(crate) fn enter(&mut self, call: &Call, receipt: &Receipt) -> Result<(), Full> {
        if self.count >= Self::MAX {
            // Turns that were stopped leave such entries behind; what may have run is never forgotten.
            self.forget_void();
        }
        if self.count >= Self::MAX {
            return Err(Full);
        }
        let equal = self.calls.entry(key(call)).or_default();
        equal.push(receipt.clone());
        self.count += 1;
        Ok(())
    }

    /// Drops the entries of permits that were never spent.
    fn forget_void(&mut self) {
        self.calls.retain(|_, equal| {
            equal.retain(|receipt| receipt.ran().is_some());
            !equal.is_empty()
        });
        self.count = self.calls.values().map(Vec::len).sum();
    }
}

fn key(call: &Call) -> (String, String, String) {
    let arguments = call.arguments.to_json();
    (call.app.clone(), call.tool.clone(), arguments)
}

/// There is no room for another irreversible call.
#[derive(Debug)]
pub(crate) struct Full;
