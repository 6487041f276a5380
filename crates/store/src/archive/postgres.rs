//! The rows of a PostgreSQL database.

use futures_util::TryStreamExt;
use serde_json::{Map, Value};
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, PgTransaction, Row};

use super::lines::hex;
use super::{ArchiveError, Kind, Reader, TABLES, Table, Writer};
use crate::postgres::{Postgres, fault};

/// One moment for all tables. An export may take longer than a statement of a request.
const READ: &str =
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = 0;
    SET LOCAL idle_in_transaction_session_timeout = 0";
const WRITE: &str =
    "BEGIN; SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0";

/// Most bytes of one statement of an import, unless one row has more.
const BATCH: usize = 1 << 20;

/// Writes all rows, as of one moment.
pub(crate) async fn export(from: &Postgres, to: &mut Writer) -> Result<(), ArchiveError> {
    let mut read = from.begin(READ).await?;
    for table in &TABLES {
        let select = table.select(" COLLATE \"C\"");
        let mut rows = sqlx::query(AssertSqlSafe(select)).fetch(&mut *read);
        while let Some(row) = rows.try_next().await.map_err(failed)? {
            let values = (0..).zip(table.columns());
            let values = values.map(|(at, (_, kind))| value(&row, at, kind));
            to.row(table, values.collect::<Result<_, _>>().map_err(failed)?)?;
        }
    }
    Ok(())
}

/// Reads all rows into an empty database: all of them, or none if `from` is not complete.
pub(crate) async fn import(to: &Postgres, from: &mut Reader) -> Result<u64, ArchiveError> {
    let mut write = to.begin(WRITE).await?;
    let names: Vec<&str> = TABLES.iter().map(|table| table.name).collect();
    let lock = format!(
        "LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE",
        names.join(", ")
    );
    execute(&mut write, lock).await?;
    for table in &TABLES {
        if count(&mut write, table).await? > 0 {
            return Err(ArchiveError::NotEmpty(table.name));
        }
    }
    let (mut rows, mut batch, mut bytes) = (0, Vec::new(), 0);
    let mut last = None;
    while let Some((table, values)) = from.next()? {
        if let Some(before) = last.filter(|it: &&Table| it.name != table.name || bytes > BATCH) {
            insert(&mut write, before, std::mem::take(&mut batch)).await?;
            bytes = 0;
        }
        let length = |value: &Value| value.as_str().map_or(8, str::len);
        bytes += values.iter().map(length).sum::<usize>();
        batch.push(object(table, values));
        last = Some(table);
        rows += 1;
    }
    if let Some(table) = last {
        insert(&mut write, table, batch).await?;
    }
    let columns = TABLES
        .iter()
        .flat_map(|it| it.columns().map(|column| (it.name, column)));
    for (table, (column, kind)) in columns {
        if kind == Kind::Counter {
            let next = format!(
                "SELECT setval(pg_get_serial_sequence('{table}', '{column}'), coalesce(max({column}), 0) + 1, false) FROM {table}"
            );
            execute(&mut write, next).await?;
        }
    }
    write.commit().await.map_err(failed)?;
    Ok(rows)
}

/// How many rows each table has.
pub(crate) async fn counts(of: &Postgres) -> Result<Vec<(&'static str, u64)>, ArchiveError> {
    let mut read = of.begin(READ).await?;
    let mut counts = Vec::new();
    for table in &TABLES {
        counts.push((table.name, count(&mut read, table).await?));
    }
    Ok(counts)
}

async fn insert(
    to: &mut PgTransaction<'static>,
    table: &Table,
    rows: Vec<Value>,
) -> Result<(), ArchiveError> {
    let (name, columns) = (table.name, table.names());
    let sql = format!(
        "INSERT INTO {name} ({columns}) OVERRIDING SYSTEM VALUE
        SELECT {columns} FROM json_populate_recordset(NULL::sluice.{name}, $1::json)"
    );
    let insert = sqlx::query(AssertSqlSafe(sql)).bind(Value::Array(rows).to_string());
    insert.execute(&mut **to).await.map_err(failed)?;
    Ok(())
}

async fn count(of: &mut PgTransaction<'static>, table: &Table) -> Result<u64, ArchiveError> {
    let sql = format!("SELECT count(*) FROM {}", table.name);
    let count = sqlx::query_scalar::<_, i64>(AssertSqlSafe(sql));
    let count = count.fetch_one(&mut **of).await.map_err(failed)?;
    Ok(count.unsigned_abs())
}

async fn execute(to: &mut PgTransaction<'static>, sql: String) -> Result<(), ArchiveError> {
    let done = sqlx::query(AssertSqlSafe(sql)).execute(&mut **to).await;
    done.map(|_| ()).map_err(failed)
}

fn value(row: &PgRow, at: usize, kind: Kind) -> sqlx::Result<Value> {
    let value = match kind {
        Kind::Number | Kind::Counter => row.try_get::<Option<i64>, _>(at)?.map(Value::from),
        Kind::Text => row.try_get::<Option<String>, _>(at)?.map(Value::from),
        Kind::Bytes => {
            let bytes = row.try_get::<Option<&[u8]>, _>(at)?;
            bytes.map(|bytes| Value::from(hex(bytes)))
        }
    };
    Ok(value.unwrap_or(Value::Null))
}

/// A row by the names of its columns, each in PostgreSQL's own form.
fn object(table: &Table, values: Vec<Value>) -> Value {
    let values = table.columns().zip(values);
    let values = values.map(|((name, kind), value)| {
        let value = match (value, kind) {
            (Value::String(hex), Kind::Bytes) => Value::from(format!("\\x{hex}")),
            (value, _) => value,
        };
        (name.to_owned(), value)
    });
    Value::Object(values.collect::<Map<_, _>>())
}

fn failed(error: sqlx::Error) -> ArchiveError {
    fault(&error).into()
}
