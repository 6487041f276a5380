//! The statements and rows of the desk.

use serde::Serialize;

use super::error::{DeskError, MOST_TOKENS, MOST_WAITING, MOST_WAITING_BYTES};
use super::questions::{KeptAnswer, KeptQuestion, NewQuestion, QuestionHead, SILENCE_MS};
use super::tokens::KeptToken;
use crate::database::{Fault, Schema};
use crate::tables::{Column, Row, Value, values};
use crate::{QuestionId, Time};

/// The tables of a file of their own.
pub(crate) const SCHEMA: Schema = Schema {
    application: 0x534c_4453,
    version: 2,
    create: include_str!("../../migrations/sqlite/2_desk.sql"),
    upgrade: include_str!("../../migrations/sqlite/2_desk_upgrade.sql"),
};

/// The answer that everyone may give who may answer at all.
const NO: &str = "no";
/// How long answered questions are kept, in milliseconds, and how many.
const WEEK_MS: i64 = 7 * 24 * 3600 * 1000;
const MOST_ANSWERED: i64 = 1000;
/// How long a question is kept whose process is silent, in milliseconds: a machine may have slept.
const HOUR_MS: i64 = 3600 * 1000;

/// A question, or why the one with this id cannot be read.
pub(super) type Read = Result<KeptQuestion, (QuestionId, String)>;

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
pub(super) const BEAT: &str = "
WITH RECURSIVE nth (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM nth WHERE 16 * (n + 2) <= length($1))
UPDATE question SET alive = $2 WHERE id IN (SELECT substr($1, 16 * n + 1, 16) FROM nth)";
/// What waits at `$1`; its process was heard of after `$2`, or its key keeps it.
pub(super) const WAITING: &str = "
SELECT id, app, effect, tenant FROM question
  WHERE answered IS NULL AND expires > $1 AND (key IS NOT NULL OR alive > $2) ORDER BY number";
pub(super) const ANSWERED: &str = "
SELECT id, app, effect, tenant FROM question WHERE answered IS NOT NULL ORDER BY answered DESC, number DESC";
/// Those of the ids of 16 bytes each in `$1` that are there, in this order.
pub(super) const READ: &str = "
WITH RECURSIVE nth (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM nth WHERE 16 * (n + 2) <= length($1))
SELECT id, key, question, asked, alive, answer FROM nth JOIN question ON id = substr($1, 16 * n + 1, 16) ORDER BY n";
pub(super) const BETWEEN: &str = "SELECT id FROM question WHERE id BETWEEN $1 AND $2 LIMIT 2";
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
pub(super) fn prune(now: Time) -> [Value; 4] {
    let before = |span| now.millis().saturating_sub(span);
    values![before(WEEK_MS), now, before(HOUR_MS), MOST_ANSWERED]
}

/// The times of [`WAITING`] and [`LOAD`].
pub(super) fn waits(now: Time) -> [Value; 2] {
    values![now, now.millis().saturating_sub(SILENCE_MS)]
}

/// The ids of [`READ`] and [`BEAT`].
pub(super) fn ids(ids: &[QuestionId]) -> Value {
    let bytes = ids.iter().flat_map(QuestionId::as_bytes);
    Value::Bytes(Some(bytes.copied().collect()))
}

pub(super) fn head(mut row: Row) -> Result<QuestionHead, Fault> {
    Ok(QuestionHead {
        id: QuestionId::from_bytes(row.take()?),
        app: row.take()?,
        effects: row.take()?,
        tenant: row.take()?,
    })
}

/// A question of [`READ`]. One that another program has damaged hides no other.
pub(super) fn read(mut row: Row) -> Result<Read, Fault> {
    let id = QuestionId::from_bytes(row.take()?);
    Ok(question(id, row).map_err(|error| (id, error.to_string())))
}

fn question(id: QuestionId, mut row: Row) -> Result<KeptQuestion, Box<dyn std::error::Error>> {
    let (key, question): (_, String) = (row.take()?, row.take()?);
    let mut question: NewQuestion = serde_json::from_str(&question)?;
    question.key = key;
    let (asked, alive) = (row.take()?, row.take()?);
    let answer: Option<String> = row.take()?;
    let answer = answer.as_deref().map(serde_json::from_str).transpose()?;
    Ok(KeptQuestion {
        id,
        question,
        asked,
        alive,
        answer,
    })
}

/// A token from its JSON and the time of its last use.
pub(super) fn token((json, last_used): (String, Option<Time>)) -> Result<KeptToken, DeskError> {
    let token = serde_json::from_str::<KeptToken>(&json);
    let token = token.map_err(|error| DeskError::BadToken(error.to_string()))?;
    Ok(KeptToken { last_used, ..token })
}

/// Two columns.
pub(super) fn pair<A: Column, B: Column>(mut row: Row) -> Result<(A, B), Fault> {
    Ok((row.take()?, row.take()?))
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
pub(super) fn is_free(name: &str, (count, taken): (i64, i64)) -> Result<(), DeskError> {
    match (taken > 0, count >= MOST_TOKENS) {
        (true, _) => Err(DeskError::NameTaken(name.to_owned())),
        (false, true) => Err(DeskError::TooManyTokens),
        (false, false) => Ok(()),
    }
}

/// Whether there is room for a question, where so many questions with so many characters wait.
pub(super) fn fits(question: &str, (count, length): (i64, i64)) -> Result<(), DeskError> {
    let own = i64::try_from(question.len()).unwrap_or(i64::MAX);
    match count >= MOST_WAITING || length.saturating_add(own) > MOST_WAITING_BYTES {
        true => Err(DeskError::TooMany),
        false => Ok(()),
    }
}
