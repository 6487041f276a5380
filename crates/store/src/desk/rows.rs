//! What a back end of the desk does, and the statements and rows that all of them share.
//!
//! SQLite reads `$1` as the first parameter where each statement names its parameters in ascending order, so both back ends
//! run the same text.

use async_trait::async_trait;
use serde::Serialize;

use super::error::{DeskError, MOST_TOKENS, MOST_WAITING, MOST_WAITING_BYTES};
use super::questions::{
    Asked, KeptAnswer, KeptQuestion, NewQuestion, QuestionHead, QuestionKey, SILENCE_MS,
};
use super::tokens::KeptToken;
use crate::{QuestionId, Time};

/// The answer that everyone may give who may answer at all.
const NO: &str = "no";
/// How long answered questions are kept, in milliseconds, and how many.
const WEEK_MS: i64 = 7 * 24 * 3600 * 1000;
pub(super) const MOST_ANSWERED: i64 = 1000;
/// How long a question is kept whose process is silent, in milliseconds: a machine may have slept.
const HOUR_MS: i64 = 3600 * 1000;

/// Where the rows are. Each method is one transaction.
#[async_trait]
pub(super) trait Rows: std::fmt::Debug + Send + Sync {
    /// Adds a question, unless one with its key waits, or has an answer that waits for its request. Removes what is of no use.
    async fn ask(&self, row: NewRow, now: Time) -> Result<Asked, DeskError>;
    async fn still_asks(&self, ids: &[QuestionId], now: Time) -> Result<(), DeskError>;
    /// Those that wait, oldest first.
    async fn waiting(&self, now: Time) -> Result<Vec<QuestionHead>, DeskError>;
    /// Those that are answered, newest first.
    async fn answered(&self) -> Result<Vec<QuestionHead>, DeskError>;
    /// Those of these that are there, in this order, each with why it cannot be read.
    async fn questions(&self, ids: &[QuestionId]) -> Result<Vec<Read>, DeskError>;
    /// Up to two ids that begin with these hexadecimal digits in lower case.
    async fn beginning(&self, digits: &str) -> Result<Vec<QuestionId>, DeskError>;
    /// Stores the answer if it counts ([`admits`]).
    async fn answer(
        &self,
        id: QuestionId,
        given: KeptAnswer,
        approver: Option<String>,
    ) -> Result<(), DeskError>;
    /// Marks an answer as used. False if there is none, or it is used.
    async fn r#use(&self, id: QuestionId, now: Time) -> Result<bool, DeskError>;
    /// Takes a question back that has no answer; with `alive`, only if no process has said since then that it asks.
    async fn withdraw(&self, id: QuestionId, alive: Option<Time>) -> Result<(), DeskError>;
    async fn version(&self) -> Result<i64, DeskError>;
    async fn add_token(&self, token: &KeptToken, digest: [u8; 32]) -> Result<(), DeskError>;
    async fn tokens(&self) -> Result<Vec<KeptToken>, DeskError>;
    async fn revoke(&self, name: &str) -> Result<bool, DeskError>;
    async fn token(&self, digest: [u8; 32]) -> Result<Option<KeptToken>, DeskError>;
    async fn token_used(&self, digest: [u8; 32], now: Time) -> Result<(), DeskError>;
}

/// A question, or why the one with this id cannot be read.
pub(super) type Read = Result<KeptQuestion, (QuestionId, String)>;

/// A question that is about to be stored.
#[derive(Debug, Clone)]
pub(super) struct NewRow {
    pub(super) head: QuestionHead,
    pub(super) key: Option<QuestionKey>,
    pub(super) expires: Time,
    pub(super) question: String,
}

/// The columns of a question.
pub(super) struct Row {
    pub(super) id: [u8; 16],
    pub(super) key: Option<[u8; 32]>,
    pub(super) question: String,
    pub(super) asked: i64,
    pub(super) alive: i64,
    pub(super) answer: Option<String>,
}

/// Removes old answers, what has expired, what its process has left, and answers of which there are too many.
pub(super) const PRUNE: &str = "
DELETE FROM question WHERE answered <= $1 OR answered IS NULL AND (expires <= $2 OR key IS NULL AND alive <= $3) OR number IN
  (SELECT number FROM question WHERE answered IS NOT NULL ORDER BY answered DESC LIMIT 1000000 OFFSET $4)";
/// The question with a key that waits, or whose answer waits for its request: as long as the question itself could.
pub(super) const BY_KEY: &str = "
SELECT id, expires FROM question WHERE key = $1 AND
  (answered IS NULL AND expires > $2 OR answered IS NOT NULL AND used IS NULL AND expires + (expires - asked) > $2)
  ORDER BY number DESC LIMIT 1";
pub(super) const LOAD: &str = "
SELECT count(*), coalesce(sum(length(question)), 0) FROM question
  WHERE answered IS NULL AND expires > $1 AND (key IS NOT NULL OR alive > $2)";
pub(super) const INSERT: &str = "
INSERT INTO question (id, key, app, effect, tenant, question, asked, alive, expires) VALUES ($1, $2, $3, $4, $5, $6, $7, $7, $8)";
pub(super) const BEAT: &str = "UPDATE question SET alive = $1 WHERE id = $2";
/// What waits at `$1`; its process was heard of after `$2`, or its key keeps it.
pub(super) const WAITING: &str = "
SELECT id, app, effect, tenant FROM question
  WHERE answered IS NULL AND expires > $1 AND (key IS NOT NULL OR alive > $2) ORDER BY number";
pub(super) const ANSWERED: &str = "
SELECT id, app, effect, tenant FROM question WHERE answered IS NOT NULL ORDER BY answered DESC, number DESC";
pub(super) const READ: &str =
    "SELECT id, key, question, asked, alive, answer FROM question WHERE id = $1";
pub(super) const ANSWER: &str = "UPDATE question SET answer = $1, answered = $2 WHERE id = $3";
pub(super) const USE: &str =
    "UPDATE question SET used = $1 WHERE id = $2 AND answered IS NOT NULL AND used IS NULL";
pub(super) const WITHDRAW: &str = "DELETE FROM question WHERE id = $1 AND answered IS NULL";
pub(super) const WITHDRAW_SILENT: &str =
    "DELETE FROM question WHERE id = $1 AND answered IS NULL AND alive = $2";
pub(super) const CHANGED: &str = "UPDATE change SET count = count + 1";
pub(super) const VERSION: &str = "SELECT count FROM change";
pub(super) const NAMES: &str = "SELECT count(*), count(*) FILTER (WHERE name = $1) FROM token";
pub(super) const ADD_TOKEN: &str = "INSERT INTO token (name, digest, token) VALUES ($1, $2, $3)";
pub(super) const TOKENS: &str = "SELECT token, last_used FROM token ORDER BY name";
pub(super) const REVOKE: &str = "DELETE FROM token WHERE name = $1";
pub(super) const TOKEN: &str = "SELECT token, last_used FROM token WHERE digest = $1";
pub(super) const TOKEN_USED: &str = "UPDATE token SET last_used = $1 WHERE digest = $2";

/// The times of [`PRUNE`].
pub(super) fn prune(now: Time) -> [i64; 4] {
    let ms = now.millis();
    let [week, hour] = [WEEK_MS, HOUR_MS].map(|span| ms.saturating_sub(span));
    [week, ms, hour, MOST_ANSWERED]
}

/// The times of [`WAITING`] and [`LOAD`].
pub(super) fn waits(now: Time) -> [i64; 2] {
    [now.millis(), now.millis().saturating_sub(SILENCE_MS)]
}

impl Row {
    /// One that another program has damaged hides no other.
    pub(super) fn read(self) -> Read {
        let id = QuestionId::from_bytes(self.id);
        let damaged = |error: serde_json::Error| (id, error.to_string());
        let mut question: NewQuestion = serde_json::from_str(&self.question).map_err(damaged)?;
        question.key = self.key;
        let answer = self.answer.as_deref().map(serde_json::from_str);
        Ok(KeptQuestion {
            id,
            question,
            asked: Time::from_millis(self.asked),
            alive: Time::from_millis(self.alive),
            answer: answer.transpose().map_err(damaged)?,
        })
    }
}

/// A token from its columns.
pub(super) fn token(json: &str, last_used: Option<i64>) -> Result<KeptToken, DeskError> {
    let token = serde_json::from_str::<KeptToken>(json);
    Ok(KeptToken {
        last_used: last_used.map(Time::from_millis),
        ..token.map_err(|error| DeskError::BadToken(error.to_string()))?
    })
}

pub(super) fn json(value: &impl Serialize) -> Result<String, DeskError> {
    serde_json::to_string(value).map_err(|error| DeskError::System(error.into()))
}

/// Whether this answer counts, which has this name by a token.
pub(super) fn admits(
    kept: &KeptQuestion,
    given: &KeptAnswer,
    approver: Option<&str>,
) -> Result<(), DeskError> {
    let question = &kept.question;
    if let Some(before) = &kept.answer {
        return Err(DeskError::Answered(before.clone()));
    }
    match () {
        () if given.at >= question.expires => Err(DeskError::Expired),
        () if kept.is_left(given.at) => Err(DeskError::Left),
        () if !question.choices.contains(&given.answer) => {
            Err(DeskError::NotOffered(question.choices.clone()))
        }
        () if question.may_allow(approver) || given.answer == NO => Ok(()),
        () if question.asker.is_none() => Err(DeskError::AskerUnknown),
        () => Err(DeskError::NotAllowed(question.approvers.clone())),
    }
}

/// Whether there is room for a token of this name, among so many of which so many have it.
pub(super) fn is_free(name: &str, count: i64, taken: i64) -> Result<(), DeskError> {
    match (taken > 0, count >= MOST_TOKENS) {
        (true, _) => Err(DeskError::NameTaken(name.to_owned())),
        (false, true) => Err(DeskError::TooManyTokens),
        (false, false) => Ok(()),
    }
}

impl NewRow {
    /// Whether there is room, where so many questions with so many characters wait.
    pub(super) fn fits(&self, (count, length): (i64, i64)) -> Result<(), DeskError> {
        let own = i64::try_from(self.question.len()).unwrap_or(i64::MAX);
        match count >= MOST_WAITING || length.saturating_add(own) > MOST_WAITING_BYTES {
            true => Err(DeskError::TooMany),
            false => Ok(()),
        }
    }
}

impl Asked {
    pub(super) fn first(id: QuestionId, expires: Time) -> Self {
        Self {
            id,
            expires,
            is_new: true,
        }
    }

    pub(super) fn again(id: [u8; 16], expires: i64) -> Self {
        Self {
            id: QuestionId::from_bytes(id),
            expires: Time::from_millis(expires),
            is_new: false,
        }
    }
}
