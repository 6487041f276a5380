//! Permissions that the user gave (SecGPT appendix A).

mod action;
mod error;
mod export;
mod kept;
mod table;

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use ifc::{Label, Lattice};

pub use action::{Action, App, BadDomain, Domain, Identity, Irreversible, ReversibleTool};
pub use error::PermissionError;
pub use kept::{Apps, Grant, Kept, Standing};

use crate::database::Database;
use crate::names::Names;
use crate::{PermissionId, Time};
use kept::{Held, Table};

/// The permissions that last, in a file that its owner alone can read.
///
/// Several processes may have the file open: what one of them revokes stops the next
/// [`find`](Permissions::find) of each.
#[derive(Debug)]
pub struct Permissions {
    database: Database,
    names: Names,
    /// As they were read; none if they must be read first. Locked before the database is.
    stored: Mutex<Option<Stored>>,
}

#[derive(Debug)]
struct Stored {
    /// SQLite's `data_version` at which they were read.
    version: i64,
    table: Table,
}

impl Permissions {
    /// Opens the file, or creates it. Labels are read and written in `lattice`.
    ///
    /// # Errors
    /// Others than its owner could read or change it, or it is no store of this version.
    pub fn open(path: &Path, lattice: Lattice) -> Result<Self, PermissionError> {
        Ok(Self {
            database: Database::open(path, &table::SCHEMA)?,
            names: Names::new(lattice),
            stored: Mutex::default(),
        })
    }

    /// Keeps a permission. One for the same action and taints is replaced by it, so that
    /// what a user revokes has no double.
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
        let held = Held {
            id,
            taints,
            limit: Some(grant.limit.clone()),
            granted: now,
            expires: grant.expires,
        };
        self.locked(|stored| {
            // Read anew next time: `data_version` tells of other connections' changes, not of our own.
            *stored = None;
            table::insert(&self.database, &grant.action, &held, now)
        })?;
        Ok(id)
    }

    /// The permission that covers this action, by these apps, under this label and at this time; none if there is none.
    ///
    /// # Errors
    /// The file cannot be read, or a permission in it cannot be. The action is not allowed then.
    pub fn find(
        &self,
        action: &Action,
        label: &Label,
        now: Time,
    ) -> Result<Option<PermissionId>, PermissionError> {
        self.locked(|stored| {
            let held = self.current(stored)?.get(action).into_iter().flatten();
            // Whether its apps have changed needs no check here: their identities are a part of the action that
            // is looked up.
            let mut covering = held.filter(|held| held.covers(label, now));
            Ok(covering.next().map(|held| held.id))
        })
    }

    /// Every permission, the oldest first, with what has become of it.
    ///
    /// # Errors
    /// The file cannot be read, or a permission in it cannot be.
    pub fn list(&self, apps: &Apps, now: Time) -> Result<Vec<Kept>, PermissionError> {
        self.locked(|stored| {
            let mut all = kept(self.current(stored)?, apps, now);
            all.sort_unstable_by_key(|kept| (kept.granted, kept.id));
            Ok(all)
        })
    }

    /// The id of every permission, whether it can be read or not.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn ids(&self) -> Result<Vec<PermissionId>, PermissionError> {
        table::ids(&self.database)
    }

    /// Takes a permission back. False if there is none with that id.
    ///
    /// # Errors
    /// The file cannot be written; the permission still holds then.
    pub fn revoke(&self, id: PermissionId) -> Result<bool, PermissionError> {
        self.locked(|stored| {
            *stored = None;
            table::delete(&self.database, id)
        })
    }

    /// Every permission as JSON, for people and other programs.
    ///
    /// # Errors
    /// As [`Permissions::list`].
    pub fn export(&self, apps: &Apps, now: Time) -> Result<String, PermissionError> {
        export::json(&self.list(apps, now)?)
    }

    /// The permissions as they are at this moment.
    fn current<'a>(&self, held: &'a mut Option<Stored>) -> Result<&'a Table, PermissionError> {
        let version = table::version(&self.database)?;
        let current = held.take().filter(|stored| stored.version == version);
        let current = match current {
            Some(current) => current,
            // What changes between the two reads has another version, and is read the next time.
            None => Stored {
                version,
                table: table::read(&self.database, &self.names)?,
            },
        };
        Ok(&held.insert(current).table)
    }

    fn locked<T>(
        &self,
        work: impl FnOnce(&mut Option<Stored>) -> Result<T, PermissionError>,
    ) -> Result<T, PermissionError> {
        // Whoever panicked here leaves permissions as they were read.
        let mut stored = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
        work(&mut stored)
    }
}

fn kept(table: &Table, apps: &Apps, now: Time) -> Vec<Kept> {
    let each = table.iter().flat_map(|(action, list)| {
        list.iter().map(|held| Kept {
            id: held.id,
            action: action.clone(),
            taints: held.taints.clone(),
            granted: held.granted,
            expires: held.expires,
            standing: held.standing(action, apps, now),
        })
    });
    each.collect()
}
