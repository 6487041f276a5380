//! The reference monitor: the one place that decides (RTBAS Algorithm 4, lines 7 to 11).

pub(crate) mod session;
pub(crate) mod snapshot;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::endorse::Offer;
use crate::host::by_hosts;
use crate::policy::Scope;
use crate::sink::Target;
use crate::trusted::Extent;
use crate::{
    Answer, Approval, Basis, Call, Cause, Decision, Denial, Dimension, Exceeded, Flow, History,
    Label, Lattice, Part, PastCalls, Permissible, Permissions, Permit, Policy, PolicyError,
    Principal, Question, Ran, Relevance, Rule, Sink, Source,
};
use session::{Allowed, Grant, State};

/// Decides on every sink of one session. Beside the policy, decisions depend on what it holds: what the user granted for
/// the session, what the user refused in this turn, and which irreversible calls were made.
///
/// A `Monitor` is a handle: clones share one state.
#[derive(Clone)]
pub struct Monitor {
    state: Arc<Mutex<State>>,
    permissions: Option<Arc<dyn Permissions>>,
    /// The taints that the user may be asked to vouch for: those about integrity.
    integrity: Label,
}

impl Monitor {
    /// A monitor of a session in which nothing was granted, refused or done.
    pub fn new() -> Self {
        Self {
            state: Arc::default(),
            permissions: None,
            integrity: Label::bottom(),
        }
    }

    /// The same, where the user may vouch for texts. This concerns integrity only: a secret stays secret.
    #[must_use]
    pub fn with_trust(self, lattice: &Lattice) -> Self {
        self.with_trust_in(lattice, 0)
    }

    /// The same for one of several sessions whose labels are stored together. The number of the session keeps its
    /// endorsements apart from those of the others. Processes that share a session give it one number, which is not to be
    /// guessed.
    #[must_use]
    pub fn with_trust_in(self, lattice: &Lattice, session: u64) -> Self {
        self.state().endorsements.session = session;
        let integrity = lattice.whole(Dimension::Integrity);
        Self { integrity, ..self }
    }

    /// The same with the ledger of another monitor: both together permit an irreversible call once without a question.
    /// Grants and refusals are not shared.
    #[must_use]
    pub fn with_ledger_of(self, other: &Self) -> Self {
        self.state().ledger = Arc::clone(&other.state().ledger);
        self
    }

    /// The same with a ledger whose entries are told from those of other processes by this number, which must be random.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        self.state().ledger().seed = seed;
        self
    }

    /// The same with the permissions that the user has stored. They are read at every decision, so a revoked one
    /// counts no more.
    #[must_use]
    pub fn with_permissions(self, permissions: Arc<dyn Permissions>) -> Self {
        let permissions = Some(permissions);
        Self {
            permissions,
            ..self
        }
    }

    /// Decides on a flow of the user's conversation, without a screening. See [`Monitor::decide_as`].
    pub fn decide<F: Flow>(&self, policy: &dyn Policy, history: &History, flow: F) -> Decision<F> {
        self.decide_as(
            policy,
            history,
            &Relevance::Everything,
            flow,
            &Principal::User,
        )
    }

    /// Decides on a flow that is made in this name. An error of the policy denies.
    ///
    /// A flow is allowed if three things hold:
    /// - each of its parts flows to its limit, or one grant or permission covers the rest;
    /// - the rule does not ask about every flow;
    /// - it is not an irreversible call that was permitted before.
    ///
    /// A call is also allowed if the user has allowed an equal one in this task, with all that is in its way now in view.
    /// Otherwise the user is asked, or the rule denies it. `relevance` chooses what a question shows and offers, and
    /// nothing else.
    pub fn decide_as<F: Flow>(
        &self,
        policy: &dyn Policy,
        history: &History,
        relevance: &Relevance,
        flow: F,
        principal: &Principal,
    ) -> Decision<F> {
        let sink = flow.sink();
        let past = self.past();
        let mut rule = match sink.judged_by(policy, history, &past) {
            Ok(rule) => rule,
            Err(error) => return Decision::Deny(Denial::Policy(error.0)),
        };
        let state = self.state();
        state.raise(&mut rule, &sink, principal);
        // The ledger stays locked from the look-up to the entry: of two equal irreversible calls that are decided on at
        // the same time, one is asked about.
        let entry = session::Entry::of(&state, &sink, &rule);
        if entry.as_ref().is_some_and(|it| it.is_late(&past, &rule)) {
            // Another call was permitted meanwhile, on which the rule depends.
            drop(entry);
            drop(state);
            return self.decide_as(policy, history, relevance, flow, principal);
        }
        let ran = entry.as_ref();
        let ran = ran.and_then(|entry| entry.ran(&sink, &rule, history));
        if ran.is_none()
            && let Some(basis) = state.basis(&sink, principal, &mut rule)
        {
            return Decision::Allow(session::permit(entry, flow, &rule, basis, None));
        }
        let is_irreversible = entry.as_ref().is_some_and(|entry| entry.key.is_some());
        drop(entry);
        // A refusal counts where a question would follow. Grants and permissions come first, since the user may have
        // given one after the refusal.
        let refused = matches!(sink, Sink::Call(call) if state.is_refused(call));
        // Permissions are read from a file, and other decisions must not wait for that. They never cover an irreversible
        // call, so nothing has to be entered in the ledger.
        drop(state);
        let target = principal.target(&sink);
        if !is_irreversible && let Some(basis) = self.permission(&sink, &target, &rule) {
            let state = self.state();
            let entry = session::Entry::of(&state, &sink, &rule);
            if entry.as_ref().is_some_and(|it| it.is_late(&past, &rule)) {
                drop(entry);
                drop(state);
                return self.decide_as(policy, history, relevance, flow, principal);
            }
            return Decision::Allow(session::permit(entry, flow, &rule, basis, None));
        }
        let excess = rule.excess(&sink);
        // Before the refusal of this turn: a denial by the policy names its rule, and outlasts the turn.
        if rule.exceeded == Exceeded::Deny && !excess.is_bottom() {
            let rule = rule.name;
            return Decision::Deny(Denial::Exceeded { rule, excess });
        }
        if refused {
            return Decision::Deny(Denial::RefusedBefore);
        }
        if self.was_allowed(history, &sink, &target, &rule) {
            let state = self.state();
            let entry = session::Entry::of(&state, &sink, &rule);
            return Decision::Allow(session::permit(entry, flow, &rule, Basis::UserBefore, None));
        }
        let question = self.question(history, relevance, flow, target, rule, ran);
        Decision::Ask(question.with_instead(policy))
    }

    /// Whether the user has allowed an equal call in this turn, with all that a question about this one would show.
    fn was_allowed(
        &self,
        history: &History,
        sink: &Sink<'_>,
        target: &Target,
        rule: &Rule,
    ) -> bool {
        // Most turns have none, and causes are looked for in all of the history.
        if self.state().allowed.is_empty() {
            return false;
        }
        let causes = history.causes(&rule.parts(sink), &Relevance::Everything);
        let call = Allowed::of(sink, target, rule, history.texts_of(&causes));
        call.is_some_and(|call| self.state().was_allowed(&call, rule))
    }

    /// The question to the user.
    fn question<F: Flow>(
        &self,
        history: &History,
        relevance: &Relevance,
        flow: F,
        target: Target,
        rule: Rule,
        ran: Option<Ran>,
    ) -> Question<F> {
        let sink = flow.sink();
        let parts = rule.parts(&sink);
        let excess = parts.iter().map(Part::excess).collect();
        let scope = Scope::of(&parts);
        // A permission does not name one data argument. A yes to that would be stored as a yes to the whole call.
        let what = permissible(&sink, &target, &rule).zip(self.permissions.as_ref());
        let can_last = scope == Some(Scope::Whole)
            && what.is_some_and(|(what, permissions)| permissions.can_keep(what));
        // Other tenants of a host may read there what a secret has chosen.
        let can_host = rule.unallowed(&sink).unendorsed().flows_to(&self.integrity);
        let causes = history.causes(&parts, relevance);
        // Where another app asks for the call, the user's answer endorses nothing in this conversation.
        let own = match (&sink, &target) {
            (Sink::Call(call), Target::Tool(..)) => Some(*call),
            _ => None,
        };
        // Trust raises limits, so it helps only where a limit is exceeded.
        let offer = own
            .filter(|_| ran.is_none() && !rule.always_ask && rule.approvers.is_none())
            .and_then(|call| self.offer(history, call, &rule, &excess, &causes));
        let approval =
            own.and_then(|call| Approval::of(call, rule.arguments.keys(), &self.integrity));
        Question {
            excess,
            flow,
            rule: Box::new(rule),
            target: Box::new(target),
            texts: history.texts_of(&causes),
            causes,
            waiting: Vec::new(),
            ran,
            scope,
            can_last,
            can_host,
            offer: offer.map(Box::new),
            approval: approval.map(Box::new),
            instead: None,
        }
    }

    /// The texts that the user can vouch for, if that could let a call pass: nothing but integrity is in its way, and each of
    /// these taints comes from the texts. The call is decided on again afterwards, so a screener that chose the wrong
    /// causes cannot let it pass.
    fn offer(
        &self,
        history: &History,
        call: &Call,
        rule: &Rule,
        excess: &Label,
        causes: &[Cause],
    ) -> Option<Offer> {
        let taints = excess.unendorsed();
        // ⊤ does not flow to the integrity taints, so the unknown is never offered.
        if taints.is_bottom()
            || !taints.flows_to(&self.integrity)
            || !self.state().endorsements.has_room()
        {
            return None;
        }
        let (mut texts, mut regions) = (Vec::new(), Vec::new());
        let mut explained = Label::bottom();
        for cause in causes.iter().filter(|cause| cause.relevant) {
            match cause.source {
                Source::Tool(_) | Source::User => {}
                // It blocks every call of a step that was shown it. The step is re-run without it.
                Source::Description(_) => continue,
                // Memories are not offered: they come back in conversations that this question is not about.
                _ => return None,
            }
            if history.has_tainted_image(cause, &taints) {
                return None;
            }
            explained.absorb(&cause.excerpt.label());
            // A text that has the taint only from the step that asked for it has it from another cause.
            if let Some(text) = history.offered(cause, &taints) {
                regions.push(cause.region);
                if !texts.contains(&text) {
                    texts.push(text);
                }
            }
        }
        // If other regions bring some of the taints too, the same question would follow at once.
        let are_few = (1..=Offer::MOST).contains(&texts.len());
        if !are_few || !taints.flows_to(&explained.unendorsed()) {
            return None;
        }
        let mut offer = history.offer(texts, regions, taints, call, rule);
        // What the user has said before does not help. A text is offered as well where its values are.
        let state = self.state();
        let have = |extent| state.endorsements.have(&offer, extent, call, rule);
        let (value, source) = (have(Extent::Values), have(Extent::Writers));
        let text = have(Extent::Texts);
        if value || text {
            offer.values.clear();
        }
        if source {
            offer.writers.clear();
        }
        (!text).then_some(offer)
    }

    /// The policy's rule for a sink of the user's conversation, with the limits of a call raised by what the user has
    /// vouched for.
    ///
    /// # Errors
    /// The policy has none.
    pub fn rule(
        &self,
        policy: &dyn Policy,
        history: &History,
        sink: &Sink<'_>,
    ) -> Result<Rule, PolicyError> {
        let mut rule = sink.judged_by(policy, history, &self.past())?;
        self.state().raise(&mut rule, sink, &Principal::User);
        Ok(rule)
    }

    /// The permission that covers what the rule does not allow by itself.
    fn permission(&self, sink: &Sink<'_>, target: &Target, rule: &Rule) -> Option<Basis> {
        let permissions = self.permissions.as_ref()?;
        let what = permissible(sink, target, rule)?;
        let id = permissions.find(what, &rule.unallowed(sink))?;
        Some(Basis::Permission { id })
    }

    /// Whether no label is in the way of a flow of the user's conversation. See [`Monitor::would_allow_as`].
    #[must_use]
    pub fn would_allow<F: Flow>(&self, policy: &dyn Policy, history: &History, flow: &F) -> bool {
        self.would_allow_as(policy, history, flow, &Principal::User)
    }

    /// Whether no label is in the way of a flow: [`Monitor::decide_as`] would allow it, unless it is an irreversible
    /// call that was permitted before. No permit is made.
    #[must_use]
    pub fn would_allow_as<F: Flow>(
        &self,
        policy: &dyn Policy,
        history: &History,
        flow: &F,
        principal: &Principal,
    ) -> bool {
        let sink = &flow.sink();
        let Ok(mut rule) = sink.judged_by(policy, history, &self.past()) else {
            return false;
        };
        let state = self.state();
        state.raise(&mut rule, sink, principal);
        if state.basis(sink, principal, &mut rule).is_some() {
            return true;
        }
        let refused = matches!(sink, Sink::Call(call) if state.is_refused(call));
        drop(state);
        let target = principal.target(sink);
        self.permission(sink, &target, &rule).is_some()
            || !refused && self.was_allowed(history, sink, &target, &rule)
    }

    /// Turns the user's answer into a permit or a denial, and remembers it. Trusted: the answer must
    /// be the user's.
    ///
    /// # Errors
    /// The denial, if the answer was no, or was not among [`Question::choices`].
    pub fn settle_tcb<F: Flow>(
        &self,
        question: Question<F>,
        answer: Answer,
    ) -> Result<Permit<F>, Denial> {
        // A front may bring any answer. One that was not offered allows nothing.
        let offered = question.choices().contains(&answer);
        let covers = question.covers();
        let Question {
            flow,
            rule,
            target,
            scope,
            approval,
            texts,
            ..
        } = question;
        let allowed = match answer {
            Answer::Once | Answer::Each => Allowed::of(&flow.sink(), &target, &rule, texts),
            _ => None,
        };
        let basis = match answer {
            Answer::No => Err(Denial::Refused {
                rule: rule.name.clone(),
            }),
            // An answer to another question is no approver's.
            Answer::Each if !offered && rule.approvers.is_some() => Err(Denial::OnceOnly),
            // The machine, which knows the step's other calls, answers for each of them.
            Answer::Once | Answer::Each => Ok(Basis::UserOnce),
            Answer::Session | Answer::Host | Answer::Always | Answer::AlwaysFolder if !offered => {
                Err(Denial::OnceOnly)
            }
            // Trust is no permit: see `vouch_tcb`.
            Answer::Trust(_) | Answer::TrustValue | Answer::TrustSource => Err(Denial::OnceOnly),
            Answer::Session | Answer::Host => match scope {
                Some(scope) => {
                    let at_hosts = match (answer, flow.sink()) {
                        (Answer::Host, Sink::Call(call)) => by_hosts(&call.arguments, &rule),
                        _ => None,
                    };
                    self.state().grant(Grant {
                        target: *target,
                        scope,
                        taints: covers,
                        // Offered only where there is a host.
                        at_hosts: at_hosts.map(|(control, _)| control),
                    });
                    Ok(Basis::UserSession)
                }
                None => Err(Denial::OnceOnly),
            },
            Answer::Always | Answer::AlwaysFolder => {
                let mut what = permissible(&flow.sink(), &target, &rule);
                if let (Answer::AlwaysFolder, Some(Permissible::Tool { arguments, .. })) =
                    (answer, &mut what)
                {
                    // It was offered, so there is one.
                    *arguments = arguments.in_folders().unwrap_or_default();
                }
                match self.keep(what, &covers) {
                    Ok(id) => Ok(Basis::Permission { id }),
                    Err(reason) => Err(Denial::NotKept(reason)),
                }
            }
        };
        let mut state = self.state();
        match basis {
            Ok(basis) => {
                state.allow(allowed);
                let entry = session::Entry::of(&state, &flow.sink(), &rule);
                Ok(session::permit(entry, flow, &rule, basis, approval))
            }
            Err(denial) => {
                // It has not happened, and the same question would follow.
                state.refuse(&flow.sink());
                Err(denial)
            }
        }
    }

    /// The user vouches for the texts that a question offers, or for what this answer says of them, in the conversation of these apps. Returns the call, which
    /// the caller decides on again. Trusted: the answer must be the user's.
    ///
    /// # Errors
    /// The denial, if the question does not offer it.
    pub fn vouch_tcb(
        &self,
        question: Question<Call>,
        answer: Answer,
        place: &BTreeSet<String>,
    ) -> Result<Call, Denial> {
        let Question { flow, offer, .. } = question;
        let mut state = self.state();
        match offer.zip(answer.trusts()) {
            // Other machines of the session may have filled the room since the question was made.
            Some((offer, (extent, until)))
                if offer.has(extent) && state.endorsements.has_room() =>
            {
                state.endorsements.add(&offer, place, extent, until);
                Ok(flow)
            }
            _ => {
                state.refuse(&flow.sink());
                Err(Denial::OnceOnly)
            }
        }
    }

    /// Endorses in the history of a conversation of these apps what the user has vouched for there, and what was derived
    /// from it. Call it after each answer and each result.
    pub fn endorse(&self, history: &mut History, place: &BTreeSet<String>) {
        self.state().endorsements.endorse(history, place);
    }

    /// The counted calls of the session.
    fn past(&self) -> PastCalls {
        self.state().ledger().counted.clone()
    }

    fn keep(&self, what: Option<Permissible<'_>>, taints: &Label) -> Result<String, String> {
        match (&self.permissions, what) {
            (Some(permissions), Some(what)) => permissions.keep(what, taints),
            _ => Err("there is nowhere to keep it".to_owned()),
        }
    }

    /// A turn begins: the answers of the turn before are forgotten, and so is the trust that was given for its task.
    pub fn begin_turn(&self) {
        let mut state = self.state();
        state.turn += 1;
        state.begin_turn();
    }

    /// Adds calls that the user has refused in this turn, from a stored conversation.
    pub fn recall_refusals(&self, refused: impl IntoIterator<Item = Call>) {
        self.state().recall(refused);
    }

    /// The calls that the user has refused in this turn, oldest first.
    #[must_use]
    pub fn refusals(&self) -> Vec<Call> {
        self.state().refusals.clone()
    }

    /// Whether the user has refused this very call in this turn, as far as a step under its label may know.
    #[must_use]
    pub fn is_refused(&self, call: &Call) -> bool {
        self.state().is_refused(call)
    }

    /// Whether the user has refused anything in this turn that a step under `label` may know of.
    #[must_use]
    pub fn has_refused_below(&self, label: &Label) -> bool {
        let state = self.state();
        let mut refusals = state.refusals.iter();
        refusals.any(|call| Sink::Call(call).label().flows_to(label))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it holds the lock, and each change is one push, so a poisoned state is consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The permission that could cover a flow; `None` where each flow is asked about by itself.
fn permissible<'a>(sink: &Sink<'a>, target: &'a Target, rule: &Rule) -> Option<Permissible<'a>> {
    match (target, sink) {
        _ if rule.once(sink) => None,
        // A permission of two apps has no arguments that could bound a call.
        (Target::Served(..), _) | (Target::Collaboration(_), Sink::Call(_)) => None,
        (Target::Collaboration(collaboration), _) => {
            Some(Permissible::Collaboration(collaboration))
        }
        (_, Sink::Call(call)) => Some(Permissible::Tool {
            app: &call.app,
            tool: &call.tool,
            effect: rule.effect,
            arguments: rule.bounds(call)?,
        }),
        (Target::Domain(app, domain), _) => Some(Permissible::Domain { app, domain }),
        _ => None,
    }
}

impl fmt::Debug for Monitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        write!(
            f,
            "Monitor({} grants, {} refusals)",
            state.grants.len(),
            state.refusals.len()
        )
    }
}

impl Default for Monitor {
    fn default() -> Self {
        Self::new()
    }
}
