//! What goes wrong in the suite itself.

/// An error of the suite itself.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
