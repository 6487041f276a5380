//! All that a service keeps, in one place: SQLite files in a folder, or a PostgreSQL database.

use std::path::Path;
use std::sync::Arc;

use crate::audit::{self, AuditLog, PostgresAudit, SqliteAudit};
use crate::database::{Database, Schema};
use crate::postgres::{PoolSettings, Postgres};
use crate::state::{PostgresState, SessionState, SqliteState};
use crate::{DatabaseError, Desk, StateError};

/// The file of the state. Questions and tokens have one of their own beside it, which other commands use too.
const FILE: &str = "state.db";
const DESK: &str = "desk.db";
/// The file of the audit log: its commits wait for those of no other file, and other commands write it too.
const AUDIT: &str = "audit.db";

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
    Sqlite {
        state: Arc<Database>,
        audit: Arc<Database>,
        desk: Arc<Desk>,
    },
    Postgres(Arc<Postgres>),
}

impl Store {
    /// Opens the files in this folder, or creates them readable by their owner only.
    ///
    /// # Errors
    /// Other users could read or change a file, or it is not one of this version.
    pub fn sqlite(folder: &Path) -> Result<Self, DatabaseError> {
        let state = Arc::new(Database::open(&folder.join(FILE), &SCHEMA)?);
        let audit = Arc::new(Database::open(&folder.join(AUDIT), &audit::SCHEMA)?);
        let desk = Arc::new(Desk::file(&folder.join(DESK))?);
        Ok(Self(Backend::Sqlite { state, audit, desk }))
    }

    /// A store of this process alone, which ends with it.
    pub fn in_memory() -> Result<Self, DatabaseError> {
        let state = Arc::new(Database::in_memory(&SCHEMA)?);
        let audit = Arc::new(Database::in_memory(&audit::SCHEMA)?);
        let desk = Arc::new(Desk::of_process()?);
        Ok(Self(Backend::Sqlite { state, audit, desk }))
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
            Backend::Sqlite { state, .. } => Arc::new(SqliteState(Arc::clone(state))),
            Backend::Postgres(postgres) => Arc::new(PostgresState(Arc::clone(postgres))),
        }
    }

    /// The audit log.
    pub fn audit(&self) -> Arc<dyn AuditLog> {
        match &self.0 {
            Backend::Sqlite { audit, .. } => Arc::new(SqliteAudit(Arc::clone(audit))),
            Backend::Postgres(postgres) => Arc::new(PostgresAudit(Arc::clone(postgres))),
        }
    }

    /// Questions and tokens.
    pub fn desk(&self) -> Arc<Desk> {
        match &self.0 {
            Backend::Sqlite { desk, .. } => Arc::clone(desk),
            Backend::Postgres(postgres) => Arc::new(Desk::postgres(Arc::clone(postgres))),
        }
    }
}
