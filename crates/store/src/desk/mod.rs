//! Questions that wait for an answer, and the tokens of those who may answer.
//!
//! All Sluice processes of one user share one file. A question is answered once, by the first who answers it.

mod error;
mod questions;
mod rows;
mod tokens;

use std::path::Path;

use error::{MOST_ANSWERED, MOST_BYTES};

use crate::database::Database;
use crate::{Name, QuestionId, Time};

pub use error::DeskError;
pub use questions::{Answerer, KeptAnswer, KeptQuestion, NewQuestion, Questions};
pub use tokens::{KeptToken, NewToken, Role};

/// The answer that everyone may give who may answer at all.
const NO: &str = "no";

/// The questions and tokens of one user on one machine. Several processes may have the file open.
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
    ///
    /// # Errors
    /// SQLite fails.
    pub fn in_memory() -> Result<Self, DeskError> {
        let database = Database::in_memory(&rows::SCHEMA)?;
        Ok(Self { database })
    }

    /// Puts a question to all who may answer. Removes what nobody waits for any more.
    ///
    /// # Errors
    /// Too many wait, it is too long, or the file cannot be written.
    pub fn ask(&self, new: &NewQuestion, now: Time) -> Result<QuestionId, DeskError> {
        if new.bytes() > MOST_BYTES {
            return Err(DeskError::TooLarge);
        }
        let id = QuestionId::random().map_err(DeskError::Random)?;
        let removed = (self.database).write(|connection| rows::insert(connection, id, new, now))?;
        self.removed(removed);
        Ok(id)
    }

    /// Says that their process still waits for these questions. Every few seconds.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn still_asks(&self, ids: &[QuestionId], now: Time) -> Result<(), DeskError> {
        (self.database).write(|connection| rows::still_asks(connection, ids, now))
    }

    /// The questions that wait, the oldest first.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn waiting(&self, now: Time) -> Result<Questions, DeskError> {
        (self.database).read(|connection| rows::waiting(connection, now))
    }

    /// Answered questions of the last week, the newest first.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn recent(&self, most: usize) -> Result<Questions, DeskError> {
        (self.database).read(|connection| rows::recent(connection, most.min(MOST_ANSWERED)))
    }

    /// The question with this id, or the one whose id begins like this. It may be answered, or wait no longer.
    ///
    /// # Errors
    /// Several begin like this, or the file or the question cannot be read.
    pub fn find(&self, id: &str) -> Result<Option<KeptQuestion>, DeskError> {
        (self.database).read(|connection| rows::find(connection, id))
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
        (self.database).write(|connection| {
            let kept = rows::get(connection, id)?.ok_or(DeskError::Unknown)?;
            admits(&kept, answer, by, now)?;
            rows::answer(connection, id, answer, by, now)
        })
    }

    /// The answer to a question, once there is one.
    ///
    /// # Errors
    /// The file or the answer cannot be read.
    pub fn take(&self, id: QuestionId) -> Result<Option<KeptAnswer>, DeskError> {
        (self.database).read(|connection| rows::answer_to(connection, id))
    }

    /// Takes a question back that has no answer.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn withdraw(&self, id: QuestionId) -> Result<(), DeskError> {
        let removed = (self.database).write(|connection| rows::withdraw(connection, id))?;
        self.removed(removed);
        Ok(())
    }

    /// A number that changes with each question that is asked, answered or taken back, by any process. It does not change
    /// when a question expires.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn version(&self) -> Result<i64, DeskError> {
        self.database.read(rows::version)
    }

    /// Makes a token. It is returned this once.
    ///
    /// # Errors
    /// The name is unusable or taken, there are too many, or the file cannot be written.
    pub fn new_token(&self, new: &NewToken, now: Time) -> Result<String, DeskError> {
        Name::new(&new.name)?;
        let (token, digest) = tokens::fresh()?;
        (self.database).write(|connection| rows::insert_token(connection, new, digest, now))?;
        Ok(token)
    }

    /// All tokens by name, those that have expired included.
    ///
    /// # Errors
    /// The file cannot be read. A token that cannot be read admits nobody, and is left out.
    pub fn tokens(&self) -> Result<Vec<KeptToken>, DeskError> {
        self.database.read(rows::tokens)
    }

    /// Revokes a token. False if there is none of this name.
    ///
    /// # Errors
    /// The file cannot be written; the token still admits then.
    pub fn revoke(&self, name: &str) -> Result<bool, DeskError> {
        let removed = (self.database).write(|connection| rows::revoke(connection, name))?;
        self.removed(removed);
        Ok(removed)
    }

    /// The token with this secret, if it is one that counts.
    ///
    /// # Errors
    /// The file or the token cannot be read. It admits nobody then.
    pub fn admit(&self, token: &str, now: Time) -> Result<Option<KeptToken>, DeskError> {
        let digest = tokens::digest(token);
        let found = (self.database).read(|connection| rows::token(connection, digest))?;
        let Some(mut token) = found.filter(|token| token.counts(now)) else {
            return Ok(None);
        };
        if token.records_use(now) {
            (self.database).write(|connection| rows::used(connection, digest, now))?;
            token.last_used = Some(now);
        }
        Ok(Some(token))
    }

    /// Empties the log after a deletion. While another process reads, the next deletion or start does it.
    fn removed(&self, removed: bool) {
        if removed {
            drop(self.database.checkpoint());
        }
    }
}

/// Whether this answer, by this answerer, counts now.
fn admits(kept: &KeptQuestion, answer: &str, by: &Answerer, now: Time) -> Result<(), DeskError> {
    if let Some(given) = &kept.answer {
        return Err(DeskError::Answered(given.clone()));
    }
    if !kept.waits(now) {
        return Err(DeskError::Unknown);
    }
    let NewQuestion {
        choices,
        approvers,
        asker,
        ..
    } = &kept.question;
    if !choices.iter().any(|choice| choice == answer) {
        return Err(DeskError::NotOffered(choices.clone()));
    }
    let is_approver = by.name.is_some() && by.name != *asker;
    let is_approver = is_approver && approvers.iter().any(|it| Some(it) == by.name.as_ref());
    match answer == NO || approvers.is_empty() || is_approver {
        true => Ok(()),
        false => Err(DeskError::NotAllowed(approvers.clone())),
    }
}
