//! The desk in a SQLite file.

use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, params};

use super::error::DeskError;
use super::questions::{Asked, KeptAnswer, QuestionHead};
use super::rows::{self, NewRow, Read, Row, Rows, json};
use super::tokens::KeptToken;
use crate::database::{Database, Schema, Stop};
use crate::{QuestionId, Time};

pub(crate) const SCHEMA: Schema = Schema {
    application: 0x534c_4453,
    version: 2,
    create: include_str!("../../migrations/sqlite/2_desk.sql"),
    upgrade: "
ALTER TABLE question ADD COLUMN key BLOB;
ALTER TABLE question ADD COLUMN tenant TEXT;
ALTER TABLE question ADD COLUMN used INTEGER;
CREATE INDEX question_by_key ON question (key);
",
};

type Failed = Stop<DeskError>;

impl From<DeskError> for Failed {
    fn from(error: DeskError) -> Self {
        Self::Refused(error)
    }
}

#[derive(Debug)]
pub(super) struct Sqlite(pub(super) Arc<Database>);

impl Sqlite {
    /// Runs `work`, which says whether it has deleted something, and then empties the log. While another process reads, the
    /// next deletion or start does it.
    async fn remove<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<(T, bool), Failed> + Send + 'static,
    ) -> Result<T, DeskError> {
        let (done, removed) = self.0.write_later(work).await?;
        if removed {
            drop(self.0.in_background(Database::checkpoint).await);
        }
        Ok(done)
    }
}

#[async_trait]
impl Rows for Sqlite {
    async fn ask(&self, row: NewRow, now: Time) -> Result<Asked, DeskError> {
        self.remove(move |connection| {
            let ms = now.millis();
            let removed = connection.execute(rows::PRUNE, rows::prune(now))? > 0;
            let known = connection
                .query_row(rows::BY_KEY, params![row.key, ms], |row| {
                    Ok((row.get(0)?, row.get(1)?))
                })
                .optional()?;
            if let Some((id, expires)) = known {
                connection.execute(rows::BEAT, params![ms, id])?;
                return Ok((Asked::again(id, expires), removed));
            }
            let load = connection.query_row(rows::LOAD, rows::waits(now), |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?;
            row.fits(load)?;
            let (head, until) = (&row.head, row.expires.millis());
            let (id, app, effects, tenant) = (head.id, &head.app, &head.effects, &head.tenant);
            let values = (
                id.as_bytes(),
                row.key,
                app,
                effects,
                tenant,
                &row.question,
                ms,
                until,
            );
            connection.execute(rows::INSERT, values)?;
            connection.execute(rows::CHANGED, [])?;
            Ok((Asked::first(id, row.expires), removed))
        })
        .await
    }

    async fn still_asks(&self, ids: &[QuestionId], now: Time) -> Result<(), DeskError> {
        let ids = ids.to_vec();
        self.0
            .write_later(move |connection| {
                let mut update = connection.prepare_cached(rows::BEAT)?;
                for id in ids {
                    update.execute(params![now.millis(), id.as_bytes()])?;
                }
                Ok(())
            })
            .await
    }

    async fn waiting(&self, now: Time) -> Result<Vec<QuestionHead>, DeskError> {
        self.0
            .read_later(move |connection| heads(connection, rows::WAITING, &rows::waits(now)))
            .await
    }

    async fn answered(&self) -> Result<Vec<QuestionHead>, DeskError> {
        self.0
            .read_later(|connection| heads(connection, rows::ANSWERED, &[]))
            .await
    }

    async fn questions(&self, ids: &[QuestionId]) -> Result<Vec<Read>, DeskError> {
        let ids = ids.to_vec();
        self.0
            .read_later(move |connection| {
                let all = ids.into_iter().map(|id| get(connection, id));
                Ok(all
                    .collect::<Result<Vec<_>, Failed>>()?
                    .into_iter()
                    .flatten()
                    .collect())
            })
            .await
    }

    async fn beginning(&self, digits: &str) -> Result<Vec<QuestionId>, DeskError> {
        let digits = digits.to_owned();
        self.0
            .read_later(move |connection| {
                // Digits only, so nothing in it is a pattern. LIKE does not tell their cases apart.
                let sql = "SELECT id FROM question WHERE hex(id) LIKE ?1 || '%' LIMIT 2";
                let mut select = connection.prepare_cached(sql)?;
                let ids =
                    select.query_map([digits], |row| row.get(0).map(QuestionId::from_bytes))?;
                Ok(ids.collect::<Result<_, _>>()?)
            })
            .await
    }

    async fn answer(
        &self,
        id: QuestionId,
        given: KeptAnswer,
        approver: Option<String>,
    ) -> Result<(), DeskError> {
        self.0
            .write_later(move |connection| {
                let kept = get(connection, id)?.ok_or(DeskError::Unknown)?;
                let kept = kept.map_err(DeskError::unreadable)?;
                rows::admits(&kept, &given, approver.as_deref())?;
                let (answer, at) = (json(&given)?, given.at.millis());
                connection.execute(rows::ANSWER, params![answer, at, id.as_bytes()])?;
                connection.execute(rows::CHANGED, [])?;
                Ok(())
            })
            .await
    }

    async fn r#use(&self, id: QuestionId, now: Time) -> Result<bool, DeskError> {
        self.0
            .write_later(move |connection| {
                Ok(connection.execute(rows::USE, params![now.millis(), id.as_bytes()])? > 0)
            })
            .await
    }

    async fn withdraw(&self, id: QuestionId, alive: Option<Time>) -> Result<(), DeskError> {
        self.remove(move |connection| {
            let removed = match alive {
                None => connection.execute(rows::WITHDRAW, [id.as_bytes()]),
                Some(alive) => {
                    let values = params![id.as_bytes(), alive.millis()];
                    connection.execute(rows::WITHDRAW_SILENT, values)
                }
            };
            connection.execute(rows::CHANGED, [])?;
            Ok(((), removed? > 0))
        })
        .await
    }

    async fn version(&self) -> Result<i64, DeskError> {
        self.0
            .read_later(|connection| Ok(connection.query_row(rows::VERSION, [], |row| row.get(0))?))
            .await
    }

    async fn add_token(&self, token: &KeptToken, digest: [u8; 32]) -> Result<(), DeskError> {
        let (name, kept) = (token.name.clone(), json(token)?);
        self.0
            .write_later(move |connection| {
                let (count, taken) = connection
                    .query_row(rows::NAMES, [&name], |row| Ok((row.get(0)?, row.get(1)?)))?;
                rows::is_free(&name, count, taken)?;
                connection.execute(rows::ADD_TOKEN, params![name, digest, kept])?;
                Ok(())
            })
            .await
    }

    async fn tokens(&self) -> Result<Vec<KeptToken>, DeskError> {
        self.0
            .read_later(|connection| {
                let mut select = connection.prepare_cached(rows::TOKENS)?;
                let tokens = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
                let tokens = tokens.collect::<Result<Vec<(String, _)>, _>>()?.into_iter();
                Ok(tokens
                    .flat_map(|(json, used)| rows::token(&json, used))
                    .collect())
            })
            .await
    }

    async fn revoke(&self, name: &str) -> Result<bool, DeskError> {
        let name = name.to_owned();
        self.remove(move |connection| {
            let removed = connection.execute(rows::REVOKE, [name])? > 0;
            Ok((removed, removed))
        })
        .await
    }

    async fn token(&self, digest: [u8; 32]) -> Result<Option<KeptToken>, DeskError> {
        self.0
            .read_later(move |connection| {
                let columns = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
                let found = connection
                    .query_row(rows::TOKEN, [digest], columns)
                    .optional()?;
                Ok(found
                    .map(|(json, used): (String, _)| rows::token(&json, used))
                    .transpose()?)
            })
            .await
    }

    async fn token_used(&self, digest: [u8; 32], now: Time) -> Result<(), DeskError> {
        self.0
            .write_later(move |connection| {
                connection.execute(rows::TOKEN_USED, params![now.millis(), digest])?;
                Ok(())
            })
            .await
    }
}

fn heads(
    connection: &Connection,
    select: &str,
    parameters: &[i64],
) -> Result<Vec<QuestionHead>, Failed> {
    let mut select = connection.prepare_cached(select)?;
    let heads = select.query_map(rusqlite::params_from_iter(parameters), |row| {
        Ok(QuestionHead {
            id: QuestionId::from_bytes(row.get(0)?),
            app: row.get(1)?,
            effects: row.get(2)?,
            tenant: row.get(3)?,
        })
    })?;
    Ok(heads.collect::<Result<_, _>>()?)
}

fn get(connection: &Connection, id: QuestionId) -> Result<Option<Read>, Failed> {
    let mut select = connection.prepare_cached(rows::READ)?;
    let row = |row: &rusqlite::Row<'_>| -> rusqlite::Result<Row> {
        Ok(Row {
            id: row.get(0)?,
            key: row.get(1)?,
            question: row.get(2)?,
            asked: row.get(3)?,
            alive: row.get(4)?,
            answer: row.get(5)?,
        })
    };
    let mut rows = select.query([id.as_bytes()])?;
    let found = rows.next()?;
    // A column that is no text, as another program may leave one.
    Ok(found.map(|found| match row(found) {
        Ok(row) => row.read(),
        Err(error) => Err((id, error.to_string())),
    }))
}
