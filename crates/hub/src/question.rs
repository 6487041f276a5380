//! What the turn machine asks the user.

use ifc::{
    ArgumentPath, Call, Cause, Collaboration, Delivery, Label, Offer, Question, Ran, Release, Rule,
};

use crate::isc::{Parties, ServedBy};

/// A question of the machine to the user.
#[must_use]
#[derive(Debug)]
pub enum Asked {
    /// May this call run?
    Call(Question<Call>),
    /// May this call run, which serves another app's request?
    Request(Box<Requested>, Question<Call>),
    /// May this message go to another app? With the apps that wait for the one whose conversation it is.
    Delivery(Box<[String]>, Question<Delivery>),
    /// May this answer be shown?
    Answer(Question<Release>),
}

impl Asked {
    /// The call, if it is about one.
    #[must_use]
    pub fn call(&self) -> Option<&Call> {
        match self {
            Self::Call(question) | Self::Request(_, question) => Some(question.call()),
            Self::Delivery(..) | Self::Answer(_) => None,
        }
    }

    /// The rule that asks.
    pub fn rule(&self) -> &Rule {
        match self {
            Self::Call(question) | Self::Request(_, question) => question.rule(),
            Self::Delivery(_, question) => question.rule(),
            Self::Answer(question) => question.rule(),
        }
    }

    /// The limit that is exceeded.
    pub fn limit(&self) -> &Label {
        match self {
            Self::Call(question) | Self::Request(_, question) => question.limit(),
            Self::Delivery(_, question) => question.limit(),
            Self::Answer(question) => question.limit(),
        }
    }

    /// The data argument that exceeds it, where the rest of the call exceeds nothing.
    pub fn argument(&self) -> Option<&ArgumentPath> {
        match self {
            Self::Call(question) | Self::Request(_, question) => question.argument(),
            Self::Delivery(..) | Self::Answer(_) => None,
        }
    }

    /// The taints that go beyond the rule's limits; ⊥ where the question has another reason.
    pub fn excess(&self) -> &Label {
        match self {
            Self::Call(question) | Self::Request(_, question) => question.excess(),
            Self::Delivery(_, question) => question.excess(),
            Self::Answer(question) => question.excess(),
        }
    }

    /// The regions that brought these taints.
    pub fn causes(&self) -> &[Cause] {
        match self {
            Self::Call(question) | Self::Request(_, question) => question.causes(),
            Self::Delivery(_, question) => question.causes(),
            Self::Answer(question) => question.causes(),
        }
    }

    /// If an equal irreversible call was sent before in this session: what is known of it.
    pub fn ran(&self) -> Option<Ran> {
        match self {
            Self::Call(question) | Self::Request(_, question) => question.ran(),
            Self::Delivery(_, question) => question.ran(),
            Self::Answer(question) => question.ran(),
        }
    }

    /// The collaboration that a yes for longer than once would be about, if it is about one.
    pub fn collaboration(&self) -> Option<&Collaboration> {
        match self {
            Self::Call(question) | Self::Request(_, question) => question.collaboration(),
            Self::Delivery(_, question) => question.collaboration(),
            Self::Answer(question) => question.collaboration(),
        }
    }

    /// The taints that a yes for longer than once would cover.
    pub fn covers(&self) -> Label {
        match self {
            Self::Call(question) | Self::Request(_, question) => question.covers(),
            Self::Delivery(_, question) => question.covers(),
            Self::Answer(question) => question.covers(),
        }
    }

    /// What the user can vouch for, if it is about a call.
    pub fn offer(&self) -> Option<&Offer> {
        match self {
            Self::Call(question) => question.offer(),
            Self::Request(..) | Self::Delivery(..) | Self::Answer(_) => None,
        }
    }

    /// Where a yes endorses a call: the arguments of which the question must show all. What another app asks for is
    /// not the user's word.
    pub fn endorses(&self) -> Option<Vec<&str>> {
        match self {
            Self::Call(question) => question.endorses(),
            Self::Request(..) | Self::Delivery(..) | Self::Answer(_) => None,
        }
    }

    /// The answers that make sense.
    pub fn choices(&self) -> Vec<ifc::Answer> {
        match self {
            Self::Call(question) | Self::Request(_, question) => question.choices(),
            Self::Delivery(_, question) => question.choices(),
            Self::Answer(question) => question.choices(),
        }
    }
}

/// Which app asks for what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requested {
    /// The app that asks.
    pub from: String,
    /// The functionality that it asks for.
    pub functionality: String,
    /// The apps that wait for the one that asks, in the order in which they asked: it serves the last.
    pub waiting: Vec<String>,
    /// Whether a conversation of the serving app answers, whose model makes the calls; otherwise the
    /// call is the request.
    pub conversed: bool,
}

impl From<&Parties> for Requested {
    fn from(parties: &Parties) -> Self {
        Self {
            from: parties.from.clone(),
            functionality: parties.functionality.name.clone(),
            waiting: Vec::new(),
            conversed: parties.offer.by == ServedBy::Conversation,
        }
    }
}
