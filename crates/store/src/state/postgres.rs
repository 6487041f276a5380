//! The state in PostgreSQL. Each operation is one statement, so one round trip.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::AssertSqlSafe;

use super::sqlite::pruned;
use super::{
    Commit, Committed, Digest, Document, LeftPermit, Loaded, PAGE, PAGE_BYTES, PRUNED,
    SessionState, hour, signed, unsigned,
};
use crate::postgres::{Postgres, each};
use crate::{StateError, Time};

/// The head, the page of records after `$2` and its last number, and the document. `$4` bytes at most, but one record.
const LOAD: &str = "
WITH log AS (SELECT coalesce((SELECT head FROM tenant WHERE id = $1), 0) AS head),
sized AS (
  SELECT number, body, sum(octet_length(body)) OVER (ORDER BY number) AS bytes, row_number() OVER (ORDER BY number) AS nth
  FROM record, log WHERE tenant = $1 AND number > CASE WHEN $2 > head THEN 0 ELSE $2 END ORDER BY number LIMIT $3),
page AS (SELECT array_agg(body ORDER BY number) AS bodies, max(number) AS last FROM sized WHERE bytes <= $4 OR nth = 1)
SELECT head, bodies, last, session.version, session.body
FROM log CROSS JOIN page LEFT JOIN session ON tenant = $1 AND key = $5";

const COMMIT: &str =
    "SELECT * FROM commit_state($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)";

const REDEEM: &str = "
DELETE FROM permit WHERE number = (SELECT number FROM permit WHERE tenant = $1 AND key = $2 AND until > $3
  ORDER BY number LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING name, body, until";

const USAGE: &str = "SELECT thing, sum(count)::bigint FROM usage WHERE tenant = $1 AND hour >= $2 GROUP BY thing ORDER BY thing COLLATE \"C\"";

/// A database in recovery is a standby, and one that only reads may be full.
const PING: &str =
    "SELECT pg_is_in_recovery() OR current_setting('default_transaction_read_only')::boolean";

#[derive(Debug)]
pub(crate) struct PostgresState(pub(crate) Arc<Postgres>);

type LoadedRow = (
    i64,
    Option<Vec<String>>,
    Option<i64>,
    Option<i64>,
    Option<String>,
);

#[async_trait]
impl SessionState for PostgresState {
    async fn load(
        &self,
        tenant: &Digest,
        seen: u64,
        session: Option<&Digest>,
    ) -> Result<Loaded, StateError> {
        let work = |pool| async move {
            let load = sqlx::query_as::<_, LoadedRow>(LOAD)
                .bind(tenant.as_slice())
                .bind(signed(seen))
                .bind(PAGE as i64)
                .bind(PAGE_BYTES as i64)
                .bind(session.map(Digest::as_slice));
            load.fetch_one(&pool).await
        };
        let (head, records, last, version, body) = self.0.one(work).await?;
        let last = last.unwrap_or(head);
        Ok(Loaded {
            records: records.unwrap_or_default(),
            head: unsigned(last),
            more: last < head,
            session: document(version, body),
        })
    }

    async fn commit(&self, tenant: &Digest, commit: Commit) -> Result<Committed, StateError> {
        commit.check()?;
        let (session, usage, permits) = (&commit.session, &commit.usage, &commit.permits);
        let (records, at) = (&commit.records, commit.at);
        let work = |pool| async move {
            let call = sqlx::query_as::<_, (bool, Option<i64>, i64, Option<String>)>(COMMIT)
                .bind(tenant.as_slice())
                .bind(at.millis())
                .bind(records.as_slice())
                .bind(session.as_ref().map(|it| it.key.as_slice()))
                .bind(session.as_ref().map(|it| signed(it.base)))
                .bind(session.as_ref().map(|it| it.body.as_str()))
                .bind(each(usage, |it| it.tenant.as_str()))
                .bind(each(usage, |it| it.thing.as_str()))
                .bind(hour(at))
                .bind(each(usage, |it| signed(it.count)))
                .bind(each(permits, |it| it.name.as_str()))
                .bind(each(permits, |it| it.key.as_slice()))
                .bind(each(permits, |it| it.until.millis()))
                .bind(each(permits, |it| it.body.as_str()));
            call.fetch_one(&pool).await
        };
        let (is_behind, head, version, found) = self.0.one(work).await?;
        Ok(match is_behind {
            true => Committed::Behind(document(Some(version), found)),
            false => Committed::At {
                head: unsigned(head.unwrap_or(0)),
                version: unsigned(version),
            },
        })
    }

    async fn redeem(
        &self,
        tenant: &Digest,
        key: &Digest,
        now: Time,
    ) -> Result<Option<LeftPermit>, StateError> {
        let work = |pool| async move {
            let delete = sqlx::query_as::<_, (String, String, i64)>(REDEEM)
                .bind(tenant.as_slice())
                .bind(key.as_slice())
                .bind(now.millis());
            delete.fetch_optional(&pool).await
        };
        let taken = self.0.one(work).await?;
        Ok(taken.map(|(name, body, until)| LeftPermit {
            name,
            key: *key,
            body,
            until: Time::from_millis(until),
        }))
    }

    async fn withdraw(&self, tenant: &Digest, names: &[String]) -> Result<Vec<String>, StateError> {
        let work = |pool| async move {
            let sql = "DELETE FROM permit WHERE tenant = $1 AND name = ANY ($2) RETURNING name";
            let delete = sqlx::query_scalar(sql).bind(tenant.as_slice()).bind(names);
            delete.fetch_all(&pool).await
        };
        self.0.one(work).await
    }

    async fn usage(&self, tenant: &str, since: Time) -> Result<Vec<(String, u64)>, StateError> {
        let work = |pool| async move {
            let select = sqlx::query_as::<_, (String, i64)>(USAGE);
            let select = select.bind(tenant).bind(hour(since));
            select.fetch_all(&pool).await
        };
        let sums = self.0.one(work).await?;
        let sums = sums.into_iter();
        Ok(sums.map(|(thing, sum)| (thing, unsigned(sum))).collect())
    }

    async fn prune(&self, before: Time) -> Result<u64, StateError> {
        let mut removed = 0;
        for (table, column, limit) in pruned(before) {
            let sql = format!(
                "DELETE FROM {table} WHERE ctid = ANY (ARRAY(SELECT ctid FROM {table} WHERE {column} < $1 LIMIT {PRUNED} FOR UPDATE SKIP LOCKED))"
            );
            loop {
                let sql = &sql;
                let work = |pool| async move {
                    let delete = sqlx::query(AssertSqlSafe(sql.as_str())).bind(limit);
                    Ok(delete.execute(&pool).await?.rows_affected())
                };
                let count = self.0.one(work).await?;
                removed += count;
                if count == 0 {
                    break;
                }
            }
        }
        Ok(removed)
    }

    async fn ping(&self) -> Result<(), StateError> {
        let work = |pool| async move {
            let select = sqlx::query_scalar::<_, bool>(PING);
            select.fetch_one(&pool).await
        };
        match self.0.one(work).await? {
            true => Err(StateError::Unavailable("it only reads".to_owned())),
            false => Ok(()),
        }
    }
}

fn document(version: Option<i64>, body: Option<String>) -> Option<Document> {
    let version = version.map(unsigned);
    Some(Document {
        version: version?,
        body: body?,
    })
}
