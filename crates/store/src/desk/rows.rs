//! The tables of questions and tokens, and their rows.

use rusqlite::types::Type;
use rusqlite::{Connection, Row};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::DeskError;
use super::questions::{KeptQuestion, Questions};
use super::tokens::KeptToken;
use crate::database::{Schema, Stop};
use crate::{QuestionId, Time};

/// `alive` is when the process that asks last said so. What is long comes last, so that the rest is read without it. `change` has one row, which is the version of the questions.
pub(super) const SCHEMA: Schema = Schema {
    application: 0x534c_4453,
    version: 1,
    create: "
CREATE TABLE question (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  id BLOB NOT NULL UNIQUE CHECK (length(id) = 16),
  app TEXT NOT NULL,
  effect TEXT NOT NULL,
  asked INTEGER NOT NULL,
  expires INTEGER NOT NULL,
  alive INTEGER NOT NULL,
  answered INTEGER,
  answer TEXT CHECK ((answered IS NULL) = (answer IS NULL)),
  question TEXT NOT NULL
) STRICT;
CREATE INDEX question_by_answer ON question (answered);
CREATE TABLE token (
  name TEXT NOT NULL PRIMARY KEY,
  digest BLOB NOT NULL UNIQUE CHECK (length(digest) = 32),
  token TEXT NOT NULL,
  last_used INTEGER
) STRICT;
CREATE TABLE change (count INTEGER NOT NULL) STRICT;
INSERT INTO change VALUES (0);
",
    upgrade: "",
};

/// The columns of a question.
pub(super) const QUESTION: &str =
    "SELECT id, question, asked, alive, answer, app, effect FROM question";

/// What waits at `?1`; its process was heard of after `?2`.
pub(super) const WAITS: &str = "answered IS NULL AND expires > ?1 AND alive > ?2";

pub(super) type Failed = Stop<DeskError>;

impl From<DeskError> for Failed {
    fn from(error: DeskError) -> Self {
        Self::Refused(error)
    }
}

/// Questions by this statement. One that another program has damaged hides no other.
pub(super) fn listed(
    connection: &Connection,
    select: &str,
    parameters: &[i64],
    sees: impl Fn(QuestionId, &str, &str) -> bool,
) -> Result<Questions, Failed> {
    let mut select = connection.prepare_cached(select)?;
    let mut rows = select.query(rusqlite::params_from_iter(parameters))?;
    let mut listed = Questions::default();
    while let Some(row) = rows.next()? {
        let (app, effect): (String, String) = (row.get(5)?, row.get(6)?);
        if !sees(id(row)?, &app, &effect) {
            continue;
        }
        match question(row) {
            Ok(question) => listed.all.push(question),
            Err(_) => listed.unreadable.push(id(row)?.to_string()),
        }
    }
    Ok(listed)
}

/// The question with this id.
pub(super) fn get(connection: &Connection, id: QuestionId) -> Result<Option<KeptQuestion>, Failed> {
    let mut select = connection.prepare_cached(&format!("{QUESTION} WHERE id = ?1"))?;
    let mut rows = select.query([id.as_bytes()])?;
    let found = rows.next()?.map(question).transpose();
    let unreadable = |error: rusqlite::Error| DeskError::Unreadable(id, error.to_string());
    Ok(found.map_err(unreadable)?)
}

fn id(row: &Row<'_>) -> rusqlite::Result<QuestionId> {
    row.get(0).map(QuestionId::from_bytes)
}

/// The columns of [`QUESTION`].
fn question(row: &Row<'_>) -> rusqlite::Result<KeptQuestion> {
    let answer: Option<String> = row.get(4)?;
    Ok(KeptQuestion {
        id: id(row)?,
        question: read(&row.get::<_, String>(1)?)?,
        asked: Time::from_millis(row.get(2)?),
        alive: Time::from_millis(row.get(3)?),
        answer: answer.map(|answer| read(&answer)).transpose()?,
    })
}

/// A token, and when it was last used.
pub(super) fn token(row: &Row<'_>) -> rusqlite::Result<KeptToken> {
    Ok(KeptToken {
        last_used: row.get::<_, Option<i64>>(1)?.map(Time::from_millis),
        ..read(&row.get::<_, String>(0)?)?
    })
}

fn read<T: DeserializeOwned>(json: &str) -> rusqlite::Result<T> {
    let damaged = |error| rusqlite::Error::FromSqlConversionFailure(0, Type::Text, Box::new(error));
    serde_json::from_str(json).map_err(damaged)
}

pub(super) fn json(value: &impl Serialize) -> Result<String, DeskError> {
    serde_json::to_string(value).map_err(|error| DeskError::System(error.into()))
}

/// The questions have changed.
pub(super) fn changed(connection: &Connection) -> Result<(), Failed> {
    connection.execute("UPDATE change SET count = count + 1", [])?;
    Ok(())
}
