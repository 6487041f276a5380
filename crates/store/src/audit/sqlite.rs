//! The audit log in a SQLite file of its own: its commits wait for those of no other file.

use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Params, Row, params};

use super::{
    AuditBatch, AuditChain, AuditEntry, AuditLog, ENTRIES, PAGE, READ, behind, chains, signed,
    unsigned,
};
use crate::database::{Database, Schema, Stop};
use crate::{ChainId, StateError, Time};

pub(crate) const SCHEMA: Schema = Schema {
    application: 0x534c_4155,
    version: 1,
    create: include_str!("../../migrations/sqlite/1_audit.sql"),
    upgrade: "",
};

const CHAIN: &str = "SELECT chain, number, linked, head FROM audit_chain WHERE chain = ?1";

type Failed = Stop<StateError>;

#[derive(Debug)]
pub(crate) struct SqliteAudit(pub(crate) Arc<Database>);

impl SqliteAudit {
    /// The rows of a statement.
    async fn rows<T: Send + 'static>(
        &self,
        sql: &'static str,
        parameters: impl Params + Send + 'static,
        row: fn(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StateError> {
        let work = move |connection: &Connection| {
            let mut select = connection.prepare_cached(sql)?;
            let rows = select.query_map(parameters, row)?;
            Ok(rows.collect::<Result<_, _>>()?)
        };
        self.0.read_later(work).await
    }
}

#[async_trait]
impl AuditLog for SqliteAudit {
    async fn append(&self, batch: &AuditBatch) -> Result<(), StateError> {
        let batch = batch.clone();
        let work = move |connection: &Connection| append(connection, &batch);
        self.0.write_later(work).await
    }

    async fn chains(&self, most: Option<usize>) -> Result<Vec<AuditChain>, StateError> {
        let (sql, most) = chains(most);
        self.rows(sql, [most], chain).await
    }

    async fn entries(&self, id: ChainId, after: u64) -> Result<Vec<AuditEntry>, StateError> {
        let parameters = (*id.as_bytes(), behind(after), PAGE);
        let rows = self.rows(ENTRIES, parameters, entry).await?;
        Ok(rows.into_iter().map(|(_, entry)| entry).collect())
    }

    async fn read(
        &self,
        (at, id, number): (Time, ChainId, u64),
    ) -> Result<Vec<(ChainId, AuditEntry)>, StateError> {
        let parameters = (at.millis(), *id.as_bytes(), signed(number), PAGE);
        self.rows(READ, parameters, entry).await
    }

    async fn remove(&self, id: ChainId, number: u64, head: &str) -> Result<bool, StateError> {
        let head = head.to_owned();
        let work = move |file: &Database| {
            let removed = file.write(|connection| {
                let sql = "UPDATE audit_chain SET head = ?3 WHERE chain = ?1 AND number = ?2";
                let parameters = params![id.as_bytes(), signed(number), head];
                let found = connection.execute(sql, parameters)? > 0;
                if found {
                    let sql = "DELETE FROM audit_entry WHERE chain = ?1";
                    connection.execute(sql, [id.as_bytes()])?;
                }
                Ok::<_, Failed>(found)
            })?;
            // Empties the log after a deletion. While another process reads, the next deletion or start does it.
            drop(file.checkpoint());
            Ok(removed)
        };
        self.0.in_background(work).await
    }
}

fn append(connection: &Connection, batch: &AuditBatch) -> Result<(), Failed> {
    let id = batch.chain.as_bytes();
    let found = connection.query_row(CHAIN, [id], chain);
    let found = found.optional()?;
    if !batch.follows(found.as_ref()).map_err(Stop::Refused)? {
        return Ok(());
    }
    let sql = "INSERT INTO audit_chain (chain, number, linked, head) VALUES (?1, ?2, 0, ?3)
               ON CONFLICT (chain) DO UPDATE SET number = excluded.number, head = excluded.head";
    connection.execute(sql, params![id, signed(batch.last()), batch.head])?;
    let sql = "INSERT INTO audit_entry (chain, number, at, entry) VALUES (?1, ?2, ?3, ?4)";
    let mut insert = connection.prepare_cached(sql)?;
    for AuditEntry { number, at, text } in &batch.entries {
        insert.execute(params![id, signed(*number), at.millis(), text])?;
    }
    let sql = "UPDATE audit_chain SET linked = max(linked, ?2) WHERE chain = ?1";
    let mut link = connection.prepare_cached(sql)?;
    for (other, number) in &batch.links {
        link.execute(params![other.as_bytes(), signed(*number)])?;
    }
    Ok(())
}

fn chain(row: &Row<'_>) -> rusqlite::Result<AuditChain> {
    Ok(AuditChain {
        chain: ChainId::from_bytes(row.get(0)?),
        number: unsigned(row.get(1)?),
        linked: unsigned(row.get(2)?),
        head: row.get(3)?,
    })
}

fn entry(row: &Row<'_>) -> rusqlite::Result<(ChainId, AuditEntry)> {
    let entry = AuditEntry {
        number: unsigned(row.get(1)?),
        at: Time::from_millis(row.get(2)?),
        text: row.get(3)?,
    };
    Ok((ChainId::from_bytes(row.get(0)?), entry))
}
