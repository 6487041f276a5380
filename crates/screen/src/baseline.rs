//! The two ends between which a screener works: keep everything, keep nothing.

use std::collections::BTreeSet;

use ifc::{Draft, History, Nonce, Relevance, Screener, Screening};

/// Naive taint tracking (RTBAS §8): every region counts, so the label only ever rises.
#[derive(Debug, Clone, Copy, Default)]
pub struct NaiveTainting;

impl NaiveTainting {
    /// Its name in a configuration.
    pub const NAME: &str = "naive";
}

impl Screener for NaiveTainting {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn screen(&self, _: &History, _: Option<&Draft>, _: &Nonce) -> Screening {
        Screening::Decided(Relevance::Everything)
    }
}

/// Redact-all (RTBAS §8): no region counts, so every labelled region is masked and every step is
/// taken at ⊥.
#[derive(Debug, Clone, Copy, Default)]
pub struct RedactAll;

impl RedactAll {
    /// Its name in a configuration.
    pub const NAME: &str = "redact-all";
}

impl Screener for RedactAll {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn screen(&self, _: &History, _: Option<&Draft>, _: &Nonce) -> Screening {
        Screening::Decided(Relevance::Only(BTreeSet::new()))
    }
}
