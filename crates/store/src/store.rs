//! All that a service keeps, in one place: SQLite files in a folder, or a PostgreSQL database.

use std::io::{BufRead, Write};
use std::path::Path;
use std::sync::Arc;

use futures_util::FutureExt;

use crate::archive::{self, ArchiveError, Backend, Files, Reader, Writer};
use crate::audit::{self, AuditLog, AuditRows};
use crate::database::{Begin, Database, Schema};
use crate::desk::{self, Desk};
use crate::postgres::{PoolSettings, Postgres};
use crate::state::{SessionState, StateRows};
use crate::tables::Tables;
use crate::{DatabaseError, StateError};

/// The file of the state.
const STATE: &str = "state.db";
/// Questions and tokens, which other commands use too.
const DESK: &str = "desk.db";
/// The file of the audit log: its commits wait for those of no other file, and other commands write it too.
const AUDIT: &str = "audit.db";

/// The tables of [`STATE`]. A later version upgrades the one before.
const SCHEMA: Schema = Schema {
    application: 0x534c_5353,
    version: 1,
    create: include_str!("../migrations/sqlite/1_state.sql"),
    upgrade: "",
};

/// All that a service keeps.
#[derive(Debug, Clone)]
pub struct Store(Backend);

impl Store {
    /// Opens the files in this folder, or creates them readable by their owner only.
    ///
    /// # Errors
    /// Other users could read or change a file, or it is not one of this version.
    pub fn sqlite(folder: &Path) -> Result<Self, DatabaseError> {
        Self::files(|name, schema| Database::open(&folder.join(name), schema))
    }

    /// A store of this process alone, which ends with it.
    pub fn in_memory() -> Result<Self, DatabaseError> {
        Self::files(|_, schema| Database::in_memory(schema))
    }

    fn files(
        open: impl Fn(&str, &Schema) -> Result<Database, DatabaseError>,
    ) -> Result<Self, DatabaseError> {
        Ok(Self(Backend::Sqlite(Files {
            state: Arc::new(open(STATE, &SCHEMA)?),
            desk: Arc::new(open(DESK, &desk::SCHEMA)?),
            audit: Arc::new(open(AUDIT, &audit::SCHEMA)?),
        })))
    }

    /// Connects to PostgreSQL, and makes or upgrades the tables.
    ///
    /// # Errors
    /// [`StateError::Unavailable`] if it cannot be reached now, and [`StateError::Newer`] if a newer program made the tables.
    pub async fn postgres(url: &str, settings: &PoolSettings) -> Result<Self, StateError> {
        let postgres = Postgres::connect(url, settings).await?;
        Ok(Self(Backend::Postgres(Arc::new(postgres))))
    }

    /// The same, but nothing is made or changed there. `None`: the tables of this version are not there yet.
    ///
    /// # Errors
    /// As [`Store::postgres`].
    pub async fn reach(url: &str, settings: &PoolSettings) -> Result<Option<Self>, StateError> {
        let postgres = Postgres::reach(url, settings).await?;
        Ok(postgres.map(|postgres| Self(Backend::Postgres(Arc::new(postgres)))))
    }

    /// Sessions, permits and counters.
    pub fn state(&self) -> Arc<dyn SessionState> {
        Arc::new(StateRows(self.tables(|files| &files.state)))
    }

    /// Questions and tokens.
    pub fn desk(&self) -> Arc<Desk> {
        Arc::new(Desk::of(self.tables(|files| &files.desk)))
    }

    /// The audit log.
    pub fn audit(&self) -> Arc<dyn AuditLog> {
        Arc::new(AuditRows(self.tables(|files| &files.audit)))
    }

    fn tables(&self, file: impl FnOnce(&Files) -> &Arc<Database>) -> Tables {
        match &self.0 {
            Backend::Sqlite(files) => Tables::Sqlite(Arc::clone(file(files))),
            Backend::Postgres(postgres) => Tables::Postgres(Arc::clone(postgres)),
        }
    }

    /// Writes all that the store has as lines of JSON, while others use it. Returns the number of rows.
    ///
    /// It has texts of conversations. The secret of the deployment, by which conversations are found, is not in it.
    ///
    /// # Errors
    /// The store or the writer fails.
    pub async fn export(&self, to: Box<dyn Write + Send>) -> Result<u64, ArchiveError> {
        let mut to = Writer::new(to)?;
        let export = self.0.run(Begin::Read, |open| {
            let work = async move {
                archive::export(open, &mut to).await?;
                Ok(to.end().map_err(ArchiveError::from)?)
            };
            work.boxed()
        });
        export.await
    }

    /// Reads what [`Store::export`] has written, of either kind of store: all of it, or nothing. Returns the number of rows.
    ///
    /// # Errors
    /// The store has rows, or the lines are incomplete or changed.
    pub async fn import(&self, from: Box<dyn BufRead + Send>) -> Result<u64, ArchiveError> {
        let mut from = Reader::new(from)?;
        let import = self.0.run(Begin::Write, |open| {
            async move { archive::import(open, &mut from).await }.boxed()
        });
        import.await
    }

    /// How many rows each table has.
    ///
    /// # Errors
    /// The store fails.
    pub async fn counts(&self) -> Result<Vec<(&'static str, u64)>, ArchiveError> {
        let counts = self
            .0
            .run(Begin::Read, |open| archive::counts(open).boxed());
        counts.await
    }

    /// Where the store is: a folder, or the address of a database without its password.
    pub fn place(&self) -> String {
        self.tables(|files| &files.state).place()
    }
}
