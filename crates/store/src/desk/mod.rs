//! Questions that wait for an answer, and the tokens of agents, of those who may answer, and of admins.
//!
//! All Sluice processes of one user share one file, or all replicas of a service one database. A question is answered once, by
//! the first who answers it, and an answer for one call is taken once, by the first who takes it.

mod error;
mod questions;
mod rows;
mod tokens;

use std::path::Path;
use std::sync::Arc;

use futures_util::FutureExt;

use error::{FEWEST_DIGITS, MOST_BYTES};
use rows::{json, pair};

use crate::database::{Begin, Database, Fault, Stop};
use crate::id::read_hex;
use crate::tables::{Tables, Tx, values};
use crate::{Name, QuestionId, Time};

pub use error::DeskError;
pub use questions::{
    Answerer, Asked, KeptAnswer, KeptQuestion, NewQuestion, QuestionHead, QuestionKey, Questions,
    Taken,
};
pub(crate) use rows::SCHEMA;
pub use tokens::{KeptToken, NewToken, Role};

/// How often the use of a token is recorded, in milliseconds: a page that looks each second must not write each second.
const MINUTE_MS: i64 = 60 * 1000;

type Failed = Stop<DeskError>;

/// The questions and tokens of one user on one machine, or of a service. Several processes may have them open.
///
/// Each method is one transaction, and fails if the file or the database cannot be used.
#[derive(Debug, Clone)]
pub struct Desk {
    tables: Tables,
}

impl Desk {
    /// Opens the file, or creates it readable by its owner only.
    ///
    /// # Errors
    /// Other users could read or change the file, or it is not a file of this version.
    pub fn open(path: &Path) -> Result<Self, DeskError> {
        let file = Database::open(path, &SCHEMA)?;
        Ok(Self::of(Tables::Sqlite(Arc::new(file))))
    }

    /// A desk of this process alone: where there is no folder for the file.
    ///
    /// # Errors
    /// SQLite fails.
    pub fn in_memory() -> Result<Self, DeskError> {
        let file = Database::in_memory(&SCHEMA)?;
        Ok(Self::of(Tables::Sqlite(Arc::new(file))))
    }

    pub(crate) fn of(tables: Tables) -> Self {
        Self { tables }
    }

    /// Puts a question to all who may answer. With a key that waits already, or whose answer was not taken yet, this is the
    /// question from before. Removes what is of no use any more.
    ///
    /// # Errors
    /// Too many wait, or it is too long.
    pub async fn ask(&self, new: &NewQuestion, now: Time) -> Result<Asked, DeskError> {
        self.ask_if(new, now, || Ok(())).await
    }

    /// The same, with a check of whether one more may be asked. It is not called for a question from before.
    ///
    /// # Errors
    /// As those of [`Desk::ask`], and [`DeskError::OverBudget`] with the error of `may_ask`.
    pub async fn ask_if(
        &self,
        new: &NewQuestion,
        now: Time,
        may_ask: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Result<Asked, DeskError> {
        let (question, id) = (json(new)?, QuestionId::random().map_err(DeskError::System)?);
        if question.len() > MOST_BYTES {
            return Err(DeskError::TooLarge);
        }
        let (key, expires) = (new.key, new.expires);
        let with = (new.head(id), question, may_ask);
        let ask = (self.tables).run(Begin::Write, with, move |tx, (head, question, may_ask)| {
            let work = async move {
                change(tx).await?;
                let removed = tx.execute(rows::PRUNE, &rows::prune(now)).await?;
                let known = tx.first(rows::BY_KEY, &values![key, now], pair).await?;
                if let Some((id, expires)) = known {
                    let id = QuestionId::from_bytes(id);
                    let beat = values![rows::ids(&[id]), now];
                    tx.execute(rows::BEAT, &beat).await?;
                    return Ok((id, expires, removed));
                }
                let waiting = tx.first(rows::LOAD, &rows::waits(now), pair).await?;
                rows::fits(question, waiting.unwrap_or_default())?;
                may_ask().map_err(DeskError::OverBudget)?;
                let insert = values![
                    head.id.as_bytes(),
                    key,
                    &head.app,
                    &head.effects,
                    &head.tenant,
                    question,
                    now,
                    expires,
                ];
                tx.execute(rows::INSERT, &insert).await?;
                Ok::<_, Failed>((head.id, expires, removed))
            };
            work.boxed()
        });
        let (found, expires, removed) = ask.await?;
        self.removed(removed).await;
        Ok(Asked {
            id: found,
            expires,
            is_new: found == id,
        })
    }

    /// Says that their process still waits for these questions. Every few seconds.
    pub async fn still_asks(&self, ids: &[QuestionId], now: Time) -> Result<(), DeskError> {
        let beat = values![rows::ids(ids), now];
        self.tables.execute(rows::BEAT, beat).await?;
        Ok(())
    }

    /// The questions that wait, the oldest first.
    pub async fn waiting(&self, now: Time) -> Result<Questions, DeskError> {
        self.waiting_for(now, |_| true).await
    }

    /// Those of them that are to be seen. Others are not read, so that the time tells little of them.
    pub async fn waiting_for(
        &self,
        now: Time,
        sees: impl Fn(&QuestionHead) -> bool,
    ) -> Result<Questions, DeskError> {
        let head = |row| Ok(rows::head(row));
        let waiting = (self.tables).rows(rows::WAITING, rows::waits(now), head);
        // One whose head cannot be read may be seen by no one.
        let seen = waiting.await?.into_iter().flatten().filter(sees);
        self.read(&seen.map(|head| head.id).collect::<Vec<_>>())
            .await
    }

    /// Up to so many answered questions of the last week that are to be seen, the newest first.
    pub async fn recent(
        &self,
        most: usize,
        sees: impl Fn(&QuestionHead) -> bool,
    ) -> Result<Questions, DeskError> {
        let head = |row| Ok(rows::head(row));
        let answered = self.tables.rows(rows::ANSWERED, [], head);
        let seen = answered.await?.into_iter().flatten();
        let seen = seen.filter(sees).take(most);
        self.read(&seen.map(|head| head.id).collect::<Vec<_>>())
            .await
    }

    /// Those of these questions that are there, in this order.
    pub async fn read(&self, ids: &[QuestionId]) -> Result<Questions, DeskError> {
        let mut questions = Questions::default();
        if ids.is_empty() {
            return Ok(questions);
        }
        let read = (self.tables).rows(rows::READ, values![rows::ids(ids)], rows::read);
        for read in read.await? {
            match read {
                Ok(kept) => questions.all.push(kept),
                Err((id, _)) => questions.unreadable.push(id.to_string()),
            }
        }
        Ok(questions)
    }

    async fn get(&self, id: QuestionId) -> Result<Option<KeptQuestion>, DeskError> {
        let read = (self.tables).rows(rows::READ, values![id.as_bytes()], rows::read);
        let read = read.await?.pop().transpose();
        read.map_err(DeskError::unreadable)
    }

    /// The question with this id, or the one whose id begins like this. It may be answered, or wait no longer.
    ///
    /// # Errors
    /// Several begin like this, or the question cannot be read.
    pub async fn find(&self, id: &str) -> Result<Option<KeptQuestion>, DeskError> {
        let ambiguous = || DeskError::Ambiguous(id.to_owned());
        if !id.bytes().all(|byte| byte.is_ascii_hexdigit()) || id.len() < FEWEST_DIGITS {
            return Err(ambiguous());
        }
        let [first, last] = ["0", "f"].map(|digit| {
            let missing = 32_usize.saturating_sub(id.len());
            read_hex::<16>(&format!("{id}{}", digit.repeat(missing)))
        });
        // Longer than any id.
        let (Some(first), Some(last)) = (first, last) else {
            return Ok(None);
        };
        let found = (self.tables).rows(rows::BETWEEN, values![&first, &last], |mut row| row.take());
        match found.await?.as_slice() {
            [] => Ok(None),
            [only] => self.get(QuestionId::from_bytes(*only)).await,
            _ => Err(ambiguous()),
        }
    }

    /// Answers a question. Of several answers the first one counts.
    ///
    /// # Errors
    /// The question does not wait, has an answer, does not offer this one, or needs another approver: see [`DeskError`].
    pub async fn answer(
        &self,
        id: QuestionId,
        answer: &str,
        by: &Answerer,
        now: Time,
    ) -> Result<(), DeskError> {
        self.record(id, answer, by.clone(), now, None).await
    }

    /// Answers a question with this token, which says who answers. A token alone is an approver: a process can take the name
    /// of any user of the machine.
    ///
    /// # Errors
    /// As those of [`Desk::answer`], and the token is one of an agent.
    pub async fn answer_by(
        &self,
        id: QuestionId,
        answer: &str,
        token: &KeptToken,
        from: &str,
        now: Time,
    ) -> Result<(), DeskError> {
        if token.role == Role::Agent {
            return Err(DeskError::OfAgent);
        }
        let (name, from) = (Some(token.name.clone()), from.to_owned());
        let approver = name.clone();
        let by = Answerer { name, from };
        self.record(id, answer, by, now, approver).await
    }

    /// Stores an answer if it counts, which has this name by a token.
    async fn record(
        &self,
        id: QuestionId,
        answer: &str,
        by: Answerer,
        at: Time,
        approver: Option<String>,
    ) -> Result<(), DeskError> {
        let answer = answer.to_owned();
        let given = KeptAnswer { answer, by, at };
        let with = (values![id.as_bytes()], given, approver);
        let answer = (self.tables).run(Begin::Write, with, move |tx, (ids, given, approver)| {
            let work = async move {
                change(tx).await?;
                let kept = tx.first(rows::READ, ids, rows::read).await?;
                let kept = kept.ok_or(DeskError::Unknown)?;
                let kept = kept.map_err(DeskError::unreadable)?;
                rows::admits(&kept, given, approver.as_deref())?;
                let values = values![json(given)?, given.at, id.as_bytes()];
                tx.execute(rows::ANSWER, &values).await?;
                Ok(())
            };
            work.boxed()
        });
        answer.await
    }

    /// Takes the answer to a question, once there is one, for the one who acts by it. An answer for one call is taken once, by
    /// one process.
    ///
    /// # Errors
    /// The question cannot be read.
    pub async fn take(&self, id: QuestionId, now: Time) -> Result<Option<Taken>, DeskError> {
        let Some(answer) = self.get(id).await?.and_then(|kept| kept.answer) else {
            return Ok(None);
        };
        let r#use = self.tables.execute(rows::USE, values![now, id.as_bytes()]);
        Ok(Some(match r#use.await? > 0 || !answer.is_for_one() {
            true => Taken::Answer(answer),
            false => Taken::UsedUp,
        }))
    }

    /// Takes a question back that has no answer; with `alive`, only if that is when it was last said that it is still asked.
    pub async fn withdraw(&self, id: QuestionId, alive: Option<Time>) -> Result<(), DeskError> {
        let with = match alive {
            None => (rows::WITHDRAW, Vec::from(values![id.as_bytes()])),
            Some(alive) => (rows::WITHDRAW_SILENT, values![id.as_bytes(), alive].into()),
        };
        let withdraw = (self.tables).run(Begin::Write, with, |tx, (sql, values)| {
            let work = async move {
                change(tx).await?;
                Ok::<_, Failed>(tx.execute(*sql, values).await?)
            };
            work.boxed()
        });
        let removed: u64 = withdraw.await?;
        self.removed(removed).await;
        Ok(())
    }

    /// Where they are kept, without the password of a database.
    pub fn place(&self) -> String {
        self.tables.place()
    }

    /// A number that changes with each question that is asked, answered or taken back, by any process. It does not change
    /// when a question expires.
    pub async fn version(&self) -> Result<i64, DeskError> {
        let version = (self.tables).rows(rows::VERSION, [], |mut row| row.take());
        Ok(version.await?.pop().unwrap_or_default())
    }

    /// Makes a token. Its secret is returned this once.
    ///
    /// # Errors
    /// The name is unusable or taken, or there are too many.
    pub async fn new_token(&self, new: &NewToken, now: Time) -> Result<String, DeskError> {
        Name::new(&new.name)?;
        let (secret, digest) = tokens::fresh()?;
        let (name, kept) = (new.name.clone(), json(&KeptToken::new(new, now))?);
        let with = (name, kept);
        let add = (self.tables).run(Begin::Write, with, move |tx, (name, kept)| {
            let work = async move {
                change(tx).await?;
                let names = tx.first(rows::NAMES, &values![name], pair).await?;
                rows::is_free(name, names.unwrap_or_default())?;
                let add = values![name, &digest, kept];
                tx.execute(rows::ADD_TOKEN, &add).await?;
                Ok(())
            };
            work.boxed()
        });
        add.await?;
        Ok(secret)
    }

    /// All tokens by name, those that have expired included. One that cannot be read admits no one, and is left out.
    pub async fn tokens(&self) -> Result<Vec<KeptToken>, DeskError> {
        let tokens = self.tables.rows(rows::TOKENS, [], |row| Ok(pair(row)));
        let tokens = tokens.await?.into_iter().flatten();
        Ok(tokens.flat_map(rows::token).collect())
    }

    /// Revokes a token. False if there is none of this name.
    pub async fn revoke(&self, name: &str) -> Result<bool, DeskError> {
        let removed = self.tables.execute(rows::REVOKE, values![name]).await?;
        self.removed(removed).await;
        Ok(removed > 0)
    }

    /// The token with this secret, if it is one that counts.
    ///
    /// # Errors
    /// The token cannot be read.
    pub async fn admit(&self, secret: &str, now: Time) -> Result<Option<KeptToken>, DeskError> {
        let digest = tokens::digest(secret);
        let found = self.tables.rows(rows::TOKEN, values![&digest], pair);
        let found = found.await?.pop().map(rows::token).transpose()?;
        let Some(mut token) = found.filter(|token| token.counts(now)) else {
            return Ok(None);
        };
        let minute = Time::from_millis(now.millis().saturating_sub(MINUTE_MS));
        if token.last_used.is_none_or(|used| used <= minute) {
            let used = values![now, &digest];
            self.tables.execute(rows::TOKEN_USED, used).await?;
            token.last_used = Some(now);
        }
        Ok(Some(token))
    }

    /// After a deletion of so many rows.
    async fn removed(&self, rows: u64) {
        if rows > 0 {
            self.tables.checkpoint().await;
        }
    }
}

/// Begins a change. In PostgreSQL the other changes wait for it: the row of the version is their lock.
async fn change(tx: &mut Tx<'_>) -> Result<(), Fault> {
    tx.execute(rows::CHANGED, &[]).await?;
    Ok(())
}
