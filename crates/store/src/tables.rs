//! One way to run SQL in a SQLite file and in PostgreSQL.
//!
//! Both read the same statements. SQLite numbers the parameters `$1`, `$2` … as they come, so each statement names them in
//! ascending order first.

use std::convert::Infallible;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, TryFutureExt, TryStreamExt};
use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, params_from_iter};
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{Column as _, PgConnection, PgPool, Row as _, SqlSafeStr, SqlStr, TypeInfo};

use crate::database::{Begin, Database, Fault, Stop};
use crate::postgres::Postgres;
use crate::{DatabaseError, StateError, Time};

/// A parameter or a column. NULL has a type too, which PostgreSQL asks for.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Number(Option<i64>),
    Text(Option<String>),
    Bytes(Option<Vec<u8>>),
}

/// The parameters of a statement.
macro_rules! values {
    ($($value:expr),* $(,)?) => { [$($crate::tables::Value::from($value)),*] };
}
pub(crate) use values;

macro_rules! from {
    ($($type:ty as $value:ident: $variant:ident($it:expr),)*) => {$(
        impl From<$type> for Value {
            fn from($value: $type) -> Self {
                Self::$variant($it)
            }
        }
    )*};
}
from! {
    i64 as it: Number(Some(it)),
    Time as it: Number(Some(it.millis())),
    &str as it: Text(Some(it.to_owned())),
    &String as it: Text(Some(it.clone())),
    String as it: Text(Some(it)),
    &Option<String> as it: Text(it.clone()),
    &[u8] as it: Bytes(Some(it.to_vec())),
    Option<[u8; 32]> as it: Bytes(it.map(Vec::from)),
}

impl<const N: usize> From<&[u8; N]> for Value {
    fn from(bytes: &[u8; N]) -> Self {
        Self::Bytes(Some(bytes.to_vec()))
    }
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self {
            Self::Number(number) => number.to_sql(),
            Self::Text(text) => text.to_sql(),
            Self::Bytes(bytes) => bytes.to_sql(),
        }
    }
}

/// What a column can be read as.
pub(crate) trait Column: Sized {
    fn read(value: Value) -> Option<Self>;
}

macro_rules! column {
    ($([$($generic:tt)*] $type:ty: $variant:ident($it:ident) => $read:expr,)*) => {$(
        impl<$($generic)*> Column for $type {
            fn read(value: Value) -> Option<Self> {
                match value {
                    Value::$variant(Some($it)) => $read,
                    _ => None,
                }
            }
        }
    )*};
}
column! {
    [] i64: Number(it) => Some(it),
    [] Time: Number(it) => Some(Self::from_millis(it)),
    [] String: Text(it) => Some(it),
    [const N: usize] [u8; N]: Bytes(it) => it.try_into().ok(),
}

impl<T: Column> Column for Option<T> {
    fn read(value: Value) -> Option<Self> {
        match value {
            Value::Number(None) | Value::Text(None) | Value::Bytes(None) => Some(None),
            value => T::read(value).map(Some),
        }
    }
}

/// A row, whose columns are taken from the first to the last.
#[derive(Debug)]
pub(crate) struct Row(std::vec::IntoIter<Value>);

impl Row {
    /// The next column.
    pub(crate) fn take<T: Column>(&mut self) -> Result<T, Fault> {
        self.0.next().and_then(T::read).ok_or(Fault::Column)
    }

    /// The columns that are left.
    pub(crate) fn values(self) -> impl Iterator<Item = Value> {
        self.0
    }

    fn sqlite(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        let columns = 0..row.as_ref().column_count();
        let values = columns.map(|at| {
            Ok(match row.get_ref(at)? {
                ValueRef::Null => Value::Number(None),
                ValueRef::Blob(bytes) => Value::Bytes(Some(bytes.to_vec())),
                // Text of another program may not be UTF-8. It is no text then, and damages its row alone.
                ValueRef::Text(text) => match String::from_utf8(text.to_vec()) {
                    Ok(text) => Value::Text(Some(text)),
                    Err(error) => Value::Bytes(Some(error.into_bytes())),
                },
                ValueRef::Integer(_) | ValueRef::Real(_) => Value::Number(row.get(at)?),
            })
        });
        let values = values.collect::<rusqlite::Result<Vec<_>>>()?;
        Ok(Self(values.into_iter()))
    }

    fn postgres(row: &PgRow) -> sqlx::Result<Self> {
        let values = (0..).zip(row.columns()).map(|(at, column)| {
            Ok(match column.type_info().name() {
                "INT8" => Value::Number(row.try_get(at)?),
                "BYTEA" => Value::Bytes(row.try_get(at)?),
                _ => Value::Text(row.try_get(at)?),
            })
        });
        let values = values.collect::<sqlx::Result<Vec<_>>>()?;
        Ok(Self(values.into_iter()))
    }
}

/// A connection, which may be in a transaction.
#[derive(Debug)]
pub(crate) enum Tx<'a> {
    Sqlite(&'a mut Connection),
    Postgres(&'a mut PgConnection),
}

impl Tx<'_> {
    /// Runs a statement. Returns how many rows it has changed.
    pub(crate) async fn execute(
        &mut self,
        sql: impl SqlSafeStr,
        values: &[Value],
    ) -> Result<u64, Fault> {
        let sql = sql.into_sql_str();
        match self {
            Self::Sqlite(connection) => {
                let mut statement = connection.prepare_cached(sql.as_str())?;
                Ok(statement.execute(params_from_iter(values))? as u64)
            }
            Self::Postgres(connection) => {
                let done = query(sql, values).execute(&mut **connection).await?;
                Ok(done.rows_affected())
            }
        }
    }

    /// Passes each row of a statement on as it is read.
    pub(crate) async fn each<E>(
        &mut self,
        sql: impl SqlSafeStr,
        values: &[Value],
        mut row: impl FnMut(Row) -> Result<(), Stop<E>>,
    ) -> Result<(), Stop<E>> {
        let sql = sql.into_sql_str();
        match self {
            Self::Sqlite(connection) => {
                let mut select = connection.prepare_cached(sql.as_str())?;
                let mut rows = select.query(params_from_iter(values))?;
                while let Some(next) = rows.next()? {
                    row(Row::sqlite(next)?)?;
                }
            }
            Self::Postgres(connection) => {
                let mut rows = query(sql, values).fetch(&mut **connection);
                while let Some(next) = rows.try_next().await? {
                    row(Row::postgres(&next)?)?;
                }
            }
        }
        Ok(())
    }

    /// The rows of a statement.
    pub(crate) async fn rows<T>(
        &mut self,
        sql: impl SqlSafeStr,
        values: &[Value],
        read: impl Fn(Row) -> Result<T, Fault>,
    ) -> Result<Vec<T>, Fault> {
        let mut all = Vec::new();
        let each = self.each::<Infallible>(sql, values, |row| {
            all.push(read(row)?);
            Ok(())
        });
        match each.await {
            Ok(()) => Ok(all),
            Err(Stop::Failed(fault)) => Err(fault),
            Err(Stop::Refused(never)) => match never {},
        }
    }

    /// The row of a statement that has one at most.
    pub(crate) async fn first<T>(
        &mut self,
        sql: impl SqlSafeStr,
        values: &[Value],
        read: impl Fn(Row) -> Result<T, Fault>,
    ) -> Result<Option<T>, Fault> {
        Ok(self.rows(sql, values, read).await?.pop())
    }
}

fn query(sql: SqlStr, values: &[Value]) -> Query<'_, sqlx::Postgres, PgArguments> {
    let query = sqlx::query(sql);
    values.iter().fold(query, |query, value| match value {
        Value::Number(number) => query.bind(*number),
        Value::Text(text) => query.bind(text.as_deref()),
        Value::Bytes(bytes) => query.bind(bytes.as_deref()),
    })
}

/// The result of work in SQLite, which never waits.
pub(crate) fn finished<T, E>(work: impl Future<Output = Result<T, Stop<E>>>) -> Result<T, Stop<E>> {
    let done = work.now_or_never();
    done.unwrap_or(Err(Stop::Failed(Fault::Sqlite(
        rusqlite::Error::QueryReturnedNoRows,
    ))))
}

/// What is done in a transaction.
pub(crate) type Work<'t, T, E> = BoxFuture<'t, Result<T, Stop<E>>>;

/// Tables in a SQLite file or in PostgreSQL.
#[derive(Debug, Clone)]
pub(crate) enum Tables {
    Sqlite(Arc<Database>),
    Postgres(Arc<Postgres>),
}

impl Tables {
    /// Where they are: a folder, or the address of a database without its password.
    pub(crate) fn place(&self) -> String {
        match self {
            Self::Sqlite(file) => file.folder().display().to_string(),
            Self::Postgres(postgres) => postgres.place(),
        }
    }

    /// The rows of one statement, which is a transaction of its own.
    pub(crate) async fn rows<T: Send + 'static>(
        &self,
        sql: impl SqlSafeStr,
        values: impl Into<Vec<Value>>,
        read: impl Fn(Row) -> Result<T, Fault> + Send + Sync + 'static,
    ) -> Result<Vec<T>, StateError> {
        let with = (sql.into_sql_str(), values.into(), read);
        self.run(Begin::No, with, |tx, (sql, values, read)| {
            tx.rows(sql.clone(), values, read).err_into().boxed()
        })
        .await
    }

    /// Runs one statement, which is a transaction of its own. Returns how many rows it has changed.
    pub(crate) async fn execute(
        &self,
        sql: impl SqlSafeStr,
        values: impl Into<Vec<Value>>,
    ) -> Result<u64, StateError> {
        let with = (sql.into_sql_str(), values.into());
        self.run(Begin::No, with, |tx, (sql, values)| {
            tx.execute(sql.clone(), values).err_into().boxed()
        })
        .await
    }

    /// Runs `work`. In PostgreSQL it may run again, because of another transaction.
    pub(crate) async fn run<S, T, E>(
        &self,
        begin: Begin,
        with: S,
        work: impl for<'t> Fn(&'t mut Tx<'_>, &'t S) -> Work<'t, T, E> + Send + Sync + 'static,
    ) -> Result<T, E>
    where
        S: Send + Sync + 'static,
        T: Send + 'static,
        E: From<StateError> + From<DatabaseError> + Send + 'static,
    {
        match self {
            Self::Sqlite(file) => {
                let work = move |connection: &mut Connection| {
                    finished(work(&mut Tx::Sqlite(connection), &with))
                };
                file.in_background(move |file| file.run(begin, work)).await
            }
            Self::Postgres(postgres) => {
                let (work, with) = (&work, &with);
                let attempt = |pool: PgPool| async move {
                    if begin == Begin::No {
                        let mut connection = pool.acquire().await?;
                        return work(&mut Tx::Postgres(&mut connection), with).await;
                    }
                    let mut transaction = pool.begin().await?;
                    let done = work(&mut Tx::Postgres(&mut transaction), with).await?;
                    transaction.commit().await?;
                    Ok(done)
                };
                postgres.run(attempt).await
            }
        }
    }

    /// Empties the log of a SQLite file after a deletion. While another process reads, the next deletion or start does it.
    pub(crate) async fn checkpoint(&self) {
        if let Self::Sqlite(file) = self {
            drop(file.in_background(Database::checkpoint).await);
        }
    }
}
