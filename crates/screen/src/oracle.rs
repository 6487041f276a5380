//! The oracle (RTBAS §8): a screener that is given the dependencies instead of finding them.

use std::fmt;
use std::sync::Arc;

use ifc::{Draft, History, Nonce, Relevance, Screener, Screening};

/// What the next step depends on: knowledge from outside the conversation, such as the ground
/// truth of a benchmark.
pub trait Dependencies: Send + Sync {
    /// The regions that the step after this history depends on. Whoever does not know says
    /// [`Relevance::Everything`].
    fn of(&self, history: &History) -> Relevance;
}

impl<F: Fn(&History) -> Relevance + Send + Sync> Dependencies for F {
    fn of(&self, history: &History) -> Relevance {
        self(history)
    }
}

/// The upper bound for every screener: it knows the dependencies, and asks nobody.
#[derive(Clone)]
pub struct Oracle(Arc<dyn Dependencies>);

impl Oracle {
    /// Its name in traces and reports.
    pub const NAME: &str = "oracle";

    /// An oracle with these dependencies, usually a closure.
    pub fn new(dependencies: impl Dependencies + 'static) -> Self {
        Self(Arc::new(dependencies))
    }
}

impl Screener for Oracle {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn screen(&self, history: &History, _: Option<&Draft>, _: &Nonce) -> Screening {
        Screening::Decided(self.0.of(history))
    }
}

impl fmt::Debug for Oracle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Oracle")
    }
}
