//! The audit log in a SQLite file of its own: its commits wait for those of no other file.

use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{
    AUDIT_PAGE, AuditBatch, AuditChain, AuditEntry, AuditError, AuditLog, AuditPlace, behind,
    signed, unsigned,
};
use crate::database::{Database, Schema, Stop};
use crate::{ChainId, Time};

pub(crate) const SCHEMA: Schema = Schema {
    application: 0x534c_4155,
    version: 1,
    create: include_str!("../../migrations/sqlite/1_audit.sql"),
    upgrade: "",
};

const CHAIN: &str = "SELECT chain, number, linked, head FROM audit_chain";
const WITHOUT_CHAIN: &str = "SELECT DISTINCT chain, 0, 0, NULL FROM audit_entry WHERE chain NOT IN (SELECT chain FROM audit_chain)";

type Failed = Stop<AuditError>;

#[derive(Debug)]
pub(crate) struct SqliteAudit(pub(crate) Arc<Database>);

impl SqliteAudit {
    async fn read_in_background<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Failed> + Send + 'static,
    ) -> Result<T, AuditError> {
        let work = move |file: &Database| file.read(work);
        self.0.in_background(work).await
    }
}

#[async_trait]
impl AuditLog for SqliteAudit {
    async fn append(&self, batch: &AuditBatch) -> Result<(), AuditError> {
        let batch = batch.clone();
        let work = move |file: &Database| file.write(|connection| append(connection, &batch));
        self.0.in_background(work).await
    }

    async fn unlinked(&self, most: usize) -> Result<Vec<AuditChain>, AuditError> {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        self.read_in_background(move |connection| {
            let sql = format!("{CHAIN} WHERE linked < number ORDER BY chain LIMIT ?1");
            let mut select = connection.prepare_cached(&sql)?;
            let chains = select.query_map([most], chain)?;
            Ok(chains.collect::<Result<_, _>>()?)
        })
        .await
    }

    async fn chains(&self) -> Result<Vec<AuditChain>, AuditError> {
        self.read_in_background(|connection| {
            let sql = format!("{CHAIN} UNION ALL {WITHOUT_CHAIN} ORDER BY chain");
            let mut select = connection.prepare_cached(&sql)?;
            let chains = select.query_map([], chain)?;
            Ok(chains.collect::<Result<_, _>>()?)
        })
        .await
    }

    async fn chain(&self, id: ChainId) -> Result<Option<AuditChain>, AuditError> {
        self.read_in_background(move |connection| find(connection, id))
            .await
    }

    async fn entries(&self, id: ChainId, after: u64) -> Result<Vec<AuditEntry>, AuditError> {
        self.read_in_background(move |connection| {
            let sql = "SELECT number, at, entry FROM audit_entry WHERE chain = ?1 AND number > ?2 ORDER BY number LIMIT ?3";
            let mut select = connection.prepare_cached(sql)?;
            let parameters = params![id.as_bytes(), behind(after), AUDIT_PAGE as i64];
            let entries = select.query_map(parameters, |row| entry(row, 0))?;
            Ok(entries.collect::<Result<_, _>>()?)
        })
        .await
    }

    async fn read(&self, after: AuditPlace) -> Result<Vec<(ChainId, AuditEntry)>, AuditError> {
        self.read_in_background(move |connection| {
            let sql = "SELECT chain, number, at, entry FROM audit_entry WHERE (at, chain, number) > (?1, ?2, ?3)
                       ORDER BY at, chain, number LIMIT ?4";
            let mut select = connection.prepare_cached(sql)?;
            let AuditPlace { at, chain, number } = after;
            let number = signed(number);
            let parameters = params![at.millis(), chain.as_bytes(), number, AUDIT_PAGE as i64];
            let entries = select.query_map(parameters, |row| {
                Ok((ChainId::from_bytes(row.get(0)?), entry(row, 1)?))
            })?;
            Ok(entries.collect::<Result<_, _>>()?)
        })
        .await
    }

    async fn remove(&self, id: ChainId, number: u64, head: &str) -> Result<bool, AuditError> {
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
    let id = batch.chain;
    if !batch
        .follows(find(connection, id)?.as_ref())
        .map_err(Stop::Refused)?
    {
        return Ok(());
    }
    let sql = "INSERT INTO audit_chain (chain, number, linked, head) VALUES (?1, ?2, 0, ?3)
               ON CONFLICT (chain) DO UPDATE SET number = excluded.number, head = excluded.head";
    connection.execute(
        sql,
        params![id.as_bytes(), signed(batch.last()), batch.head],
    )?;
    let sql = "INSERT INTO audit_entry (chain, number, at, entry) VALUES (?1, ?2, ?3, ?4)";
    let mut insert = connection.prepare_cached(sql)?;
    for AuditEntry { number, at, text } in &batch.entries {
        insert.execute(params![id.as_bytes(), signed(*number), at.millis(), text])?;
    }
    let sql = "UPDATE audit_chain SET linked = max(linked, ?2) WHERE chain = ?1";
    let mut link = connection.prepare_cached(sql)?;
    for (other, number) in &batch.links {
        link.execute(params![other.as_bytes(), signed(*number)])?;
    }
    Ok(())
}

fn find(connection: &Connection, id: ChainId) -> Result<Option<AuditChain>, Failed> {
    let mut select = connection.prepare_cached(&format!("{CHAIN} WHERE chain = ?1"))?;
    Ok(select.query_row([id.as_bytes()], chain).optional()?)
}

/// The columns of [`CHAIN`].
fn chain(row: &Row<'_>) -> rusqlite::Result<AuditChain> {
    Ok(AuditChain {
        chain: ChainId::from_bytes(row.get(0)?),
        number: unsigned(row.get(1)?),
        linked: unsigned(row.get(2)?),
        head: row.get(3)?,
    })
}

fn entry(row: &Row<'_>, first: usize) -> rusqlite::Result<AuditEntry> {
    Ok(AuditEntry {
        number: unsigned(row.get(first)?),
        at: Time::from_millis(row.get(first + 1)?),
        text: row.get(first + 2)?,
    })
}
