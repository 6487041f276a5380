//! The ways of protection that are replayed.

use std::collections::BTreeSet;

use hub::{Drafter, Screening};
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
    /// Dependencies by value, screened only where the coarse label stands in the way.
    ValuesLazy,
    /// The attention screener reads the recorded message, where the coarse label stands in its way.
    AttentionLazy,
    /// The attention screener reads every recorded message as a draft.
    AttentionDrafted,
}

impl Method {
    /// Those that need nothing but the recordings, least protection first.
    pub const PLAIN: [Self; 5] = [
        Self::None,
        Self::Naive,
        Self::RedactAll,
        Self::ValuesEager,
        Self::ValuesLazy,
    ];

    /// Those that need the attention screener ([`Options::attention`](super::Options)).
    pub const BY_ATTENTION: [Self; 2] = [Self::AttentionLazy, Self::AttentionDrafted];

    /// Every method.
    pub const ALL: [Self; 7] = [
        Self::None,
        Self::Naive,
        Self::RedactAll,
        Self::ValuesEager,
        Self::ValuesLazy,
        Self::AttentionLazy,
        Self::AttentionDrafted,
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
            Self::AttentionLazy => "attention-lazy",
            Self::AttentionDrafted => "attention-drafted",
        }
    }

    /// Whether it needs the attention screener.
    #[must_use]
    pub fn needs_attention(self) -> bool {
        Self::BY_ATTENTION.contains(&self)
    }

    /// When it screens. Naive tainting decides the same eagerly and lazily; without protection
    /// the policy is [`Unprotected`](crate::baseline::Unprotected).
    pub(crate) fn screening(self) -> Screening {
        match self {
            // Nothing has a label, so nothing is screened.
            Self::None | Self::Naive | Self::ValuesLazy | Self::AttentionLazy => Screening::Lazy,
            Self::RedactAll | Self::ValuesEager => Screening::Eager,
            Self::AttentionDrafted => Screening::Drafted(Drafter::Own),
        }
    }

    /// Which regions count for a step that says `values`, and of which the attention screener says
    /// `attended`.
    pub(crate) fn screen(
        self,
        history: &History,
        values: &[String],
        attended: impl FnOnce() -> Relevance,
    ) -> Relevance {
        match self {
            Self::None | Self::Naive => Relevance::Everything,
            Self::RedactAll => Relevance::Only(BTreeSet::new()),
            Self::ValuesEager | Self::ValuesLazy => Relevance::Only(relevant(history, values)),
            Self::AttentionLazy | Self::AttentionDrafted => attended(),
        }
    }
}
