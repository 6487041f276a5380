//! The audit log: every change of what is stored is found, and nothing is done that is not written.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod changes;
mod forms;
mod writing;

use std::path::PathBuf;
use std::sync::Arc;

use server::audit::{Audit, AuditKeys, AuditSetup, Note, Report, verify};
use store::{AuditLog, PoolSettings, Store};
use tempfile::TempDir;
use test_support::Postgres;

/// Where a log is.
enum Place {
    Sqlite(TempDir),
    Postgres(String, TempDir),
}

impl Place {
    fn sqlite() -> Self {
        Self::Sqlite(tempfile::tempdir().unwrap())
    }

    fn postgres(server: &Postgres) -> Self {
        Self::Postgres(server.database(), tempfile::tempdir().unwrap())
    }

    async fn log(&self) -> Arc<dyn AuditLog> {
        match self {
            Self::Sqlite(_) => Store::sqlite(&self.folder()).unwrap().audit(),
            Self::Postgres(url, _) => {
                let store = Store::postgres(url, &PoolSettings::default()).await;
                store.unwrap().audit()
            }
        }
    }

    /// The folder of the files, which is made when the store is opened.
    fn folder(&self) -> PathBuf {
        match self {
            Self::Sqlite(folder) => folder.path().join("state"),
            Self::Postgres(_, folder) => folder.path().to_owned(),
        }
    }

    fn heads(&self) -> PathBuf {
        self.folder().join("audit.heads")
    }

    /// The heads that were written outside of the store.
    fn witnessed(&self) -> Vec<String> {
        let heads = std::fs::read_to_string(self.heads()).unwrap_or_default();
        heads.lines().map(str::to_owned).collect()
    }

    async fn audit(&self) -> Arc<Audit> {
        self.audit_with(keys()).await
    }

    async fn audit_with(&self, keys: AuditKeys) -> Arc<Audit> {
        let setup = AuditSetup {
            heads: Some(self.heads()),
            ..AuditSetup::default()
        };
        Audit::open(self.log().await, Arc::new(keys), setup)
    }

    /// A chain of so many entries, each of them committed by itself, that is closed.
    async fn chain(&self, entries: usize) {
        let audit = self.audit().await;
        for number in 1..entries {
            audit.note(decision(number));
            audit.written().await.unwrap();
        }
        audit.close(Note::new("stop", "done")).await.unwrap();
    }

    async fn verify(&self) -> Report {
        let log = self.log().await;
        let witnessed = self.witnessed();
        verify(&*log, &[keys().public()], &witnessed).await.unwrap()
    }

    /// The names of the faults, with their entries.
    async fn faults(&self) -> Vec<String> {
        let faults = self.verify().await.faults.into_iter();
        let faults = faults.map(|fault| match fault.entry {
            Some(entry) => format!("{} {entry}", fault.kind),
            None => fault.kind.to_owned(),
        });
        faults.collect()
    }

    /// Runs statements of another program. Names of tables begin with `T.`.
    fn sql(&self, server: Option<&Postgres>, statement: &str) {
        match (self, server) {
            (Self::Postgres(url, _), Some(server)) => {
                server.sql(url, &statement.replace("T.", "sluice."));
            }
            _ => {
                let file = rusqlite::Connection::open(self.folder().join("audit.db")).unwrap();
                file.execute_batch(&statement.replace("T.", "")).unwrap();
            }
        }
    }
}

fn keys() -> AuditKeys {
    AuditKeys::new(b"the secret of the deployment").unwrap()
}

fn decision(number: usize) -> Note {
    Note::new("decision", "deny")
        .with("tool", "send")
        .with("label", vec!["untrusted:mail"])
        .with("content", keys().digest(&number.to_string()))
}
