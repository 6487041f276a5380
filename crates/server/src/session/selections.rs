//! The user's choice among several apps, kept for later (SecGPT appendix A: app selection).

/// What an app is chosen for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChosenFor<'a> {
    /// A query that may need all of these, which may not meet.
    Query,
    /// A functionality that other apps ask for, and that all of these serve.
    Functionality(&'a str),
}

/// Where the user's choices among apps are kept. A choice decides to which of the apps a query or a request
/// goes, and nothing else: whatever the app then does is decided as ever.
pub trait Selections: Send + Sync {
    /// The app that was chosen for good among these, and the name of the permission that says so. It is
    /// looked at each time: a choice that was revoked counts no more.
    fn find(&self, what: ChosenFor<'_>, among: &[String]) -> Option<(String, String)>;

    /// Keeps that this app is taken among these; the name of the permission.
    ///
    /// # Errors
    /// It cannot be kept, and why.
    fn keep(&self, what: ChosenFor<'_>, among: &[String], app: &str) -> Result<String, String>;
}
