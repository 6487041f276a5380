//! Questions of an app to the user while it works on a call (MCP elicitation): the answers, and the refusals.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::ToolProblem;

/// What becomes of a [`Form`](crate::Form).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Reply {
    /// The user filled in the form: JSON text of an object that [`Form::accepts`](crate::Form::accepts).
    Accepted(String),
    /// The user said no.
    Declined,
    /// The user left without a choice, or there is no user.
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
    /// A tool of its list.
    Tool,
    /// More of a list that it gives page by page.
    Page,
    /// A line on its standard output.
    Line,
    /// A file that the words of a result name. Nothing was asked; the user may want to know.
    File,
    /// Something else of its client.
    Other,
}

impl Wish {
    /// What a message calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Question => "question",
            Self::Tools => "change of its tools",
            Self::Tool => "tool",
            Self::Page => "list",
            Self::Line => "line of output",
            Self::File => "file",
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
    /// The tool is left out.
    #[error("it is left out: {0}")]
    Tool(ToolProblem),
    /// The configuration names it, in `only_tools` or `hidden_tools`, and the app has none.
    #[error("the configuration names it, and the app has none that is called so")]
    Unlisted,
    /// The tool is offered, but its schema cannot be used.
    #[error("its input schema cannot be used, so its arguments are unchecked")]
    Unchecked,
    /// The list repeats a cursor, or its cursor is no text.
    #[error("its pages repeat, so what follows is left out")]
    Repeats,
    /// The list has too many pages, or they take too long.
    #[error("it does not end in time, so what follows is left out")]
    Endless,
    /// A result names a file of the sandbox's own folder.
    #[error("it is in the sandbox's own folder, and ends with the app")]
    Scratch,
    /// An error names a file that the sandbox lacks.
    #[error("the app does not see it")]
    Unseen,
    /// It is no message of the protocol.
    #[error("it is no MCP message, and was skipped; a server must log to stderr")]
    NoMessage,
}
