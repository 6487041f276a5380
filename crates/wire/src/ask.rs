//! Questions of an app to the user while it works on a call (MCP elicitation): the answers, and the refusals.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// What becomes of a [`Form`](crate::Form).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Reply {
    /// The user filled in the form: JSON text of an object that [`Form::accepts`](crate::Form::accepts).
    Accepted(String),
    /// The user said no, or there is no user.
    Declined,
    /// The user left without a choice.
    Dismissed,
    /// The request was not looked at.
    Refused(Refusal),
}

/// What an app asked for that its spoke did not pass on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wish {
    /// A question to the user.
    Question,
    /// Other tools than it had at the start.
    Tools,
    /// Something else of its client.
    Other,
}

impl Wish {
    /// What a message calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Question => "question",
            Self::Tools => "change of its tools",
            Self::Other => "request",
        }
    }
}

/// Why an app's request is not looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// This client offers no such thing to this app.
    #[error("this client does not offer it")]
    NotOffered,
    /// It is too large, or of a form that cannot be shown to a person.
    #[error("it is of no form that can be passed on")]
    Unfit,
    /// The app works on no call, or on several, so that the request belongs to no one call.
    #[error("it can be asked for only during exactly one call")]
    NoCall,
    /// It asks for something else already.
    #[error("another request of this call is under way")]
    Busy,
    /// It has asked as often as it may.
    #[error("it was asked for too often")]
    TooOften,
    /// The user has not reviewed it.
    #[error("it counts after a review, at the next start")]
    NotReviewed,
    /// The policy does not let it.
    #[error("the user's policy does not allow it")]
    Policy,
    /// It failed here.
    #[error("it failed")]
    Failed,
}
