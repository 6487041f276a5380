//! The audit log as rows. In SQLite they have a file of their own, so that its commits wait for those of no other file.

use async_trait::async_trait;
use futures_util::FutureExt;
use rusqlite::{Connection, params};

use super::{AuditBatch, AuditChain, AuditEntry, AuditLog};
use crate::database::{Begin, Fault, Schema, Stop};
use crate::postgres::each;
use crate::tables::{Row, Tables, values};
use crate::{ChainId, StateError, Time};

pub(crate) const SCHEMA: Schema = Schema {
    application: 0x534c_4155,
    version: 1,
    create: include_str!("../../migrations/sqlite/1_audit.sql"),
    upgrade: "",
};

/// Entries that are read at once.
const PAGE: i64 = 512;

const CHAIN: &str = "SELECT chain, number, linked, head FROM audit_chain WHERE chain = $1";
const UNLINKED: &str = "SELECT chain, number, linked, head FROM audit_chain WHERE linked < number ORDER BY chain LIMIT $1";
const ALL: &str = "SELECT chain, number, linked, head FROM audit_chain
  UNION ALL SELECT DISTINCT chain, 0, 0, NULL FROM audit_entry
    WHERE chain NOT IN (SELECT chain FROM audit_chain)
  ORDER BY chain";
const ENTRIES: &str =
    "SELECT chain, number, at, entry FROM audit_entry WHERE chain = $1 AND number > $2
  ORDER BY number LIMIT $3";
const READ: &str =
    "SELECT chain, number, at, entry FROM audit_entry WHERE (at, chain, number) > ($1, $2, $3)
  ORDER BY at, chain, number LIMIT $4";
const HEAD: &str = "UPDATE audit_chain SET head = $1 WHERE chain = $2 AND number = $3";
const REMOVE: &str = "DELETE FROM audit_entry WHERE chain = $1";

/// One round trip to PostgreSQL.
/// Begins a chain, which names the chains `$7` up to `$8`, or moves one that ends at `$2`; and then inserts the entries.
const APPEND: &str = "
WITH begun AS (INSERT INTO audit_chain (chain, number, linked, head) SELECT $1, $3, 0, $4 WHERE $2 = 0
  ON CONFLICT DO NOTHING RETURNING 1),
moved AS (UPDATE audit_chain SET number = $3, head = $4 WHERE chain = $1 AND number = $2 AND $2 > 0 RETURNING 1),
linked AS (UPDATE audit_chain SET linked = greatest(linked, it.number)
  FROM unnest($7::bytea[], $8::bigint[]) AS it (chain, number)
  WHERE audit_chain.chain = it.chain AND EXISTS (SELECT FROM begun))
INSERT INTO audit_entry (chain, number, at, entry)
SELECT $1, $2 + it.number, it.at, it.entry FROM (SELECT FROM begun UNION ALL SELECT FROM moved) AS one,
  unnest($5::bigint[], $6::text[]) WITH ORDINALITY AS it (at, entry, number)";

#[derive(Debug)]
pub(crate) struct AuditRows(pub(crate) Tables);

#[async_trait]
impl AuditLog for AuditRows {
    fn store(&self) -> String {
        match &self.0 {
            Tables::Sqlite(_) => "files".to_owned(),
            Tables::Postgres(postgres) => postgres.place(),
        }
    }

    async fn append(&self, batch: &AuditBatch) -> Result<(), StateError> {
        let AuditBatch { entries, links, .. } = batch;
        let inserted = match &self.0 {
            Tables::Sqlite(file) => {
                let batch = batch.clone();
                file.in_background(move |file| file.write(|to| append(to, &batch)))
                    .await?
            }
            Tables::Postgres(postgres) => {
                let work = |pool: sqlx::PgPool| async move {
                    let insert = sqlx::query(APPEND)
                        .bind(batch.chain.as_bytes().as_slice())
                        .bind(signed(batch.base))
                        .bind(signed(batch.last()))
                        .bind(&batch.head)
                        .bind(each(entries, |it| it.at.millis()))
                        .bind(each(entries, |it| it.text.as_str()))
                        .bind(each(links, |it| it.0.as_bytes().as_slice()))
                        .bind(each(links, |it| signed(it.1)));
                    let done = insert.execute(&pool).await?;
                    Ok::<_, Stop<StateError>>(done.rows_affected() > 0)
                };
                postgres.run(work).await?
            }
        };
        if inserted {
            return Ok(());
        }
        let found = (self.0).rows(CHAIN, values![batch.chain.as_bytes()], chain);
        match batch.follows(found.await?.first())? {
            true => Err(StateError::Unavailable("it wrote nothing".to_owned())),
            false => Ok(()),
        }
    }

    async fn chains(&self, most: Option<usize>) -> Result<Vec<AuditChain>, StateError> {
        match most {
            Some(most) => {
                self.0
                    .rows(UNLINKED, values![signed(most as u64)], chain)
                    .await
            }
            None => self.0.rows(ALL, [], chain).await,
        }
    }

    async fn entries(&self, id: ChainId, after: u64) -> Result<Vec<AuditEntry>, StateError> {
        let values = values![id.as_bytes(), behind(after), PAGE];
        let rows = self.0.rows(ENTRIES, values, |row| Ok(entry(row)?.1));
        rows.await
    }

    async fn read(
        &self,
        (at, id, number): (Time, ChainId, u64),
    ) -> Result<Vec<(ChainId, AuditEntry)>, StateError> {
        let values = values![at, id.as_bytes(), signed(number), PAGE];
        self.0.rows(READ, values, entry).await
    }

    async fn remove(&self, id: ChainId, number: u64, head: &str) -> Result<bool, StateError> {
        let head = values![head, id.as_bytes(), signed(number)];
        let with = (head, values![id.as_bytes()]);
        let remove = (self.0).run(Begin::Write, with, |tx, (head, id)| {
            let work = async move {
                let found = tx.execute(HEAD, head).await? > 0;
                if found {
                    tx.execute(REMOVE, id).await?;
                }
                Ok::<_, Stop<StateError>>(found)
            };
            work.boxed()
        });
        let removed = remove.await?;
        self.0.checkpoint().await;
        Ok(removed)
    }
}

/// False if the chain does not end at the base of the batch.
fn append(to: &Connection, batch: &AuditBatch) -> Result<bool, Stop<StateError>> {
    let (id, base, last) = (
        batch.chain.as_bytes(),
        signed(batch.base),
        signed(batch.last()),
    );
    let is_written = match base {
        0 => {
            let sql = "INSERT INTO audit_chain (chain, number, linked, head) VALUES (?1, ?2, 0, ?3) ON CONFLICT DO NOTHING";
            to.execute(sql, params![id, last, batch.head])?
        }
        base => {
            let sql =
                "UPDATE audit_chain SET number = ?3, head = ?4 WHERE chain = ?1 AND number = ?2";
            to.execute(sql, params![id, base, last, batch.head])?
        }
    };
    if is_written == 0 {
        return Ok(false);
    }
    let sql = "INSERT INTO audit_entry (chain, number, at, entry) VALUES (?1, ?2, ?3, ?4)";
    let mut insert = to.prepare_cached(sql)?;
    for AuditEntry { number, at, text } in &batch.entries {
        insert.execute(params![id, signed(*number), at.millis(), text])?;
    }
    let sql = "UPDATE audit_chain SET linked = max(linked, ?2) WHERE chain = ?1";
    let mut link = to.prepare_cached(sql)?;
    for (other, number) in &batch.links {
        link.execute(params![other.as_bytes(), signed(*number)])?;
    }
    Ok(true)
}

fn chain(mut row: Row) -> Result<AuditChain, Fault> {
    Ok(AuditChain {
        chain: ChainId::from_bytes(row.take()?),
        number: unsigned(row.take()?),
        linked: unsigned(row.take()?),
        head: row.take()?,
    })
}

fn entry(mut row: Row) -> Result<(ChainId, AuditEntry), Fault> {
    let id = ChainId::from_bytes(row.take()?);
    let entry = AuditEntry {
        number: unsigned(row.take()?),
        at: row.take()?,
        text: row.take()?,
    };
    Ok((id, entry))
}

/// A number as the databases have it.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// What entries behind this number are greater than. No writer leaves an entry that is not behind 0; all are behind it.
fn behind(number: u64) -> i64 {
    match number {
        0 => i64::MIN,
        number => signed(number),
    }
}

/// A number of the databases. A negative one, which no writer leaves, is out of any order.
fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
