//! The ledger of effects: which calls were permitted, and what is known of each.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

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

/// The state of a permitted call. Each process that knows the call may know a later one; of two, the greater counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallState {
    /// Its permit is in the hands of a request, unspent.
    Permitted,
    /// Its permit waits for another front, which may redeem it at any moment.
    Left,
    /// Its permit was dropped or taken back unspent: the call has not run.
    Void,
    /// Its permit was spent, and no answer has come.
    Spent,
    /// It was answered with a result.
    Answered,
    /// It was answered with an error.
    Failed,
}

impl CallState {
    /// All of them, in their order.
    pub const ALL: [Self; 6] = [
        Self::Permitted,
        Self::Left,
        Self::Void,
        Self::Spent,
        Self::Answered,
        Self::Failed,
    ];

    /// `permitted`, `left`, `void`, `spent`, `answered` or `failed`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Permitted => "permitted",
            Self::Left => "left",
            Self::Void => "void",
            Self::Spent => "spent",
            Self::Answered => "answered",
            Self::Failed => "failed",
        }
    }

    /// The state with this number.
    fn of(number: u8) -> Self {
        // Nothing else writes the number. An unknown state is that of a call that may have run.
        let state = Self::ALL.get(usize::from(number));
        state.copied().unwrap_or(Self::Spent)
    }
}

/// Names a permitted call in the ledgers of all processes that share its conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ReceiptId {
    /// Of the ledger that it was entered in ([`Monitor::with_seed`](crate::Monitor::with_seed)).
    pub seed: u64,
    /// Counts the entries of that ledger.
    pub number: u64,
}

/// The state of one permitted call, shared by its permit, the ledger and the code that waits for it.
#[derive(Debug, Clone)]
pub struct Receipt(Arc<Known>);

#[derive(Debug)]
struct Known {
    id: ReceiptId,
    state: AtomicU8,
    late: AtomicBool,
}

impl Receipt {
    /// A receipt of a call whose permit is unspent.
    pub(crate) fn new(id: ReceiptId) -> Self {
        Self::restored(id, CallState::Permitted)
    }

    /// The receipt of a call that another process has permitted.
    pub(crate) fn restored(id: ReceiptId, state: CallState) -> Self {
        Self(Arc::new(Known {
            id,
            state: AtomicU8::new(state as u8),
            late: AtomicBool::new(false),
        }))
    }

    /// The name of the call.
    #[must_use]
    pub fn id(&self) -> ReceiptId {
        self.0.id
    }

    /// What is known of the call.
    #[must_use]
    pub fn state(&self) -> CallState {
        CallState::of(self.0.state.load(Ordering::Acquire))
    }

    /// Whether the call would not be permitted now without a question, since another process has permitted an equal one or one
    /// on which its rule depends, and the call was not sent before this was known.
    #[must_use]
    pub fn is_late(&self) -> bool {
        self.0.late.load(Ordering::Acquire)
    }

    /// The state of the call; `None` if its permit was dropped unspent. An unspent permit may be spent at any moment,
    /// so its call is [`Ran::Unknown`].
    #[must_use]
    pub fn ran(&self) -> Option<Ran> {
        match self.state() {
            CallState::Void => None,
            CallState::Answered | CallState::Failed => Some(Ran::Answered),
            CallState::Permitted | CallState::Left | CallState::Spent => Some(Ran::Unknown),
        }
    }

    /// The call was answered with a result. This has no effect on a call that was not sent.
    pub fn answered(&self) {
        self.change(CallState::Spent, CallState::Answered);
    }

    /// The call was answered with an error. This has no effect on a call that was not sent.
    pub fn failed(&self) {
        self.change(CallState::Spent, CallState::Failed);
    }

    /// The call was sent: another front has redeemed the permit that was [left](crate::Permit::leave), or another process has
    /// released it. This has no effect on a call that has not run.
    pub fn sent(&self) {
        self.change(CallState::Permitted, CallState::Spent);
        self.change(CallState::Left, CallState::Spent);
    }

    /// The permit was left and is taken back: the call has not run and cannot run any more. Trusted: the permit must be gone
    /// from where it was left, and not because the other front has redeemed it.
    pub fn withdrawn_tcb(&self) {
        self.change(CallState::Permitted, CallState::Void);
        self.change(CallState::Left, CallState::Void);
    }

    pub(crate) fn spent(&self) {
        self.change(CallState::Permitted, CallState::Spent);
    }

    pub(crate) fn left(&self) {
        self.change(CallState::Permitted, CallState::Left);
    }

    /// Another process knows this of the call.
    fn raise(&self, state: CallState) {
        self.0.state.fetch_max(state as u8, Ordering::AcqRel);
    }

    fn mark_late(&self) {
        self.0.late.store(true, Ordering::Release);
    }

    fn change(&self, from: CallState, to: CallState) {
        // Another state than `from` stays as it is.
        let (from, to) = (from as u8, to as u8);
        let state = &self.0.state;
        let _ = state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
    }
}

/// The permit's side of a receipt: a permit that is dropped unspent has allowed nothing.
#[derive(Debug)]
pub(crate) struct Stub(pub(crate) Receipt);

impl Drop for Stub {
    fn drop(&mut self) {
        self.0.change(CallState::Permitted, CallState::Void);
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
        let state = match succeeded {
            true => CallState::Answered,
            false => CallState::Failed,
        };
        let receipt = Receipt::restored(ReceiptId::default(), state);
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
        self.receipt.state() == CallState::Answered
    }
}

/// What a ledger knows, as data.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LedgerState {
    /// The irreversible calls, oldest first.
    pub calls: Vec<EnteredCall>,
    /// The calls that rules for other calls depend on, oldest first.
    pub counted: Vec<CountedCall>,
    /// Whether there were more of those than are kept.
    pub is_full: bool,
}

/// An irreversible call of a ledger. `Debug` does not show its arguments.
#[derive(Clone, PartialEq, Eq)]
pub struct EnteredCall {
    /// Its name.
    pub id: ReceiptId,
    /// App, tool and arguments as their rule compares them. Calls with one key are the same.
    pub key: String,
    /// What is known of it.
    pub state: CallState,
}

impl fmt::Debug for EnteredCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EnteredCall({:?}, {:?})", self.id, self.state)
    }
}

/// A counted call of a ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountedCall {
    /// Its name.
    pub id: ReceiptId,
    /// What is known of it.
    pub state: CallState,
    /// The app that has the tool.
    pub app: String,
    /// The name of the tool in the rules.
    pub tool: String,
    /// The arguments that are compared or added up.
    pub arguments: Vec<(String, Labeled)>,
    /// The label of its control part and of these arguments.
    pub label: Label,
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
    /// Of the ids of its own entries, the others being those of other processes.
    pub(crate) seed: u64,
    /// How many entries of its own it has had.
    entered: u64,
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

    /// A receipt for a call that is about to be entered or counted.
    pub(crate) fn receipt(&mut self) -> Receipt {
        self.entered += 1;
        Receipt::new(ReceiptId {
            seed: self.seed,
            number: self.entered,
        })
    }

    /// The receipt of an entered or counted call.
    pub(crate) fn find_receipt(&self, id: ReceiptId) -> Option<Receipt> {
        let mut all = self.receipts();
        all.find(|receipt| receipt.id() == id).cloned()
    }

    fn receipts(&self) -> impl Iterator<Item = &Receipt> {
        let counted = self.counted.calls.iter().map(|call| &call.receipt);
        self.calls.iter().map(|(_, receipt)| receipt).chain(counted)
    }

    pub(crate) fn state(&self) -> LedgerState {
        let calls = self.calls.iter().map(|(key, receipt)| EnteredCall {
            id: receipt.id(),
            key: key.0.clone(),
            state: receipt.state(),
        });
        let counted = self.counted.calls.iter().map(|call| CountedCall {
            id: call.receipt.id(),
            state: call.receipt.state(),
            app: call.app.clone(),
            tool: call.tool.clone(),
            arguments: call.arguments.clone(),
            label: call.label.clone(),
        });
        LedgerState {
            calls: calls.collect(),
            counted: counted.collect(),
            is_full: self.counted.is_full,
        }
    }

    /// Adds what another process knows. A call of this ledger with an unspent permit is late if its decision would be another
    /// one now: an equal call is new, or it is counted and a counted one is.
    pub(crate) fn absorb(&mut self, other: LedgerState) {
        let seed = self.seed;
        let is_open = move |receipt: &&Receipt| {
            receipt.id().seed == seed && receipt.state() == CallState::Permitted
        };
        let mut known: BTreeMap<ReceiptId, Receipt> = self
            .receipts()
            .map(|receipt| (receipt.id(), receipt.clone()))
            .collect();
        let counted = self.counted.calls.iter().map(|call| &call.receipt);
        let counted: Vec<Receipt> = counted.filter(is_open).cloned().collect();
        for EnteredCall { id, key, state } in other.calls {
            let key = Key(key);
            let old = known.get(&id).cloned();
            let is_known = old.as_ref().is_some_and(|old| old.ran().is_some());
            let receipt = old.clone().unwrap_or_else(|| Receipt::restored(id, state));
            receipt.raise(state);
            if !is_known && receipt.ran().is_some() {
                let equal = self.calls.iter().filter(|(own, _)| *own == key);
                let open = equal.map(|(_, receipt)| receipt).filter(is_open);
                open.for_each(Receipt::mark_late);
            }
            if old.is_none() {
                known.insert(id, receipt.clone());
                self.enter(key, &receipt);
            }
        }
        let own = self.counted.calls.iter().map(|call| call.receipt.id());
        let own: BTreeSet<ReceiptId> = own.collect();
        let mut is_more = other.is_full && !self.counted.is_full;
        self.counted.is_full |= other.is_full;
        for call in other.counted {
            // An irreversible one was entered as well, and has one receipt.
            let receipt = known.remove(&call.id);
            let receipt = receipt.unwrap_or_else(|| Receipt::restored(call.id, call.state));
            receipt.raise(call.state);
            if own.contains(&call.id) {
                continue;
            }
            is_more |= receipt.ran().is_some();
            self.count(PermittedCall {
                app: call.app,
                tool: call.tool,
                arguments: call.arguments,
                label: call.label,
                receipt,
            });
        }
        if is_more {
            counted.iter().for_each(Receipt::mark_late);
        }
    }
}
