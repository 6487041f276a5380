//! Which apps a query goes to: what the user says, and what comes of it.

use std::collections::BTreeSet;

use hub::Apps;

/// Which apps a query goes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// The planner decides.
    Planner,
    /// To these: isolated if it is one, in a joint conversation if there are several, and to a
    /// vanilla spoke if there is none.
    Apps(BTreeSet<String>),
    /// To each of these by itself. No word of one reaches another: their answers are put together in a
    /// conversation that has no tools.
    Each(BTreeSet<String>),
}

/// Where a query goes.
pub(super) enum Route {
    /// To one conversation.
    To(Apps),
    /// To each of these apps by itself.
    Each(BTreeSet<String>),
}

impl Route {
    /// The conversation in which it ends.
    pub(super) fn last(&self) -> Apps {
        match self {
            Self::To(apps) => apps.clone(),
            Self::Each(apps) => Apps::Each(apps.clone()),
        }
    }
}
