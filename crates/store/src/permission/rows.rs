//! The rows of the file of permissions.

use ifc::Direction;
use rusqlite::{Connection, params};

use super::action::{Action, App, Domain, Identity, ReversibleTool};
use super::grant::{Grant, PermissionError};
use crate::database::{Schema, Stop};
use crate::{Name, PermissionId, Time};

/// Permissions in one file: more than any list that a user reads.
const MOST: i64 = 4096;

/// A row is one permission. `object` is the functionality, the domain or the tool; `peer` is the app that
/// answers in a collaboration, and `step` the direction of the data.
pub(super) const SCHEMA: Schema = Schema {
    application: 0x534c_5045,
    version: 2,
    create: "
CREATE TABLE permission (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  id BLOB NOT NULL UNIQUE CHECK (length(id) = 16),
  kind TEXT NOT NULL CHECK (kind IN ('selection', 'collaboration', 'egress', 'tool')),
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
CREATE INDEX permission_of_action ON permission (app, object, kind);
",
    upgrade: "
DROP TABLE IF EXISTS erasure;
CREATE INDEX permission_of_action ON permission (app, object, kind);
",
};

/// The condition of one action. `IS`, where a column may be NULL.
const OF_ACTION: &str = "kind = ?1 AND object = ?2 AND app = ?3 AND identity = ?4
  AND peer IS ?5 AND peer_identity IS ?6 AND step IS ?7";

const SELECTION: &str = "selection";
const COLLABORATION: &str = "collaboration";
const EGRESS: &str = "egress";
const TOOL: &str = "tool";

type Failed = Stop<PermissionError>;

/// A permission without its action.
pub(super) struct Row {
    pub(super) id: PermissionId,
    pub(super) taints: Vec<String>,
    pub(super) granted: Time,
    pub(super) expires: Option<Time>,
}

/// The permissions for an action, the oldest first.
pub(super) fn of_action(connection: &Connection, action: &Action) -> Result<Vec<Row>, Failed> {
    let select = format!(
        "SELECT id, taints, granted, expires FROM permission WHERE {OF_ACTION} ORDER BY number"
    );
    let mut statement = connection.prepare_cached(&select)?;
    let columns = Columns::new(action);
    let mut rows = statement.query(columns.params().as_slice())?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read(row, 0)?);
    }
    Ok(found)
}

/// Every permission, the oldest first.
pub(super) fn all(connection: &Connection) -> Result<Vec<(Action, Row)>, Failed> {
    let mut statement = connection.prepare_cached(
        "SELECT id, taints, granted, expires, kind, object, app, identity, peer, peer_identity, step
         FROM permission ORDER BY granted, number",
    )?;
    let mut rows = statement.query([])?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        all.push((action(row)?, read(row, 0)?));
    }
    Ok(all)
}

/// The id of every permission.
pub(super) fn ids(connection: &Connection) -> Result<Vec<PermissionId>, Failed> {
    let mut statement = connection.prepare_cached("SELECT id FROM permission ORDER BY number")?;
    let ids = statement.query_map([], |row| row.get(0).map(PermissionId::from_bytes))?;
    Ok(ids.collect::<Result<_, _>>()?)
}

/// Stores a permission. Returns whether others were removed: its double, and those that have expired.
pub(super) fn insert(
    connection: &Connection,
    id: PermissionId,
    grant: &Grant,
    taints: &[String],
    now: Time,
) -> Result<bool, Failed> {
    let columns = Columns::new(&grant.action);
    let taints = serde_json::Value::from(taints).to_string();
    let expired =
        connection.execute("DELETE FROM permission WHERE expires <= ?1", [now.millis()])?;
    let mut of_action = columns.params().to_vec();
    of_action.push(&taints);
    let double = connection.execute(
        &format!("DELETE FROM permission WHERE {OF_ACTION} AND taints = ?8"),
        of_action.as_slice(),
    )?;
    // After the deletions, so that the user can renew a permission of a full file.
    let count: i64 =
        connection.query_row("SELECT count(*) FROM permission", [], |row| row.get(0))?;
    if count >= MOST {
        let most = usize::try_from(MOST).unwrap_or_default();
        return Err(Stop::Refused(PermissionError::Full(most)));
    }
    let (granted, expires) = (now.millis(), grant.expires.map(Time::millis));
    let id = id.as_bytes();
    of_action.extend([&id as &dyn rusqlite::ToSql, &granted, &expires]);
    connection.execute(
        "INSERT INTO permission
           (kind, object, app, identity, peer, peer_identity, step, taints, id, granted, expires)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        of_action.as_slice(),
    )?;
    Ok(expired + double > 0)
}

/// Removes a permission. False if there is none with that id.
pub(super) fn delete(connection: &Connection, id: PermissionId) -> Result<bool, Failed> {
    let sql = "DELETE FROM permission WHERE id = ?1";
    Ok(connection.execute(sql, params![id.as_bytes()])? > 0)
}

/// An action as it is stored.
struct Columns<'a> {
    kind: &'static str,
    object: &'a str,
    app: (&'a str, &'a [u8; 32]),
    peer: Option<&'a str>,
    peer_identity: Option<&'a [u8; 32]>,
    step: Option<&'static str>,
}

impl<'a> Columns<'a> {
    fn new(action: &'a Action) -> Self {
        let (kind, object, app) = match action {
            Action::Selection { functionality, app } => (SELECTION, functionality.as_str(), app),
            Action::Collaboration {
                from,
                functionality,
                ..
            } => (COLLABORATION, functionality.as_str(), from),
            Action::Egress { app, domain } => (EGRESS, domain.as_str(), app),
            Action::Tool { app, tool } => (TOOL, tool.name().as_str(), app),
        };
        let (peer, step) = match action {
            Action::Collaboration { to, direction, .. } => (Some(to), Some(direction.name())),
            _ => (None, None),
        };
        Self {
            kind,
            object,
            app: (app.name.as_str(), app.identity.as_bytes()),
            peer: peer.map(|peer| peer.name.as_str()),
            peer_identity: peer.map(|peer| peer.identity.as_bytes()),
            step,
        }
    }

    /// The parameters of [`OF_ACTION`].
    fn params(&self) -> [&dyn rusqlite::ToSql; 7] {
        let (app, identity) = &self.app;
        [
            &self.kind,
            &self.object,
            app,
            identity,
            &self.peer,
            &self.peer_identity,
            &self.step,
        ]
    }
}

/// The columns id, taints, granted and expires, from this one on.
fn read(row: &rusqlite::Row<'_>, first: usize) -> Result<Row, Failed> {
    let id = PermissionId::from_bytes(row.get(first)?);
    let taints: String = row.get(first + 1)?;
    let taints = serde_json::from_str(&taints).map_err(|error| unreadable(id, &error))?;
    Ok(Row {
        id,
        taints,
        granted: Time::from_millis(row.get(first + 2)?),
        expires: row.get::<_, Option<i64>>(first + 3)?.map(Time::from_millis),
    })
}

/// The action of a row of [`all`].
fn action(row: &rusqlite::Row<'_>) -> Result<Action, Failed> {
    let id = PermissionId::from_bytes(row.get(0)?);
    let name = |column: usize| -> Result<Name, Failed> {
        Name::new(row.get::<_, String>(column)?).map_err(|error| unreadable(id, &error))
    };
    let app = |column: usize| -> Result<App, Failed> {
        Ok(App {
            name: name(column)?,
            identity: Identity::from_digest(row.get(column + 1)?),
        })
    };
    let kind: String = row.get(4)?;
    Ok(match kind.as_str() {
        SELECTION => Action::Selection {
            functionality: name(5)?,
            app: app(6)?,
        },
        COLLABORATION => {
            let step: String = row.get(10)?;
            let known = Direction::ALL
                .into_iter()
                .find(|known| step == known.name());
            Action::Collaboration {
                from: app(6)?,
                to: app(8)?,
                functionality: name(5)?,
                direction: known.ok_or_else(|| unreadable(id, &"its step is unknown"))?,
            }
        }
        EGRESS => Action::Egress {
            app: app(6)?,
            domain: Domain::new(name(5)?.as_str()).map_err(|error| unreadable(id, &error))?,
        },
        TOOL => Action::Tool {
            app: app(6)?,
            tool: ReversibleTool::stored(name(5)?),
        },
        _ => return Err(unreadable(id, &"its kind is unknown")),
    })
}

fn unreadable(id: PermissionId, reason: &dyn std::fmt::Display) -> Failed {
    let reason = reason.to_string();
    Stop::Refused(PermissionError::Unreadable { id, reason })
}
