//! The state in a SQLite file.

use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, params};

use super::{
    Commit, Committed, Digest, Document, LeftPermit, Loaded, PAGE, PAGE_BYTES, PRUNED,
    SessionState, hour, signed, unsigned,
};
use crate::database::{Database, Stop};
use crate::{StateError, Time};

type Failed = Stop<StateError>;

#[derive(Debug)]
pub(crate) struct SqliteState(pub(crate) Arc<Database>);

#[async_trait]
impl SessionState for SqliteState {
    async fn load(
        &self,
        tenant: &Digest,
        seen: u64,
        session: Option<&Digest>,
    ) -> Result<Loaded, StateError> {
        let (tenant, session) = (*tenant, session.copied());
        let work = move |connection: &Connection| {
            let mut loaded = records(connection, &tenant, seen)?;
            if let Some(session) = session {
                loaded.session = document(connection, &tenant, &session)?;
            }
            Ok(loaded)
        };
        self.0.read_later(work).await
    }

    async fn commit(&self, tenant: &Digest, commit: Commit) -> Result<Committed, StateError> {
        commit.check()?;
        let tenant = *tenant;
        let work = move |to: &Connection| write(to, &tenant, &commit);
        self.0.write_later(work).await
    }

    async fn redeem(
        &self,
        tenant: &Digest,
        key: &Digest,
        now: Time,
    ) -> Result<Option<LeftPermit>, StateError> {
        let (tenant, key) = (*tenant, *key);
        let sql = "DELETE FROM permit WHERE number = (SELECT number FROM permit WHERE tenant = ?1 AND key = ?2 AND until > ?3
            ORDER BY number LIMIT 1) RETURNING name, body, until";
        let work = move |connection: &Connection| {
            let mut delete = connection.prepare_cached(sql)?;
            let row = delete.query_row(params![tenant, key, now.millis()], |row| {
                Ok(LeftPermit {
                    name: row.get(0)?,
                    key,
                    body: row.get(1)?,
                    until: Time::from_millis(row.get(2)?),
                })
            });
            Ok(row.optional()?)
        };
        self.0.write_later(work).await
    }

    async fn withdraw(&self, tenant: &Digest, names: &[String]) -> Result<Vec<String>, StateError> {
        let (tenant, mut names) = (*tenant, names.to_owned());
        let work = move |connection: &Connection| {
            let sql = "DELETE FROM permit WHERE tenant = ?1 AND name = ?2";
            let mut delete = connection.prepare_cached(sql)?;
            let mut removed = Vec::new();
            for name in names.drain(..) {
                if delete.execute(params![tenant, name])? > 0 {
                    removed.push(name);
                }
            }
            Ok(removed)
        };
        self.0.write_later(work).await
    }

    async fn usage(&self, tenant: &str, since: Time) -> Result<Vec<(String, u64)>, StateError> {
        let tenant = tenant.to_owned();
        let sql = "SELECT thing, sum(count) FROM usage WHERE tenant = ?1 AND hour >= ?2 GROUP BY thing ORDER BY thing";
        let work = move |connection: &Connection| {
            let mut select = connection.prepare_cached(sql)?;
            let sums = select.query_map(params![tenant, hour(since)], |row| {
                Ok((row.get(0)?, unsigned(row.get(1)?)))
            })?;
            Ok(sums.collect::<Result<_, _>>()?)
        };
        self.0.read_later(work).await
    }

    async fn prune(&self, before: Time) -> Result<u64, StateError> {
        let work = move |file: &Database| {
            let mut removed = 0;
            for (table, column, limit) in pruned(before) {
                let sql = format!(
                    "DELETE FROM {table} WHERE rowid IN (SELECT rowid FROM {table} WHERE {column} < ?1 LIMIT {PRUNED})"
                );
                loop {
                    let count = file.write(|to| Ok::<_, Failed>(to.execute(&sql, [limit])?))?;
                    removed += count as u64;
                    if count == 0 {
                        break;
                    }
                }
            }
            if removed > 0 {
                // While another process reads, the next start does it.
                drop(file.checkpoint());
            }
            Ok(removed)
        };
        self.0.in_background(work).await
    }

    async fn ping(&self) -> Result<(), StateError> {
        // The write lock, and a page that is read.
        let sql = "SELECT count(*) FROM tenant LIMIT 1";
        let work = move |to: &Connection| Ok(to.query_row(sql, [], |_| Ok(()))?);
        self.0.write_later(work).await
    }
}

/// What is pruned: a table, its time, and the limit of that time.
pub(super) fn pruned(before: Time) -> [(&'static str, &'static str, i64); 4] {
    let ms = before.millis();
    [
        ("record", "at", ms),
        ("session", "at", ms),
        ("permit", "until", ms),
        ("usage", "hour", hour(before)),
    ]
}

fn records(connection: &Connection, tenant: &Digest, seen: u64) -> Result<Loaded, Failed> {
    let mut select = connection.prepare_cached("SELECT head FROM tenant WHERE id = ?1")?;
    let head = select.query_row([tenant], |row| row.get(0)).optional()?;
    let head = unsigned(head.unwrap_or(0));
    let from = if seen > head { 0 } else { seen };
    let sql = "SELECT number, body FROM record WHERE tenant = ?1 AND number > ?2 ORDER BY number LIMIT ?3";
    let mut select = connection.prepare_cached(sql)?;
    let mut rows = select.query(params![tenant, signed(from), PAGE as i64])?;
    let (mut loaded, mut bytes) = (Loaded::default(), 0);
    while let Some(row) = rows.next()? {
        let body: String = row.get(1)?;
        bytes += body.len();
        if bytes > PAGE_BYTES && !loaded.records.is_empty() {
            break;
        }
        loaded.head = unsigned(row.get(0)?);
        loaded.records.push(body);
    }
    // No records are left after `seen`: pruned ones are not missed.
    if loaded.records.is_empty() {
        loaded.head = head;
    }
    loaded.more = loaded.head < head;
    Ok(loaded)
}

fn document(
    connection: &Connection,
    tenant: &Digest,
    session: &Digest,
) -> Result<Option<Document>, Failed> {
    let sql = "SELECT version, body FROM session WHERE tenant = ?1 AND key = ?2";
    let mut select = connection.prepare_cached(sql)?;
    let row = select.query_row([tenant, session], |row| {
        Ok(Document {
            version: unsigned(row.get(0)?),
            body: row.get(1)?,
        })
    });
    Ok(row.optional()?)
}

fn write(to: &Connection, tenant: &Digest, commit: &Commit) -> Result<Committed, Failed> {
    if let Some(write) = &commit.session {
        let found = document(to, tenant, &write.key)?;
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
