//! Permissions that the user gave (SecGPT appendix A).

mod action;
mod grant;
mod rows;

use std::collections::BTreeMap;
use std::path::Path;

use ifc::{Label, Lattice};

pub use action::{Action, App, BadDomain, Domain, Identity, Irreversible, ReversibleTool};
pub use grant::{Grant, PermissionError};

use crate::database::Database;
use crate::names::Names;
use crate::{Name, PermissionId, Time};

/// The apps as they are now: the identity of each name.
pub type Apps = BTreeMap<Name, Identity>;

/// A permission that was stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Its id.
    pub id: PermissionId,
    /// What is allowed, with the identities of the apps.
    pub action: Action,
    /// The names of the taints under which it is allowed.
    pub taints: Vec<String>,
    /// Since when.
    pub granted: Time,
    /// Until when.
    pub expires: Option<Time>,
    /// Whether it counts where no user is at a terminal.
    pub scripts: bool,
    /// Whether it counts.
    pub standing: Standing,
}

/// Whether a permission counts, and why not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It counts.
    Valid,
    /// Its end has come.
    Expired,
    /// These apps have other identities than when it was given, or are gone.
    AppsChanged(Vec<Name>),
    /// Its taints no longer exist, or their names mean more than they did.
    TaintsChanged,
    /// It was given later than now: the clock was set back.
    NotYet,
}

/// The permanent permissions, in a file that only its owner can read. Several processes may have it open; a revocation affects
/// the next [`find`](Permissions::find) of each.
#[derive(Debug)]
pub struct Permissions {
    database: Database,
    names: Names,
}

impl Permissions {
    /// Opens the file, or creates it. Labels are read and written in `lattice`.
    ///
    /// # Errors
    /// Other users could read or change the file, or it does not have the schema of this version.
    pub fn open(path: &Path, lattice: Lattice) -> Result<Self, PermissionError> {
        Ok(Self {
            database: Database::open(path, &rows::SCHEMA)?,
            names: Names::new(lattice),
        })
    }

    /// Stores a permission in place of those for the same action and taints, and removes expired ones.
    ///
    /// # Errors
    /// Its limit is ⊤ or has taints without a name, its end has come, there are too many, or the file
    /// cannot be written.
    pub fn grant(&self, grant: &Grant, now: Time) -> Result<PermissionId, PermissionError> {
        let taints = self.names.limit_names(&grant.limit);
        let taints = taints.ok_or(PermissionError::Unlimited)?;
        if grant.expires.is_some_and(|end| end <= now) {
            return Err(PermissionError::AlreadyExpired);
        }
        let id = PermissionId::random().map_err(PermissionError::Random)?;
        let removed = (self.database)
            .write(|connection| rows::insert(connection, id, grant, &taints, now))?;
        self.removed(removed);
        Ok(id)
    }

    /// A permission that covers this action, by these apps, under this label and at this time; with `scripts`, one that
    /// counts without a terminal.
    ///
    /// # Errors
    /// The file cannot be read, or a permission for this action cannot be. The action is not allowed then.
    pub fn find(
        &self,
        action: &Action,
        label: &Label,
        now: Time,
        scripts: bool,
    ) -> Result<Option<PermissionId>, PermissionError> {
        let of_action = (self.database).read(|connection| rows::of_action(connection, action))?;
        // The identities of the apps are a part of the action, so a changed app finds nothing.
        let covering = of_action.into_iter().find(|row| {
            let limit = self.names.limit(&row.taints);
            // Not before it was granted: a clock that is set back must not extend it.
            let in_time = row.granted <= now && row.expires.is_none_or(|end| now < end);
            let arguments = match (&row.arguments, action.arguments()) {
                (Some(bounds), Some(call)) => bounds.cover(call),
                (bounds, call) => bounds.is_none() && call.is_none(),
            };
            let counts = in_time && arguments && (row.scripts || !scripts);
            counts && limit.is_some_and(|limit| label.flows_to(&limit))
        });
        Ok(covering.map(|row| row.id))
    }

    /// Every permission, the oldest first, and whether it counts.
    ///
    /// # Errors
    /// The file cannot be read, or a permission in it cannot be.
    pub fn list(&self, apps: &Apps, now: Time) -> Result<Vec<Kept>, PermissionError> {
        let rows = self.database.read(rows::all)?;
        let kept = rows.into_iter().map(|(action, row)| Kept {
            standing: self.standing(&action, &row, apps, now),
            id: row.id,
            action,
            taints: row.taints,
            granted: row.granted,
            expires: row.expires,
            scripts: row.scripts,
        });
        Ok(kept.collect())
    }

    fn standing(&self, action: &Action, row: &rows::Row, apps: &Apps, now: Time) -> Standing {
        let changed = action.apps().into_iter();
        let changed = changed.filter(|app| apps.get(&app.name) != Some(&app.identity));
        let changed: Vec<Name> = changed.map(|app| app.name.clone()).collect();
        if !changed.is_empty() {
            Standing::AppsChanged(changed)
        } else if self.names.limit(&row.taints).is_none() {
            Standing::TaintsChanged
        } else if row.expires.is_some_and(|end| end <= now) {
            Standing::Expired
        } else if now < row.granted {
            Standing::NotYet
        } else {
            Standing::Valid
        }
    }

    /// The id of every permission, including those that cannot be read.
    pub fn ids(&self) -> Result<Vec<PermissionId>, PermissionError> {
        self.database.read(rows::ids)
    }

    /// Takes a permission back. False if there is none with that id.
    ///
    /// # Errors
    /// The file cannot be written; the permission still holds then.
    pub fn revoke(&self, id: PermissionId) -> Result<bool, PermissionError> {
        let removed = (self.database).write(|connection| rows::delete(connection, id))?;
        self.removed(removed);
        Ok(removed)
    }

    /// Empties the log after a deletion. While another program reads, the next deletion or start does it.
    fn removed(&self, removed: bool) {
        if removed {
            drop(self.database.checkpoint());
        }
    }
}
