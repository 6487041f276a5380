//! What the monitor holds of a session.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::endorse::Endorsements;
use crate::ledger::{Key, Ledger, Ran, Receipt, Stub};
use crate::policy::Scope;
use crate::sink::Target;
use crate::{Basis, Call, Collaboration, Effect, Flow, History, Label, Permit, Rule, Sink};

/// What decisions of one session depend on beside the policy: what the user granted for the session, what the user
/// refused in the turn, whom the user trusted, and what was done.
#[derive(Default)]
pub(super) struct State {
    pub(super) grants: Vec<Grant>,
    /// Calls that the user has said no to in this turn.
    pub(super) refusals: Vec<Call>,
    pub(super) endorsements: Endorsements,
    /// Shared by monitors of one conversation that share nothing else.
    pub(super) ledger: Arc<Mutex<Ledger>>,
}

/// "Yes, for the session": one target or an argument of it, and the taints that the user has seen in the
/// question.
pub(super) struct Grant {
    pub(super) target: Target,
    pub(super) scope: Scope,
    pub(super) taints: Label,
}

/// Grants that one session holds; nobody answers more often. Beyond it a yes is for once.
const MAX_GRANTS: usize = 1024;

/// Refusals that one turn holds: many times the steps and calls of a turn. Beyond it the user may be
/// asked the same again.
const MAX_REFUSALS: usize = 1024;

impl State {
    /// The ledger, locked. Always after the state.
    pub(super) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        // Each change is one push: the ledger of a thread that died is whole.
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The policy, or the user's word for the session.
    pub(super) fn basis(&self, sink: &Sink<'_>, behalf: &Behalf, rule: &Rule) -> Option<Basis> {
        if rule.admits(sink) && !rule.always_ask {
            // Where an endorsed taint is beyond the policy's own limit, it is the user's word.
            let is_policy = !rule.is_raised() || rule.unraised().admits(sink);
            return Some(match is_policy {
                true => Basis::Policy {
                    rule: rule.name.clone(),
                },
                false => Basis::UserTrust,
            });
        }
        // A flow that the rule lets the user allow only once is covered by no grant, whatever it was given for.
        if self.grants.is_empty() || rule.once(sink) {
            return None;
        }
        let target = behalf.target(sink);
        // One grant must cover all of it: two answers do not add up to a third.
        let covers =
            |grant: &Grant| grant.target == target && grant.scope.covers(&grant.taints, rule, sink);
        self.grants.iter().any(covers).then_some(Basis::UserSession)
    }

    pub(super) fn grant(&mut self, grant: Grant) {
        // The flow that was asked about is allowed all the same, as one that was allowed once.
        if self.grants.len() < MAX_GRANTS {
            self.grants.push(grant);
        }
    }

    /// A refusal is known to steps at or above its label only: otherwise a step above a label could
    /// speak to a step at it, past the redactor.
    pub(super) fn is_refused(&self, call: &Call) -> bool {
        let label = Sink::Call(call).label();
        // By all of the call, its data arguments too: the user has read them, and said no to them.
        let known = |past: &Call| past.same(call) && Sink::Call(past).label().flows_to(&label);
        self.refusals.iter().any(known)
    }

    pub(super) fn refuse(&mut self, sink: &Sink<'_>) {
        if let Sink::Call(call) = sink
            && self.refusals.len() < MAX_REFUSALS
        {
            self.refusals.push((*call).clone());
        }
    }

    /// Takes over refusals from elsewhere.
    pub(super) fn recall(&mut self, refused: impl IntoIterator<Item = Call>) {
        let room = MAX_REFUSALS.saturating_sub(self.refusals.len());
        self.refusals.extend(refused.into_iter().take(room));
    }
}

/// The key of an irreversible call; nothing else is entered in the ledger.
pub(super) fn key(sink: &Sink<'_>, rule: &Rule) -> Option<Key> {
    match sink {
        Sink::Call(call) if rule.effect == Effect::Irreversible => {
            Some(Key::of(call, |out| rule.compared(&call.arguments, out)))
        }
        _ => None,
    }
}

/// What is known of an equal call, if this one is irreversible. Whatever the labels of both: this
/// is the one thing that a step may learn of steps above it, by being asked about.
/// A call that another machine made is known by the history alone.
pub(super) fn ran(
    ledger: &Ledger,
    key: Option<&Key>,
    sink: &Sink<'_>,
    rule: &Rule,
    history: &History,
) -> Option<Ran> {
    match sink {
        Sink::Call(call) => {
            let is_same = |past: &_| rule.same(past, &call.arguments);
            ledger.find(key?).or_else(|| history.ran(call, is_same))
        }
        _ => None,
    }
}

/// Makes a permit, and enters an irreversible call into the ledger first.
pub(super) fn permit<F: Flow>(
    ledger: &mut Ledger,
    flow: F,
    key: Option<Key>,
    basis: Basis,
) -> Permit<F> {
    let stub = Stub(Receipt::new());
    if let Some(key) = key {
        // Before the permit leaves: from then on it may be spent at any moment, by whoever has it.
        ledger.enter(key, &stub.0);
    }
    Permit {
        flow,
        basis,
        approval: None,
        stub,
    }
}

/// In whose name a flow is made.
pub(super) enum Behalf {
    /// Its own conversation's.
    Own,
    /// Of another app, whose request the call serves.
    Requested(Collaboration),
    /// Of another app, whose request the app's model serves when it makes the call.
    Served(Collaboration),
}

impl Behalf {
    /// What a yes for longer than once is about.
    pub(super) fn target(&self, sink: &Sink<'_>) -> Target {
        match (self, sink) {
            (Self::Served(collaboration), Sink::Call(call)) => {
                Target::Served(Box::new(collaboration.clone()), call.tool.clone())
            }
            (Self::Requested(collaboration) | Self::Served(collaboration), _) => {
                Target::Collaboration(collaboration.clone())
            }
            (Self::Own, _) => sink.target(),
        }
    }
}
