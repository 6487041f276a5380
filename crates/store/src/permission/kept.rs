//! A permission: as it is given, held and shown.

use std::collections::{BTreeMap, HashMap};

use ifc::Label;

use super::action::{Action, Identity};
use crate::{Name, PermissionId, Time};

/// Permissions that are kept: more than any list that a user reads.
pub(super) const MOST: usize = 4096;

/// The apps as they are now: what each name stands for.
pub type Apps = BTreeMap<Name, Identity>;

/// What the user allows until it is revoked (appendix A.1). What is allowed for a session (A.2) or once (A.3) the
/// monitor has, and nobody keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// What is allowed.
    pub action: Action,
    /// The taints under which it is: what flows to this label, and nothing else.
    pub limit: Label,
    /// From when on it is no longer.
    pub expires: Option<Time>,
}

/// A permission as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Its id.
    pub id: PermissionId,
    /// What is allowed, and the identities of the apps for which it was.
    pub action: Action,
    /// The names of the taints under which it is.
    pub taints: Vec<String>,
    /// Since when.
    pub granted: Time,
    /// Until when.
    pub expires: Option<Time>,
    /// Whether it counts.
    pub standing: Standing,
}

/// Whether a permission counts, and why not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It does.
    Valid,
    /// Its time is over.
    Expired,
    /// These apps are others than those that it was given for, or are gone.
    AppsChanged(Vec<Name>),
    /// Its taints no longer exist, or their names mean more than they did.
    TaintsChanged,
    /// It was given in what is now the future: the clock was set back.
    NotYet,
}

/// Permissions by what they allow.
pub(super) type Table = HashMap<Action, Vec<Held>>;

/// One permission for an action.
#[derive(Debug, Clone)]
pub(super) struct Held {
    pub(super) id: PermissionId,
    pub(super) taints: Vec<String>,
    /// None if the names no longer mean what they did.
    pub(super) limit: Option<Label>,
    pub(super) granted: Time,
    pub(super) expires: Option<Time>,
}

impl Held {
    pub(super) fn standing(&self, action: &Action, apps: &Apps, now: Time) -> Standing {
        let changed = action.apps().into_iter();
        let changed = changed.filter(|app| apps.get(&app.name) != Some(&app.identity));
        let changed: Vec<Name> = changed.map(|app| app.name.clone()).collect();
        if !changed.is_empty() {
            return Standing::AppsChanged(changed);
        }
        match &self.limit {
            None => Standing::TaintsChanged,
            Some(_) if self.expires.is_some_and(|end| end <= now) => Standing::Expired,
            Some(_) if now < self.granted => Standing::NotYet,
            Some(_) => Standing::Valid,
        }
    }

    pub(super) fn covers(&self, label: &Label, now: Time) -> bool {
        // Before it was granted: a clock that is set back would make it last longer than agreed.
        let in_time = self.granted <= now && self.expires.is_none_or(|end| now < end);
        in_time
            && self
                .limit
                .as_ref()
                .is_some_and(|limit| label.flows_to(limit))
    }
}
