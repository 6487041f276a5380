//! How many completions an app may ask for.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Completions that an app may ask for.
#[derive(Clone)]
pub struct SamplingBudget {
    /// The provider that answers.
    pub provider: String,
    /// The most tokens of one completion.
    pub max_tokens: u32,
    /// How many are left. Copies share it, so that an app that is started again has no more of them.
    left: Arc<AtomicU32>,
}

impl SamplingBudget {
    /// A budget of so many completions.
    pub fn new(provider: impl Into<String>, max_tokens: u32, completions: u32) -> Self {
        Self {
            provider: provider.into(),
            max_tokens,
            left: Arc::new(AtomicU32::new(completions)),
        }
    }

    /// Takes one completion out of the budget.
    pub(crate) fn take(&self) -> bool {
        // Checked: a budget that is used up would else wrap around to four billion.
        let less = |left: u32| left.checked_sub(1);
        self.left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, less)
            .is_ok()
    }
}

impl fmt::Debug for SamplingBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SamplingBudget")
            .field("provider", &self.provider)
            .field("max_tokens", &self.max_tokens)
            .field("left", &self.left)
            .finish()
    }
}
