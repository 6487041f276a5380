//! All that a service keeps, in one place: SQLite files in a folder, or a PostgreSQL database.

use std::path::Path;
use std::sync::Arc;

use crate::database::{Database, Schema};
use crate::postgres::{PoolSettings, Postgres};
use crate::state::{PostgresState, SessionState, SqliteState};
use crate::{DatabaseError, StateError};

/// The file of the state. Questions and tokens have one of their own beside it, which other commands use too.
const FILE: &str = "state.db";

/// The tables of [`FILE`]. A later version upgrades the one before.
const SCHEMA: Schema = Schema {
    application: 0x534c_5353,
    version: 1,
    create: concat!(include_str!("../migrations/sqlite/1_state.sql")),
    upgrade: "",
};

/// All that a service keeps.
#[derive(Debug, Clone)]
pub struct Store(Backend);

/// Where it is.
#[derive(Debug, Clone)]
enum Backend {
    Sqlite(Arc<Database>),
    Postgres(Arc<Postgres>),
}

impl Store {
    /// Opens the files in this folder, or creates them readable by their owner only.
    ///
    /// # Errors
    /// Other users could read or change a file, or it is not one of this version.
    pub fn sqlite(folder: &Path) -> Result<Self, DatabaseError> {
        let file = Database::open(&folder.join(FILE), &SCHEMA)?;
        Ok(Self(Backend::Sqlite(Arc::new(file))))
    }

    /// A store of this process alone, which ends with it.
    pub fn in_memory() -> Result<Self, DatabaseError> {
        let file = Database::in_memory(&SCHEMA)?;
        Ok(Self(Backend::Sqlite(Arc::new(file))))
    }

    /// Connects to PostgreSQL, and makes or upgrades the tables.
    ///
    /// # Errors
    /// [`StateError::Unavailable`] if it cannot be reached now, and [`StateError::Newer`] if a newer program made the tables.
    pub async fn postgres(url: &str, settings: &PoolSettings) -> Result<Self, StateError> {
        let postgres = Postgres::connect(url, settings).await?;
        Ok(Self(Backend::Postgres(Arc::new(postgres))))
    }

    /// Sessions, permits and counters.
    pub fn state(&self) -> Arc<dyn SessionState> {
        match &self.0 {
            Backend::Sqlite(file) => Arc::new(SqliteState(Arc::clone(file))),
            Backend::Postgres(postgres) => Arc::new(PostgresState(Arc::clone(postgres))),
        }
    }
}
