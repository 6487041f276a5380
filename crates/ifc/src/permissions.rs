//! Permissions that last longer than a session (SecGPT appendix A.1).

use crate::{Effect, Label};

/// What a permission can be about. The irreversible has none: it is asked about each time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permissible<'a> {
    /// Calls of a tool in conversations of its own app.
    Tool(PermittedTool<'a>),
    /// One direction of the exchanges of two apps about a functionality.
    Collaboration(&'a Collaboration),
    /// Connections of an app to a registrable domain and what is below it.
    Domain(PermittedDomain<'a>),
}

/// A domain that a permission is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PermittedDomain<'a> {
    /// The app.
    pub app: &'a str,
    /// The registrable domain.
    pub domain: &'a str,
}

/// A tool that a permission is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PermittedTool<'a> {
    /// The app.
    pub app: &'a str,
    /// Its tool.
    pub tool: &'a str,
    /// What the tool does to the world, as the policy says now.
    pub effect: Effect,
}

/// One app asks another for a functionality, or takes what the other answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collaboration {
    /// The app that asks.
    pub asks: String,
    /// The app that serves it.
    pub serves: String,
    /// The functionality.
    pub functionality: String,
    /// Which way it flows. A word on the one is none on the other: what an app may be told is not
    /// what it may have done.
    pub direction: Direction,
}

/// The two directions of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// To the app that serves: the probe, the request, and the call by which it is served.
    Asking,
    /// Back to the app that asks: the response.
    Answering,
}

impl Direction {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::Asking, Self::Answering];

    /// `asking` or `answering`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Asking => "asking",
            Self::Answering => "answering",
        }
    }
}

/// What the user has allowed for good, wherever it is kept. Trusted: nothing but the user's word is
/// among it.
pub trait Permissions: Send + Sync {
    /// The name of a permission that allows this with these taints, which no rule allows by itself.
    /// `None` if there is none now, and wherever that cannot be told: it is asked about then.
    fn find(&self, what: Permissible<'_>, taints: &Label) -> Option<String>;

    /// Keeps the user's word that this may happen with these taints, and names the permission.
    ///
    /// # Errors
    /// Why it cannot be kept. The flow is denied, so that nobody believes that it was.
    fn keep(&self, what: Permissible<'_>, taints: &Label) -> Result<String, String>;
}
