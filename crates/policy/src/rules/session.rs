//! What conditions may know of the session that a call is made in.

/// Facts about the session, from whoever starts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionFacts {
    /// Whether somebody is there to answer questions.
    pub attended: bool,
    /// Where the user's queries come from.
    pub front: Front,
}

/// Where queries come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Front {
    /// One query on the command line.
    Run,
    /// A conversation on the command line.
    Chat,
    /// Another agent, by way of the guard proxy.
    Proxy,
    /// Anything else, and nothing known.
    Other,
}

impl Front {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Run, Self::Chat, Self::Proxy, Self::Other];

    /// Its name in conditions and examples: `Front::"run"`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Chat => "chat",
            Self::Proxy => "proxy",
            Self::Other => "other",
        }
    }
}

impl Default for SessionFacts {
    /// Nobody is there, and nothing is known.
    fn default() -> Self {
        Self {
            attended: false,
            front: Front::Other,
        }
    }
}
