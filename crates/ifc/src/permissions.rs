//! Permissions that last longer than a session (SecGPT appendix A.1).

use crate::{Bounds, Effect, Label};

/// The target of a permission. There are none for irreversible calls, which are asked about each time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Permissible<'a> {
    /// Calls of a tool in conversations of its own app, with these control arguments.
    Tool {
        /// The app.
        app: &'a str,
        /// Its tool.
        tool: &'a str,
        /// The effect of the tool in the policy of today.
        effect: Effect,
        /// The control arguments: of a call exactly its own, of a permission what it covers.
        arguments: Bounds,
    },
    /// One direction of the exchanges of two apps about a functionality. It covers messages, and not the calls that serve a request.
    Collaboration(&'a Collaboration),
    /// Connections of an app to a registrable domain and the names below it.
    Domain {
        /// The app.
        app: &'a str,
        /// The registrable domain.
        domain: &'a str,
    },
}

/// One direction of an exchange: one app asks another for a functionality, or the other answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collaboration {
    /// The app that asks.
    pub asks: String,
    /// The app that serves it.
    pub serves: String,
    /// The functionality.
    pub functionality: String,
    /// The direction. A permission is for one of them.
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

/// The stored permissions of the user. Trusted: only the user's answers may create one.
pub trait Permissions: Send + Sync {
    /// Whether a permission for this can be stored. A question offers none otherwise.
    fn can_keep(&self, what: Permissible<'_>) -> bool;

    /// The id of a permission that allows this with these taints; `None` if there is none, or if that is not known. The
    /// user is asked then.
    fn find(&self, what: Permissible<'_>, taints: &Label) -> Option<String>;

    /// Stores a permission for this with these taints, and returns its id.
    ///
    /// # Errors
    /// Why it cannot be stored. The flow is denied then, so that the user knows.
    fn keep(&self, what: Permissible<'_>, taints: &Label) -> Result<String, String>;
}
