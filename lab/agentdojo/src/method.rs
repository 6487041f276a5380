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
    /// The same with a check before a question: the step is taken once more without what stands in its way.
    NaiveChecked,
    /// Redact-all: no region counts, before every step.
    RedactAll,
    /// Dependencies by value, screened before every step as in the paper.
    ValuesEager,
    /// Dependencies by value, screened only where the coarse label exceeds a limit.
    ValuesLazy,
    /// The same with a check before a question.
    ValuesChecked,
}

impl Method {
    /// Every method, least protection first.
    pub const ALL: [Self; 7] = [
        Self::None,
        Self::Naive,
        Self::NaiveChecked,
        Self::RedactAll,
        Self::ValuesEager,
        Self::ValuesLazy,
        Self::ValuesChecked,
    ];

    /// As reports call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Naive => "naive",
            Self::NaiveChecked => "naive-checked",
            Self::RedactAll => "redact-all",
            Self::ValuesEager => "values-eager",
            Self::ValuesLazy => "values-lazy",
            Self::ValuesChecked => "values-checked",
        }
    }

    /// When it screens. Naive tainting decides the same eagerly and lazily; without protection
    /// the policy is [`Unprotected`](crate::baseline::Unprotected).
    pub(crate) fn screening(self) -> Screening {
        match self {
            // `None` gives nothing a label, so that its laziness never ends in a screening.
            Self::None | Self::Naive | Self::ValuesLazy => Screening::LAZY,
            Self::NaiveChecked | Self::ValuesChecked => Screening::CHECKED,
            Self::RedactAll | Self::ValuesEager => Screening::Eager,
        }
    }

    /// Whether its screenings would be calls of a model.
    pub(crate) fn screens(self) -> bool {
        matches!(
            self,
            Self::ValuesEager | Self::ValuesLazy | Self::ValuesChecked
        )
    }

    /// The regions that are relevant to a step whose arguments or text hold `values`.
    pub(crate) fn screen(self, history: &History, values: &[String]) -> Relevance {
        match self {
            Self::None | Self::Naive | Self::NaiveChecked => Relevance::Everything,
            Self::RedactAll => Relevance::Only(BTreeSet::new()),
            Self::ValuesEager | Self::ValuesLazy | Self::ValuesChecked => {
                Relevance::Only(relevant(history, values))
            }
        }
    }
}
