//! The systems that are compared.

/// What answers a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum System {
    /// All apps in one context, nothing labelled, nothing limited.
    Vanilla,
    /// The user names the apps.
    Sluice,
    /// The hub's planner finds the apps.
    SluicePlanned,
}

impl System {
    pub(super) const ALL: [Self; 3] = [Self::Vanilla, Self::Sluice, Self::SluicePlanned];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Vanilla => "VanillaGPT",
            Self::Sluice => "Sluice",
            Self::SluicePlanned => "Sluice, planned",
        }
    }
}
