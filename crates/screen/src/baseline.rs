//! Screeners that do not look at text, for comparison (RTBAS §8).

use std::collections::BTreeSet;
use std::sync::Arc;

use ifc::{Draft, History, Nonce, Relevance, Screener, Screening};

/// Naive taint tracking: every region is relevant, so the label only rises.
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

/// Redact-all: no region is relevant, so every labelled region is masked and every step is at ⊥.
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

/// The upper bound for every screener: a function that knows which regions the next step depends on, such as
/// the ground truth of a benchmark.
#[derive(Clone)]
pub struct Oracle(Arc<dyn Fn(&History) -> Relevance + Send + Sync>);

impl Oracle {
    /// Its name in traces and reports.
    pub const NAME: &str = "oracle";

    /// An oracle with these dependencies. The function returns [`Relevance::Everything`] where it does not know.
    pub fn new(dependencies: impl Fn(&History) -> Relevance + Send + Sync + 'static) -> Self {
        Self(Arc::new(dependencies))
    }
}

impl Screener for Oracle {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn screen(&self, history: &History, _: Option<&Draft>, _: &Nonce) -> Screening {
        Screening::Decided((self.0)(history))
    }
}
