//! The audit log in PostgreSQL. Each operation is one statement, so one round trip.

use std::sync::Arc;

use async_trait::async_trait;

use super::{
    AuditBatch, AuditChain, AuditEntry, AuditLog, ENTRIES, PAGE, READ, behind, chains, signed,
    unsigned,
};
use crate::postgres::{Postgres, each};
use crate::{ChainId, StateError, Time};

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

const REMOVE: &str = "
WITH moved AS (UPDATE audit_chain SET head = $3 WHERE chain = $1 AND number = $2 RETURNING 1),
removed AS (DELETE FROM audit_entry WHERE chain = $1 AND EXISTS (SELECT FROM moved))
SELECT count(*) > 0 FROM moved";

type ChainRow = (Vec<u8>, i64, i64, Option<String>);
type EntryRow = (Vec<u8>, i64, i64, String);

#[derive(Debug)]
pub(crate) struct PostgresAudit(pub(crate) Arc<Postgres>);

#[async_trait]
impl AuditLog for PostgresAudit {
    async fn append(&self, batch: &AuditBatch) -> Result<(), StateError> {
        let AuditBatch { entries, links, .. } = batch;
        let work = |pool| async move {
            let insert = sqlx::query(APPEND)
                .bind(batch.chain.as_bytes().as_slice())
                .bind(signed(batch.base))
                .bind(signed(batch.last()))
                .bind(&batch.head)
                .bind(each(entries, |it| it.at.millis()))
                .bind(each(entries, |it| it.text.as_str()))
                .bind(each(links, |it| it.0.as_bytes().as_slice()))
                .bind(each(links, |it| signed(it.1)));
            Ok(insert.execute(&pool).await?.rows_affected())
        };
        if self.0.one(work).await? > 0 {
            return Ok(());
        }
        let found = self.chains(None).await?;
        let found = found.iter().find(|found| found.chain == batch.chain);
        match batch.follows(found)? {
            true => Err(StateError::Unavailable("it wrote nothing".to_owned())),
            false => Ok(()),
        }
    }

    async fn chains(&self, most: Option<usize>) -> Result<Vec<AuditChain>, StateError> {
        let (sql, most) = chains(most);
        let work = |pool| async move {
            let select = sqlx::query_as::<_, ChainRow>(sql).bind(most);
            select.fetch_all(&pool).await
        };
        let rows = self.0.one(work).await?.into_iter();
        rows.map(|(chain, number, linked, head)| {
            Ok(AuditChain {
                chain: id(&chain)?,
                number: unsigned(number),
                linked: unsigned(linked),
                head,
            })
        })
        .collect()
    }

    async fn entries(&self, id: ChainId, after: u64) -> Result<Vec<AuditEntry>, StateError> {
        let work = |pool| async move {
            let select = sqlx::query_as::<_, EntryRow>(ENTRIES)
                .bind(id.as_bytes().as_slice())
                .bind(behind(after))
                .bind(PAGE);
            select.fetch_all(&pool).await
        };
        let rows = self.0.one(work).await?.into_iter();
        rows.map(|row| Ok(entry(row)?.1)).collect()
    }

    async fn read(
        &self,
        (at, id, number): (Time, ChainId, u64),
    ) -> Result<Vec<(ChainId, AuditEntry)>, StateError> {
        let work = |pool| async move {
            let select = sqlx::query_as::<_, EntryRow>(READ)
                .bind(at.millis())
                .bind(id.as_bytes().as_slice())
                .bind(signed(number))
                .bind(PAGE);
            select.fetch_all(&pool).await
        };
        self.0.one(work).await?.into_iter().map(entry).collect()
    }

    async fn remove(&self, id: ChainId, number: u64, head: &str) -> Result<bool, StateError> {
        let work = |pool| async move {
            let delete = sqlx::query_scalar::<_, bool>(REMOVE)
                .bind(id.as_bytes().as_slice())
                .bind(signed(number))
                .bind(head);
            delete.fetch_one(&pool).await
        };
        self.0.one(work).await
    }
}

fn id(bytes: &[u8]) -> Result<ChainId, StateError> {
    let failed = |_| StateError::Failed("a chain of the audit log has no id".to_owned());
    bytes.try_into().map(ChainId::from_bytes).map_err(failed)
}

fn entry((chain, number, at, text): EntryRow) -> Result<(ChainId, AuditEntry), StateError> {
    let entry = AuditEntry {
        number: unsigned(number),
        at: Time::from_millis(at),
        text,
    };
    Ok((id(&chain)?, entry))
}
