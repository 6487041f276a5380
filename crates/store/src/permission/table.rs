//! The file of permissions.

use ifc::Direction;
use rusqlite::{Connection, Row, params};

use super::action::{Action, App, Domain, Identity, ReversibleTool};
use super::error::PermissionError;
use super::kept::{Held, MOST, Table};
use crate::database::{self, Database, Schema, Stop};
use crate::names::Names;
use crate::{Name, PermissionId, Time};

/// A row is one permission. `object` is the functionality, the domain or the tool; `peer` is the app that
/// answers in a collaboration, and `step` which way that flows. Nothing is kept of the kind `sharing`.
pub(super) const SCHEMA: Schema = Schema {
    application: 0x534c_5045,
    version: 1,
    sql: "
CREATE TABLE permission (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  id BLOB NOT NULL UNIQUE CHECK (length(id) = 16),
  kind TEXT NOT NULL CHECK (kind IN ('selection', 'collaboration', 'sharing', 'egress', 'tool')),
  object TEXT NOT NULL,
  app TEXT NOT NULL,
  identity BLOB NOT NULL CHECK (length(identity) = 32),
  peer TEXT CHECK ((peer IS NOT NULL) = (kind = 'collaboration')),
  peer_identity BLOB CHECK (length(peer_identity) = 32 AND peer IS NOT NULL OR peer_identity IS NULL AND peer IS NULL),
  step TEXT CHECK ((step IS NOT NULL) = (kind = 'collaboration')),
  taints TEXT NOT NULL,
  granted INTEGER NOT NULL,
  expires INTEGER
) STRICT;
",
};

const SELECTION: &str = "selection";
const COLLABORATION: &str = "collaboration";
const EGRESS: &str = "egress";
const TOOL: &str = "tool";

type Failed = Stop<PermissionError>;

/// Changes with every change that another connection makes.
pub(super) fn version(database: &Database) -> Result<i64, PermissionError> {
    database.with(|connection| {
        let mut statement = connection.prepare_cached("PRAGMA data_version")?;
        Ok(statement.query_row([], |row| row.get(0))?)
    })
}

/// Every permission, the oldest first for each action.
pub(super) fn read(database: &Database, names: &Names) -> Result<Table, PermissionError> {
    database.read(|connection| {
        let mut statement = connection.prepare_cached(
            "SELECT id, kind, object, app, identity, peer, peer_identity, step, taints, granted, expires
             FROM permission ORDER BY number",
        )?;
        let mut rows = statement.query([])?;
        let mut table = Table::new();
        while let Some(row) = rows.next()? {
            let (action, held) = permission(row, names)?;
            table.entry(action).or_default().push(held);
        }
        Ok(table)
    })
}

/// The id of every permission.
pub(super) fn ids(database: &Database) -> Result<Vec<PermissionId>, PermissionError> {
    database.read(|connection| {
        let mut statement =
            connection.prepare_cached("SELECT id FROM permission ORDER BY number")?;
        let ids = statement.query_map([], |row| row.get(0).map(PermissionId::from_bytes))?;
        Ok(ids.collect::<Result<_, _>>()?)
    })
}

/// Stores one in the place of its double, and drops those that have expired.
pub(super) fn insert(
    database: &Database,
    action: &Action,
    held: &Held,
    now: Time,
) -> Result<(), PermissionError> {
    let columns = Columns::new(action);
    let taints = serde_json::Value::from(held.taints.clone()).to_string();
    let gone = database.write(|connection| {
        let expired =
            connection.execute("DELETE FROM permission WHERE expires <= ?1", [now.millis()])?;
        let double = connection.execute(
            // `IS`, where a column may be NULL: `=` finds no NULL, and doubles would pile up.
            "DELETE FROM permission WHERE kind = ?1 AND object = ?2 AND app = ?3 AND identity = ?4
               AND peer IS ?5 AND peer_identity IS ?6 AND step IS ?7 AND taints = ?8",
            params![
                columns.kind,
                columns.object,
                columns.app.name.as_str(),
                columns.app.identity.as_bytes(),
                columns.peer.map(|peer| peer.name.as_str()),
                columns.peer.map(|peer| peer.identity.as_bytes()),
                columns.step,
                taints,
            ],
        )?;
        noted(connection, expired + double)?;
        // After the expired ones and the double are gone, so that a full file still lets the user renew what is in it.
        full(connection)?;
        connection.execute(
            "INSERT INTO permission
               (id, kind, object, app, identity, peer, peer_identity, step, taints, granted, expires)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
            params![
                held.id.as_bytes(),
                columns.kind,
                columns.object,
                columns.app.name.as_str(),
                columns.app.identity.as_bytes(),
                columns.peer.map(|peer| peer.name.as_str()),
                columns.peer.map(|peer| peer.identity.as_bytes()),
                columns.step,
                taints,
                held.granted.millis(),
                held.expires.map(Time::millis),
            ],
        )?;
        // Erased after the commit: the whole file is written anew for that, which no transaction can contain.
        Ok::<_, Failed>(expired + double > 0)
    })?;
    erase(database, gone);
    Ok(())
}

/// Removes one. False if there is none.
pub(super) fn delete(database: &Database, id: PermissionId) -> Result<bool, PermissionError> {
    let gone = database.write(|connection| {
        let gone = connection.execute("DELETE FROM permission WHERE id = ?1", [id.as_bytes()])?;
        noted(connection, gone)?;
        Ok::<_, Failed>(gone > 0)
    })?;
    erase(database, gone);
    Ok(gone)
}

fn noted(connection: &Connection, gone: usize) -> Result<(), Failed> {
    match gone {
        0 => Ok(()),
        _ => Ok(database::deleted(connection)?),
    }
}

/// Removes from the file what is in its tables no more.
fn erase(database: &Database, gone: bool) {
    if gone {
        // It is no permission by now, whatever becomes of the file, and who opens it next tries again.
        drop(database.erase());
    }
}

fn full(connection: &Connection) -> Result<(), Failed> {
    let count: i64 =
        connection.query_row("SELECT count(*) FROM permission", [], |row| row.get(0))?;
    match usize::try_from(count).is_ok_and(|count| count < MOST) {
        true => Ok(()),
        false => Err(Stop::Refused(PermissionError::Full(MOST))),
    }
}

/// An action as it is stored.
struct Columns<'a> {
    kind: &'static str,
    object: &'a str,
    app: &'a App,
    peer: Option<&'a App>,
    step: Option<&'static str>,
}

impl<'a> Columns<'a> {
    fn new(action: &'a Action) -> Self {
        let plain = |kind, object, app| Self {
            kind,
            object,
            app,
            peer: None,
            step: None,
        };
        match action {
            Action::Selection { functionality, app } => {
                plain(SELECTION, functionality.as_str(), app)
            }
            Action::Collaboration {
                from,
                to,
                functionality,
                direction,
            } => Self {
                peer: Some(to),
                step: Some(direction.name()),
                ..plain(COLLABORATION, functionality.as_str(), from)
            },
            Action::Egress { app, domain } => plain(EGRESS, domain.as_str(), app),
            Action::Tool { app, tool } => plain(TOOL, tool.name().as_str(), app),
        }
    }
}

fn permission(row: &Row<'_>, names: &Names) -> Result<(Action, Held), Failed> {
    let id = PermissionId::from_bytes(row.get(0)?);
    let unreadable = |reason: &str| {
        let reason = reason.to_owned();
        Stop::Refused(PermissionError::Unreadable { id, reason })
    };
    let name = |text: String| Name::new(text).map_err(|error| unreadable(&error.to_string()));
    let kind: String = row.get(1)?;
    let object: String = row.get(2)?;
    let app = App {
        name: name(row.get(3)?)?,
        identity: Identity::from_digest(row.get(4)?),
    };
    let step: Option<String> = row.get(7)?;
    let action = match kind.as_str() {
        SELECTION => Action::Selection {
            functionality: name(object)?,
            app,
        },
        COLLABORATION => Action::Collaboration {
            from: app,
            to: App {
                name: name(row.get(5)?)?,
                identity: Identity::from_digest(row.get(6)?),
            },
            functionality: name(object)?,
            direction: Direction::ALL
                .into_iter()
                .find(|known| step.as_deref() == Some(known.name()))
                .ok_or_else(|| unreadable("its step is unknown"))?,
        },
        EGRESS => Action::Egress {
            app,
            domain: Domain::new(&object).map_err(|error| unreadable(&error.to_string()))?,
        },
        TOOL => Action::Tool {
            app,
            tool: ReversibleTool::stored(name(object)?),
        },
        _ => return Err(unreadable("its kind is unknown")),
    };
    let taints: String = row.get(8)?;
    let taints: Vec<String> =
        serde_json::from_str(&taints).map_err(|error| unreadable(&error.to_string()))?;
    let held = Held {
        id,
        limit: names.limit(&taints),
        taints,
        granted: Time::from_millis(row.get(9)?),
        expires: row.get::<_, Option<i64>>(10)?.map(Time::from_millis),
    };
    Ok((action, held))
}
