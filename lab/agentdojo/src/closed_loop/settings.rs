//! How cells are run.

use std::sync::Arc;

use screen::attention::AttentionScreener;

use super::{Cell, Model, UserModel};
use crate::policies::Policies;

/// How cells are run.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Python processes that run tasks side by side.
    pub workers: usize,
    /// The agent's model.
    pub model: Model,
    /// A few pairs of each cell instead of all.
    pub quick: bool,
    /// The attention screener, for the defences that need it; all cells share it
    /// ([`Defence::needs_attention`](super::Defence::needs_attention)).
    pub attention: Option<Arc<AttentionScreener>>,
    /// The policies of the suites.
    pub policies: Policies,
}

impl Settings {
    /// The cell whose rows show how tasks end with this cell's user, and up to how many questions:
    /// who leaves after three answers and is asked twice is no other than who stays. That holds for
    /// a model that always says the same.
    pub(super) fn shown_by(&self, cell: &Cell) -> Option<(Cell, u32)> {
        // Without any answer it is the absent user, whose cell is always run itself.
        let answers = cell.user.answers.filter(|answers| *answers > 0)?;
        let always_the_same = matches!(self.model, Model::WorstCase(_));
        let user = UserModel {
            answers: None,
            ..cell.user
        };
        let cell = cell.clone();
        always_the_same.then_some((Cell { user, ..cell }, answers))
    }
}
