//! What a decision gives out: permits and questions, each of which owns the flow it is about.

use std::fmt;

use crate::ledger::{Ran, Receipt, Stub};
use crate::policy::Scope;
use crate::sink::Target;
use crate::{
    Approval, ArgumentPath, Call, Cause, Collaboration, Delivery, Effect, Exceeded, Flow, Label,
    Offer, Part, Release, Rule, Sink, Until,
};

/// What the monitor says of a flow.
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
/// It *owns* the flow: what is done is what was decided on, to the byte. It cannot be made outside
/// this crate, copied, or used twice, and whoever acts takes it by value.
#[must_use = "a permit that is dropped allows nothing"]
#[derive(Debug)]
pub struct Permit<F: Flow = Call> {
    pub(crate) flow: F,
    pub(crate) basis: Basis,
    /// The answer that it was made by, if that endorses the call.
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
    /// The user said yes to this very flow.
    UserOnce,
    /// The user said yes to this target and these taints earlier in the session.
    UserSession,
    /// The user trusts the texts that stood in the way, for this task or session.
    UserTrust,
    /// The user said yes to this tool or collaboration and these taints for good.
    Permission {
        /// The permission's name where it is kept.
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
            Self::Permission { id } => write!(f, "permission {id}"),
        }
    }
}

/// A question to the user: everything needed to decide, and nothing that a model wrote about it.
///
/// `Debug` shows labels and lengths only.
#[must_use = "a question that nobody answers denies what it is about"]
#[derive(Debug)]
pub struct Question<F: Flow = Call> {
    pub(crate) flow: F,
    pub(crate) rule: Box<Rule>,
    pub(crate) excess: Label,
    /// What a yes for longer than once would be about.
    pub(crate) target: Box<Target>,
    pub(crate) causes: Vec<Cause>,
    pub(crate) ran: Option<Ran>,
    /// What an answer for the session would cover.
    pub(crate) scope: Option<Scope>,
    /// Whether there is somewhere to keep a permission for it.
    pub(crate) can_last: bool,
    /// What the user can vouch for instead of this flow alone.
    pub(crate) offer: Option<Box<Offer>>,
    /// What a yes endorses.
    pub(crate) approval: Option<Box<Approval>>,
}

/// The user's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// This flow only.
    Once,
    /// The texts that stand in the way, whole, for whatever they ask this app for that is no worse than
    /// this call. It is no permit: the call is decided on again.
    Trust(Until),
    /// This target under these taints, until the session ends. Not for the irreversible.
    Session,
    /// This tool or collaboration under these taints, until the permission is revoked. Not for the
    /// irreversible.
    Always,
    /// No.
    No,
}

impl Answer {
    /// `once`, `trust`, `trust-session`, `session`, `always` or `no`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Trust(Until::Task) => "trust",
            Self::Trust(Until::Session) => "trust-session",
            Self::Session => "session",
            Self::Always => "always",
            Self::No => "no",
        }
    }
}

/// Why something may not flow. Its words are the policy's and our own.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Denial {
    /// The user, or whoever answers for an absent user, said no.
    Refused {
        /// The rule that asked.
        rule: String,
    },
    /// The user has said no to this very call in this turn, and is not asked again.
    RefusedBefore,
    /// The label does not flow to the limit of this rule, and the rule lets nobody be asked.
    Exceeded {
        /// The rule's name.
        rule: String,
        /// The taints beyond its limit.
        excess: Label,
    },
    /// The policy cannot judge it.
    Policy(String),
    /// "For the session" and "always" are no answers for the irreversible, nor where nobody can say
    /// which taints they would cover (⊤); and nobody can trust what the question does not offer.
    OnceOnly,
    /// The user allowed it for good, and the permission could not be kept.
    NotKept(String),
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
    /// What may flow.
    pub fn flow(&self) -> &F {
        &self.flow
    }

    /// Who allowed it.
    pub fn basis(&self) -> &Basis {
        &self.basis
    }

    /// Follows what becomes of the permit.
    pub fn receipt(&self) -> Receipt {
        self.stub.0.clone()
    }

    /// Uses the permit up: the caller acts now. From here on the ledger holds the call for one that
    /// may have run.
    pub fn spend(self) -> F {
        // First the ledger, then the flow: if whoever acts fails from here on, the call counts as one that may have
        // run.
        self.stub.0.spent();
        self.flow
    }
}

impl Permit<Call> {
    /// The call that may run.
    pub fn call(&self) -> &Call {
        &self.flow
    }

    /// What the user's answer endorses, where this permit was made by one: see [`History::approve`].
    ///
    /// [`History::approve`]: crate::History::approve
    pub fn approval(&self) -> Option<&Approval> {
        self.approval.as_deref()
    }
}

impl<F: Flow> Question<F> {
    /// What would flow.
    pub fn flow(&self) -> &F {
        &self.flow
    }

    /// The rule that asks.
    pub fn rule(&self) -> &Rule {
        &self.rule
    }

    /// The limit that the flow exceeds: of its control part, or of the first data argument that exceeds
    /// its own. The rule's name says which.
    pub fn limit(&self) -> &Label {
        // Without what other endorsements have raised it by: that is no word of the policy.
        // Where nothing exceeds, the rule asks about every flow, and its limit is the control part's.
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

    /// The taints that go beyond the rule's limits; ⊥ where the question has another reason.
    pub fn excess(&self) -> &Label {
        &self.excess
    }

    /// The regions that brought these taints.
    pub fn causes(&self) -> &[Cause] {
        &self.causes
    }

    /// What the user would vouch for by [`Answer::Trust`], if that is an answer: where taints about
    /// integrity alone stand in the way of a call, and come from the results and messages of few sources.
    /// It is the call that is decided on again then, whatever the texts are.
    pub fn offer(&self) -> Option<&Offer> {
        self.offer.as_deref()
    }

    /// If an equal irreversible call was sent before in this session: what is known of it.
    pub fn ran(&self) -> Option<Ran> {
        self.ran
    }

    /// The app and the registrable domain that a yes for longer than once would be about, if it is about one.
    pub fn domain(&self) -> Option<(&str, &str)> {
        match self.target.as_ref() {
            Target::Domain(app, domain) => Some((app, domain)),
            _ => None,
        }
    }

    /// The collaboration that a yes for longer than once would be about, if it is about one.
    pub fn collaboration(&self) -> Option<&Collaboration> {
        match self.target.as_ref() {
            Target::Collaboration(collaboration) => Some(collaboration),
            _ => None,
        }
    }

    /// The taints that a yes for longer than once would cover.
    pub fn covers(&self) -> Label {
        self.rule.unallowed(&self.flow.sink())
    }

    /// The answers that make sense: `Session` and `Always` are missing where the call is irreversible,
    /// where the rule asks about every call, where they would cover no taint at all, or taints that
    /// nobody has named (⊤), and where several arguments need an answer each. `Always` is missing where no permission can be kept, too.
    /// `Trust` needs an [`Question::offer`].
    pub fn choices(&self) -> Vec<Answer> {
        let (sink, covers) = (self.flow.sink(), self.covers());
        // A yes for longer is for taints that the user has seen named. Consent to an app or a domain is worth something
        // without any: it says that there may be such messages or connections at all.
        let nameless = covers.is_top() || covers.is_bottom() && !self.rule.wants_consent(&sink);
        // From the least to the most that a yes can mean, and no at the end: fronts show them in this order.
        let mut choices = vec![Answer::Once];
        if self.offer.is_some() {
            choices.extend([Answer::Trust(Until::Task), Answer::Trust(Until::Session)]);
        }
        if !(self.rule.once(&sink) || nameless || self.scope.is_none()) {
            choices.push(Answer::Session);
            choices.extend(self.can_last.then_some(Answer::Always));
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

    /// Where a yes endorses the call, beside allowing it: the arguments of which the question must show all. The
    /// others are data.
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
    /// Whether no word of the user for longer than once lets this flow pass: it is a question of its own, or none at
    /// all.
    pub(crate) fn once(&self, sink: &Sink<'_>) -> bool {
        let asks_each =
            self.effect == Effect::Irreversible || self.always_ask && !self.wants_consent(sink);
        // A target can have several rules, by the arguments of a call or the name below a domain, and a configuration
        // changes while its permissions stay: what was granted under a rule that asks says nothing to one that lets
        // nobody be asked.
        let asks_nobody = self.exceeded == Exceeded::Deny;
        asks_each || asks_nobody && !self.excess(sink).is_bottom()
    }

    /// Whether this rule wants the user's consent to a collaboration or a domain, whatever the label.
    pub(crate) fn wants_consent(&self, sink: &Sink<'_>) -> bool {
        self.always_ask && matches!(sink, Sink::Delivery(_) | Sink::Connection(_))
    }

    /// The taints that the rule does not allow by itself. Where it wants consent it allows none: the
    /// limit says what may flow once there is consent.
    pub(crate) fn unallowed(&self, sink: &Sink<'_>) -> Label {
        match self.wants_consent(sink) {
            true => sink.label(),
            false => self.excess(sink),
        }
    }
}
