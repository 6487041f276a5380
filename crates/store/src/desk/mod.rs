//! Questions that wait for an answer, and the tokens of agents, of those who may answer, and of admins.
//!
//! All Sluice processes of one user share one file, or all replicas of a service one database. A question is answered once, by
//! the first who answers it, and an answer for one call is taken once, by the first who takes it.

mod error;
mod postgres;
mod questions;
mod rows;
mod sqlite;
mod tokens;

use std::path::Path;
use std::sync::Arc;

use error::{FEWEST_DIGITS, MOST_BYTES};
use rows::{NewRow, Rows, json};

use crate::database::Database;
use crate::postgres::Postgres;
use crate::{Name, QuestionId, Time};

pub use error::DeskError;
pub use questions::{
    Answerer, Asked, KeptAnswer, KeptQuestion, NewQuestion, QuestionHead, QuestionKey, Questions,
    Taken,
};
pub(crate) use sqlite::SCHEMA;
pub use tokens::{KeptToken, NewToken, Role};

/// How often the use of a token is recorded, in milliseconds: a page that looks each second must not write each second.
const MINUTE_MS: i64 = 60 * 1000;

/// The questions and tokens of one user on one machine, or of a service. Several processes may have them open.
///
/// Each method is one transaction, and fails if the file or the database cannot be used.
#[derive(Debug, Clone)]
pub struct Desk {
    rows: Arc<dyn Rows>,
}

impl Desk {
    /// Opens the file, or creates it readable by its owner only.
    ///
    /// # Errors
    /// Other users could read or change the file, or it is not a file of this version.
    pub fn open(path: &Path) -> Result<Self, DeskError> {
        let file = Database::open(path, &SCHEMA)?;
        Ok(Self::sqlite(Arc::new(file)))
    }

    /// A desk of this process alone: where there is no folder for the file.
    ///
    /// # Errors
    /// SQLite fails.
    pub fn in_memory() -> Result<Self, DeskError> {
        let file = Database::in_memory(&SCHEMA)?;
        Ok(Self::sqlite(Arc::new(file)))
    }

    pub(crate) fn sqlite(file: Arc<Database>) -> Self {
        let rows = Arc::new(sqlite::Sqlite(file));
        Self { rows }
    }

    pub(crate) fn postgres(postgres: Arc<Postgres>) -> Self {
        let rows = Arc::new(postgres::Tables(postgres));
        Self { rows }
    }

    /// Puts a question to all who may answer. With a key that waits already, or whose answer was not taken yet, this is the
    /// question from before. Removes what is of no use any more.
    ///
    /// # Errors
    /// Too many wait, or it is too long.
    pub async fn ask(&self, new: &NewQuestion, now: Time) -> Result<Asked, DeskError> {
        let (question, id) = (json(new)?, QuestionId::random().map_err(DeskError::System)?);
        if question.len() > MOST_BYTES {
            return Err(DeskError::TooLarge);
        }
        let row = NewRow {
            head: new.head(id),
            key: new.key,
            expires: new.expires,
            question,
        };
        self.rows.ask(row, now).await
    }

    /// Says that their process still waits for these questions. Every few seconds.
    ///
    /// # Errors
    /// The store fails.
    pub async fn still_asks(&self, ids: &[QuestionId], now: Time) -> Result<(), DeskError> {
        self.rows.still_asks(ids, now).await
    }

    /// The questions that wait, the oldest first.
    ///
    /// # Errors
    /// The store fails.
    pub async fn waiting(&self, now: Time) -> Result<Questions, DeskError> {
        self.waiting_for(now, |_| true).await
    }

    /// Those of them that are to be seen. Others are not read, so that the time tells little of them.
    ///
    /// # Errors
    /// The store fails.
    pub async fn waiting_for(
        &self,
        now: Time,
        sees: impl Fn(&QuestionHead) -> bool,
    ) -> Result<Questions, DeskError> {
        let heads = self.rows.waiting(now).await?.into_iter();
        let seen: Vec<QuestionId> = heads.filter(sees).map(|head| head.id).collect();
        self.read(&seen).await
    }

    /// Up to so many answered questions of the last week that are to be seen, the newest first.
    ///
    /// # Errors
    /// The store fails.
    pub async fn recent(
        &self,
        most: usize,
        sees: impl Fn(&QuestionHead) -> bool,
    ) -> Result<Questions, DeskError> {
        let heads = self.rows.answered().await?.into_iter();
        let seen = heads.filter(sees).take(most).map(|head| head.id);
        self.read(&seen.collect::<Vec<_>>()).await
    }

    /// Those of these questions that are there, in this order.
    ///
    /// # Errors
    /// The store fails.
    pub async fn read(&self, ids: &[QuestionId]) -> Result<Questions, DeskError> {
        let mut questions = Questions::default();
        if ids.is_empty() {
            return Ok(questions);
        }
        for read in self.rows.questions(ids).await? {
            match read {
                Ok(kept) => questions.all.push(kept),
                Err((id, _)) => questions.unreadable.push(id.to_string()),
            }
        }
        Ok(questions)
    }

    async fn get(&self, id: QuestionId) -> Result<Option<KeptQuestion>, DeskError> {
        let read = self.rows.questions(&[id]).await?.pop();
        read.transpose().map_err(DeskError::unreadable)
    }

    /// The question with this id, or the one whose id begins like this. It may be answered, or wait no longer.
    ///
    /// # Errors
    /// Several begin like this, or the question cannot be read.
    pub async fn find(&self, id: &str) -> Result<Option<KeptQuestion>, DeskError> {
        let is_hex = id.bytes().all(|byte| byte.is_ascii_hexdigit());
        let ambiguous = || DeskError::Ambiguous(id.to_owned());
        if !is_hex || id.len() < FEWEST_DIGITS {
            return Err(ambiguous());
        }
        match self
            .rows
            .beginning(&id.to_ascii_lowercase())
            .await?
            .as_slice()
        {
            [] => Ok(None),
            [only] => self.get(*only).await,
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
        let given = KeptAnswer {
            answer: answer.to_owned(),
            by: by.clone(),
            at: now,
        };
        self.rows.answer(id, given, None).await
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
        let by = Answerer {
            name: Some(token.name.clone()),
            from: from.to_owned(),
        };
        let given = KeptAnswer {
            answer: answer.to_owned(),
            by,
            at: now,
        };
        self.rows.answer(id, given, Some(token.name.clone())).await
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
        let is_first = self.rows.r#use(id, now).await?;
        Ok(Some(match is_first || !answer.is_for_one() {
            true => Taken::Answer(answer),
            false => Taken::UsedUp,
        }))
    }

    /// Takes a question back that has no answer; with `alive`, only if that is when it was last said that it is still asked.
    ///
    /// # Errors
    /// The store fails.
    pub async fn withdraw(&self, id: QuestionId, alive: Option<Time>) -> Result<(), DeskError> {
        self.rows.withdraw(id, alive).await
    }

    /// A number that changes with each question that is asked, answered or taken back, by any process. It does not change
    /// when a question expires.
    ///
    /// # Errors
    /// The store fails.
    pub async fn version(&self) -> Result<i64, DeskError> {
        self.rows.version().await
    }

    /// Makes a token. Its secret is returned this once.
    ///
    /// # Errors
    /// The name is unusable or taken, or there are too many.
    pub async fn new_token(&self, new: &NewToken, now: Time) -> Result<String, DeskError> {
        Name::new(&new.name)?;
        let (secret, digest) = tokens::fresh()?;
        let token = KeptToken::new(new, now);
        self.rows.add_token(&token, digest).await?;
        Ok(secret)
    }

    /// All tokens by name, those that have expired included. One that cannot be read admits no one, and is left out.
    ///
    /// # Errors
    /// The store fails.
    pub async fn tokens(&self) -> Result<Vec<KeptToken>, DeskError> {
        self.rows.tokens().await
    }

    /// Revokes a token. False if there is none of this name.
    ///
    /// # Errors
    /// The store fails.
    pub async fn revoke(&self, name: &str) -> Result<bool, DeskError> {
        self.rows.revoke(name).await
    }

    /// The token with this secret, if it is one that counts.
    ///
    /// # Errors
    /// The token cannot be read.
    pub async fn admit(&self, secret: &str, now: Time) -> Result<Option<KeptToken>, DeskError> {
        let digest = tokens::digest(secret);
        let found = self.rows.token(digest).await?;
        let Some(mut token) = found.filter(|token| token.counts(now)) else {
            return Ok(None);
        };
        let minute = Time::from_millis(now.millis().saturating_sub(MINUTE_MS));
        if token.last_used.is_none_or(|used| used <= minute) {
            self.rows.token_used(digest, now).await?;
            token.last_used = Some(now);
        }
        Ok(Some(token))
    }
}
