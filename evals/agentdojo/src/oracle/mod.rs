//! Perfect knowledge of dependencies, and a user who knows what was asked for: the bounds of what
//! any screener and any user can do.

mod ideal_user;

use std::sync::Arc;

use ifc::{History, Nonce, RegionId, Relevance, Screener, Screening};

pub use self::ideal_user::{Asked, IdealUser};
use crate::{suite::Scene, worst_case::Knowledge};

/// A screener that is told the dependencies: the next step of the user's task depends on the
/// regions that hold the values of its arguments, and on what the hand-written file lists.
///
/// It looks at the whole history, as every screener may, and at nothing that an attacker can
/// change but the values themselves: which step is next follows from the calls made.
#[derive(Debug, Clone)]
pub struct OracleScreener {
    knowledge: Arc<Knowledge>,
}

impl OracleScreener {
    /// Its name in traces and reports.
    pub const NAME: &str = "oracle";

    /// An oracle for the tasks of one suite.
    pub fn new(knowledge: Arc<Knowledge>) -> Self {
        Self { knowledge }
    }
}

impl Screener for OracleScreener {
    fn name(&self) -> &str {
        Self::NAME
    }

    /// A task that the oracle does not know depends on everything.
    fn screen(&self, history: &History, _: &Nonce) -> Screening {
        let relevant = self.knowledge.relevant(&Scene::of_history(history));
        Screening::Decided(relevant.map_or(Relevance::Everything, |regions| {
            Relevance::Only(regions.into_iter().map(RegionId).collect())
        }))
    }
}

#[cfg(test)]
mod tests;
