//! A question of the turn machine.

use ifc::{Call, Cause, Delivery, Label, Offer, Question, Ran, Release, Rule};

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

/// The same accessor of each kind of question.
macro_rules! each {
    ($asked:expr, $question:ident => $value:expr) => {
        match $asked {
            Asked::Call($question) | Asked::Request(_, $question) => $value,
            Asked::Delivery(_, $question) => $value,
            Asked::Answer($question) => $value,
        }
    };
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
        each!(self, question => question.rule())
    }

    /// The taints that go beyond the rule's limits; ⊥ where the question has another reason.
    pub fn excess(&self) -> &Label {
        each!(self, question => question.excess())
    }

    /// The regions that brought these taints.
    pub fn causes(&self) -> &[Cause] {
        each!(self, question => question.causes())
    }

    /// If an equal irreversible call was sent before in this session: what is known of it.
    pub fn ran(&self) -> Option<Ran> {
        each!(self, question => question.ran())
    }

    /// The taints that a lasting answer would cover.
    pub fn covers(&self) -> Label {
        each!(self, question => question.covers())
    }

    /// The texts that the user can trust, if it is about a call of the user's own conversation.
    pub fn offer(&self) -> Option<&Offer> {
        match self {
            Self::Call(question) => question.offer(),
            Self::Request(..) | Self::Delivery(..) | Self::Answer(_) => None,
        }
    }

    /// Where allowing a call endorses it: the arguments that the question must show in full. A request of another app is
    /// not endorsed.
    pub fn endorses(&self) -> Option<Vec<&str>> {
        match self {
            Self::Call(question) => question.endorses(),
            Self::Request(..) | Self::Delivery(..) | Self::Answer(_) => None,
        }
    }

    /// The calls of the same step that wait with it.
    pub fn waiting(&self) -> &[Call] {
        match self {
            Self::Call(question) | Self::Request(_, question) => question.waiting(),
            Self::Delivery(..) | Self::Answer(_) => &[],
        }
    }

    /// The possible answers.
    pub fn choices(&self) -> Vec<ifc::Answer> {
        each!(self, question => question.choices())
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
