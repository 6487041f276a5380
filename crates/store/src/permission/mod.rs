//! Permissions that the user gave (SecGPT appendix A).

mod action;
mod error;
mod export;
mod kept;
mod table;

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use ifc::{Label, Lattice};

pub use action::{Action, App, BadDomain, Domain, Identity, Irreversible, ReversibleTool};
pub use error::PermissionError;
pub use kept::{Apps, Grant, Kept, Lasting, Standing};

use crate::database::Database;
use crate::names::Names;
use crate::{Name, PermissionId, Time};
use kept::{Held, MOST, Table};

/// The permissions of all sessions, in a file that its owner alone can read.
///
/// Several processes may have the file open: what one of them revokes stops the next
/// [`find`](Permissions::find) of each.
#[derive(Debug)]
pub struct Permissions {
    database: Database,
    names: Names,
    /// Locked before the database is.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The stored ones; none if they must be read first.
    stored: Option<Stored>,
    sessions: HashMap<Name, Table>,
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
            state: Mutex::default(),
        })
    }

    /// Keeps a permission. One for the same action, taints and duration is replaced by it, so that
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
        self.locked(|state| match &grant.lasting {
            Lasting::Always => {
                // Read anew next time: `data_version` tells of other connections' changes, not of our own.
                state.stored = None;
                table::insert(&self.database, &grant.action, &held, now)
            }
            Lasting::Session(session) => {
                let all = state.sessions.entry(session.clone()).or_default();
                for list in all.values_mut() {
                    list.retain(|other| other.expires.is_none_or(|end| now < end));
                }
                let list = all.entry(grant.action.clone()).or_default();
                list.retain(|other| other.taints != held.taints);
                list.push(held);
                let count = all.values().map(Vec::len).sum::<usize>();
                if count > MOST {
                    // The newest goes again: nobody was told that it is there.
                    all.values_mut()
                        .for_each(|list| list.retain(|other| other.id != id));
                    return Err(PermissionError::Full(MOST));
                }
                Ok(())
            }
        })?;
        Ok(id)
    }

    /// The permission that covers this action, by these apps, under this label, at this time and in
    /// this session; none if there is none.
    ///
    /// # Errors
    /// The file cannot be read, or a permission in it cannot be. The action is not allowed then.
    pub fn find(
        &self,
        action: &Action,
        label: &Label,
        session: &Name,
        now: Time,
    ) -> Result<Option<PermissionId>, PermissionError> {
        let covering = |table: &Table| {
            let list = table.get(action)?;
            let held = list.iter().find(|held| held.covers(label, now))?;
            Some(held.id)
        };
        self.locked(|state| {
            let kept = covering(self.stored(&mut state.stored)?);
            Ok(kept.or_else(|| covering(state.sessions.get(session)?)))
        })
    }

    /// Every permission, the oldest first, with what has become of it.
    ///
    /// # Errors
    /// The file cannot be read, or a permission in it cannot be.
    pub fn list(&self, apps: &Apps, now: Time) -> Result<Vec<Kept>, PermissionError> {
        self.locked(|state| {
            let stored = self.stored(&mut state.stored)?;
            let mut all = kept(stored, &Lasting::Always, apps, now);
            for (session, table) in &state.sessions {
                all.extend(kept(table, &Lasting::Session(session.clone()), apps, now));
            }
            all.sort_unstable_by_key(|kept| (kept.granted, kept.id));
            Ok(all)
        })
    }

    /// The id of every permission, whether it can be read or not.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn ids(&self) -> Result<Vec<PermissionId>, PermissionError> {
        self.locked(|state| {
            let mut all = table::ids(&self.database)?;
            let held = state.sessions.values().flat_map(HashMap::values).flatten();
            all.extend(held.map(|held| held.id));
            Ok(all)
        })
    }

    /// Takes a permission back. False if there is none with that id.
    ///
    /// # Errors
    /// The file cannot be written; the permission still holds then.
    pub fn revoke(&self, id: PermissionId) -> Result<bool, PermissionError> {
        self.locked(|state| {
            let mut found = false;
            for list in state.sessions.values_mut().flat_map(HashMap::values_mut) {
                let before = list.len();
                list.retain(|held| held.id != id);
                found |= list.len() < before;
            }
            if found {
                return Ok(true);
            }
            state.stored = None;
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

    /// The stored permissions as they are at this moment.
    fn stored<'a>(&self, held: &'a mut Option<Stored>) -> Result<&'a Table, PermissionError> {
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
        work: impl FnOnce(&mut State) -> Result<T, PermissionError>,
    ) -> Result<T, PermissionError> {
        // Whoever panicked here leaves permissions that were granted, at worst one fewer.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        work(&mut state)
    }
}

fn kept(table: &Table, lasting: &Lasting, apps: &Apps, now: Time) -> Vec<Kept> {
    let each = table.iter().flat_map(|(action, list)| {
        list.iter().map(|held| Kept {
            id: held.id,
            action: action.clone(),
            taints: held.taints.clone(),
            lasting: lasting.clone(),
            granted: held.granted,
            expires: held.expires,
            standing: held.standing(action, apps, now),
        })
    });
    each.collect()
}
