//! Questions that wait for an answer, and the tokens of those who may answer.
//!
//! All Sluice processes of one user share one file. A question is answered once, by the first who answers it.

mod error;
mod questions;
mod rows;
mod tokens;

use std::path::Path;

use error::{FEWEST_DIGITS, MOST_BYTES, MOST_TOKENS, MOST_WAITING, MOST_WAITING_BYTES};
use questions::SILENCE_MS;
use rows::{Failed, QUESTION, WAITS, changed, json, listed};
use rusqlite::{Connection, OptionalExtension, params};

use crate::database::Database;
use crate::{Name, QuestionId, Time};

pub use error::DeskError;
pub use questions::{Answerer, KeptAnswer, KeptQuestion, NewQuestion, Questions};
pub use tokens::{KeptToken, NewToken, Role};

/// How long answered questions are kept, in milliseconds, and how many.
const WEEK_MS: i64 = 7 * 24 * 3600 * 1000;
const MOST_ANSWERED: usize = 1000;
/// How long a question is kept whose process is silent, in milliseconds: a machine may have slept.
const HOUR_MS: i64 = 3600 * 1000;
/// How often the use of a token is recorded, in milliseconds: a page that looks each second must not write each second.
const MINUTE_MS: i64 = 60 * 1000;
/// The answer that everyone may give who may answer at all.
const NO: &str = "no";

/// The questions and tokens of one user on one machine. Several processes may have the file open.
///
/// Each method is one transaction, and fails if the file cannot be used.
#[derive(Debug)]
pub struct Desk {
    database: Database,
}

impl Desk {
    /// Opens the file, or creates it readable by its owner only.
    ///
    /// # Errors
    /// Other users could read or change the file, or it is not a file of this version.
    pub fn open(path: &Path) -> Result<Self, DeskError> {
        let database = Database::open(path, &rows::SCHEMA)?;
        Ok(Self { database })
    }

    /// A desk of this process alone: where there is no folder for the file.
    pub fn in_memory() -> Result<Self, DeskError> {
        let database = Database::in_memory(&rows::SCHEMA)?;
        Ok(Self { database })
    }

    /// Puts a question to all who may answer. Removes what is of no use any more.
    ///
    /// # Errors
    /// Too many wait, or it is too long.
    pub fn ask(&self, new: &NewQuestion, now: Time) -> Result<QuestionId, DeskError> {
        let (question, id) = (json(new)?, QuestionId::random().map_err(DeskError::System)?);
        if question.len() > MOST_BYTES {
            return Err(DeskError::TooLarge);
        }
        let ms = now.millis();
        let removed = self.write(|connection| {
            let removed = connection.execute(
                "DELETE FROM question WHERE answered <= ?1 OR answered IS NULL AND (expires <= ?2 OR alive <= ?3) OR number IN
                   (SELECT number FROM question WHERE answered NOT NULL ORDER BY answered DESC LIMIT -1 OFFSET ?4)",
                params![ms.saturating_sub(WEEK_MS), ms, ms.saturating_sub(HOUR_MS), signed(MOST_ANSWERED)],
            )?;
            let waiting = "SELECT count(*), coalesce(sum(length(question)), 0) FROM question";
            let (count, bytes): (i64, i64) = connection.query_row(
                &format!("{waiting} WHERE {WAITS}"),
                [ms, heard(now)],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )?;
            let bytes = bytes.saturating_add(signed(question.len()));
            if count >= signed(MOST_WAITING) || bytes > signed(MOST_WAITING_BYTES) {
                return Err(DeskError::TooMany.into());
            }
            connection.execute(
                "INSERT INTO question (id, app, effect, question, asked, alive, expires) VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6)",
                params![id.as_bytes(), new.app, new.effects(), question, ms, new.expires.millis()],
            )?;
            changed(connection)?;
            Ok(removed > 0)
        })?;
        self.removed(removed);
        Ok(id)
    }

    /// Says that their process still waits for these questions. Every few seconds.
    pub fn still_asks(&self, ids: &[QuestionId], now: Time) -> Result<(), DeskError> {
        self.write(|connection| {
            let sql = "UPDATE question SET alive = ?2 WHERE id = ?1";
            let mut update = connection.prepare_cached(sql)?;
            for id in ids {
                update.execute(params![id.as_bytes(), now.millis()])?;
            }
            Ok(())
        })
    }

    /// The questions that wait, the oldest first.
    pub fn waiting(&self, now: Time) -> Result<Questions, DeskError> {
        self.waiting_for(now, |_, _, _| true)
    }

    /// Those of them that are to be seen, by their id, app and effect. Others are not read, so that the time tells little of
    /// them.
    pub fn waiting_for(
        &self,
        now: Time,
        sees: impl Fn(QuestionId, &str, &str) -> bool,
    ) -> Result<Questions, DeskError> {
        let select = format!("{QUESTION} WHERE {WAITS} ORDER BY number");
        let times = [now.millis(), heard(now)];
        self.read(|connection| listed(connection, &select, &times, sees))
    }

    /// Answered questions of the last week, the newest first.
    pub fn recent(&self, most: usize) -> Result<Questions, DeskError> {
        let select = format!(
            "{QUESTION} WHERE answered NOT NULL ORDER BY answered DESC, number DESC LIMIT ?1"
        );
        self.read(|connection| listed(connection, &select, &[signed(most)], |_, _, _| true))
    }

    /// The question with this id, or the one whose id begins like this. It may be answered, or wait no longer.
    ///
    /// # Errors
    /// Several begin like this, or the question cannot be read.
    pub fn find(&self, id: &str) -> Result<Option<KeptQuestion>, DeskError> {
        let is_hex = id.bytes().all(|byte| byte.is_ascii_hexdigit());
        let ambiguous = || DeskError::Ambiguous(id.to_owned());
        if !is_hex || id.len() < FEWEST_DIGITS {
            return Err(ambiguous());
        }
        self.read(|connection| {
            // Digits only, so nothing in it is a pattern.
            let sql = "SELECT id FROM question WHERE hex(id) LIKE ?1 || '%' LIMIT 2";
            let mut select = connection.prepare_cached(sql)?;
            let ids = select.query_map([id], |row| row.get(0).map(QuestionId::from_bytes))?;
            match ids.collect::<Result<Vec<_>, _>>()?.as_slice() {
                [] => Ok(None),
                [only] => rows::get(connection, *only),
                _ => Err(ambiguous().into()),
            }
        })
    }

    /// Answers a question. Of several answers the first one counts.
    ///
    /// # Errors
    /// The question does not wait, has an answer, does not offer this one, or needs another approver: see [`DeskError`].
    pub fn answer(
        &self,
        id: QuestionId,
        answer: &str,
        by: &Answerer,
        now: Time,
    ) -> Result<(), DeskError> {
        self.answer_as(id, answer, by, None, now)
    }

    /// Answers a question with this token, which says who answers. A token alone is an approver: a process can take the name
    /// of any user of the machine.
    ///
    /// # Errors
    /// As those of [`Desk::answer`].
    pub fn answer_by(
        &self,
        id: QuestionId,
        answer: &str,
        token: &KeptToken,
        from: &str,
        now: Time,
    ) -> Result<(), DeskError> {
        let by = Answerer {
            name: Some(token.name.clone()),
            from: from.to_owned(),
        };
        self.answer_as(id, answer, &by, Some(&token.name), now)
    }

    fn answer_as(
        &self,
        id: QuestionId,
        answer: &str,
        by: &Answerer,
        approver: Option<&str>,
        now: Time,
    ) -> Result<(), DeskError> {
        let given = KeptAnswer {
            answer: answer.to_owned(),
            by: by.clone(),
            at: now,
        };
        self.write(|connection| {
            let kept = rows::get(connection, id)?.ok_or(DeskError::Unknown)?;
            admits(&kept, &given, approver)?;
            connection.execute(
                "UPDATE question SET answer = ?2, answered = ?3 WHERE id = ?1",
                params![id.as_bytes(), json(&given)?, now.millis()],
            )?;
            changed(connection)
        })
    }

    /// The answer to a question, once there is one.
    pub fn take(&self, id: QuestionId) -> Result<Option<KeptAnswer>, DeskError> {
        let kept = self.read(|connection| rows::get(connection, id))?;
        Ok(kept.and_then(|kept| kept.answer))
    }

    /// Takes a question back that has no answer.
    pub fn withdraw(&self, id: QuestionId) -> Result<(), DeskError> {
        let removed = self.write(|connection| {
            let sql = "DELETE FROM question WHERE id = ?1 AND answered IS NULL";
            let removed = connection.execute(sql, [id.as_bytes()])? > 0;
            changed(connection).map(|()| removed)
        })?;
        self.removed(removed);
        Ok(())
    }

    /// A number that changes with each question that is asked, answered or taken back, by any process. It does not change
    /// when a question expires.
    pub fn version(&self) -> Result<i64, DeskError> {
        self.read(|connection| {
            Ok(connection.query_row("SELECT count FROM change", [], |row| row.get(0))?)
        })
    }

    /// Makes a token. Its secret is returned this once.
    ///
    /// # Errors
    /// The name is unusable or taken, or there are too many.
    pub fn new_token(&self, new: &NewToken, now: Time) -> Result<String, DeskError> {
        Name::new(&new.name)?;
        let (secret, digest) = tokens::fresh()?;
        let kept = json(&KeptToken::new(new, now))?;
        self.write(|connection| {
            let (is_taken, count): (bool, i64) = connection.query_row(
                "SELECT coalesce(max(name = ?1), 0), count(*) FROM token",
                [&new.name],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )?;
            match (is_taken, count >= signed(MOST_TOKENS)) {
                (true, _) => return Err(DeskError::NameTaken(new.name.clone()).into()),
                (false, true) => return Err(DeskError::TooManyTokens.into()),
                (false, false) => {}
            }
            let sql = "INSERT INTO token (name, digest, token) VALUES (?1, ?2, ?3)";
            connection.execute(sql, params![new.name, digest, kept])?;
            Ok(())
        })?;
        Ok(secret)
    }

    /// All tokens by name, those that have expired included. One that cannot be read admits no one, and is left out.
    pub fn tokens(&self) -> Result<Vec<KeptToken>, DeskError> {
        self.read(|connection| {
            let sql = "SELECT token, last_used FROM token ORDER BY name";
            let mut select = connection.prepare_cached(sql)?;
            let tokens = select.query_map([], rows::token)?;
            Ok(tokens.flatten().collect())
        })
    }

    /// Revokes a token. False if there is none of this name.
    pub fn revoke(&self, name: &str) -> Result<bool, DeskError> {
        let removed = self.write(|connection| {
            Ok(connection.execute("DELETE FROM token WHERE name = ?1", [name])? > 0)
        })?;
        self.removed(removed);
        Ok(removed)
    }

    /// The token with this secret, if it is one that counts. A token that cannot be read is an error.
    pub fn admit(&self, secret: &str, now: Time) -> Result<Option<KeptToken>, DeskError> {
        let digest = tokens::digest(secret);
        let found = self.read(|connection| {
            let sql = "SELECT token, last_used FROM token WHERE digest = ?1";
            Ok(connection
                .query_row(sql, [digest], rows::token)
                .optional()?)
        })?;
        let Some(mut token) = found.filter(|token: &KeptToken| token.counts(now)) else {
            return Ok(None);
        };
        let minute = Time::from_millis(now.millis().saturating_sub(MINUTE_MS));
        if token.last_used.is_none_or(|used| used <= minute) {
            self.write(|connection| {
                let sql = "UPDATE token SET last_used = ?2 WHERE digest = ?1";
                connection.execute(sql, params![digest, now.millis()])?;
                Ok(())
            })?;
            token.last_used = Some(now);
        }
        Ok(Some(token))
    }

    fn read<T>(&self, work: impl FnOnce(&Connection) -> Result<T, Failed>) -> Result<T, DeskError> {
        self.database.read(work)
    }

    fn write<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Failed>,
    ) -> Result<T, DeskError> {
        self.database.write(work)
    }

    /// Empties the log after a deletion. While another process reads, the next deletion or start does it.
    fn removed(&self, removed: bool) {
        if removed {
            drop(self.database.checkpoint());
        }
    }
}

/// Whether this answer counts, which has this name by a token.
fn admits(
    kept: &KeptQuestion,
    given: &KeptAnswer,
    approver: Option<&str>,
) -> Result<(), DeskError> {
    let question = &kept.question;
    if let Some(before) = &kept.answer {
        return Err(DeskError::Answered(before.clone()));
    }
    match () {
        () if !kept.waits(given.at) => Err(DeskError::Unknown),
        () if !question.choices.contains(&given.answer) => {
            Err(DeskError::NotOffered(question.choices.clone()))
        }
        () if question.may_allow(approver) || given.answer == NO => Ok(()),
        () if question.asker.is_none() => Err(DeskError::AskerUnknown),
        () => Err(DeskError::NotAllowed(question.approvers.clone())),
    }
}

/// What was heard of a process before this is too long ago.
fn heard(now: Time) -> i64 {
    now.millis().saturating_sub(SILENCE_MS)
}

fn signed(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
