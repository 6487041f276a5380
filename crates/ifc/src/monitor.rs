//! The reference monitor: the one place that decides (RTBAS Algorithm 4, lines 7 to 11).

mod session;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::endorse::{Offer, Until};
use crate::policy::Scope;
use crate::sink::Target;
use crate::{
    Answer, Approval, Basis, Call, Cause, Collaboration, Decision, Denial, Dimension, Exceeded,
    Flow, History, Label, Lattice, Permissible, Permissions, Permit, PermittedDomain,
    PermittedTool, Policy, PolicyError, Question, Ran, Relevance, Rule, Sink, Source,
};
use session::{Behalf, Grant, State};

/// Decides on every sink of one session, and holds what decisions depend on beside the policy: what
/// the user granted for the session, what the user refused in the turn, and what was done.
///
/// A `Monitor` is a handle: clones share one state, so several turns of one conversation (a proxy
/// makes one machine per request) are decided as one session.
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

    /// The same, where the user may vouch for texts: as far as integrity goes. A secret stays one,
    /// whoever is trusted.
    #[must_use]
    pub fn with_trust(self, lattice: &Lattice) -> Self {
        self.with_trust_in(lattice, 0)
    }

    /// The same for one of several sessions whose labels are kept together: what is endorsed in one, by
    /// its number, is not so in another.
    #[must_use]
    pub fn with_trust_in(self, lattice: &Lattice, session: u64) -> Self {
        self.state().endorsements.number_from(session);
        let integrity = lattice.whole(Dimension::Integrity);
        Self { integrity, ..self }
    }

    /// The same, with the ledger of another monitor: no irreversible call is permitted by both of them unasked. What was
    /// granted and refused by the one does not count by the other.
    #[must_use]
    pub fn with_ledger_of(self, other: &Self) -> Self {
        self.state().ledger = Arc::clone(&other.state().ledger);
        self
    }

    /// The same, with what the user has allowed for good. It is looked at on every decision, so that
    /// what is revoked counts no more.
    #[must_use]
    pub fn with_permissions(self, permissions: Arc<dyn Permissions>) -> Self {
        let permissions = Some(permissions);
        Self {
            permissions,
            ..self
        }
    }

    /// Decides on a flow. Any error of the policy denies.
    ///
    /// A flow is allowed exactly if each of its parts flows to its limit, or the rule lets the user be asked
    /// and one grant or permission covers what goes beyond them; if the rule does not ask about every flow; and if it is not an irreversible
    /// call that was permitted before. Whatever else can be answered by the user is a question,
    /// `history` says what brought its taints.
    pub fn decide<F: Flow>(&self, policy: &dyn Policy, history: &History, flow: F) -> Decision<F> {
        self.decide_screened(policy, history, &Relevance::Everything, flow)
    }

    /// The same for a flow of a step that was screened: a question shows what the screener left in.
    /// `relevance` decides over nothing else.
    pub fn decide_screened<F: Flow>(
        &self,
        policy: &dyn Policy,
        history: &History,
        relevance: &Relevance,
        flow: F,
    ) -> Decision<F> {
        self.decide_for(policy, history, relevance, flow, &Behalf::Own)
    }

    /// The same for a call by which an app serves the request of another one: a yes for longer than
    /// once is about their collaboration, and what was said about the tool alone does not count.
    pub fn decide_requested(
        &self,
        policy: &dyn Policy,
        history: &History,
        relevance: &Relevance,
        call: Call,
        collaboration: Collaboration,
    ) -> Decision {
        let behalf = Behalf::Requested(collaboration);
        self.decide_for(policy, history, relevance, call, &behalf)
    }

    /// The same for a call that an app's model makes while it serves the request of another one: a yes
    /// for the session is about this tool in this collaboration, and no permission speaks for it. What the
    /// user allowed in the app's own conversations was not said of another one's requests, and a word on a
    /// collaboration not of every tool that a model could think of.
    pub fn decide_served(
        &self,
        policy: &dyn Policy,
        history: &History,
        relevance: &Relevance,
        call: Call,
        collaboration: Collaboration,
    ) -> Decision {
        let behalf = Behalf::Served(collaboration);
        self.decide_for(policy, history, relevance, call, &behalf)
    }

    fn decide_for<F: Flow>(
        &self,
        policy: &dyn Policy,
        history: &History,
        relevance: &Relevance,
        flow: F,
        behalf: &Behalf,
    ) -> Decision<F> {
        let sink = flow.sink();
        let rule = match self.rule_for(policy, history, &sink, behalf) {
            Ok(rule) => rule,
            Err(error) => return Decision::Deny(Denial::Policy(error.0)),
        };
        let key = session::key(&sink, &rule);
        let state = self.state();
        // One lock from the look into the ledger to the entry in it: of two equal irreversible calls that are decided
        // on at the same time, one is asked about.
        let mut ledger = state.ledger();
        let ran = session::ran(&ledger, key.as_ref(), &sink, &rule, history);
        if ran.is_none()
            && let Some(basis) = state.basis(&sink, behalf, &rule)
        {
            return Decision::Allow(session::permit(&mut ledger, flow, key, basis));
        }
        drop(ledger);
        // A no counts where a question would follow. Grants and permissions come first: the user may have given one
        // since.
        let refused = matches!(sink, Sink::Call(call) if state.is_refused(call));
        // A permission is looked for in a file: nobody else's decision waits for it. It is about nothing
        // irreversible, so no equal call can be entered in the ledger meanwhile.
        drop(state);
        let target = behalf.target(&sink);
        if ran.is_none()
            && let Some(basis) = self.permission(&sink, &target, &rule)
        {
            return Decision::Allow(session::permit(
                &mut self.state().ledger(),
                flow,
                key,
                basis,
            ));
        }
        let excess = rule.excess(&sink);
        // Before the no of this turn: a denial by the policy names its rule, and stays one when the turn is over.
        if rule.exceeded == Exceeded::Deny && !excess.is_bottom() {
            let rule = rule.name;
            return Decision::Deny(Denial::Exceeded { rule, excess });
        }
        if refused {
            return Decision::Deny(Denial::RefusedBefore);
        }
        Decision::Ask(self.question(history, relevance, flow, target, rule, ran))
    }

    /// What the user is asked, and what each answer could mean. A call that was sent before is asked about whatever its
    /// label.
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
        let scope = Scope::of(&rule, &sink);
        // A permission names a tool, two apps or a domain, and no argument: a yes about one data argument would be kept
        // as one about the whole call.
        let can_last = self.permissions.is_some()
            && scope == Some(Scope::Whole)
            && permissible(&sink, &target, &rule).is_some();
        // A screening decides what a question shows and offers, and not whether there is one.
        let causes = history.causes(&rule.parts(&sink), relevance);
        let offer = match (&sink, &target) {
            // To vouch for texts raises limits. Where a call is asked about whatever its label, and where it serves
            // another app's request (`rule_for`), no limit stands in the way that it would raise.
            (Sink::Call(call), Target::Tool(..)) if ran.is_none() && !rule.always_ask => {
                self.offer(history, call, &rule, &causes)
            }
            _ => None,
        };
        // Where another app asks for the call, it is not the user's word in this conversation.
        let approval = match (&sink, &target) {
            (Sink::Call(call), Target::Tool(..)) => {
                Approval::of(call, rule.arguments.keys(), &self.integrity)
            }
            _ => None,
        };
        Question {
            excess: rule.excess(&sink),
            flow,
            rule: Box::new(rule),
            target: Box::new(target),
            causes,
            ran,
            scope,
            can_last,
            offer: offer.map(Box::new),
            approval: approval.map(Box::new),
        }
    }

    /// What the user can vouch for, where that could let a call pass: nothing but integrity stands in its
    /// way, and each of these taints comes from the texts. What comes of it is decided later, and not
    /// believed here: the causes are a screener's choice.
    fn offer(
        &self,
        history: &History,
        call: &Call,
        rule: &Rule,
        causes: &[Cause],
    ) -> Option<Offer> {
        let taints = rule.excess(&Sink::Call(call)).unendorsed();
        // ⊤ is not below the integrity taints either: nobody can vouch for what nobody can name.
        let is_nameable = !taints.is_bottom() && taints.flows_to(&self.integrity);
        if !is_nameable || !self.state().endorsements.has_room() {
            return None;
        }
        let (mut texts, mut regions) = (Vec::new(), Vec::new());
        let mut explained = Label::bottom();
        for cause in causes.iter().filter(|cause| cause.relevant) {
            // Descriptions and memories are not offered: they come back in conversations that this question is not
            // about.
            let (Source::Tool(_) | Source::User) = cause.source else {
                return None;
            };
            if history.has_tainted_image(cause, &taints) {
                return None;
            }
            explained = explained.join(&cause.excerpt.label());
            // What has a taint from the step that asked for it has it from another cause.
            if let Some(text) = history.offered(cause, &taints) {
                regions.push(cause.region);
                if !texts.contains(&text) {
                    texts.push(text);
                }
            }
        }
        let are_few = (1..=Offer::MOST).contains(&texts.len());
        let offer = Offer {
            texts,
            regions,
            taints,
            app: call.app.clone(),
            effect: rule.effect,
        };
        // Where other regions bring some of the taints as well, or the user has said it all before, the same question
        // would follow at once.
        let helps = are_few
            && offer.taints.flows_to(&explained.unendorsed())
            && !self.state().endorsements.have(&offer);
        helps.then_some(offer)
    }

    /// The policy's rule for a sink, with the limits of a call raised by what the user has vouched for.
    ///
    /// # Errors
    /// The policy has none.
    pub fn rule(
        &self,
        policy: &dyn Policy,
        history: &History,
        sink: &Sink<'_>,
    ) -> Result<Rule, PolicyError> {
        self.rule_for(policy, history, sink, &Behalf::Own)
    }

    /// Not where another app's request is served: nobody vouched for a text in that app's name.
    fn rule_for(
        &self,
        policy: &dyn Policy,
        history: &History,
        sink: &Sink<'_>,
        behalf: &Behalf,
    ) -> Result<Rule, PolicyError> {
        let mut rule = sink.judged_by(policy, history)?;
        // The policy has judged the labels as if nobody had vouched for anything (`judged_by`); only here the user's
        // word raises its limits, and only those of calls.
        if let (Sink::Call(call), Behalf::Own) = (sink, behalf) {
            self.state().endorsements.raise(&mut rule, call);
        }
        Ok(rule)
    }

    /// The permission that covers what the rule does not allow by itself.
    fn permission(&self, sink: &Sink<'_>, target: &Target, rule: &Rule) -> Option<Basis> {
        let permissions = self.permissions.as_ref()?;
        let what = permissible(sink, target, rule)?;
        // Asked anew for each decision, and kept nowhere: what is revoked stops the very next call.
        let id = permissions.find(what, &rule.unallowed(sink))?;
        Some(Basis::Permission { id })
    }

    /// Whether no label stands in the way of a flow: [`Monitor::decide`] would allow it, unless it
    /// is an irreversible call that was permitted before. No permit is made.
    #[must_use]
    pub fn would_allow<F: Flow>(&self, policy: &dyn Policy, history: &History, flow: &F) -> bool {
        self.would_allow_for(policy, history, &flow.sink(), &Behalf::Own)
    }

    /// The same of [`Monitor::decide_requested`].
    #[must_use]
    pub fn would_allow_requested(
        &self,
        policy: &dyn Policy,
        history: &History,
        call: &Call,
        collaboration: Collaboration,
    ) -> bool {
        let behalf = Behalf::Requested(collaboration);
        self.would_allow_for(policy, history, &call.sink(), &behalf)
    }

    /// The same of [`Monitor::decide_served`].
    #[must_use]
    pub fn would_allow_served(
        &self,
        policy: &dyn Policy,
        history: &History,
        call: &Call,
        collaboration: Collaboration,
    ) -> bool {
        let behalf = Behalf::Served(collaboration);
        self.would_allow_for(policy, history, &call.sink(), &behalf)
    }

    fn would_allow_for(
        &self,
        policy: &dyn Policy,
        history: &History,
        sink: &Sink<'_>,
        behalf: &Behalf,
    ) -> bool {
        let allows = |rule| {
            let basis = self.state().basis(sink, behalf, &rule);
            let permission = || self.permission(sink, &behalf.target(sink), &rule);
            basis.or_else(permission).is_some()
        };
        self.rule_for(policy, history, sink, behalf)
            .is_ok_and(allows)
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
        // A front may bring any answer, an approval over HTTP too: what was no choice allows nothing.
        let offered = question.choices().contains(&answer);
        let covers = question.covers();
        let Question {
            flow,
            rule,
            target,
            scope,
            approval,
            ..
        } = question;
        let basis = match answer {
            Answer::No => Err(Denial::Refused {
                rule: rule.name.clone(),
            }),
            // Always a choice, so there is nothing to compare it with.
            Answer::Once => Ok(Basis::UserOnce),
            Answer::Session | Answer::Always if !offered => Err(Denial::OnceOnly),
            // It is no permit: see `vouch_tcb`.
            Answer::Trust(_) => Err(Denial::OnceOnly),
            Answer::Session => match scope {
                Some(scope) => {
                    self.state().grant(Grant {
                        target: *target,
                        scope,
                        taints: covers,
                    });
                    Ok(Basis::UserSession)
                }
                None => Err(Denial::OnceOnly),
            },
            Answer::Always => match self.keep(&flow.sink(), &target, &rule) {
                Ok(id) => Ok(Basis::Permission { id }),
                Err(reason) => Err(Denial::NotKept(reason)),
            },
        };
        let key = session::key(&flow.sink(), &rule);
        let mut state = self.state();
        match basis {
            Ok(basis) => {
                let permit = session::permit(&mut state.ledger(), flow, key, basis);
                Ok(Permit { approval, ..permit })
            }
            Err(denial) => {
                // Whatever the reason, it has not happened, and the same question would follow.
                state.refuse(&flow.sink());
                Err(denial)
            }
        }
    }

    /// The user vouches for the texts that a question offers, in the conversation of these apps. Gives the
    /// call back, which is to be decided on again. Trusted: it must be the user's word.
    ///
    /// # Errors
    /// The denial, if the question does not offer it.
    pub fn vouch_tcb(
        &self,
        question: Question<Call>,
        until: Until,
        place: &BTreeSet<String>,
    ) -> Result<Call, Denial> {
        let Question { flow, offer, .. } = question;
        let mut state = self.state();
        match offer {
            // Asked again: other machines of the session may have filled it since the question was made.
            Some(offer) if state.endorsements.has_room() => {
                state.endorsements.add(&offer, place, until);
                Ok(flow)
            }
            _ => {
                state.refuse(&flow.sink());
                Err(Denial::OnceOnly)
            }
        }
    }

    /// Endorses in the history of a conversation of these apps what the user has vouched for there, and
    /// what was derived from it. To be called after each answer and each result.
    pub fn endorse(&self, history: &mut History, place: &BTreeSet<String>) {
        self.state().endorsements.endorse(history, place);
    }

    fn keep(&self, sink: &Sink<'_>, target: &Target, rule: &Rule) -> Result<String, String> {
        match (&self.permissions, permissible(sink, target, rule)) {
            (Some(permissions), Some(what)) => permissions.keep(what, &rule.unallowed(sink)),
            _ => Err("there is nowhere to keep it".to_owned()),
        }
    }

    /// A turn begins: what the user refused in the one before may be asked about again, and what the user
    /// trusted for its task is trusted no more.
    pub fn begin_turn(&self) {
        let mut state = self.state();
        state.refusals.clear();
        state.endorsements.begin_task();
    }

    /// Takes over what the user has refused in this turn, from whoever kept the conversation.
    pub fn recall_refusals(&self, refused: impl IntoIterator<Item = Call>) {
        self.state().recall(refused);
    }

    /// What the user has refused in this turn, oldest first.
    #[must_use]
    pub fn refusals(&self) -> Vec<Call> {
        self.state().refusals.clone()
    }

    /// Whether the user has refused this very call in this turn, as far as a step under its label
    /// may know.
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
        // Nothing panics while it holds the lock, and each change is one push: the state of a
        // thread that died is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a permission could be about: nothing where each flow is a question of its own.
fn permissible<'a>(sink: &Sink<'a>, target: &'a Target, rule: &Rule) -> Option<Permissible<'a>> {
    match (target, sink) {
        _ if rule.once(sink) => None,
        (Target::Served(..), _) => None,
        (Target::Collaboration(collaboration), _) => {
            Some(Permissible::Collaboration(collaboration))
        }
        (_, Sink::Call(call)) => Some(Permissible::Tool(PermittedTool {
            app: &call.app,
            tool: &call.tool,
            effect: rule.effect,
        })),
        (Target::Domain(app, domain), _) => {
            Some(Permissible::Domain(PermittedDomain { app, domain }))
        }
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
