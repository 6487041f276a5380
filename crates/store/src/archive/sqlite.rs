//! The rows of SQLite files.

use std::sync::Arc;

use rusqlite::types::{self, ValueRef};
use rusqlite::{Connection, ErrorCode, Row};
use serde_json::Value;

use super::lines::{bytes, hex};
use super::{ArchiveError, File, Kind, Reader, TABLES, Table, Writer};
use crate::database::{Database, Stop};

type Failed = Stop<ArchiveError>;

impl From<ArchiveError> for Failed {
    fn from(error: ArchiveError) -> Self {
        Self::Refused(error)
    }
}

/// The files of one store.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    pub(crate) state: Arc<Database>,
    pub(crate) desk: Arc<Database>,
    pub(crate) audit: Arc<Database>,
}

/// The same, each in a transaction.
struct Open<'a> {
    state: &'a Connection,
    desk: &'a Connection,
    audit: &'a Connection,
}

impl Open<'_> {
    fn of(&self, table: &Table) -> &Connection {
        match table.file {
            File::State => self.state,
            File::Desk => self.desk,
            File::Audit => self.audit,
        }
    }
}

impl Files {
    /// Writes all rows. The state is as of one moment, and the other files as of the same or a later one: an answer may be
    /// used there that no permit of the state came from, which asks again, and never the other way round.
    pub(crate) fn export(&self, to: &mut Writer) -> Result<(), ArchiveError> {
        self.read(|open| {
            for table in &TABLES {
                let mut select = open.of(table).prepare(&table.select(""))?;
                let mut rows = select.query([])?;
                while let Some(row) = rows.next()? {
                    let values = (0..).zip(table.columns());
                    let values = values.map(|(at, (_, kind))| value(row, at, kind));
                    let values = values.collect::<Result<Vec<_>, _>>()?;
                    to.row(table, values).map_err(ArchiveError::from)?;
                }
            }
            Ok(())
        })
    }

    /// Reads all rows into empty files: all of them, or none if `from` is not complete.
    pub(crate) fn import(&self, from: &mut Reader) -> Result<u64, ArchiveError> {
        self.write(|open| {
            for table in &TABLES {
                if count(open.of(table), table)? > 0 {
                    return Err(ArchiveError::NotEmpty(table.name).into());
                }
            }
            let mut rows = 0;
            while let Some((table, values)) = from.next()? {
                let places = vec!["?"; values.len()].join(", ");
                let (name, names) = (table.name, table.names());
                let sql = format!("INSERT INTO {name} ({names}) VALUES ({places})");
                let values = values.iter().zip(table.columns());
                let values = values.map(|(value, (_, kind))| parameter(value, kind));
                let mut insert = open.of(table).prepare_cached(&sql)?;
                let inserted = insert.execute(rusqlite::params_from_iter(values));
                inserted.map_err(|error| match error.sqlite_error_code() {
                    // By itself it would name the file that was opened last.
                    Some(ErrorCode::ConstraintViolation) => from.refuse().into(),
                    _ => Failed::from(error),
                })?;
                rows += 1;
            }
            Ok(rows)
        })
    }

    /// How many rows each table has.
    pub(crate) fn counts(&self) -> Result<Vec<(&'static str, u64)>, ArchiveError> {
        self.read(|open| {
            let counts = TABLES
                .iter()
                .map(|table| Ok((table.name, count(open.of(table), table)?)));
            counts.collect()
        })
    }

    fn read<T>(
        &self,
        work: impl FnOnce(&Open<'_>) -> Result<T, Failed>,
    ) -> Result<T, ArchiveError> {
        self.state.read(|state| {
            // The state is read as of now.
            state.query_row("SELECT count(*) FROM tenant", [], |_| Ok(()))?;
            let read = self.desk.read(|desk| {
                let read = self.audit.read(|audit| work(&Open { state, desk, audit }));
                Ok::<_, Failed>(read?)
            });
            Ok::<_, Failed>(read?)
        })
    }

    fn write<T>(
        &self,
        work: impl FnOnce(&Open<'_>) -> Result<T, Failed>,
    ) -> Result<T, ArchiveError> {
        self.state.write(|state| {
            let written = self.desk.write(|desk| {
                let written = self.audit.write(|audit| work(&Open { state, desk, audit }));
                Ok::<_, Failed>(written?)
            });
            Ok::<_, Failed>(written?)
        })
    }
}

fn count(connection: &Connection, table: &Table) -> rusqlite::Result<u64> {
    let sql = format!("SELECT count(*) FROM {}", table.name);
    connection.query_row(&sql, [], |row| row.get::<_, i64>(0).map(i64::unsigned_abs))
}

fn value(row: &Row<'_>, at: usize, kind: Kind) -> rusqlite::Result<Value> {
    Ok(match row.get_ref(at)? {
        ValueRef::Null => Value::Null,
        ValueRef::Blob(bytes) => Value::from(hex(bytes)),
        _ if kind == Kind::Text => Value::from(row.get::<_, String>(at)?),
        _ => Value::from(row.get::<_, i64>(at)?),
    })
}

fn parameter(value: &Value, kind: Kind) -> types::Value {
    match kind {
        Kind::Text => value.as_str().map(str::to_owned).into(),
        Kind::Bytes => bytes(value).into(),
        Kind::Number | Kind::Counter => value.as_i64().into(),
    }
}
