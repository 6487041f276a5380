//! Perfect knowledge of dependencies, and a user who knows what was asked for: the bounds of what
//! any screener and any user can do.

mod ideal_user;

use std::sync::Arc;

use ifc::{History, RegionId, Relevance};

pub use self::ideal_user::{Asked, IdealUser};
use crate::{suite::Scene, worst_case::Knowledge};

/// The dependencies of the ground truth, for [`screen::Oracle`]: the next step of the user's task
/// depends on the regions that hold the values of its arguments, and on what the hand-written
/// file lists.
///
/// It looks at the whole history, as every screener may. Which step is next follows from the
/// calls that were proposed, so an attacker moves it only by having the user's own steps taken.
#[derive(Debug, Clone)]
pub struct GroundTruth {
    knowledge: Arc<Knowledge>,
}

impl GroundTruth {
    /// The dependencies of one suite's tasks.
    pub fn new(knowledge: Arc<Knowledge>) -> Self {
        Self { knowledge }
    }

    /// What the next step depends on. A task that is not one of the suite's depends on everything.
    pub fn of(&self, history: &History) -> Relevance {
        let relevant = self.knowledge.relevant(&Scene::of_history(history));
        relevant.map_or(Relevance::Everything, |regions| {
            Relevance::Only(regions.into_iter().map(RegionId).collect())
        })
    }
}

#[cfg(test)]
mod tests;
