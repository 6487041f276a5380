//! SQLite files: access, transactions, errors.

mod error;
mod place;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags, Params, Row, TransactionBehavior};

pub use error::{DatabaseError, DatabaseFault};

/// How long a writer waits for another one. A transaction takes milliseconds.
const BUSY: Duration = Duration::from_secs(5);

/// Retries of the switch of a new file to WAL while another process does the same, which the busy timeout does not cover.
const WAL_ATTEMPTS: u32 = 100;
const WAL_PAUSE: Duration = Duration::from_millis(20);

/// The tables of a file.
#[derive(Debug)]
pub(crate) struct Schema {
    /// SQLite's `application_id`: tells our files from those of other programs.
    pub(crate) application: i32,
    /// SQLite's `user_version`.
    pub(crate) version: i32,
    pub(crate) create: &'static str,
    /// Turns a file of an earlier version into one of this version.
    pub(crate) upgrade: &'static str,
}

/// An open file, for one operation at a time.
///
/// # What deletion guarantees
/// With `secure_delete` the bytes of a deleted row and of a freed page are overwritten in the same transaction. The
/// write-ahead log keeps earlier pages until it is emptied, so each deletion and each start is followed by
/// [`Database::checkpoint`]; when that succeeds, neither file nor log has the row. Only copies in unused space can stay, which
/// SQLite leaves when it joins two pages. [`Database::vacuum`] removes them; it runs when the user forgets something.
#[derive(Debug)]
pub(crate) struct Database {
    path: PathBuf,
    connection: Mutex<Connection>,
}

/// Why an operation stopped: the database failed, or the operation refused.
#[derive(Debug)]
pub(crate) enum Stop<E> {
    Failed(Fault),
    Refused(E),
}

/// How the database failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    #[error(transparent)]
    Postgres(#[from] sqlx::Error),
    /// A column of another type than declared.
    #[error("a column has a value of another type")]
    Column,
}

impl<E> From<Fault> for Stop<E> {
    fn from(fault: Fault) -> Self {
        Self::Failed(fault)
    }
}

impl<E> From<rusqlite::Error> for Stop<E> {
    fn from(error: rusqlite::Error) -> Self {
        Self::Failed(error.into())
    }
}

impl<E> From<sqlx::Error> for Stop<E> {
    fn from(error: sqlx::Error) -> Self {
        Self::Failed(error.into())
    }
}

/// How an operation begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begin {
    /// It is one statement.
    No,
    /// With one state of the file.
    Read,
    /// With the write lock.
    Write,
}

/// Rolls a transaction back that was not committed, also if its work panics.
struct Open<'a>(MutexGuard<'a, Connection>);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if !self.0.is_autocommit() {
            drop(self.0.execute_batch("ROLLBACK"));
        }
    }
}

impl Database {
    /// Opens the file, or creates it readable by its owner only.
    pub(crate) fn open(path: &Path, schema: &Schema) -> Result<Self, DatabaseError> {
        let path = place::prepare(path)?;
        // Not CREATE: `place::prepare` has created the file for its owner alone. NO_MUTEX: we have our own.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let opened = Connection::open_with_flags(&path, flags).and_then(|mut connection| {
            let version = prepare(&mut connection, schema)?;
            Ok((connection, version))
        });
        let (connection, version) = opened.map_err(|error| fault(&path, error))?;
        match version {
            None => return Err(DatabaseFault::Foreign.of(&path)),
            Some(found) if found > schema.version => {
                let known = schema.version;
                return Err(DatabaseFault::Newer { found, known }.of(&path));
            }
            Some(_) => {}
        }
        let database = Self {
            path,
            connection: Mutex::new(connection),
        };
        // Empties a log that a crash left. It may fail while another process reads the file.
        drop(database.checkpoint());
        Ok(database)
    }

    /// A database of this process alone, which ends with it.
    pub(crate) fn in_memory(schema: &Schema) -> Result<Self, DatabaseError> {
        let path = PathBuf::from(":memory:");
        let opened = Connection::open_in_memory().and_then(|connection| {
            connection.execute_batch(schema.create)?;
            Ok(connection)
        });
        let connection = opened.map_err(|error| fault(&path, error))?;
        Ok(Self {
            path,
            connection: Mutex::new(connection),
        })
    }

    /// The folder of the file.
    pub(crate) fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }

    /// Runs `work` on a thread that may wait. It goes on if the future is dropped.
    pub(crate) async fn in_background<T, E>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<DatabaseError> + Send + 'static,
    {
        let database = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || work(&database)).await;
        // The work panicked, or the runtime ends.
        done.unwrap_or_else(|error| {
            let fault = DatabaseFault::Io(std::io::Error::other(error));
            Err(fault.of(&self.path).into())
        })
    }

    /// Runs `work` in a transaction with the write lock, durably.
    pub(crate) fn write<T, E: From<DatabaseError>>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Stop<E>>,
    ) -> Result<T, E> {
        self.run(Begin::Write, |connection| work(connection))
    }

    /// Runs `work` on one state of the file.
    pub(crate) fn read<T, E: From<DatabaseError>>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Stop<E>>,
    ) -> Result<T, E> {
        self.run(Begin::Read, |connection| work(connection))
    }

    /// Runs `work`, which begins and ends no transaction itself.
    pub(crate) fn run<T, E: From<DatabaseError>>(
        &self,
        begin: Begin,
        work: impl FnOnce(&mut Connection) -> Result<T, Stop<E>>,
    ) -> Result<T, E> {
        let connection = (self.connection.lock()).unwrap_or_else(PoisonError::into_inner);
        let mut open = Open(connection);
        let (begin, end) = match begin {
            Begin::No => ("", ""),
            Begin::Read => ("BEGIN", "COMMIT"),
            Begin::Write => ("BEGIN IMMEDIATE", "COMMIT"),
        };
        let run = || {
            open.0.execute_batch(begin)?;
            let result = work(&mut open.0)?;
            open.0.execute_batch(end)?;
            Ok(result)
        };
        run().map_err(|stop| match stop {
            Stop::Failed(Fault::Sqlite(error)) => fault(&self.path, error).into(),
            Stop::Failed(fault) => DatabaseFault::Corrupt(fault.to_string())
                .of(&self.path)
                .into(),
            Stop::Refused(error) => error,
        })
    }

    /// Moves the log into the file and empties it.
    ///
    /// # Errors
    /// [`DatabaseFault::Read`] if another connection reads an older state, and errors of SQLite.
    pub(crate) fn checkpoint(&self) -> Result<(), DatabaseError> {
        let connection = (self.connection.lock()).unwrap_or_else(PoisonError::into_inner);
        let sql = "PRAGMA wal_checkpoint(TRUNCATE)";
        match connection.query_row(sql, [], |row| row.get::<_, i64>(0)) {
            Ok(0) => Ok(()),
            Ok(_) => Err(DatabaseFault::Read.of(&self.path)),
            Err(error) => Err(fault(&self.path, error)),
        }
    }

    /// Rewrites the file without unused space.
    pub(crate) fn vacuum(&self) -> Result<(), DatabaseError> {
        // First: while another connection reads, a rewritten file would only make the log longer.
        self.checkpoint()?;
        let connection = (self.connection.lock()).unwrap_or_else(PoisonError::into_inner);
        let rewritten = connection.execute_batch("VACUUM");
        drop(connection);
        rewritten.map_err(|error| fault(&self.path, error))?;
        self.checkpoint()
    }
}

/// The rows of a statement.
pub(crate) fn rows<T, E>(
    connection: &Connection,
    sql: &str,
    values: impl Params,
    mut read: impl FnMut(&Row<'_>) -> Result<T, Stop<E>>,
) -> Result<Vec<T>, Stop<E>> {
    let mut select = connection.prepare_cached(sql)?;
    let mut rows = select.query(values)?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        all.push(read(row)?);
    }
    Ok(all)
}

/// Sets up a connection. Returns the version of the file, or `None` if it is another program's.
fn prepare(connection: &mut Connection, schema: &Schema) -> rusqlite::Result<Option<i32>> {
    connection.busy_timeout(BUSY)?;
    // Does not run functions and virtual tables of a planted schema.
    connection.pragma_update(None, "trusted_schema", false)?;
    // Before anything is written, the upgrade included.
    connection.pragma_update(None, "secure_delete", true)?;
    let version = match found(connection, schema)? {
        Some(version) if version <= schema.version => version,
        other => return Ok(other),
    };
    // After `found`, since it writes to the file, which must be ours.
    write_ahead(connection)?;
    // FULL: a commit is on disk when it returns, also if the power fails.
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    // No text goes to a temporary file, not even by `VACUUM`.
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    // Damage is found when a page is read.
    connection.pragma_update(None, "cell_size_check", true)?;
    Ok(Some(version))
}

/// The version of the file. Creates the tables of an empty one, and upgrades one of an earlier version.
fn found(connection: &mut Connection, schema: &Schema) -> rusqlite::Result<Option<i32>> {
    let number = |connection: &Connection, name: &str| {
        connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0))
    };
    // With the write lock from the beginning: of two processes with an empty file one creates the tables.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let application = number(&transaction, "application_id")?;
    let version = number(&transaction, "user_version")?;
    let tables: i64 =
        transaction.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let change = match (application, version) {
        // Most programs set neither number; an empty file has no tables.
        (0, 0) if tables == 0 => schema.create,
        (application, version) if application != schema.application || version < 1 => {
            return Ok(None);
        }
        (_, version) if version < schema.version => schema.upgrade,
        (_, version) => return Ok(Some(version)),
    };
    transaction.execute_batch(change)?;
    transaction.pragma_update(None, "application_id", schema.application)?;
    transaction.pragma_update(None, "user_version", schema.version)?;
    transaction.commit()?;
    Ok(Some(schema.version))
}

fn write_ahead(connection: &Connection) -> rusqlite::Result<()> {
    let mut attempt = 0;
    loop {
        let mode = connection
            .pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0));
        match mode {
            Ok(mode) if mode == "wal" => return Ok(()),
            // No shared memory (a network share): two processes would not see each other's changes.
            Ok(mode) => {
                let reason = format!("the journal mode is {mode}, not WAL");
                let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CANTOPEN);
                return Err(rusqlite::Error::SqliteFailure(code, Some(reason)));
            }
            Err(error) if is_busy(&error) && attempt < WAL_ATTEMPTS => {
                attempt += 1;
                std::thread::sleep(WAL_PAUSE);
            }
            Err(error) => return Err(error),
        }
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    let busy = [ErrorCode::DatabaseBusy, ErrorCode::DatabaseLocked];
    error
        .sqlite_error_code()
        .is_some_and(|code| busy.contains(&code))
}

/// An error of SQLite, with the file and a remedy.
fn fault(path: &Path, error: rusqlite::Error) -> DatabaseError {
    let damaged = match &error {
        // A column of another type than declared.
        rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::Utf8Error(..) => true,
        error => matches!(
            error.sqlite_error_code(),
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
        ),
    };
    let fault = match damaged {
        true => DatabaseFault::Corrupt(error.to_string()),
        false if is_busy(&error) => DatabaseFault::Busy,
        false => DatabaseFault::Sqlite(error),
    };
    fault.of(path)
}
