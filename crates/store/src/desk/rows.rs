//! The rows of the file of questions and tokens.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::error::{
    DeskError, FEWEST_DIGITS, MOST_ANSWERED, MOST_TOKENS, MOST_WAITING, MOST_WAITING_BYTES, WEEK_MS,
};
use super::questions::{Answerer, KeptAnswer, KeptQuestion, NewQuestion, Questions, SILENCE_MS};
use super::tokens::{KeptToken, NewToken, Role};
use crate::database::{Schema, Stop};
use crate::{QuestionId, Time};

/// `alive` is when the process that asks last said so. `change` has one row, which is the version of the questions.
pub(super) const SCHEMA: Schema = Schema {
    application: 0x534c_4453,
    version: 1,
    create: "
CREATE TABLE question (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  id BLOB NOT NULL UNIQUE CHECK (length(id) = 16),
  front TEXT NOT NULL,
  session TEXT NOT NULL,
  conversation TEXT NOT NULL,
  asker TEXT,
  app TEXT NOT NULL,
  tool TEXT NOT NULL,
  effect TEXT NOT NULL,
  choices TEXT NOT NULL,
  approvers TEXT NOT NULL,
  shown TEXT NOT NULL,
  bytes INTEGER NOT NULL,
  asked INTEGER NOT NULL,
  expires INTEGER NOT NULL,
  alive INTEGER NOT NULL,
  answer TEXT,
  answered_by TEXT,
  answered_from TEXT CHECK ((answered_from IS NULL) = (answer IS NULL)),
  answered INTEGER CHECK ((answered IS NULL) = (answer IS NULL))
) STRICT;
CREATE INDEX question_by_answer ON question (answered);
CREATE TABLE token (
  name TEXT NOT NULL PRIMARY KEY,
  digest BLOB NOT NULL UNIQUE CHECK (length(digest) = 32),
  role TEXT NOT NULL CHECK (role IN ('approver')),
  apps TEXT NOT NULL,
  effects TEXT NOT NULL,
  created INTEGER NOT NULL,
  expires INTEGER,
  last_used INTEGER
) STRICT;
CREATE TABLE change (count INTEGER NOT NULL) STRICT;
INSERT INTO change VALUES (0);
",
    upgrade: "",
};

/// The columns of a question. Its id is first, so that an error can name it.
const QUESTION: &str = "id, asked, alive, front, session, conversation, asker, app, tool, effect, choices, approvers, shown,
  expires, answer, answered_by, answered_from, answered";

/// The columns of a token.
const TOKEN: &str = "name, role, apps, effects, created, expires, last_used";

/// What waits at `?1`; its process was heard of after `?2`.
const WAITS: &str = "answered IS NULL AND expires > ?1 AND alive > ?2";

type Failed = Stop<DeskError>;

impl From<DeskError> for Failed {
    fn from(error: DeskError) -> Self {
        Self::Refused(error)
    }
}

/// Stores a question. Returns whether old ones were removed.
pub(super) fn insert(
    connection: &Connection,
    id: QuestionId,
    new: &NewQuestion,
    now: Time,
) -> Result<bool, Failed> {
    let (now, heard) = (now.millis(), heard(now));
    let gone = connection.execute(
        &format!("DELETE FROM question WHERE answered IS NULL AND NOT ({WAITS})"),
        [now, heard],
    )?;
    let old = connection.execute(
        "DELETE FROM question WHERE answered <= ?1 OR number IN
           (SELECT number FROM question WHERE answered IS NOT NULL ORDER BY answered DESC, number DESC LIMIT -1 OFFSET ?2)",
        params![now.saturating_sub(WEEK_MS), signed(MOST_ANSWERED)],
    )?;
    let (count, bytes): (i64, i64) = connection.query_row(
        "SELECT count(*), coalesce(sum(bytes), 0) FROM question WHERE answered IS NULL",
        [],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let all = bytes.saturating_add(signed(new.bytes()));
    if count >= signed(MOST_WAITING) || all > signed(MOST_WAITING_BYTES) {
        return Err(DeskError::TooMany.into());
    }
    connection.execute(
        "INSERT INTO question (id, front, session, conversation, asker, app, tool, effect, choices, approvers, shown, bytes,
           asked, alive, expires)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?13, ?14)",
        params![
            id.as_bytes(),
            new.front,
            new.session,
            new.conversation,
            new.asker,
            new.app,
            new.tool,
            new.effect,
            list(&new.choices),
            list(&new.approvers),
            new.shown,
            signed(new.bytes()),
            now,
            new.expires.millis(),
        ],
    )?;
    changed(connection)?;
    Ok(gone + old > 0)
}

pub(super) fn still_asks(
    connection: &Connection,
    ids: &[QuestionId],
    now: Time,
) -> Result<(), Failed> {
    let mut update = connection.prepare_cached("UPDATE question SET alive = ?2 WHERE id = ?1")?;
    for id in ids {
        update.execute(params![id.as_bytes(), now.millis()])?;
    }
    Ok(())
}

pub(super) fn waiting(connection: &Connection, now: Time) -> Result<Questions, Failed> {
    let select = format!("SELECT {QUESTION} FROM question WHERE {WAITS} ORDER BY number");
    listed(connection, &select, [now.millis(), heard(now)])
}

pub(super) fn recent(connection: &Connection, most: usize) -> Result<Questions, Failed> {
    let select = format!(
        "SELECT {QUESTION} FROM question WHERE answered IS NOT NULL ORDER BY answered DESC, number DESC LIMIT ?1"
    );
    listed(connection, &select, [signed(most)])
}

pub(super) fn find(connection: &Connection, id: &str) -> Result<Option<KeptQuestion>, Failed> {
    if let Ok(id) = id.parse() {
        return get(connection, id);
    }
    let is_hex = id.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_hex || id.len() < FEWEST_DIGITS {
        return Err(DeskError::Ambiguous(id.to_owned()).into());
    }
    // Digits only, so nothing in it is a pattern.
    let mut select = connection
        .prepare_cached("SELECT id FROM question WHERE hex(id) LIKE ?1 || '%' LIMIT 2")?;
    let ids = select.query_map([id], |row| row.get(0).map(QuestionId::from_bytes))?;
    match ids.collect::<Result<Vec<_>, _>>()?.as_slice() {
        [] => Ok(None),
        [only] => get(connection, *only),
        _ => Err(DeskError::Ambiguous(id.to_owned()).into()),
    }
}

pub(super) fn get(connection: &Connection, id: QuestionId) -> Result<Option<KeptQuestion>, Failed> {
    let select = format!("SELECT {QUESTION} FROM question WHERE id = ?1");
    let mut select = connection.prepare_cached(&select)?;
    let mut rows = select.query([id.as_bytes()])?;
    let row = rows.next()?;
    Ok(row
        .map(question)
        .transpose()
        .map_err(|reason| unreadable(id, &reason))?)
}

/// Stores the answer to a question that waits.
pub(super) fn answer(
    connection: &Connection,
    id: QuestionId,
    answer: &str,
    by: &Answerer,
    now: Time,
) -> Result<(), Failed> {
    connection.execute(
        "UPDATE question SET answer = ?2, answered_by = ?3, answered_from = ?4, answered = ?5 WHERE id = ?1",
        params![id.as_bytes(), answer, by.name, by.from, now.millis()],
    )?;
    changed(connection)
}

pub(super) fn answer_to(
    connection: &Connection,
    id: QuestionId,
) -> Result<Option<KeptAnswer>, Failed> {
    let mut select = connection.prepare_cached(
        "SELECT answer, answered_by, answered_from, answered FROM question WHERE id = ?1",
    )?;
    let answer = select
        .query_row([id.as_bytes()], |row| answered(row, 0))
        .optional();
    Ok(answer.map_err(|reason| unreadable(id, &reason))?.flatten())
}

/// Removes a question without an answer.
pub(super) fn withdraw(connection: &Connection, id: QuestionId) -> Result<bool, Failed> {
    let sql = "DELETE FROM question WHERE id = ?1 AND answered IS NULL";
    let is_removed = connection.execute(sql, [id.as_bytes()])? > 0;
    if is_removed {
        changed(connection)?;
    }
    Ok(is_removed)
}

pub(super) fn version(connection: &Connection) -> Result<i64, Failed> {
    Ok(connection.query_row("SELECT count FROM change", [], |row| row.get(0))?)
}

pub(super) fn insert_token(
    connection: &Connection,
    new: &NewToken,
    digest: [u8; 32],
    now: Time,
) -> Result<(), Failed> {
    let (same, count): (bool, i64) = connection.query_row(
        "SELECT coalesce(max(name = ?1), 0), count(*) FROM token",
        [&new.name],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    if same {
        return Err(DeskError::NameTaken(new.name.clone()).into());
    }
    if count >= signed(MOST_TOKENS) {
        return Err(DeskError::TooManyTokens.into());
    }
    connection.execute(
        "INSERT INTO token (name, digest, role, apps, effects, created, expires) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![
            new.name,
            digest,
            new.role.name(),
            list(&new.apps),
            list(&new.effects),
            now.millis(),
            new.expires.map(Time::millis),
        ],
    )?;
    Ok(())
}

pub(super) fn tokens(connection: &Connection) -> Result<Vec<KeptToken>, Failed> {
    let select = format!("SELECT {TOKEN} FROM token ORDER BY name");
    let mut select = connection.prepare_cached(&select)?;
    let mut rows = select.query([])?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        all.extend(kept_token(row));
    }
    Ok(all)
}

pub(super) fn token(
    connection: &Connection,
    digest: [u8; 32],
) -> Result<Option<KeptToken>, Failed> {
    let select = format!("SELECT {TOKEN} FROM token WHERE digest = ?1");
    let mut select = connection.prepare_cached(&select)?;
    Ok(select.query_row([digest], kept_token).optional()?)
}

pub(super) fn used(connection: &Connection, digest: [u8; 32], now: Time) -> Result<(), Failed> {
    let sql = "UPDATE token SET last_used = ?2 WHERE digest = ?1";
    connection.execute(sql, params![digest, now.millis()])?;
    Ok(())
}

pub(super) fn revoke(connection: &Connection, name: &str) -> Result<bool, Failed> {
    Ok(connection.execute("DELETE FROM token WHERE name = ?1", [name])? > 0)
}

fn listed<const N: usize>(
    connection: &Connection,
    select: &str,
    parameters: [i64; N],
) -> Result<Questions, Failed> {
    let mut select = connection.prepare_cached(select)?;
    let mut rows = select.query(rusqlite::params_from_iter(parameters))?;
    let mut listed = Questions::default();
    while let Some(row) = rows.next()? {
        match question(row) {
            Ok(question) => listed.all.push(question),
            // One row that another program has damaged hides no other question.
            Err(_) => {
                let id = row
                    .get(0)
                    .map(|bytes| QuestionId::from_bytes(bytes).to_string());
                listed
                    .unreadable
                    .push(id.unwrap_or_else(|_| "a question without an id".to_owned()));
            }
        }
    }
    Ok(listed)
}

/// The columns [`QUESTION`].
fn question(row: &Row<'_>) -> rusqlite::Result<KeptQuestion> {
    Ok(KeptQuestion {
        id: QuestionId::from_bytes(row.get(0)?),
        asked: Time::from_millis(row.get(1)?),
        alive: Time::from_millis(row.get(2)?),
        question: NewQuestion {
            front: row.get(3)?,
            session: row.get(4)?,
            conversation: row.get(5)?,
            asker: row.get(6)?,
            app: row.get(7)?,
            tool: row.get(8)?,
            effect: row.get(9)?,
            choices: names(row, 10)?,
            approvers: names(row, 11)?,
            shown: row.get(12)?,
            expires: Time::from_millis(row.get(13)?),
        },
        answer: answered(row, 14)?,
    })
}

/// An answer's columns, from this one on.
fn answered(row: &Row<'_>, first: usize) -> rusqlite::Result<Option<KeptAnswer>> {
    let Some(answer) = row.get(first)? else {
        return Ok(None);
    };
    let by = Answerer {
        name: row.get(first + 1)?,
        from: row.get(first + 2)?,
    };
    let at = Time::from_millis(row.get(first + 3)?);
    Ok(Some(KeptAnswer { answer, by, at }))
}

/// The columns [`TOKEN`].
fn kept_token(row: &Row<'_>) -> rusqlite::Result<KeptToken> {
    let role: String = row.get(1)?;
    let time = |millis: Option<i64>| millis.map(Time::from_millis);
    Ok(KeptToken {
        name: row.get(0)?,
        role: match role == Role::Approver.name() {
            true => Role::Approver,
            false => return Err(damaged(1, "its role is unknown".into())),
        },
        apps: names(row, 2)?,
        effects: names(row, 3)?,
        created: Time::from_millis(row.get(4)?),
        expires: time(row.get(5)?),
        last_used: time(row.get(6)?),
    })
}

fn changed(connection: &Connection) -> Result<(), Failed> {
    connection.execute("UPDATE change SET count = count + 1", [])?;
    Ok(())
}

/// What was heard of a process before this is too long ago.
fn heard(now: Time) -> i64 {
    now.millis().saturating_sub(SILENCE_MS)
}

fn list(names: &[String]) -> String {
    serde_json::Value::from(names).to_string()
}

fn names(row: &Row<'_>, column: usize) -> rusqlite::Result<Vec<String>> {
    let names: String = row.get(column)?;
    serde_json::from_str(&names).map_err(|error| damaged(column, error.into()))
}

fn damaged(column: usize, why: Box<dyn std::error::Error + Send + Sync>) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, why)
}

fn unreadable(id: QuestionId, reason: &rusqlite::Error) -> DeskError {
    DeskError::Unreadable(id.to_string(), reason.to_string())
}

fn signed(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
