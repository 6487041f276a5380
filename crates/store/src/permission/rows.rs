//! The rows of the file of permissions.

use ifc::{Bounds, Direction};
use rusqlite::types::Value;
use rusqlite::{Connection, params, params_from_iter};

use super::action::{Action, App, Domain, Identity, ReversibleTool};
use super::grant::{Grant, PermissionError};
use crate::database::{Schema, Stop, rows};
use crate::{Name, PermissionId, Time};

/// Permissions in one file: more than any list that a user reads.
const MOST: i64 = 4096;

/// A row is one permission. `object` is the functionality, the domain or the tool; `peer` is the app that
/// answers in a collaboration, and `step` the direction of the data. `definition` is the digest of a tool, and `arguments` and
/// `folders` are its [`Bounds`].
pub(super) const SCHEMA: Schema = Schema {
    application: 0x534c_5045,
    version: 3,
    create: include_str!("../../migrations/sqlite/3_permission.sql"),
    // Permissions of tools covered any arguments.
    upgrade: include_str!("../../migrations/sqlite/3_permission_upgrade.sql"),
};

/// The condition of one action, but for its arguments. `IS`, where a column may be NULL.
const OF_ACTION: &str = "kind = ?1 AND object = ?2 AND app = ?3 AND identity = ?4
  AND peer IS ?5 AND peer_identity IS ?6 AND step IS ?7 AND definition IS ?8";

/// The columns of a [`Row`].
const ROW: &str = "id, taints, granted, expires, scripts, arguments, folders";

const SELECTION: &str = "selection";
const COLLABORATION: &str = "collaboration";
const EGRESS: &str = "egress";
const TOOL: &str = "tool";

type Failed = Stop<PermissionError>;

pub(super) struct Row {
    pub(super) id: PermissionId,
    pub(super) taints: Vec<String>,
    pub(super) granted: Time,
    pub(super) expires: Option<Time>,
    pub(super) scripts: bool,
    /// The control arguments that it covers, of a tool.
    pub(super) arguments: Option<Bounds>,
}

/// The permissions for an action, the oldest first.
pub(super) fn of_action(connection: &Connection, action: &Action) -> Result<Vec<Row>, Failed> {
    let select = format!("SELECT {ROW} FROM permission WHERE {OF_ACTION} ORDER BY number");
    let values = params_from_iter(parameters(action));
    rows(connection, &select, values, read)
}

pub(super) fn all(connection: &Connection) -> Result<Vec<(Action, Row)>, Failed> {
    let select = format!(
        "SELECT {ROW}, kind, object, app, identity, peer, peer_identity, step, definition
         FROM permission ORDER BY granted, number"
    );
    rows(connection, &select, [], |row| {
        let without = read(row)?;
        Ok((action(row, without.arguments.clone())?, without))
    })
}

pub(super) fn ids(connection: &Connection) -> Result<Vec<PermissionId>, Failed> {
    let select = "SELECT id FROM permission ORDER BY number";
    rows(connection, select, [], |row| {
        Ok(PermissionId::from_bytes(row.get(0)?))
    })
}

/// Stores a permission. Returns whether others were removed: its double, and those that have expired.
pub(super) fn insert(
    connection: &Connection,
    id: PermissionId,
    grant: &Grant,
    taints: &[String],
    now: Time,
) -> Result<bool, Failed> {
    let taints = serde_json::Value::from(taints).to_string();
    let expired =
        connection.execute("DELETE FROM permission WHERE expires <= ?1", [now.millis()])?;
    let bounds = grant.action.arguments();
    let arguments = bounds.map(|bounds| bounds.stored().to_owned());
    let folders = bounds.is_some_and(Bounds::folders);
    let mut values = parameters(&grant.action);
    values.extend([taints.into(), arguments.into(), folders.into()]);
    let double = connection.execute(
        &format!("DELETE FROM permission WHERE {OF_ACTION} AND taints = ?9 AND arguments IS ?10 AND folders = ?11"),
        params_from_iter(&values),
    )?;
    // After the deletions, so that the user can renew a permission of a full file.
    let count: i64 =
        connection.query_row("SELECT count(*) FROM permission", [], |row| row.get(0))?;
    if count >= MOST {
        let most = usize::try_from(MOST).unwrap_or_default();
        return Err(Stop::Refused(PermissionError::Full(most)));
    }
    let expires = grant.expires.map(Time::millis);
    values.extend([id.as_bytes().to_vec().into(), now.millis().into()]);
    values.extend([expires.into(), grant.scripts.into()]);
    connection.execute(
        "INSERT INTO permission
           (kind, object, app, identity, peer, peer_identity, step, definition, taints, arguments, folders, id, granted,
            expires, scripts)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
        params_from_iter(values),
    )?;
    Ok(expired + double > 0)
}

/// Removes a permission. False if there is none with that id.
pub(super) fn delete(connection: &Connection, id: PermissionId) -> Result<bool, Failed> {
    let sql = "DELETE FROM permission WHERE id = ?1";
    Ok(connection.execute(sql, params![id.as_bytes()])? > 0)
}

/// The parameters of [`OF_ACTION`].
fn parameters(action: &Action) -> Vec<Value> {
    let text = |text: &str| Value::from(text.to_owned());
    let digest = |identity: &Identity| Value::from(identity.as_bytes().to_vec());
    let (kind, object, app) = match action {
        Action::Selection { functionality, app } => (SELECTION, functionality.as_str(), app),
        Action::Collaboration {
            from,
            functionality,
            ..
        } => (COLLABORATION, functionality.as_str(), from),
        Action::Egress { app, domain } => (EGRESS, domain.as_str(), app),
        Action::Tool { app, tool, .. } => (TOOL, tool.name().as_str(), app),
    };
    let (peer, step) = match action {
        Action::Collaboration { to, direction, .. } => (Some(to), Some(direction.name())),
        _ => (None, None),
    };
    let definition = match action {
        Action::Tool { definition, .. } => Some(definition),
        _ => None,
    };
    vec![
        text(kind),
        text(object),
        text(app.name.as_str()),
        digest(&app.identity),
        peer.map_or(Value::Null, |peer| text(peer.name.as_str())),
        peer.map_or(Value::Null, |peer| digest(&peer.identity)),
        step.map_or(Value::Null, text),
        definition.map_or(Value::Null, digest),
    ]
}

/// The columns [`ROW`], which come first.
fn read(row: &rusqlite::Row<'_>) -> Result<Row, Failed> {
    let id = PermissionId::from_bytes(row.get(0)?);
    let taints: String = row.get(1)?;
    let taints = serde_json::from_str(&taints).map_err(|error| unreadable(id, &error))?;
    let (arguments, folders) = (row.get::<_, Option<_>>(5)?, row.get(6)?);
    Ok(Row {
        id,
        taints,
        granted: Time::from_millis(row.get(2)?),
        expires: row.get::<_, Option<i64>>(3)?.map(Time::from_millis),
        scripts: row.get(4)?,
        arguments: arguments.map(|arguments| Bounds::new(arguments, folders)),
    })
}

fn action(row: &rusqlite::Row<'_>, arguments: Option<Bounds>) -> Result<Action, Failed> {
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
    let kind: String = row.get(7)?;
    Ok(match kind.as_str() {
        SELECTION => Action::Selection {
            functionality: name(8)?,
            app: app(9)?,
        },
        COLLABORATION => {
            let step: String = row.get(13)?;
            let known = Direction::ALL
                .into_iter()
                .find(|known| step == known.name());
            Action::Collaboration {
                from: app(9)?,
                to: app(11)?,
                functionality: name(8)?,
                direction: known.ok_or_else(|| unreadable(id, &"its step is unknown"))?,
            }
        }
        EGRESS => Action::Egress {
            app: app(9)?,
            domain: Domain::new(name(8)?.as_str()).map_err(|error| unreadable(id, &error))?,
        },
        TOOL => Action::Tool {
            app: app(9)?,
            tool: ReversibleTool::stored(name(8)?),
            definition: Identity::from_digest(row.get(14)?),
            arguments: arguments.ok_or_else(|| unreadable(id, &"it has no arguments"))?,
        },
        _ => return Err(unreadable(id, &"its kind is unknown")),
    })
}

fn unreadable(id: PermissionId, reason: &dyn std::fmt::Display) -> Failed {
    let reason = reason.to_string();
    Stop::Refused(PermissionError::Unreadable { id, reason })
}
