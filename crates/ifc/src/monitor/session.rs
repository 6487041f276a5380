//! The state of a session in the monitor.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::endorse::Endorsements;
use crate::host::by_hosts;
use crate::ledger::{Key, Ledger, Ran, Receipt, ReceiptId, Stub};
use crate::policy::Scope;
use crate::sink::Target;
use crate::{
    Approval, ArgumentPath, Basis, Call, Effect, Flow, History, Label, Labeled, PastCalls, Permit,
    PermittedCall, Principal, Rule, Sink,
};

/// The state on which decisions of one session depend, beside the policy.
#[derive(Default)]
pub(super) struct State {
    pub(super) grants: Vec<Grant>,
    /// Calls that the user has refused in this turn.
    pub(super) refusals: Vec<Call>,
    /// Counts the turns. Of two states, that of the later turn has the answers that count.
    pub(super) turn: u64,
    pub(super) endorsements: Endorsements,
    /// Calls that the user has allowed once in this turn.
    pub(super) allowed: Vec<Allowed>,
    /// Shared by monitors of one conversation that share nothing else.
    pub(super) ledger: Arc<Mutex<Ledger>>,
}

/// "Yes, for the session": one target or an argument of it, and the taints that the question showed.
#[derive(Clone, PartialEq, Eq)]
pub struct Grant {
    /// Where a flow leads that it covers.
    pub target: Target,
    /// What of the flow it covers.
    pub scope: Scope,
    /// The taints that it covers.
    pub taints: Label,
    /// For this turn alone: the control arguments, with the host in the place of each URL.
    pub at_hosts: Option<String>,
}

impl Grant {
    fn covers(&self, target: &Target, rule: &Rule, sink: &Sink<'_>) -> bool {
        let is_at = |own: &String| match sink {
            Sink::Call(call) => by_hosts(&call.arguments, rule).is_some_and(|(it, _)| it == *own),
            _ => false,
        };
        self.target == *target
            && self.scope.covers(&self.taints, rule, sink)
            && self.at_hosts.as_ref().is_none_or(is_at)
    }
}

/// A call that the user has allowed once, and what the question showed.
#[derive(Clone, PartialEq, Eq)]
pub struct Allowed {
    /// The call.
    pub call: Call,
    /// The taints beyond its limits.
    pub excess: Label,
    /// The texts of the causes.
    pub texts: Vec<Labeled>,
}

impl Allowed {
    /// What a yes to a call allows again in the task. Nothing, if each such call is a question of its own, if another app
    /// asks, or if it is not known what was in the way.
    pub(super) fn of(
        sink: &Sink<'_>,
        target: &Target,
        rule: &Rule,
        texts: Vec<Labeled>,
    ) -> Option<Self> {
        let (Sink::Call(call), Target::Tool(..)) = (sink, target) else {
            return None;
        };
        let excess = rule.excess(sink);
        let is_each = rule.once(sink) || excess.is_bottom();
        let is_unknown = excess.is_top() || texts.is_empty();
        (!is_each && !is_unknown).then(|| Self {
            call: (*call).clone(),
            excess,
            texts,
        })
    }

    /// Whether it covers another call: with the same arguments but for data within its limits, after no other text, and
    /// not below the first one, of which it may know nothing.
    fn covers(&self, other: &Self, rule: &Rule) -> bool {
        let parts = rule.parts(&Sink::Call(&other.call));
        let within = parts.iter().filter(|part| !part.exceeds());
        let data = within.filter_map(|part| part.argument);
        (&self.call.app, &self.call.tool) == (&other.call.app, &other.call.tool)
            && self.call.arguments.same_but(&other.call.arguments, data)
            && other.excess.flows_to(&self.excess)
            && other.texts.iter().all(|it| self.texts.contains(it))
            && Sink::Call(&self.call)
                .label()
                .flows_to(&Sink::Call(&other.call).label())
    }
}

/// Most calls that are remembered as allowed in one turn. Beyond it an equal call is asked about.
const MAX_ALLOWED: usize = 64;

/// Most grants of one session. Beyond it a yes counts once.
const MAX_GRANTS: usize = 1024;

/// Most refusals of one turn, many times the calls of a turn. Beyond it the user may be asked the same again.
const MAX_REFUSALS: usize = 1024;

impl State {
    /// The ledger, locked. Lock it after the state, never before.
    pub(super) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        // Each change is one push, so a poisoned ledger is consistent.
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Raises the limits of a call by what the user has vouched for. A call that serves another app's request is left
    /// as it is, since the user vouched for nothing in that app's name.
    pub(super) fn raise(&self, rule: &mut Rule, sink: &Sink<'_>, principal: &Principal) {
        // The user's trust is no approver's answer.
        if let (Sink::Call(call), Principal::User, None) = (sink, principal, &rule.approvers) {
            self.endorsements.raise(rule, call);
        }
    }

    /// The policy, or the user's word for the session. Takes the name out of a rule that allows the flow.
    pub(super) fn basis(
        &self,
        sink: &Sink<'_>,
        principal: &Principal,
        rule: &mut Rule,
    ) -> Option<Basis> {
        if !rule.always_ask && rule.admits(sink) {
            // Where an endorsed taint is beyond the policy's own limit, the user has allowed it.
            let is_policy = !rule.is_raised() || rule.unraised().admits(sink);
            return Some(match is_policy {
                true => Basis::Policy {
                    rule: std::mem::take(&mut rule.name),
                },
                false => Basis::UserTrust,
            });
        }
        // No grant covers a flow that the rule lets the user allow only once.
        if self.grants.is_empty() || rule.once(sink) {
            return None;
        }
        let target = principal.target(sink);
        // One grant must cover all of it: two answers do not add up to a third.
        let covers = |grant: &Grant| grant.covers(&target, rule, sink);
        self.grants.iter().any(covers).then_some(Basis::UserSession)
    }

    /// Whether the user has allowed an equal call in this turn, with all that the question about this one would show.
    pub(super) fn was_allowed(&self, call: &Allowed, rule: &Rule) -> bool {
        self.allowed.iter().any(|it| it.covers(call, rule))
    }

    pub(super) fn allow(&mut self, allowed: Option<Allowed>) {
        let room = MAX_ALLOWED.saturating_sub(self.allowed.len());
        self.allowed.extend(allowed.into_iter().take(room));
    }

    pub(super) fn grant(&mut self, grant: Grant) {
        if self.grants.len() < MAX_GRANTS {
            self.grants.push(grant);
        }
    }

    /// A refusal is known to steps at or above its label only. Otherwise a step above a label could tell something to a
    /// step at it, past the redactor.
    pub(super) fn is_refused(&self, call: &Call) -> bool {
        if self.refusals.is_empty() {
            return false;
        }
        let label = Sink::Call(call).label();
        // Data arguments are compared as well: the user has read them and refused them.
        let known = |past: &Call| past.same(call) && Sink::Call(past).label().flows_to(&label);
        self.refusals.iter().any(known)
    }

    pub(super) fn refuse(&mut self, sink: &Sink<'_>) {
        if let Sink::Call(call) = sink {
            self.recall([(*call).clone()]);
        }
    }

    /// The answers of the turn before are forgotten, and so is the trust that was given for its task.
    pub(super) fn begin_turn(&mut self) {
        self.refusals.clear();
        self.allowed.clear();
        self.grants.retain(|grant| grant.at_hosts.is_none());
        self.endorsements.begin_task();
    }

    /// Adds refusals.
    pub(super) fn recall(&mut self, refused: impl IntoIterator<Item = Call>) {
        let room = MAX_REFUSALS.saturating_sub(self.refusals.len());
        self.refusals.extend(refused.into_iter().take(room));
    }
}

/// The key of an irreversible call. Nothing else is entered in the ledger.
fn key(sink: &Sink<'_>, rule: &Rule) -> Option<Key> {
    match sink {
        Sink::Call(call) if rule.effect == Effect::Irreversible => {
            Some(Key::of(call, |out| rule.compared(&call.arguments, out)))
        }
        _ => None,
    }
}

/// The state of an equal irreversible call, whatever the labels of both. This is the one thing that a step may learn
/// of steps above it, by being asked about. A call that another machine made is known from the history alone.
fn ran(ledger: &Ledger, key: &Key, sink: &Sink<'_>, rule: &Rule, history: &History) -> Option<Ran> {
    let Sink::Call(call) = sink else {
        return None;
    };
    let is_same = |past: &_| rule.same(past, &call.arguments);
    ledger.find(key).or_else(|| history.ran(call, is_same))
}

/// What is entered in the ledger with a permit. The ledger stays locked from the look-up to the entry.
pub(super) struct Entry<'s> {
    ledger: MutexGuard<'s, Ledger>,
    pub(super) key: Option<Key>,
}

impl<'s> Entry<'s> {
    /// `None` if nothing is entered for such a flow.
    pub(super) fn of(state: &'s State, sink: &Sink<'_>, rule: &Rule) -> Option<Self> {
        let key = key(sink, rule);
        let is_entered = key.is_some() || rule.counted.is_some();
        is_entered.then(|| Self {
            ledger: state.ledger(),
            key,
        })
    }

    /// Whether a call was counted after these, on which the rule depends.
    pub(super) fn is_late(&self, past: &PastCalls, rule: &Rule) -> bool {
        rule.counted.is_some() && self.ledger.has_more_than(past)
    }

    /// What is known of an equal irreversible call.
    pub(super) fn ran(&self, sink: &Sink<'_>, rule: &Rule, history: &History) -> Option<Ran> {
        let key = self.key.as_ref()?;
        ran(&self.ledger, key, sink, rule, history)
    }

    /// Enters the call with this receipt. `approval` is the user's word for it.
    pub(super) fn enter(
        self,
        sink: &Sink<'_>,
        rule: &Rule,
        approval: Option<&Approval>,
        receipt: &Receipt,
    ) {
        let Self { mut ledger, key } = self;
        if let Some(key) = key {
            ledger.enter(key, receipt);
        }
        if let (Sink::Call(call), Some(counts)) = (sink, &rule.counted) {
            let control = call.control_label(rule.arguments.keys());
            // A call that the user was shown and has allowed is the user's own.
            let control = approval.map_or(control.clone(), |it| it.label(&control));
            let data = rule.arguments.keys().map(ArgumentPath::argument);
            let data = data.filter(|name| counts.arguments.iter().any(|it| it == name));
            let data = data.filter_map(|name| Some(call.arguments.get(name)?.label()));
            let label = data.fold(control, |all, label| all.join(&label));
            ledger.count(PermittedCall::new(call, counts, label, receipt.clone()));
        }
    }
}

/// Makes a permit. The call is entered into the ledger first: as soon as the permit is returned, it may be spent at any
/// moment.
pub(super) fn permit<F: Flow>(
    entry: Option<Entry<'_>>,
    flow: F,
    rule: &Rule,
    basis: Basis,
    approval: Option<Box<Approval>>,
) -> Permit<F> {
    let mut stub = Stub(Receipt::new(ReceiptId::default()));
    if let Some(mut entry) = entry {
        stub = Stub(entry.ledger.receipt());
        entry.enter(&flow.sink(), rule, approval.as_deref(), &stub.0);
    }
    Permit {
        flow,
        basis,
        approval,
        stub,
    }
}
