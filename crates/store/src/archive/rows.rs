//! The rows of all tables, in files or in PostgreSQL.

use std::sync::Arc;

use rusqlite::ErrorCode;
use serde_json::Value as Json;
use sqlx::AssertSqlSafe;

use super::lines::{bytes, hex};
use super::{ArchiveError, File, Kind, Reader, TABLES, Table, Writer};
use crate::database::{Begin, Database, Fault, Stop};
use crate::postgres::{Postgres, failed, fault};
use crate::tables::{Tx, Value, Work, finished};

/// One moment for all tables. An export may take longer than a statement of a request.
const READ: &str =
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = 0;
    SET LOCAL idle_in_transaction_session_timeout = 0";
const WRITE: &str =
    "BEGIN; SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0";

/// Most rows of one statement of an import into PostgreSQL, and most bytes, unless one row has more.
const BATCH: usize = 200;
const BATCH_BYTES: usize = 1 << 20;

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

/// A transaction of all tables: one for each file, or one of PostgreSQL.
pub(crate) struct Open<'a> {
    state: Tx<'a>,
    others: Option<[Tx<'a>; 2]>,
}

impl<'a> Open<'a> {
    fn of(&mut self, table: &Table) -> &mut Tx<'a> {
        match (&mut self.others, table.file) {
            (Some([desk, _]), File::Desk) => desk,
            (Some([_, audit]), File::Audit) => audit,
            _ => &mut self.state,
        }
    }

    fn postgres(&mut self) -> Option<&mut Tx<'a>> {
        self.others.is_none().then_some(&mut self.state)
    }
}

/// Where all tables are.
#[derive(Debug, Clone)]
pub(crate) enum Backend {
    Sqlite(Files),
    Postgres(Arc<Postgres>),
}

impl Backend {
    /// Runs `work` in one transaction.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        begin: Begin,
        work: impl for<'t> FnOnce(&'t mut Open<'_>) -> Work<'t, T, ArchiveError> + Send + 'static,
    ) -> Result<T, ArchiveError> {
        match self {
            Self::Sqlite(files) => {
                let own = files.clone();
                let work = move |_: &Database| own.run(begin, |mut open| finished(work(&mut open)));
                files.state.in_background(work).await
            }
            Self::Postgres(postgres) => {
                let begin = if begin == Begin::Write { WRITE } else { READ };
                let mut transaction = postgres.begin(begin).await?;
                let state = Tx::Postgres(&mut transaction);
                let others = None;
                let done = work(&mut Open { state, others }).await.map_err(failed)?;
                transaction.commit().await.map_err(|error| fault(&error))?;
                Ok(done)
            }
        }
    }
}

impl Files {
    /// The state is as of one moment, and the other files as of the same or a later one: an answer may be used there that no
    /// permit of the state came from, which asks again, and never the other way round.
    fn run<T>(
        &self,
        begin: Begin,
        work: impl FnOnce(Open<'_>) -> Result<T, Failed>,
    ) -> Result<T, ArchiveError> {
        self.state.run(begin, |state| {
            // The state is read as of now.
            state.query_row("SELECT count(*) FROM tenant", [], |_| Ok(()))?;
            let state = Tx::Sqlite(state);
            let done = self.desk.run(begin, |desk| {
                let desk = Tx::Sqlite(desk);
                let done = self.audit.run(begin, |audit| {
                    let others = Some([desk, Tx::Sqlite(audit)]);
                    work(Open { state, others })
                });
                Ok::<_, Failed>(done?)
            });
            Ok::<_, Failed>(done?)
        })
    }
}

/// Writes all rows.
pub(crate) async fn export(from: &mut Open<'_>, to: &mut Writer) -> Result<(), Failed> {
    let collate = from.postgres().map_or("", |_| " COLLATE \"C\"");
    for table in &TABLES {
        let select = AssertSqlSafe(table.select(collate));
        let rows = from.of(table).each(select, &[], |row| {
            let row = row.values().map(json).collect();
            to.row(table, row)
                .map_err(|error| Stop::Refused(error.into()))
        });
        rows.await?;
    }
    Ok(())
}

/// Reads all rows into an empty store: all of them, or none if `from` is not complete.
pub(crate) async fn import(to: &mut Open<'_>, from: &mut Reader) -> Result<u64, Failed> {
    let is_postgres = to.postgres().is_some();
    if let Some(to) = to.postgres() {
        let names: Vec<&str> = TABLES.iter().map(|table| table.name).collect();
        let tables = names.join(", ");
        let lock = format!("LOCK TABLE {tables} IN SHARE ROW EXCLUSIVE MODE");
        to.execute(AssertSqlSafe(lock), &[]).await?;
    }
    if let Some((table, _)) = counts(to).await?.iter().find(|(_, rows)| *rows > 0) {
        return Err(ArchiveError::NotEmpty(table).into());
    }
    // The line that SQLite refuses is named.
    let most = if is_postgres { BATCH } else { 1 };
    let (mut rows, mut bytes, mut batch) = (0, 0, Vec::new());
    let mut next = from.next()?;
    while let Some((table, values)) = next {
        rows += 1;
        bytes += values.iter().map(length).sum::<usize>();
        let values = values.iter().zip(table.columns());
        batch.push(
            values
                .map(|(value, (_, kind))| parameter(value, kind))
                .collect(),
        );
        let refused = from.refuse();
        next = from.next()?;
        let is_last = next.as_ref().is_none_or(|(it, _)| it.name != table.name);
        if is_last || batch.len() >= most || bytes > BATCH_BYTES {
            let inserted = insert(to.of(table), table, std::mem::take(&mut batch)).await;
            inserted.map_err(|fault| match fault {
                // By itself it would name the file that was opened last.
                Fault::Sqlite(error)
                    if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) =>
                {
                    refused.into()
                }
                fault => Failed::from(fault),
            })?;
            bytes = 0;
        }
    }
    if let Some(to) = to.postgres() {
        for table in &TABLES {
            let mut columns = table.columns();
            let Some((column, _)) = columns.find(|(_, kind)| *kind == Kind::Counter) else {
                continue;
            };
            let name = table.name;
            let next = format!(
                "SELECT setval(pg_get_serial_sequence('{name}', '{column}'), coalesce(max({column}), 0) + 1, false) FROM {name}"
            );
            to.execute(AssertSqlSafe(next), &[]).await?;
        }
    }
    Ok(rows)
}

/// How many rows each table has.
pub(crate) async fn counts(of: &mut Open<'_>) -> Result<Vec<(&'static str, u64)>, Failed> {
    let mut counts = Vec::new();
    for table in &TABLES {
        let sql = AssertSqlSafe(format!("SELECT count(*) FROM {}", table.name));
        let count = of.of(table).first(sql, &[], |mut row| row.take::<i64>());
        counts.push((table.name, count.await?.unwrap_or_default().unsigned_abs()));
    }
    Ok(counts)
}

async fn insert(to: &mut Tx<'_>, table: &Table, rows: Vec<Vec<Value>>) -> Result<(), Fault> {
    let columns = table.columns().count();
    let row = |nth: usize| {
        let places = (1..=columns).map(|column| format!("${}", nth * columns + column));
        format!("({})", places.collect::<Vec<_>>().join(", "))
    };
    let places: Vec<String> = (0..rows.len()).map(row).collect();
    let (name, names, places) = (table.name, table.names(), places.join(", "));
    let own = match to {
        Tx::Sqlite(_) => "",
        Tx::Postgres(_) => "OVERRIDING SYSTEM VALUE",
    };
    let sql = format!("INSERT INTO {name} ({names}) {own} VALUES {places}");
    to.execute(AssertSqlSafe(sql), &rows.concat()).await?;
    Ok(())
}

fn length(value: &Json) -> usize {
    value.as_str().map_or(8, str::len)
}

fn json(value: Value) -> Json {
    match value {
        Value::Number(number) => number.into(),
        Value::Text(text) => text.into(),
        Value::Bytes(bytes) => bytes.map(|bytes| hex(&bytes)).into(),
    }
}

fn parameter(value: &Json, kind: Kind) -> Value {
    match kind {
        Kind::Text => Value::Text(value.as_str().map(str::to_owned)),
        Kind::Bytes => Value::Bytes(bytes(value)),
        Kind::Number | Kind::Counter => Value::Number(value.as_i64()),
    }
}
