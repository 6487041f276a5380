//! The desk in PostgreSQL, for all replicas of a service.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::postgres::PgRow;
use sqlx::{PgPool, Postgres as Db, Row as _, Transaction, query, query_as, query_scalar};

use super::error::DeskError;
use super::questions::{Asked, KeptAnswer, QuestionHead};
use super::rows::{self, NewRow, Read, Row, Rows, json};
use super::tokens::KeptToken;
use crate::postgres::{PgStop, Postgres};
use crate::{QuestionId, Time};

type Stop = PgStop<DeskError>;

impl From<DeskError> for Stop {
    fn from(error: DeskError) -> Self {
        Self::Refused(error)
    }
}

#[derive(Debug)]
pub(super) struct Tables(pub(super) Arc<Postgres>);

/// A transaction that changes questions. The others wait for it: the row of the version is its lock.
async fn change(pool: &PgPool) -> Result<Transaction<'static, Db>, Stop> {
    let mut transaction = pool.begin().await?;
    query(rows::CHANGED).execute(&mut *transaction).await?;
    Ok(transaction)
}

#[async_trait]
impl Rows for Tables {
    async fn ask(&self, row: NewRow, now: Time) -> Result<Asked, DeskError> {
        let (row, ms, head) = (&row, now.millis(), &row.head);
        let key = row.key.as_ref().map(<[u8; 32]>::as_slice);
        let work = |pool: PgPool| async move {
            let mut transaction = change(&pool).await?;
            let prune = rows::prune(now).into_iter();
            let prune = prune.fold(query(rows::PRUNE), |prune, value| prune.bind(value));
            prune.execute(&mut *transaction).await?;
            let known = query_as::<_, (Vec<u8>, i64)>(rows::BY_KEY)
                .bind(key)
                .bind(ms);
            let asked = match known.fetch_optional(&mut *transaction).await? {
                Some((id, expires)) => {
                    let beat = query(rows::BEAT).bind(ms).bind(&id);
                    beat.execute(&mut *transaction).await?;
                    Asked::again(array(id)?, expires)
                }
                None => {
                    let [now, heard] = rows::waits(now);
                    let load = query_as(rows::LOAD).bind(now).bind(heard);
                    row.fits(load.fetch_one(&mut *transaction).await?)?;
                    let insert = query(rows::INSERT)
                        .bind(head.id.as_bytes().as_slice())
                        .bind(key);
                    let insert = insert
                        .bind(&head.app)
                        .bind(&head.effects)
                        .bind(&head.tenant);
                    let insert = insert
                        .bind(&row.question)
                        .bind(ms)
                        .bind(row.expires.millis());
                    insert.execute(&mut *transaction).await?;
                    Asked::first(head.id, row.expires)
                }
            };
            transaction.commit().await?;
            Ok::<_, Stop>(asked)
        };
        self.0.run(work).await
    }

    async fn still_asks(&self, ids: &[QuestionId], now: Time) -> Result<(), DeskError> {
        let (ids, now) = (&bytes(ids), now.millis());
        let sql = "UPDATE question SET alive = $1 WHERE id = ANY($2)";
        self.changes(|pool| async move { query(sql).bind(now).bind(ids).execute(&pool).await })
            .await
            .map(drop)
    }

    async fn waiting(&self, now: Time) -> Result<Vec<QuestionHead>, DeskError> {
        let [now, heard] = rows::waits(now);
        let work = |pool: PgPool| async move {
            let select = query(rows::WAITING).bind(now).bind(heard);
            let rows = select.fetch_all(&pool).await?;
            rows.iter().map(head).collect()
        };
        self.0.run(work).await
    }

    async fn answered(&self) -> Result<Vec<QuestionHead>, DeskError> {
        let work = |pool: PgPool| async move {
            let rows = query(rows::ANSWERED).fetch_all(&pool).await?;
            rows.iter().map(head).collect()
        };
        self.0.run(work).await
    }

    async fn questions(&self, ids: &[QuestionId]) -> Result<Vec<Read>, DeskError> {
        let ids = &bytes(ids);
        let work = |pool: PgPool| async move {
            let select = query(
                "SELECT id, key, question, asked, alive, answer FROM question WHERE id = ANY($1)
                 ORDER BY array_position($1, id)",
            );
            let rows = select.bind(ids).fetch_all(&pool).await?;
            rows.iter().map(|found| Ok(row(found)?.read())).collect()
        };
        self.0.run(work).await
    }

    async fn beginning(&self, digits: &str) -> Result<Vec<QuestionId>, DeskError> {
        let work = |pool: PgPool| async move {
            // Digits only, so nothing in it is a pattern.
            let sql = "SELECT id FROM question WHERE encode(id, 'hex') LIKE $1 || '%' LIMIT 2";
            let ids: Vec<Vec<u8>> = query_scalar(sql).bind(digits).fetch_all(&pool).await?;
            let ids = ids
                .into_iter()
                .map(|id| Ok(QuestionId::from_bytes(array(id)?)));
            ids.collect()
        };
        self.0.run(work).await
    }

    async fn answer(
        &self,
        id: QuestionId,
        given: KeptAnswer,
        approver: Option<String>,
    ) -> Result<(), DeskError> {
        let (id, given, approver) = (id.as_bytes().as_slice(), &given, approver.as_deref());
        let work = |pool: PgPool| async move {
            let mut transaction = change(&pool).await?;
            let found = query(rows::READ)
                .bind(id)
                .fetch_optional(&mut *transaction)
                .await?;
            let found = found.ok_or(DeskError::Unknown)?;
            let kept = row(&found)?.read().map_err(DeskError::unreadable)?;
            rows::admits(&kept, given, approver)?;
            let answer = query(rows::ANSWER)
                .bind(json(given)?)
                .bind(given.at.millis())
                .bind(id);
            answer.execute(&mut *transaction).await?;
            transaction.commit().await?;
            Ok::<_, Stop>(())
        };
        self.0.run(work).await
    }

    async fn r#use(&self, id: QuestionId, now: Time) -> Result<bool, DeskError> {
        let (id, now) = (id.as_bytes().as_slice(), now.millis());
        self.changes(|pool| async move { query(rows::USE).bind(now).bind(id).execute(&pool).await })
            .await
    }

    async fn withdraw(&self, id: QuestionId, alive: Option<Time>) -> Result<(), DeskError> {
        let id = id.as_bytes().as_slice();
        let work = |pool: PgPool| async move {
            let mut transaction = change(&pool).await?;
            let delete = match alive {
                None => query(rows::WITHDRAW).bind(id),
                Some(alive) => query(rows::WITHDRAW_SILENT).bind(id).bind(alive.millis()),
            };
            delete.execute(&mut *transaction).await?;
            transaction.commit().await?;
            Ok::<_, Stop>(())
        };
        self.0.run(work).await
    }

    async fn version(&self) -> Result<i64, DeskError> {
        let work = |pool| async move { query_scalar(rows::VERSION).fetch_one(&pool).await };
        Ok(self.0.one(work).await?)
    }

    async fn add_token(&self, token: &KeptToken, digest: [u8; 32]) -> Result<(), DeskError> {
        let (name, kept, digest) = (&token.name, &json(token)?, &digest);
        let work = |pool: PgPool| async move {
            let mut transaction = change(&pool).await?;
            let count = query_as(rows::NAMES).bind(name);
            let (count, taken) = count.fetch_one(&mut *transaction).await?;
            rows::is_free(name, count, taken)?;
            let add = query(rows::ADD_TOKEN)
                .bind(name)
                .bind(digest.as_slice())
                .bind(kept);
            add.execute(&mut *transaction).await?;
            transaction.commit().await?;
            Ok::<_, Stop>(())
        };
        self.0.run(work).await
    }

    async fn tokens(&self) -> Result<Vec<KeptToken>, DeskError> {
        let work = |pool: PgPool| async move {
            let tokens = query_as::<_, (String, Option<i64>)>(rows::TOKENS).fetch_all(&pool);
            let tokens = tokens.await?.into_iter();
            let tokens = tokens.flat_map(|(json, used)| rows::token(&json, used));
            Ok::<_, Stop>(tokens.collect())
        };
        self.0.run(work).await
    }

    async fn revoke(&self, name: &str) -> Result<bool, DeskError> {
        self.changes(|pool| async move { query(rows::REVOKE).bind(name).execute(&pool).await })
            .await
    }

    async fn token(&self, digest: [u8; 32]) -> Result<Option<KeptToken>, DeskError> {
        let digest = digest.as_slice();
        let work = |pool: PgPool| async move {
            let select = query_as::<_, (String, Option<i64>)>(rows::TOKEN).bind(digest);
            let found = select.fetch_optional(&pool).await?;
            Ok::<_, Stop>(
                found
                    .map(|(json, used)| rows::token(&json, used))
                    .transpose()?,
            )
        };
        self.0.run(work).await
    }

    async fn token_used(&self, digest: [u8; 32], now: Time) -> Result<(), DeskError> {
        let (digest, now) = (digest.as_slice(), now.millis());
        let work = |pool| async move {
            let used = query(rows::TOKEN_USED).bind(now).bind(digest);
            used.execute(&pool).await
        };
        self.changes(work).await.map(|_| ())
    }
}

impl Tables {
    /// Runs one statement. Whether it has changed a row.
    async fn changes<F>(&self, work: impl Fn(PgPool) -> F + Send + Sync) -> Result<bool, DeskError>
    where
        F: Future<Output = Result<sqlx::postgres::PgQueryResult, sqlx::Error>> + Send,
    {
        Ok(self.0.one(work).await?.rows_affected() > 0)
    }
}

fn bytes(ids: &[QuestionId]) -> Vec<Vec<u8>> {
    ids.iter().map(|id| id.as_bytes().to_vec()).collect()
}

fn array<const N: usize>(bytes: Vec<u8>) -> Result<[u8; N], sqlx::Error> {
    let wrong = |bytes: Vec<u8>| {
        sqlx::Error::Decode(format!("{} bytes instead of {N}", bytes.len()).into())
    };
    bytes.try_into().map_err(wrong)
}

fn head(row: &PgRow) -> Result<QuestionHead, Stop> {
    Ok(QuestionHead {
        id: QuestionId::from_bytes(array(row.try_get(0)?)?),
        app: row.try_get(1)?,
        effects: row.try_get(2)?,
        tenant: row.try_get(3)?,
    })
}

fn row(row: &PgRow) -> Result<Row, sqlx::Error> {
    let key: Option<Vec<u8>> = row.try_get(1)?;
    Ok(Row {
        id: array(row.try_get(0)?)?,
        key: key.map(array).transpose()?,
        question: row.try_get(2)?,
        asked: row.try_get(3)?,
        alive: row.try_get(4)?,
        answer: row.try_get(5)?,
    })
}
