//! What a monitor holds, as data, so that other processes and a restart know it.

use super::Monitor;
use super::session::{Allowed, Entry, Grant, State};
use crate::endorse::Endorsement;
use crate::ledger::{LedgerState, Receipt, ReceiptId};
use crate::{Call, Flow, History, Permit, Policy, PolicyError, Until};

/// What a monitor holds. Of two of one session the union counts, in which a call has the later of both states. Of the
/// answers for a turn alone, those of the later turn count.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct MonitorState {
    /// The number of the turn.
    pub turn: u64,
    /// What the user has allowed for longer than once.
    pub grants: Vec<Grant>,
    /// The calls that the user has refused in this turn.
    pub refusals: Vec<Call>,
    /// The calls that the user has allowed once in this turn.
    pub allowed: Vec<Allowed>,
    /// What the user vouches for.
    pub trust: Vec<Endorsement>,
    /// The calls that were permitted.
    pub ledger: LedgerState,
}

impl Monitor {
    /// What this monitor holds now.
    #[must_use]
    pub fn snapshot(&self) -> MonitorState {
        let state = self.state();
        let ledger = state.ledger().state();
        MonitorState {
            turn: state.turn,
            grants: state.grants.clone(),
            refusals: state.refusals.clone(),
            allowed: state.allowed.clone(),
            trust: state.endorsements.all.clone(),
            ledger,
        }
    }

    /// Takes over what another process knows of this session. Calls that this process has permitted and not sent may be
    /// [late](Receipt::is_late) then. An answer for taints that are not known any more (⊤) is left out. Trusted: it must come from a monitor of this session.
    pub fn absorb_tcb(&self, other: MonitorState) {
        let mut state = self.state();
        state.ledger().absorb(other.ledger);
        let is_later = other.turn > state.turn;
        if is_later {
            state.turn = other.turn;
            state.begin_turn();
        }
        let same_turn = other.turn == state.turn;
        for grant in other.grants {
            if !grant.taints.is_top()
                && (same_turn || grant.at_hosts.is_none())
                && !state.grants.contains(&grant)
            {
                state.grant(grant);
            }
        }
        let known = other.trust.into_iter().filter(|it| !it.taints.is_top());
        for mut endorsement in known {
            let reach = &mut endorsement.reach;
            reach.retain(|reach| same_turn || reach.until == Until::Session);
            state.endorsements.absorb(endorsement);
        }
        if same_turn {
            state.absorb_turn(other.refusals, other.allowed);
        }
    }

    /// Enters a call that the monitor of another session has permitted, before the call runs in this session. Trusted: the
    /// permit must have been redeemed here.
    ///
    /// # Errors
    /// The policy has no rule for the call.
    pub fn enter_tcb(
        &self,
        policy: &dyn Policy,
        history: &History,
        permit: &Permit,
    ) -> Result<(), PolicyError> {
        let sink = permit.flow.sink();
        let rule = self.rule(policy, history, &sink)?;
        let state = self.state();
        if let Some(entry) = Entry::of(&state, &sink, &rule) {
            entry.enter(&sink, &rule, permit.approval.as_deref(), &permit.stub.0);
        }
        Ok(())
    }

    /// The receipt of a call that was entered in the ledger, by any process.
    #[must_use]
    pub fn receipt(&self, id: ReceiptId) -> Option<Receipt> {
        self.state().ledger().find_receipt(id)
    }
}

impl State {
    fn absorb_turn(&mut self, refusals: Vec<Call>, allowed: Vec<Allowed>) {
        for call in refusals {
            if !self.refusals.contains(&call) {
                self.recall([call]);
            }
        }
        for call in allowed {
            if !call.excess.is_top() && !self.allowed.contains(&call) {
                self.allow(Some(call));
            }
        }
    }
}
