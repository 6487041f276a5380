//! The user's choice among several apps, kept for later (SecGPT appendix A: app selection).

/// Where the user's choices among apps are kept. A choice decides to which of the apps that a query needs it
/// goes, and nothing else: whatever the app then does is decided as ever.
pub trait Selections: Send + Sync {
    /// The app that was chosen for good among these, and the name of the permission that says so. It is
    /// looked at for every query: a choice that was revoked counts no more.
    fn find(&self, among: &[String]) -> Option<(String, String)>;

    /// Keeps that this app is taken among these; the name of the permission.
    ///
    /// # Errors
    /// It cannot be kept, and why.
    fn keep(&self, among: &[String], app: &str) -> Result<String, String>;
}
