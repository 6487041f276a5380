//! Permissions that last longer than a session (SecGPT appendix A.1).

use crate::{Effect, Label};

/// A tool that a permission is about. The irreversible has none: it is asked about each time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PermittedTool<'a> {
    /// The app.
    pub app: &'a str,
    /// Its tool.
    pub tool: &'a str,
    /// What the tool does to the world, as the policy says now.
    pub effect: Effect,
}

/// What the user has allowed for good, wherever it is kept. Trusted: nothing but the user's word is
/// among it.
pub trait Permissions: Send + Sync {
    /// The name of a permission under which the tool may be called with these taints beyond its limit.
    /// `None` if there is none now, and wherever that cannot be told: it is asked about then.
    fn find(&self, tool: PermittedTool<'_>, excess: &Label) -> Option<String>;

    /// Keeps the user's word that this tool may be called with these taints beyond its limit, and names
    /// the permission.
    ///
    /// # Errors
    /// Why it cannot be kept. The call is denied, so that nobody believes that it was.
    fn keep(&self, tool: PermittedTool<'_>, excess: &Label) -> Result<String, String>;
}
