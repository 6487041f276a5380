//! How the apps of a query meet.

use serde::Serialize;

/// How the apps of a query meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Way {
    /// All apps in one context, nothing labelled, nothing limited.
    Vanilla,
    /// One conversation with the tools of all apps, labelled.
    Joint,
    /// A conversation for each app.
    Isolated,
}

impl Way {
    /// All of them.
    pub(super) const ALL: [Self; 3] = [Self::Vanilla, Self::Joint, Self::Isolated];

    /// Whether labels and limits are in force.
    pub(super) fn is_protected(self) -> bool {
        self != Self::Vanilla
    }
}
