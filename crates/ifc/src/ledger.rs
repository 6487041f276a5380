//! The ledger of effects: which calls were permitted, and what is known of each.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::{Call, Label, Labeled, json};

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
const FAILED: u8 = 4;

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
            ANSWERED | FAILED => Some(Ran::Answered),
            _ => Some(Ran::Unknown),
        }
    }

    /// The call was answered with a result. This has no effect on a call that was not sent.
    pub fn answered(&self) {
        self.change(SPENT, ANSWERED);
    }

    /// The call was answered with an error. This has no effect on a call that was not sent.
    pub fn failed(&self) {
        self.change(SPENT, FAILED);
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

/// How a call counts for rules that depend on earlier calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counts {
    /// The name of the tool in the rules.
    pub tool: String,
    /// The arguments that are compared or added up.
    pub arguments: Vec<String>,
}

/// A call that was permitted in the session, as far as rules for other calls depend on it.
#[derive(Debug, Clone)]
pub struct PermittedCall {
    app: String,
    tool: String,
    arguments: Vec<(String, Labeled)>,
    label: Label,
    receipt: Receipt,
}

impl PermittedCall {
    /// A call that ran, and whether it was answered with a result that is no error. Only for what decides on no real call:
    /// the examples of a policy, and recorded sessions.
    #[must_use]
    pub fn example(call: &Call, succeeded: bool) -> Self {
        let names = call.arguments.iter().map(|(name, _)| name.to_owned());
        let counts = Counts {
            tool: call.tool.clone(),
            arguments: names.collect(),
        };
        let state = if succeeded { ANSWERED } else { FAILED };
        let receipt = Receipt(Arc::new(AtomicU8::new(state)));
        Self::new(call, &counts, call.label.clone(), receipt)
    }

    /// A call that counts so. `label` is that of its control part and of the arguments that count.
    pub(crate) fn new(call: &Call, counts: &Counts, label: Label, receipt: Receipt) -> Self {
        let arguments = counts.arguments.iter().filter_map(|name| {
            let value = call.arguments.get(name)?;
            Some((name.clone(), value.clone()))
        });
        Self {
            app: call.app.clone(),
            tool: counts.tool.clone(),
            arguments: arguments.collect(),
            label,
            receipt,
        }
    }

    /// Whether it is a call of this tool that ran or may still run.
    pub(crate) fn is_of(&self, app: &str, tool: &str) -> bool {
        self.app == app && self.tool == tool && self.receipt.ran().is_some()
    }

    /// The label of its control part and of its kept arguments.
    pub(crate) fn label(&self) -> &Label {
        &self.label
    }

    /// An argument that the rules compare or add up.
    #[must_use]
    pub fn argument(&self, name: &str) -> Option<&Labeled> {
        let mut arguments = self.arguments.iter();
        arguments.find_map(|(own, value)| (own == name).then_some(value))
    }

    /// Whether it was answered with a result that is no error.
    #[must_use]
    pub fn succeeded(&self) -> bool {
        self.receipt.0.load(Ordering::Acquire) == ANSWERED
    }
}

/// The counted calls of a session, oldest first.
#[derive(Debug, Clone, Default)]
pub struct PastCalls {
    pub(crate) calls: Arc<Vec<PermittedCall>>,
    /// Whether there were more than are kept.
    pub(crate) is_full: bool,
}

impl From<Vec<PermittedCall>> for PastCalls {
    fn from(calls: Vec<PermittedCall>) -> Self {
        Self {
            calls: Arc::new(calls),
            is_full: false,
        }
    }
}

/// The newest irreversible calls of a session, whatever the label of the step that made them.
///
/// A step that is re-run below the label of a payment does not see the payment, and would make it once more.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Oldest first.
    calls: VecDeque<(Key, Receipt)>,
    /// The calls that rules for other calls depend on, irreversible or not.
    pub(crate) counted: PastCalls,
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

    /// Counts a call that is about to be permitted.
    pub(crate) fn count(&mut self, call: PermittedCall) {
        match self.counted.calls.len() < Self::MAX {
            true => Arc::make_mut(&mut self.counted.calls).push(call),
            false => self.counted.is_full = true,
        }
    }

    /// Whether a call was counted since these were.
    pub(crate) fn has_more_than(&self, past: &PastCalls) -> bool {
        self.counted.calls.len() != past.calls.len() || self.counted.is_full != past.is_full
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
