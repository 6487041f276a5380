//! Why a query has no outcome.

use crate::spoke::SpokeError;
use crate::trace_file::TraceError;

/// Why a query has no outcome at all.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// No such app.
    #[error("there is no app '{app}'; configured are: {}", known.join(", "))]
    UnknownApp {
        /// The name as given.
        app: String,
        /// The names that exist.
        known: Vec<String>,
    },
    /// Several apps could do it, and the user chose none.
    #[error("several apps could do this ({}); name one with --app, all that it takes, or --each", .0.join(", "))]
    NoChoice(Vec<String>),
    /// The user chose for good, and the choice cannot be kept.
    #[error("this choice cannot be kept: {0}; choose an app for once")]
    NotKept(String),
    /// The apps have different models of their own.
    #[error(
        "these apps have models of their own, and not the same ({}); ask each by itself with --each", .0.join(", ")
    )]
    Models(Vec<String>),
    /// Two of the apps have names by which their tools could be confused.
    #[error(
        "the tools of {0} and {1} could be confused in one conversation; rename one of these apps"
    )]
    Names(String, String),
    /// The spoke does not run.
    #[error(transparent)]
    Spoke(#[from] SpokeError),
    /// The trace cannot be written, so nothing may be done.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The user interrupted before the turn began.
    #[error("interrupted")]
    Interrupted,
    /// The driver and the turn machine disagree: a bug.
    #[error("internal error: {0}; please report it")]
    Internal(#[from] hub::Misuse),
}
