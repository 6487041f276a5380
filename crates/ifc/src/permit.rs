//! The results of a decision: permits and questions, each of which owns its flow.

use std::fmt;

use crate::bounds::has_free_text;
use crate::host::by_hosts;
use crate::json::{write_object, write_string};
use crate::ledger::{Ran, Receipt, ReceiptId, Stub};
use crate::policy::Scope;
use crate::sink::Target;
use crate::trusted::Extent;
use crate::{
    Approval, ArgumentPath, Bounds, Call, Cause, Collaboration, Delivery, Effect, Exceeded, Flow,
    Label, Labeled, Offer, Part, Policy, Release, Rule, Sink, Until,
};

/// The monitor's decision on a flow.
#[must_use = "nothing flows but by the permit inside"]
#[derive(Debug)]
pub enum Decision<F: Flow = Call> {
    /// It may flow.
    Allow(Permit<F>),
    /// Only the user can allow it.
    Ask(Question<F>),
    /// It may not flow.
    Deny(Denial),
}

/// The right to do exactly one thing, once: to make one call, to show one answer, to send one prompt.
///
/// It *owns* the flow, so the code that acts does exactly what was decided on. It cannot be made outside this crate,
/// copied, or used twice.
#[must_use = "a permit that is dropped allows nothing"]
#[derive(Debug)]
pub struct Permit<F: Flow = Call> {
    pub(crate) flow: F,
    pub(crate) basis: Basis,
    /// The endorsement by the user's answer.
    pub(crate) approval: Option<Box<Approval>>,
    pub(crate) stub: Stub,
}

/// Who allowed a flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Basis {
    /// Its label flows to the limit of this rule.
    Policy {
        /// The rule's name.
        rule: String,
    },
    /// The user allowed this flow.
    UserOnce,
    /// The user allowed this target and these taints earlier in the session.
    UserSession,
    /// The user trusts the texts that were in the way, for this task or session.
    UserTrust,
    /// The user allowed an equal call earlier in this task, with no less in its way.
    UserBefore,
    /// The user has a permission for this target and these taints.
    Permission {
        /// The id under which it is stored.
        id: String,
    },
}

impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Policy { rule } => write!(f, "policy {rule}"),
            Self::UserOnce => f.write_str("user"),
            Self::UserSession => f.write_str("user, for the session"),
            Self::UserTrust => f.write_str("user, who trusts what it depends on"),
            Self::UserBefore => f.write_str("user, who allowed it in this task"),
            Self::Permission { id } => write!(f, "permission {id}"),
        }
    }
}

/// A question to the user. It has nothing that a model wrote about the flow.
///
/// `Debug` shows labels and lengths only.
#[must_use = "a question without an answer denies its flow"]
#[derive(Debug)]
pub struct Question<F: Flow = Call> {
    pub(crate) flow: F,
    pub(crate) rule: Box<Rule>,
    pub(crate) excess: Label,
    /// The target of an answer for longer than once.
    pub(crate) target: Box<Target>,
    pub(crate) causes: Vec<Cause>,
    /// The texts of the causes, each with its source.
    pub(crate) texts: Vec<Labeled>,
    /// Calls of the same step that wait for an answer too.
    pub(crate) waiting: Vec<Call>,
    pub(crate) ran: Option<Ran>,
    /// The scope of an answer for the session.
    pub(crate) scope: Option<Scope>,
    /// Whether a permission for it can be stored.
    pub(crate) can_last: bool,
    /// Whether [`Answer::Host`] would cover taints about integrity only.
    pub(crate) can_host: bool,
    pub(crate) offer: Option<Box<Offer>>,
    pub(crate) approval: Option<Box<Approval>>,
    pub(crate) instead: Option<Box<str>>,
}

/// The user's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// This flow only.
    Once,
    /// The texts that are in the way, for calls of this app with at most this call's effect. It is no permit: the call is
    /// decided on again.
    Trust(Until),
    /// The values of this call that stand in the texts, for this task, in the same way.
    TrustValue,
    /// All text of the writers of these texts, for this task, in the same way. Of irreversible calls only equal ones.
    TrustSource,
    /// This call, and in the same way each of the calls that wait with it in the step, which the question lists.
    Each,
    /// This tool under these taints for any address at the same hosts, with the other control arguments of this call, for
    /// this task. Not for an irreversible call.
    Host,
    /// This target under these taints, until the session ends. Not for an irreversible call.
    Session,
    /// This target under these taints, of a call with these control arguments, until the permission is revoked. Not for an
    /// irreversible call.
    Always,
    /// The same with any file of the same folder in place of a path.
    AlwaysFolder,
    /// No.
    No,
}

impl Answer {
    /// How much it vouches for, and for how long, if it is such an answer.
    pub(crate) fn trusts(self) -> Option<(Extent, Until)> {
        match self {
            Self::TrustValue => Some((Extent::Values, Until::Task)),
            Self::Trust(until) => Some((Extent::Texts, until)),
            Self::TrustSource => Some((Extent::Writers, Until::Task)),
            _ => None,
        }
    }

    /// `once`, `each`, `value`, `trust`, `source`, `host`, `trust-session`, `session`, `always`, `always-folder` or `no`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Each => "each",
            Self::TrustValue => "value",
            Self::TrustSource => "source",
            Self::Host => "host",
            Self::Trust(Until::Task) => "trust",
            Self::Trust(Until::Session) => "trust-session",
            Self::Session => "session",
            Self::Always => "always",
            Self::AlwaysFolder => "always-folder",
            Self::No => "no",
        }
    }
}

/// Why a flow is denied. Its `Display` has words of the policy and of this crate only.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Denial {
    /// The user, or the program that answers for an absent user, said no.
    Refused {
        /// The rule that asked.
        rule: String,
    },
    /// The user has refused this call in this turn, and is not asked again.
    RefusedBefore,
    /// The label does not flow to the limit of this rule, and the rule does not ask.
    Exceeded {
        /// The rule's name.
        rule: String,
        /// The taints beyond its limit.
        excess: Label,
    },
    /// The policy cannot judge it.
    Policy(String),
    /// The answer was not among the choices of the question.
    OnceOnly,
    /// The user allowed it for good, and the permission could not be stored.
    NotKept(String),
}

impl Denial {
    /// The rule that denies, where it is one.
    pub fn rule(&self) -> Option<&str> {
        match self {
            Self::Refused { rule } | Self::Exceeded { rule, .. } => Some(rule),
            _ => None,
        }
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { rule } => write!(f, "refused under the rule {rule}"),
            Self::RefusedBefore => f.write_str("refused before in this turn"),
            Self::Exceeded { rule, .. } => write!(f, "denied: above the limit of the rule {rule}"),
            Self::Policy(reason) => write!(f, "denied: {reason}"),
            Self::OnceOnly => f.write_str("denied: this call can be allowed once only"),
            Self::NotKept(reason) => {
                write!(f, "denied: the permission could not be kept: {reason}")
            }
        }
    }
}

impl<F: Flow> Permit<F> {
    /// The allowed flow.
    pub fn flow(&self) -> &F {
        &self.flow
    }

    /// Who allowed it.
    pub fn basis(&self) -> &Basis {
        &self.basis
    }

    /// A handle that tells whether the permit was spent and answered.
    pub fn receipt(&self) -> Receipt {
        self.stub.0.clone()
    }

    /// Uses the permit up: the caller acts now. From here on the call counts as one that may have run.
    pub fn spend(self) -> F {
        self.stub.0.spent();
        self.flow
    }
}

impl Permit<Call> {
    /// Leaves the permit for another front, which may redeem it at any moment. Until it is known what became of it, the call
    /// counts as one that may have run.
    pub fn leave(self) -> Receipt {
        self.stub.0.left();
        self.receipt()
    }

    /// The permit that another front has left. Trusted: it must have left one for this very call, and it must be gone from
    /// there.
    pub fn redeemed_tcb(call: Call, basis: Basis, id: ReceiptId) -> Self {
        Self {
            flow: call,
            basis,
            approval: None,
            stub: Stub(Receipt::new(id)),
        }
    }

    /// The call that may run.
    pub fn call(&self) -> &Call {
        &self.flow
    }

    /// The approval, if the user's answer to a question made this permit: see [`History::approve`].
    ///
    /// [`History::approve`]: crate::History::approve
    pub fn approval(&self) -> Option<&Approval> {
        self.approval.as_deref()
    }
}

impl<F: Flow> Question<F> {
    /// The flow in question.
    pub fn flow(&self) -> &F {
        &self.flow
    }

    /// The rule that asks.
    pub fn rule(&self) -> &Rule {
        &self.rule
    }

    /// The policy's limit that the flow exceeds: of its control part, or of the first data argument that exceeds its own.
    pub fn limit(&self) -> &Label {
        // Nothing exceeds where the rule asks about every flow.
        let limit = self.exceeded().map_or(&self.rule.limit, |part| part.limit);
        limit.plain()
    }

    /// The data argument that exceeds its limit, where the control part does not.
    pub fn argument(&self) -> Option<&ArgumentPath> {
        self.exceeded()?.argument
    }

    fn exceeded(&self) -> Option<Part<'_>> {
        let parts = self.rule.parts(&self.flow.sink());
        parts.into_iter().find(Part::exceeds)
    }

    /// The taints beyond the rule's limits; ⊥ if the question has another reason.
    pub fn excess(&self) -> &Label {
        &self.excess
    }

    /// The regions that brought these taints.
    pub fn causes(&self) -> &[Cause] {
        &self.causes
    }

    /// The texts that the user would vouch for by [`Answer::Trust`]. There is an offer if only taints about integrity are in the way
    /// of a call, and come from the results and messages of few sources.
    pub fn offer(&self) -> Option<&Offer> {
        self.offer.as_deref()
    }

    /// What the policy would allow instead ([`Policy::instead`]), in the words of its author. It has the label of all that
    /// would flow.
    pub fn instead(&self) -> Option<&str> {
        self.instead.as_deref()
    }

    pub(crate) fn with_instead(self, policy: &dyn Policy) -> Self {
        let instead = match self.flow.sink() {
            Sink::Call(call) => policy.instead(call),
            _ => None,
        };
        let instead = instead.map(Box::from);
        Self { instead, ..self }
    }

    /// The state of an equal irreversible call that was sent before in this session.
    pub fn ran(&self) -> Option<Ran> {
        self.ran
    }

    /// The app and the registrable domain, if an answer for longer than once would be about a domain.
    pub fn domain(&self) -> Option<(&str, &str)> {
        match self.target.as_ref() {
            Target::Domain(app, domain) => Some((app, domain)),
            _ => None,
        }
    }

    /// The collaboration, if an answer for longer than once would be about one.
    pub fn collaboration(&self) -> Option<&Collaboration> {
        match self.target.as_ref() {
            Target::Collaboration(collaboration) => Some(collaboration),
            _ => None,
        }
    }

    /// The taints that an answer for longer than once would cover.
    pub fn covers(&self) -> Label {
        self.rule.unallowed(&self.flow.sink())
    }

    /// The control arguments that [`Answer::Always`] covers, none for a flow that is no call; `None` if it is not offered.
    pub fn lasting(&self) -> Option<Bounds> {
        match self.flow.sink() {
            _ if !self.can_last => None,
            Sink::Call(call) => self.rule.bounds(call),
            _ => Some(Bounds::default()),
        }
    }

    /// The hosts of the addresses in the control arguments, at which [`Answer::Host`] allows any address. It is not offered
    /// where a secret is in the way: several tenants may share a host.
    pub fn hosts(&self) -> Option<Vec<String>> {
        let Sink::Call(call) = self.flow.sink() else {
            return None;
        };
        // One data argument by itself has no place in it.
        let is_whole = self.scope == Some(Scope::Whole);
        let can_host = self.can_host && is_whole;
        let found = by_hosts(&call.arguments, &self.rule).filter(|_| can_host);
        found.map(|(_, hosts)| hosts)
    }

    /// The possible answers. `Session` and `Always` are missing if the call is irreversible, if the rule asks about every
    /// call, if they would cover no taint or unknown ones (⊤), or if several arguments need an answer each. `Always` is
    /// missing too if no permission can be stored, as for a write with free text ([`Bounds`]). `Trust` needs an [`Question::offer`].
    /// An approver other than the user has `Once` and `No`.
    pub fn choices(&self) -> Vec<Answer> {
        let (sink, covers) = (self.flow.sink(), self.covers());
        // Consent to an app or a domain has a meaning without any taint: there may be such messages or connections.
        let nameless = covers.is_top() || covers.is_bottom() && !self.rule.wants_consent(&sink);
        // From the least to the most that a yes can mean, and no at the end. Fronts show them in this order.
        let mut choices = vec![Answer::Once];
        let is_own = self.rule.approvers.is_none();
        choices.extend((is_own && !self.waiting.is_empty()).then_some(Answer::Each));
        if let Some(offer) = &self.offer {
            let task = Answer::Trust(Until::Task);
            let session = Answer::Trust(Until::Session);
            let all = [Answer::TrustValue, task, Answer::TrustSource, session];
            let has = |answer: &Answer| answer.trusts().is_some_and(|(it, _)| offer.has(it));
            choices.extend(all.into_iter().filter(has));
        }
        if !(self.rule.once(&sink) || nameless || self.scope.is_none()) {
            choices.extend(self.hosts().map(|_| Answer::Host));
            choices.push(Answer::Session);
            let lasting = self.lasting();
            choices.extend(lasting.as_ref().map(|_| Answer::Always));
            let folders = lasting.and_then(|bounds| bounds.in_folders());
            choices.extend(folders.map(|_| Answer::AlwaysFolder));
        }
        choices.push(Answer::No);
        choices
    }
}

impl Question<Call> {
    /// The call in question, with its exact arguments.
    pub fn call(&self) -> &Call {
        &self.flow
    }

    /// The same question where these calls of the step wait as well. It must show them, and [`Answer::Each`] allows them too.
    pub fn with_waiting(self, waiting: Vec<Call>) -> Self {
        Self { waiting, ..self }
    }

    /// The calls of the step that wait with it.
    pub fn waiting(&self) -> &[Call] {
        &self.waiting
    }

    /// The arguments that the question must show in full, if a yes endorses the call. The others are data.
    pub fn endorses(&self) -> Option<Vec<&str>> {
        Some(self.approval.as_ref()?.shown().collect())
    }
}

impl Question<Release> {
    /// The text in question.
    pub fn release(&self) -> &Release {
        &self.flow
    }
}

impl Question<Delivery> {
    /// The message in question.
    pub fn delivery(&self) -> &Delivery {
        &self.flow
    }
}

impl Rule {
    /// Whether no grant and no permission lets this flow pass.
    pub(crate) fn once(&self, sink: &Sink<'_>) -> bool {
        // What lasts would be a review of calls that no approver has seen.
        let asks_each = self.approvers.is_some()
            || self.effect == Effect::Irreversible
            || self.always_ask && !self.wants_consent(sink);
        // A target can have several rules, and a configuration can change. A grant under a rule that asks does not count
        // for a rule that denies.
        let asks_nobody = self.exceeded == Exceeded::Deny;
        asks_each || asks_nobody && !self.excess(sink).is_bottom()
    }

    /// The control arguments of a call. `None` if a permission cannot cover it:
    /// - a data argument exceeds its own limit;
    /// - it writes, and a control argument is free text;
    /// - the arguments are too long to be read in a question.
    pub(crate) fn bounds(&self, call: &Call) -> Option<Bounds> {
        let exceeds = |part: &Part<'_>| part.argument.is_some() && part.exceeds();
        if self.parts(&Sink::Call(call)).iter().any(exceeds) {
            return None;
        }
        // An argument with data inside of it is bound as a whole.
        let is_data = |name: &str| self.arguments.contains_key(&ArgumentPath::of(name));
        let control = (call.arguments.iter()).filter(|(name, _)| !is_data(name));
        let value = |value: &Labeled, out: &mut String| out.push_str(value.reveal_tcb());
        let mut bounds = String::new();
        write_object(control, value, &mut bounds);
        let is_short = bounds.chars().count() <= Approval::MOST;
        let is_covered = is_short && (self.effect.reads() || !has_free_text(&bounds));
        for (name, _) in call.arguments.iter().filter(|(name, _)| is_data(name)) {
            bounds.push('\n');
            write_string(name, &mut bounds);
        }
        is_covered.then(|| Bounds::new(bounds, false))
    }

    /// Whether this rule wants the user's consent to a collaboration or a domain.
    pub(crate) fn wants_consent(&self, sink: &Sink<'_>) -> bool {
        self.always_ask && matches!(sink, Sink::Delivery(_) | Sink::Connection(_))
    }

    /// The taints that the rule does not allow by itself. A rule that wants consent allows none.
    pub(crate) fn unallowed(&self, sink: &Sink<'_>) -> Label {
        match self.wants_consent(sink) {
            true => sink.label(),
            false => self.excess(sink),
        }
    }
}
