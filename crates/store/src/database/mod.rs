//! SQLite files: who may read them, how they are written, what is said when they are bad.

mod error;
mod place;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

pub use error::DatabaseError;
use error::fault;

/// How long a writer waits for another one. Their transactions take milliseconds.
const BUSY: Duration = Duration::from_secs(5);

/// How often a new file is tried to be set to WAL while another process does the same: SQLite does
/// not wait there by itself.
const WAL_ATTEMPTS: u32 = 100;
const WAL_PAUSE: Duration = Duration::from_millis(20);

/// One row: how often something was deleted, and how many of these deletions are in no byte of the file.
const ERASURE: &str = "
CREATE TABLE erasure (deletions INTEGER NOT NULL, erased INTEGER NOT NULL) STRICT;
INSERT INTO erasure (deletions, erased) VALUES (0, 0);
";

/// What a file holds.
#[derive(Debug)]
pub(crate) struct Schema {
    /// SQLite's `application_id`: tells our files from other programs'.
    pub(crate) application: i32,
    /// Raised by one for each change of `sql`.
    pub(crate) version: i32,
    /// Makes the tables.
    pub(crate) sql: &'static str,
}

/// An open file, for one operation at a time.
#[derive(Debug)]
pub(crate) struct Database {
    path: PathBuf,
    connection: Mutex<Connection>,
}

/// Why an operation stopped: SQLite failed, or it was refused for a reason of its own.
#[derive(Debug)]
pub(crate) enum Stop<E> {
    Sqlite(rusqlite::Error),
    Refused(E),
}

impl<E> From<rusqlite::Error> for Stop<E> {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl Database {
    /// Opens the file, or creates it readable by its owner only.
    ///
    /// # Errors
    /// Others could read or change it, or it is not what the schema says.
    pub(crate) fn open(path: &Path, schema: &Schema) -> Result<Self, DatabaseError> {
        let path = place::prepare(path)?;
        // Not CREATE: `place::prepare` has made the file where there was none, for its owner alone. SQLite needs no mutex,
        // since ours stands around the connection.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let opened = Connection::open_with_flags(&path, flags)
            .and_then(|mut connection| {
                let standing = prepare(&mut connection, schema)?;
                Ok((connection, standing))
            })
            .map_err(|error| fault(&path, error))?;
        let (connection, standing) = opened;
        match standing {
            Found::Ours => {}
            Found::Newer(found) => {
                let known = schema.version;
                return Err(DatabaseError::Newer { path, found, known });
            }
            Found::Foreign => return Err(DatabaseError::Foreign { path }),
        }
        let database = Self {
            path,
            connection: Mutex::new(connection),
        };
        // What was deleted before a crash, or while somebody read, goes with this. That it cannot go yet is no reason to
        // refuse the file, in which the user may have more to delete: the next deletion tries again.
        drop(database.erase());
        Ok(database)
    }

    /// Does something with the connection. A panic in it closes the file for good.
    pub(crate) fn with<T, E: From<DatabaseError>>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, Stop<E>>,
    ) -> Result<T, E> {
        let mut connection = self.lock()?;
        work(&mut connection).map_err(|stop| match stop {
            Stop::Sqlite(error) => fault(&self.path, error).into(),
            Stop::Refused(error) => error,
        })
    }

    /// As [`Database::with`], in one transaction that holds the write lock from its beginning. It is
    /// on disk when this returns, or nothing of it is.
    pub(crate) fn write<T, E: From<DatabaseError>>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Stop<E>>,
    ) -> Result<T, E> {
        self.with(|connection| {
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let result = work(&transaction)?;
            transaction.commit()?;
            Ok(result)
        })
    }

    /// As [`Database::with`], on one state of the file.
    pub(crate) fn read<T, E: From<DatabaseError>>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Stop<E>>,
    ) -> Result<T, E> {
        self.with(|connection| {
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Deferred)?;
            let result = work(&transaction)?;
            transaction.commit()?;
            Ok(result)
        })
    }

    /// Removes from the file and its log what was deleted ([`deleted`]).
    ///
    /// # Errors
    /// Somebody still reads an older state or writes, or the file cannot be written: it is there until this succeeds.
    pub(crate) fn erase(&self) -> Result<(), DatabaseError> {
        let emptied = self.with(|connection| {
            // First without what follows: while somebody reads, each new copy of the file would make the log longer.
            if !checkpoint(connection)? {
                return Ok(false);
            }
            let (deletions, erased): (i64, i64) =
                connection.query_row("SELECT deletions, erased FROM erasure", [], |row| {
                    Ok((row.get(0)?, row.get(1)?))
                })?;
            if erased >= deletions {
                return Ok(true);
            }
            // `secure_delete` overwrites what is deleted where it lies, and pages that become free. It does not overwrite
            // what SQLite has moved to another page before, when it joined two: only a new file is without that.
            connection.execute_batch("VACUUM")?;
            // Not what others have deleted since.
            connection.execute("UPDATE erasure SET erased = max(erased, ?1)", [deletions])?;
            Ok::<_, Stop<DatabaseError>>(checkpoint(connection)?)
        });
        match emptied? {
            true => Ok(()),
            false => Err(DatabaseError::Read {
                path: self.path.clone(),
            }),
        }
    }

    fn lock(&self) -> Result<MutexGuard<'_, Connection>, DatabaseError> {
        let broken = |_| DatabaseError::Broken {
            path: self.path.clone(),
        };
        self.connection.lock().map_err(broken)
    }
}

/// Notes, in the transaction that deletes something, that [`Database::erase`] has something to do: whoever opens the file
/// after a crash does it.
pub(crate) fn deleted(connection: &Connection) -> rusqlite::Result<()> {
    let noted = connection
        .prepare_cached("UPDATE erasure SET deletions = deletions + 1")?
        .execute([])?;
    if noted == 0 {
        // The row was lost, which is no reason to forget this deletion too.
        connection.execute("INSERT INTO erasure (deletions, erased) VALUES (1, 0)", [])?;
    }
    Ok(())
}

/// Moves the log into the file and empties it. False if somebody still reads an older state.
fn checkpoint(connection: &Connection) -> rusqlite::Result<bool> {
    let blocked: i64 =
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
    Ok(blocked == 0)
}

/// What was in a file.
enum Found {
    Ours,
    Newer(i32),
    Foreign,
}

fn prepare(connection: &mut Connection, schema: &Schema) -> rusqlite::Result<Found> {
    connection.busy_timeout(BUSY)?;
    // Functions and virtual tables in a planted schema are not run.
    connection.pragma_update(None, "trusted_schema", false)?;
    let found = found(connection, schema)?;
    if !matches!(found, Found::Ours) {
        return Ok(found);
    }
    // It writes to the file, so only now, when that is known to be ours.
    write_ahead(connection)?;
    // FULL: a commit is on disk when it returns, also if the power fails.
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    // What is deleted is overwritten, and no copy of it goes to a temporary file, that of `VACUUM` included.
    connection.pragma_update(None, "secure_delete", true)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    // Damage is then found when a page is read, before anything is made of it.
    connection.pragma_update(None, "cell_size_check", true)?;
    Ok(Found::Ours)
}

/// Looks at what the file is before anything is written to it, and makes the tables of an empty one.
fn found(connection: &mut Connection, schema: &Schema) -> rusqlite::Result<Found> {
    let number = |connection: &Connection, name: &str| {
        connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0))
    };
    // With the write lock from the beginning, so that of two processes with an empty file one makes the tables.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let application = number(&transaction, "application_id")?;
    let version = number(&transaction, "user_version")?;
    let tables: i64 =
        transaction.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let found = match (application, version) {
        // Most programs set neither number: an empty file is told from one of theirs by its tables.
        (0, 0) if tables == 0 => {
            transaction.execute_batch(schema.sql)?;
            transaction.execute_batch(ERASURE)?;
            transaction.pragma_update(None, "application_id", schema.application)?;
            transaction.pragma_update(None, "user_version", schema.version)?;
            Found::Ours
        }
        // No program of ours has written a version below this one.
        (application, version) if application != schema.application || version < schema.version => {
            Found::Foreign
        }
        (_, version) if version > schema.version => Found::Newer(version),
        _ => {
            // Earlier programs of these versions noted no deletions, and may have left what they deleted.
            let known: bool = transaction.query_row(
                "SELECT count(*) > 0 FROM sqlite_schema WHERE name = 'erasure'",
                [],
                |row| row.get(0),
            )?;
            if !known {
                transaction.execute_batch(ERASURE)?;
                deleted(&transaction)?;
            } else if transaction
                .query_row("SELECT count(*) = 0 FROM erasure", [], |row| row.get(0))?
            {
                // Whether all was erased is not known any more.
                deleted(&transaction)?;
            }
            Found::Ours
        }
    };
    transaction.commit()?;
    Ok(found)
}

fn write_ahead(connection: &Connection) -> rusqlite::Result<()> {
    let mut attempt = 0;
    loop {
        let mode = connection
            .pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0));
        match mode {
            Ok(mode) if mode == "wal" => return Ok(()),
            // A file system without shared memory (a network share): two processes would not see
            // each other's changes.
            Ok(mode) => {
                let reason = format!("the journal mode is {mode}, not WAL");
                let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CANTOPEN);
                return Err(rusqlite::Error::SqliteFailure(code, Some(reason)));
            }
            Err(error) if error::is_busy(&error) && attempt < WAL_ATTEMPTS => {
                attempt += 1;
                std::thread::sleep(WAL_PAUSE);
            }
            Err(error) => return Err(error),
        }
    }
}
