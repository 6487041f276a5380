//! The audit log in PostgreSQL. Each operation is one statement, so one round trip.

use std::sync::Arc;

use async_trait::async_trait;

use super::{
    AUDIT_PAGE, AuditBatch, AuditChain, AuditEntry, AuditError, AuditLog, AuditPlace, behind,
    signed, unsigned,
};
use crate::postgres::{PgStop, Postgres};
use crate::{ChainId, StateError, Time};

/// Entries of a chain that ends at `$2`.
const APPEND: &str = "
WITH moved AS (UPDATE audit_chain SET number = $3, head = $4 WHERE chain = $1 AND number = $2 RETURNING 1)
INSERT INTO audit_entry (chain, number, at, entry)
SELECT $1, it.number, it.at, it.entry FROM moved, unnest($5::bigint[], $6::bigint[], $7::text[]) AS it (number, at, entry)";

/// The first entries of a chain, which name the chains `$7` up to `$8`.
const BEGIN: &str = "
WITH begun AS (INSERT INTO audit_chain (chain, number, linked, head) VALUES ($1, $2, 0, $3) ON CONFLICT DO NOTHING RETURNING 1),
linked AS (UPDATE audit_chain SET linked = greatest(linked, it.number)
  FROM unnest($7::bytea[], $8::bigint[]) AS it (chain, number)
  WHERE audit_chain.chain = it.chain AND EXISTS (SELECT FROM begun))
INSERT INTO audit_entry (chain, number, at, entry)
SELECT $1, it.number, it.at, it.entry FROM begun, unnest($4::bigint[], $5::bigint[], $6::text[]) AS it (number, at, entry)";

const UNLINKED: &str = "SELECT chain, number, linked, head FROM audit_chain WHERE linked < number ORDER BY chain LIMIT $1";

const CHAINS: &str = "
SELECT chain, number, linked, head FROM audit_chain UNION ALL
SELECT DISTINCT chain, 0, 0, NULL FROM audit_entry WHERE chain NOT IN (SELECT chain FROM audit_chain) ORDER BY chain";

const CHAIN: &str = "SELECT chain, number, linked, head FROM audit_chain WHERE chain = $1";

const ENTRIES: &str = "SELECT chain, number, at, entry FROM audit_entry WHERE chain = $1 AND number > $2 ORDER BY number LIMIT $3";

const READ: &str =
    "SELECT chain, number, at, entry FROM audit_entry WHERE (at, chain, number) > ($1, $2, $3)
  ORDER BY at, chain, number LIMIT $4";

const REMOVE: &str = "
WITH moved AS (UPDATE audit_chain SET head = $3 WHERE chain = $1 AND number = $2 RETURNING 1),
removed AS (DELETE FROM audit_entry WHERE chain = $1 AND EXISTS (SELECT FROM moved))
SELECT count(*) > 0 FROM moved";

type Failed = PgStop<AuditError>;
type ChainRow = (Vec<u8>, i64, i64, Option<String>);
type EntryRow = (Vec<u8>, i64, i64, String);

#[derive(Debug)]
pub(crate) struct PostgresAudit(pub(crate) Arc<Postgres>);

impl PostgresAudit {
    async fn begin(&self, batch: &AuditBatch, columns: &Columns<'_>) -> Result<u64, AuditError> {
        let work = |pool| async move {
            let (chains, ends): (Vec<&[u8]>, Vec<i64>) = (batch.links.iter())
                .map(|(chain, number)| (chain.as_bytes().as_slice(), signed(*number)))
                .unzip();
            let insert = sqlx::query(BEGIN)
                .bind(batch.chain.as_bytes().as_slice())
                .bind(signed(batch.last()))
                .bind(&batch.head)
                .bind(&columns.numbers)
                .bind(&columns.times)
                .bind(&columns.texts)
                .bind(chains)
                .bind(ends);
            Ok::<_, Failed>(insert.execute(&pool).await?.rows_affected())
        };
        self.0.run(work).await
    }

    async fn go_on(&self, batch: &AuditBatch, columns: &Columns<'_>) -> Result<u64, AuditError> {
        let work = |pool| async move {
            let insert = sqlx::query(APPEND)
                .bind(batch.chain.as_bytes().as_slice())
                .bind(signed(batch.base))
                .bind(signed(batch.last()))
                .bind(&batch.head)
                .bind(&columns.numbers)
                .bind(&columns.times)
                .bind(&columns.texts);
            Ok::<_, Failed>(insert.execute(&pool).await?.rows_affected())
        };
        self.0.run(work).await
    }
}

struct Columns<'a> {
    numbers: Vec<i64>,
    times: Vec<i64>,
    texts: Vec<&'a str>,
}

#[async_trait]
impl AuditLog for PostgresAudit {
    async fn append(&self, batch: &AuditBatch) -> Result<(), AuditError> {
        let entries = batch.entries.iter();
        let columns = Columns {
            numbers: entries.clone().map(|entry| signed(entry.number)).collect(),
            times: entries.clone().map(|entry| entry.at.millis()).collect(),
            texts: entries.map(|entry| entry.text.as_str()).collect(),
        };
        let written = match batch.base {
            0 => self.begin(batch, &columns).await?,
            _ => self.go_on(batch, &columns).await?,
        };
        if written == 0 && batch.follows(self.chain(batch.chain).await?.as_ref())? {
            return Err(AuditError::Conflict(batch.chain));
        }
        Ok(())
    }

    async fn unlinked(&self, most: usize) -> Result<Vec<AuditChain>, AuditError> {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let work = |pool| async move {
            let select = sqlx::query_as::<_, ChainRow>(UNLINKED).bind(most);
            Ok::<_, Failed>(select.fetch_all(&pool).await?)
        };
        self.0.run(work).await?.into_iter().map(chain).collect()
    }

    async fn chains(&self) -> Result<Vec<AuditChain>, AuditError> {
        let work = |pool| async move {
            let select = sqlx::query_as::<_, ChainRow>(CHAINS);
            Ok::<_, Failed>(select.fetch_all(&pool).await?)
        };
        self.0.run(work).await?.into_iter().map(chain).collect()
    }

    async fn chain(&self, id: ChainId) -> Result<Option<AuditChain>, AuditError> {
        let work = |pool| async move {
            let select = sqlx::query_as::<_, ChainRow>(CHAIN).bind(id.as_bytes().as_slice());
            Ok::<_, Failed>(select.fetch_optional(&pool).await?)
        };
        self.0.run(work).await?.map(chain).transpose()
    }

    async fn entries(&self, id: ChainId, after: u64) -> Result<Vec<AuditEntry>, AuditError> {
        let work = |pool| async move {
            let select = sqlx::query_as::<_, EntryRow>(ENTRIES)
                .bind(id.as_bytes().as_slice())
                .bind(behind(after))
                .bind(AUDIT_PAGE as i64);
            Ok::<_, Failed>(select.fetch_all(&pool).await?)
        };
        let rows = self.0.run(work).await?.into_iter();
        rows.map(|row| Ok(entry(row)?.1)).collect()
    }

    async fn read(&self, after: AuditPlace) -> Result<Vec<(ChainId, AuditEntry)>, AuditError> {
        let work = |pool| async move {
            let select = sqlx::query_as::<_, EntryRow>(READ)
                .bind(after.at.millis())
                .bind(after.chain.as_bytes().as_slice())
                .bind(signed(after.number))
                .bind(AUDIT_PAGE as i64);
            Ok::<_, Failed>(select.fetch_all(&pool).await?)
        };
        self.0.run(work).await?.into_iter().map(entry).collect()
    }

    async fn remove(&self, id: ChainId, number: u64, head: &str) -> Result<bool, AuditError> {
        let work = |pool| async move {
            let delete = sqlx::query_scalar::<_, bool>(REMOVE)
                .bind(id.as_bytes().as_slice())
                .bind(signed(number))
                .bind(head);
            Ok::<_, Failed>(delete.fetch_one(&pool).await?)
        };
        self.0.run(work).await
    }
}

fn id(bytes: &[u8]) -> Result<ChainId, AuditError> {
    let bytes = bytes.try_into().map(ChainId::from_bytes);
    let failed = |_| StateError::Failed("a chain of the audit log has no id".to_owned());
    Ok(bytes.map_err(failed)?)
}

fn chain((chain, number, linked, head): ChainRow) -> Result<AuditChain, AuditError> {
    Ok(AuditChain {
        chain: id(&chain)?,
        number: unsigned(number),
        linked: unsigned(linked),
        head,
    })
}

fn entry((chain, number, at, text): EntryRow) -> Result<(ChainId, AuditEntry), AuditError> {
    let entry = AuditEntry {
        number: unsigned(number),
        at: Time::from_millis(at),
        text,
    };
    Ok((id(&chain)?, entry))
}
