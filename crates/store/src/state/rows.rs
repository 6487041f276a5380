//! The state as rows.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, params};
use sqlx::AssertSqlSafe;

use super::{
    Commit, Committed, Digest, Document, LeftPermit, Loaded, PAGE, PAGE_BYTES, PRUNED,
    SessionState, hour, signed, unsigned,
};
use crate::database::Stop;
use crate::postgres::{Postgres, each};
use crate::tables::{Tables, values};
use crate::{StateError, Time};

/// The head, the document, and the records after `$2`: at most `$3`, with at most `$5` bytes, but one record. Their lengths
/// are summed without their texts. Where the records begin is a subquery, since a join with `log` reads the log from its
/// start.
const LOAD: &str = "
WITH log (head) AS (SELECT coalesce((SELECT head FROM tenant WHERE id = $1), 0)),
page AS (SELECT number, octet_length(body) AS bytes FROM record
  WHERE tenant = $1 AND number > (SELECT CASE WHEN $2 > head THEN 0 ELSE $2 END FROM log) ORDER BY number LIMIT $3),
sized AS (SELECT number, bytes, sum(bytes) OVER (ORDER BY number) AS total FROM page)
SELECT CAST(0 AS bigint) AS part, head AS number, NULL AS body FROM log
UNION ALL SELECT 1, version, body FROM session WHERE tenant = $1 AND key = $4
UNION ALL SELECT 2, record.number, body FROM sized JOIN record ON tenant = $1 AND record.number = sized.number
  WHERE total <= $5 OR total = bytes";

/// In PostgreSQL a commit is one round trip.
const COMMIT: &str =
    "SELECT * FROM commit_state($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)";

const USAGE: &str = "SELECT thing, CAST(sum(count) AS bigint) FROM usage WHERE tenant = $1 AND hour >= $2 GROUP BY thing";

/// Takes the lock of a writer. A PostgreSQL that only reads refuses it: a standby, or one that may be full.
const PING: &str = "UPDATE tenant SET head = head WHERE 1 = 0";

#[derive(Debug)]
pub(crate) struct StateRows(pub(crate) Tables);

impl StateRows {
    /// For rows that another transaction is taking.
    fn skip_locked(&self) -> &'static str {
        match &self.0 {
            Tables::Sqlite(_) => "",
            Tables::Postgres(_) => "FOR UPDATE SKIP LOCKED",
        }
    }
}

#[async_trait]
impl SessionState for StateRows {
    async fn load(
        &self,
        tenant: &Digest,
        seen: u64,
        session: Option<&Digest>,
    ) -> Result<Loaded, StateError> {
        let [page, bytes] = [PAGE, PAGE_BYTES].map(|most| most as i64);
        let values = values![tenant, signed(seen), page, session.copied(), bytes];
        let rows = self.0.rows(LOAD, values, |mut row| {
            Ok((row.take::<i64>()?, unsigned(row.take()?), row.take()?))
        });
        let (mut loaded, mut head) = (Loaded::default(), 0);
        let mut last = None;
        // Sorted here: with ORDER BY the statement takes SQLite almost twice as long.
        let mut rows = rows.await?;
        rows.sort_unstable_by_key(|(part, number, _)| (*part, *number));
        for (part, number, body) in rows {
            match (part, body) {
                (1, Some(body)) => {
                    let version = number;
                    loaded.session = Some(Document { version, body });
                }
                (2, Some(body)) => {
                    loaded.records.push(body);
                    last = Some(number);
                }
                _ => head = number,
            }
        }
        // No records are left after `seen`: pruned ones are not missed.
        loaded.head = last.unwrap_or(head);
        loaded.more = loaded.head < head;
        Ok(loaded)
    }

    async fn commit(&self, tenant: &Digest, commit: Commit) -> Result<Committed, StateError> {
        commit.check()?;
        match &self.0 {
            Tables::Sqlite(file) => {
                let tenant = *tenant;
                file.in_background(move |file| file.write(|to| write(to, &tenant, &commit)))
                    .await
            }
            Tables::Postgres(postgres) => call(postgres, tenant, &commit).await,
        }
    }

    async fn redeem(
        &self,
        tenant: &Digest,
        key: &Digest,
        now: Time,
    ) -> Result<Option<LeftPermit>, StateError> {
        let lock = self.skip_locked();
        let sql = format!(
            "DELETE FROM permit WHERE number = (SELECT number FROM permit WHERE tenant = $1 AND key = $2 AND until > $3
             ORDER BY number LIMIT 1 {lock}) RETURNING name, key, body, until"
        );
        let taken = (self.0).rows(AssertSqlSafe(sql), values![tenant, key, now], |mut row| {
            Ok(LeftPermit {
                name: row.take()?,
                key: row.take()?,
                body: row.take()?,
                until: row.take()?,
            })
        });
        Ok(taken.await?.pop())
    }

    async fn withdraw(&self, tenant: &Digest, names: &[String]) -> Result<Vec<String>, StateError> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let mut values = Vec::from(values![tenant]);
        values.extend(names.iter().map(Into::into));
        let places: Vec<String> = (2..=values.len()).map(|nth| format!("${nth}")).collect();
        let sql = format!(
            "DELETE FROM permit WHERE tenant = $1 AND name IN ({}) RETURNING name",
            places.join(", ")
        );
        (self.0)
            .rows(AssertSqlSafe(sql), values, |mut row| row.take())
            .await
    }

    async fn usage(&self, tenant: &str, since: Time) -> Result<Vec<(String, u64)>, StateError> {
        let sums = self.0.rows(USAGE, values![tenant, hour(since)], |mut row| {
            Ok((row.take()?, unsigned(row.take()?)))
        });
        let mut sums: Vec<(String, u64)> = sums.await?;
        sums.sort();
        Ok(sums)
    }

    async fn prune(&self, before: Time) -> Result<u64, StateError> {
        let ms = before.millis();
        let mut removed = 0;
        for (table, column, limit) in [
            ("record", "at", ms),
            ("session", "at", ms),
            ("permit", "until", ms),
            ("usage", "hour", hour(before)),
        ] {
            let lock = self.skip_locked();
            let from = format!("FROM {table} WHERE {column} < $1 LIMIT {PRUNED} {lock}");
            let condition = match &self.0 {
                Tables::Sqlite(_) => format!("rowid IN (SELECT rowid {from})"),
                Tables::Postgres(_) => format!("ctid = ANY (ARRAY(SELECT ctid {from}))"),
            };
            loop {
                let sql = format!("DELETE FROM {table} WHERE {condition}");
                let count = (self.0).execute(AssertSqlSafe(sql), values![limit]).await?;
                removed += count;
                if count == 0 {
                    break;
                }
            }
        }
        if removed > 0 {
            self.0.checkpoint().await;
        }
        Ok(removed)
    }

    async fn ping(&self) -> Result<(), StateError> {
        self.0.execute(PING, []).await?;
        Ok(())
    }
}

async fn call(
    postgres: &Postgres,
    tenant: &Digest,
    commit: &Commit,
) -> Result<Committed, StateError> {
    let (session, usage, permits) = (&commit.session, &commit.usage, &commit.permits);
    let work = |pool: sqlx::PgPool| async move {
        let call = sqlx::query_as::<_, (bool, Option<i64>, i64, Option<String>)>(COMMIT)
            .bind(tenant.as_slice())
            .bind(commit.at.millis())
            .bind(commit.records.as_slice())
            .bind(session.as_ref().map(|it| it.key.as_slice()))
            .bind(session.as_ref().map(|it| signed(it.base)))
            .bind(session.as_ref().map(|it| it.body.as_str()))
            .bind(each(usage, |it| it.tenant.as_str()))
            .bind(each(usage, |it| it.thing.as_str()))
            .bind(hour(commit.at))
            .bind(each(usage, |it| signed(it.count)))
            .bind(each(permits, |it| it.name.as_str()))
            .bind(each(permits, |it| it.key.as_slice()))
            .bind(each(permits, |it| it.until.millis()))
            .bind(each(permits, |it| it.body.as_str()));
        Ok::<_, Stop<StateError>>(call.fetch_one(&pool).await?)
    };
    let (is_behind, head, version, found) = postgres.run(work).await?;
    let (head, version) = (unsigned(head.unwrap_or(0)), unsigned(version));
    Ok(match is_behind {
        true => Committed::Behind(found.map(|body| Document { version, body })),
        false => Committed::At { head, version },
    })
}

fn write(to: &Connection, tenant: &Digest, commit: &Commit) -> Result<Committed, Stop<StateError>> {
    if let Some(write) = &commit.session {
        let sql = "SELECT version, body FROM session WHERE tenant = ?1 AND key = ?2";
        let mut select = to.prepare_cached(sql)?;
        let found = select.query_row([tenant, &write.key], |row| {
            Ok(Document {
                version: unsigned(row.get(0)?),
                body: row.get(1)?,
            })
        });
        let found = found.optional()?;
        if found.as_ref().map_or(0, |found| found.version) != write.base {
            return Ok(Committed::Behind(found));
        }
    }
    let (count, at) = (signed(commit.records.len() as u64), commit.at.millis());
    let sql = "INSERT INTO tenant (id, head, version) VALUES (?1, ?2, ?3)
        ON CONFLICT DO UPDATE SET head = head + ?2, version = version + ?3 RETURNING head, version";
    let mut advance = to.prepare_cached(sql)?;
    let (head, version): (i64, i64) = advance
        .query_row(params![tenant, count, commit.session.is_some()], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
    let mut insert =
        to.prepare_cached("INSERT INTO record (tenant, number, at, body) VALUES (?1, ?2, ?3, ?4)")?;
    for (number, body) in (head - count + 1..).zip(&commit.records) {
        insert.execute(params![tenant, number, at, body])?;
    }
    if let Some(write) = &commit.session {
        let sql = "INSERT INTO session (tenant, key, version, at, body) VALUES (?1, ?2, ?3, ?4, ?5)
            ON CONFLICT DO UPDATE SET version = ?3, at = ?4, body = ?5";
        let mut insert = to.prepare_cached(sql)?;
        insert.execute(params![tenant, write.key, version, at, write.body])?;
    }
    let sql = "INSERT INTO usage (tenant, thing, hour, count) VALUES (?1, ?2, ?3, ?4)
        ON CONFLICT DO UPDATE SET count = count + ?4";
    let mut insert = to.prepare_cached(sql)?;
    for usage in &commit.usage {
        let (count, hour) = (signed(usage.count), hour(commit.at));
        insert.execute(params![usage.tenant, usage.thing, hour, count])?;
    }
    let sql = "INSERT INTO permit (tenant, name, key, until, body) VALUES (?1, ?2, ?3, ?4, ?5)";
    let mut insert = to.prepare_cached(sql)?;
    for permit in &commit.permits {
        let until = permit.until.millis();
        insert.execute(params![tenant, permit.name, permit.key, until, permit.body])?;
    }
    let (head, version) = (unsigned(head), unsigned(version));
    let version = commit.session.as_ref().map_or(0, |_| version);
    Ok(Committed::At { head, version })
}
