//! How a study is run: which apps share a conversation, and with which settings.

use serde::Serialize;

/// How a study is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Way {
    /// All apps in one context; nothing is labelled or limited.
    Vanilla,
    /// One conversation with the tools of all apps, with the default screener and answer limits.
    JointDefault,
    /// A conversation for each app, with the default screener and answer limits.
    IsolatedDefault,
    /// One conversation, with the screener and the answer limits of the study.
    Joint,
    /// A conversation for each app, with the screener and the answer limits of the study.
    Isolated,
}

impl Way {
    pub(super) const ALL: [Self; 5] = [
        Self::Vanilla,
        Self::JointDefault,
        Self::IsolatedDefault,
        Self::Joint,
        Self::Isolated,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Vanilla => "VanillaGPT",
            Self::JointDefault => "default, joint",
            Self::IsolatedDefault => "default, isolated",
            Self::Joint => "study's, joint",
            Self::Isolated => "study's, isolated",
        }
    }

    /// Whether labels and limits are in force.
    pub(super) fn is_protected(self) -> bool {
        self != Self::Vanilla
    }

    /// Whether the study's screener and answer limits are in force.
    pub(super) fn is_configured(self) -> bool {
        matches!(self, Self::Joint | Self::Isolated)
    }

    /// Whether each app has a conversation of its own.
    pub(super) fn is_isolated(self) -> bool {
        matches!(self, Self::IsolatedDefault | Self::Isolated)
    }
}
