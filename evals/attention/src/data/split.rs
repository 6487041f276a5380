//! What is trained on and what is tested on.

use std::collections::BTreeSet;

use sha2::{Digest, Sha256};

use super::step::Step;

/// Parts of the split by task.
pub const FOLDS: usize = 5;

/// One way to part the steps: by their positions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// `fold-0` to `fold-4`, or the suite that is left out.
    pub name: String,
    /// To learn from.
    pub train: Vec<usize>,
    /// To measure with.
    pub test: Vec<usize>,
}

/// The fold of a task: by a hash, so that it never changes. All runs of a task are in one fold,
/// whatever their model and attack; a goal that is asked for by the user is a task of its own.
#[must_use]
pub fn fold(suite: &str, user_task: &str) -> usize {
    let digest = Sha256::digest(format!("{suite}/{user_task}"));
    let first = digest.first_chunk().copied().unwrap_or_default();
    usize::try_from(u64::from_le_bytes(first) % FOLDS as u64).unwrap_or_default()
}

impl Split {
    /// Each fold is left out once.
    #[must_use]
    pub fn by_task(steps: &[Step]) -> Vec<Self> {
        let fold = |step: &Step| fold(&step.suite, &step.user_task);
        let folds = 0..FOLDS;
        folds
            .map(|left_out| Self::of(format!("fold-{left_out}"), steps, |it| fold(it) == left_out))
            .collect()
    }

    /// Each suite is left out once.
    #[must_use]
    pub fn by_suite(steps: &[Step]) -> Vec<Self> {
        let suites: BTreeSet<&str> = steps.iter().map(|step| step.suite.as_str()).collect();
        let suites = suites.into_iter();
        suites
            .map(|left_out| Self::of(left_out.to_owned(), steps, |step| step.suite == left_out))
            .collect()
    }

    fn of(name: String, steps: &[Step], test: impl Fn(&Step) -> bool) -> Self {
        let all = 0..steps.len();
        let is_test = |at: &usize| steps.get(*at).is_some_and(&test);
        let (test, train) = all.partition(is_test);
        Self { name, train, test }
    }
}
