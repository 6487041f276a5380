//! The facts about a session that conditions may use.

use std::sync::Arc;

/// Facts about the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionFacts {
    /// Whether a user answers questions.
    pub attended: bool,
    /// The source of the user's queries.
    pub front: Front,
    /// The user, as the operator's front or configuration names it; `None` if it does not. No model and no app has a say in it.
    pub user: Option<Arc<str>>,
}

/// The source of queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Front {
    /// One query on the command line.
    Run,
    /// A conversation on the command line.
    Chat,
    /// Another agent, by way of the guard proxy.
    Proxy,
    /// Another agent's tool calls, by way of the gateway.
    Gateway,
    /// Another or unknown source.
    Other,
}

impl Front {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Run,
        Self::Chat,
        Self::Proxy,
        Self::Gateway,
        Self::Other,
    ];

    /// Its name in conditions and examples: `Front::"run"`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Chat => "chat",
            Self::Proxy => "proxy",
            Self::Gateway => "gateway",
            Self::Other => "other",
        }
    }
}

impl Default for SessionFacts {
    /// No user, and an unknown source.
    fn default() -> Self {
        Self {
            attended: false,
            front: Front::Other,
            user: None,
        }
    }
}
