//! Why something at the desk cannot be done, and the limits of the desk.

use super::questions::KeptAnswer;
use crate::database::Stop;
use crate::{DatabaseError, QuestionId, StateError};

/// Questions of all processes that wait at once. No user reads more.
pub(super) const MOST_WAITING: i64 = 1024;
/// Bytes of one question: arguments of some megabytes, which are shown in full.
pub(super) const MOST_BYTES: usize = 8 << 20;
/// Bytes of all questions that wait, so that a list of them fits into memory.
pub(super) const MOST_WAITING_BYTES: i64 = 64 << 20;
/// Fewest digits of a shortened id. With fewer, a typing error would name another question.
pub(super) const FEWEST_DIGITS: usize = 4;
/// Tokens of one user.
pub(super) const MOST_TOKENS: i64 = 256;

/// Why something at the desk cannot be done.
#[derive(Debug, thiserror::Error)]
pub enum DeskError {
    /// Too many questions wait.
    #[error("too many questions wait, or very long ones; answer some of them first")]
    TooMany,
    /// Its tenant may ask no more for now, and why.
    #[error("{0}")]
    OverBudget(String),
    /// The question is too long to be shown.
    #[error("the question has more than {MOST_BYTES} bytes")]
    TooLarge,
    /// There is no such question.
    #[error("no such question waits; the program that asked has taken it back")]
    Unknown,
    /// It has waited too long.
    #[error("the question waited too long, which is a no")]
    Expired,
    /// Its process has ended.
    #[error("the program that asked has ended, so the question waits no longer")]
    Left,
    /// Several ids begin like this, or too few digits are given.
    #[error(
        "`{0}` does not name one question; write at least {FEWEST_DIGITS} of the digits of its id"
    )]
    Ambiguous(String),
    /// The question has its answer.
    #[error("the question was answered before: {0}")]
    Answered(KeptAnswer),
    /// The question does not offer this answer.
    #[error("this question can be answered with {}", .0.join(", "))]
    NotOffered(Vec<String>),
    /// Others have to allow it.
    #[error("only {} may allow this, by a token of `sluice token`, and not the one who asked", .0.join(", "))]
    NotAllowed(Vec<String>),
    /// Others have to allow it, and anyone could be the one who asked.
    #[error(
        "it is not known who asks, so this can only be denied; the request has to name its user"
    )]
    AskerUnknown,
    /// There is a token with this name.
    #[error("there is a token named {0}; revoke it, or choose another name")]
    NameTaken(String),
    /// The name of a token is unusable.
    #[error(transparent)]
    BadName(#[from] crate::BadName),
    /// There are too many tokens.
    #[error("there are {MOST_TOKENS} tokens; revoke some of them")]
    TooManyTokens,
    /// The system has no randomness, or no threads.
    #[error("the system fails: {0}")]
    System(std::io::Error),
    /// A question cannot be read.
    #[error("the question {0} cannot be read: {1}")]
    Unreadable(QuestionId, String),
    /// A token cannot be read.
    #[error("a token cannot be read: {0}")]
    BadToken(String),
    /// A token of an agent is for requests alone.
    #[error("the token of an agent answers no questions")]
    OfAgent,
    /// PostgreSQL cannot be used.
    #[error(transparent)]
    Postgres(StateError),
    /// The file cannot be used.
    #[error(transparent)]
    Database(#[from] DatabaseError),
}

impl DeskError {
    pub(super) fn unreadable((id, why): (QuestionId, String)) -> Self {
        Self::Unreadable(id, why)
    }
}

impl From<StateError> for DeskError {
    fn from(error: StateError) -> Self {
        match error {
            StateError::Database(error) => Self::Database(error),
            error => Self::Postgres(error),
        }
    }
}

impl From<DeskError> for Stop<DeskError> {
    fn from(error: DeskError) -> Self {
        Self::Refused(error)
    }
}
