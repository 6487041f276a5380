//! Whether the configuration fits the tools that an app turns out to have.

use std::fmt;
use std::sync::Arc;

use wire::ToolDescription;

type Check = dyn Fn(&[ToolDescription]) -> Result<(), String> + Send + Sync;

/// Compares rules with an app's tools. What it refuses does not
/// start: a rule that fits no tool does not hold what it was written for.
#[derive(Clone)]
pub struct ToolCheck(Arc<Check>);

impl ToolCheck {
    /// A check that says in one line what does not fit.
    pub fn new(
        check: impl Fn(&[ToolDescription]) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(check))
    }

    /// For apps without rules: any tools will do.
    pub fn any() -> Self {
        Self::new(|_| Ok(()))
    }

    /// This check, and where nothing is wrong by it another one.
    #[must_use]
    pub fn and(
        self,
        then: impl Fn(&[ToolDescription]) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        Self::new(move |tools| {
            self.check(tools)?;
            then(tools)
        })
    }

    pub(crate) fn check(&self, tools: &[ToolDescription]) -> Result<(), String> {
        (self.0)(tools)
    }
}

impl fmt::Debug for ToolCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ToolCheck")
    }
}
