//! The ways of protection that are replayed.

use std::collections::BTreeSet;

use hub::Screening;
use ifc::{History, Relevance};
use serde::{Deserialize, Serialize};

use crate::value_match::relevant;

/// A way of protection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// No protection (Algorithm 1).
    None,
    /// Naive tainting: every region counts.
    Naive,
    /// Redact-all: no region counts, before every step.
    RedactAll,
    /// Dependencies by value, screened before every step as in the paper.
    ValuesEager,
    /// Dependencies by value, screened only where the coarse label exceeds a limit.
    ValuesLazy,
}

impl Method {
    /// Every method, least protection first.
    pub const ALL: [Self; 5] = [
        Self::None,
        Self::Naive,
        Self::RedactAll,
        Self::ValuesEager,
        Self::ValuesLazy,
    ];

    /// As reports call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Naive => "naive",
            Self::RedactAll => "redact-all",
            Self::ValuesEager => "values-eager",
            Self::ValuesLazy => "values-lazy",
        }
    }

    /// When it screens. Naive tainting decides the same eagerly and lazily; without protection
    /// the policy is [`Unprotected`](crate::baseline::Unprotected).
    pub(crate) fn screening(self) -> Screening {
        match self {
            // Nothing has a label, so nothing is screened.
            Self::None | Self::Naive | Self::ValuesLazy => Screening::LAZY,
            Self::RedactAll | Self::ValuesEager => Screening::Eager,
        }
    }

    /// The regions that are relevant to a step whose arguments or text hold `values`.
    pub(crate) fn screen(self, history: &History, values: &[String]) -> Relevance {
        match self {
            Self::None | Self::Naive => Relevance::Everything,
            Self::RedactAll => Relevance::Only(BTreeSet::new()),
            Self::ValuesEager | Self::ValuesLazy => Relevance::Only(relevant(history, values)),
        }
    }
}
