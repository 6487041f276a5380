//! Why an app or a call failed.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::Quote;

/// Why an app ended or a call has no result. Numbers and our own words only: `Display` never repeats
/// what the app wrote. That is in [`FailureReason::quote`], to be labelled and escaped.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum FailureReason {
    /// The program could not be started, with the operating system's error number if there is one.
    #[error("the app's program could not be started{}; check its command", in_brackets(*.0))]
    SpawnFailed(Option<i32>),
    /// The process ended with a status or by a signal, or in an unknown way.
    #[error("{}", exited(*status, *signal))]
    AppExited {
        /// The exit status.
        status: Option<i32>,
        /// The signal that ended it.
        signal: Option<i32>,
    },
    /// The app closed its stdout or stdin but keeps running; it was killed.
    #[error("the app closed its connection; it was ended")]
    OutputClosed,
    /// The answer has more bytes than this.
    #[error("the answer is a line of more than {0} bytes; ask for less at once")]
    LineTooLong(u64),
    /// The answer is nested deeper than this.
    #[error("the answer is JSON nested deeper than {0} levels")]
    TooDeep(u64),
    /// The answer holds more values than this.
    #[error("the answer is JSON of more than {0} values; ask for less at once")]
    TooManyValues(u64),
    /// The app wrote more without being asked than is allowed.
    #[error(
        "the app wrote more than {max_messages} messages or {max_bytes} bytes without being asked; it was ended"
    )]
    Flood {
        /// Most unasked messages.
        max_messages: u64,
        /// Most unasked bytes.
        max_bytes: u64,
    },
    /// The app did not finish initialization within so many milliseconds.
    #[error("the app did not start within {0} ms; it was ended")]
    StartTimeout(u64),
    /// The call took longer than so many milliseconds.
    #[error("the app did not answer within {0} ms")]
    CallTimeout(u64),
    /// After a call that took too long the app did not answer a ping within so many milliseconds either.
    #[error("the app answered neither a call nor a ping within {0} ms; it was ended")]
    Unresponsive(u64),
    /// The app broke the MCP protocol.
    #[error("the app broke the protocol: {breach}")]
    Protocol {
        /// What kind of breach.
        breach: Breach,
        /// What the app said, if anything.
        said: Quote,
    },
    /// The app answered the call with a JSON-RPC error.
    #[error("the app answered with error {code}")]
    AppError {
        /// The error code.
        code: i32,
        /// The error message.
        said: Quote,
    },
    /// The result has more bytes than this.
    #[error("the result is longer than {0} bytes; ask for less at once")]
    ResultTooLong(u64),
    /// The app offers no tool of this name.
    #[error("the app has no tool of this name")]
    UnknownTool,
    /// The tool is no longer what it was at the start; the app was not called.
    #[error(
        "the app has changed this tool since it started; the app was not called. Start it again to review the tool"
    )]
    ToolChanged,
    /// The arguments do not fit the tool's input schema; the app was not called. The quote says what is wrong, in words
    /// of the app's schema.
    #[error("the arguments do not fit the tool's schema; the app was not called")]
    InvalidArguments(Quote),
    /// More calls at once than this; the app was not called.
    #[error("more than {0} calls at once; wait for one to finish")]
    TooManyCalls(u64),
    /// The hub cancelled the call.
    #[error("the call was cancelled")]
    Cancelled,
    /// The hub asked for something that this state of the spoke does not allow.
    #[error("the app is not ready for this request")]
    NotReady,
    /// A call with this id is running already; the new one was not started.
    #[error("a call with this id is running already")]
    DuplicateCall,
    /// The spoke itself failed, not the app.
    #[error("{0}")]
    Spoke(SpokeFault),
}

/// The kinds of protocol breach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Breach {
    /// Initialization failed: an error, or an answer that is not one.
    #[error("it could not be initialized")]
    Initialize,
    /// The list of tools is an error, or no list.
    #[error("it gave no usable list of tools")]
    ListTools,
    /// The answer to a call is not a tool result.
    #[error("its answer to a call is not a tool result")]
    CallAnswer,
}

/// What can be wrong with a tool's description.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolProblem {
    /// The name is empty, too long, or has other characters than letters, digits, `_`, `-`, `.`, `/`.
    #[error("its name is empty, too long, or has unusual characters")]
    Name,
    /// Two tools have the same name.
    #[error("two tools have the same name")]
    Duplicate,
    /// The input schema is too long.
    #[error("its input schema is too long")]
    SchemaTooLong,
    /// The tool is no JSON object that readers agree about.
    #[error("it is no JSON object that can be read")]
    Unreadable,
    /// There are more tools than [`crate::limits::MAX_TOOLS`].
    #[error("the list is too long")]
    TooMany,
    /// All names, descriptions and schemas together are too long.
    #[error("all tools together are described at too great length")]
    TotalTooLong,
}

/// A fault of the spoke.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpokeFault {
    /// The operating system refused a resource.
    #[error("the spoke ran out of processes, descriptors or memory")]
    Resources,
    /// A task of the spoke ended without an answer.
    #[error("the spoke failed; start the app again")]
    Internal,
}

impl FailureReason {
    /// What the app wrote in connection with the failure, if anything.
    pub fn quote(&self) -> Option<&Quote> {
        let quote = match self {
            Self::Protocol { said, .. } | Self::AppError { said, .. } => said,
            Self::InvalidArguments(problem) => problem,
            _ => return None,
        };
        (!quote.is_empty()).then_some(quote)
    }

    /// Whether the app is gone, or was ended, for this reason: an `AppFailed` follows.
    pub fn ends_app(&self) -> bool {
        // Each by its name: a new reason does not compile until it says here whether the app lives.
        match self {
            Self::SpawnFailed(_)
            | Self::AppExited { .. }
            | Self::OutputClosed
            | Self::Flood { .. }
            | Self::StartTimeout(_)
            | Self::Unresponsive(_) => true,
            Self::Protocol { breach, .. } => *breach != Breach::CallAnswer,
            Self::LineTooLong(_)
            | Self::TooDeep(_)
            | Self::TooManyValues(_)
            | Self::CallTimeout(_)
            | Self::AppError { .. }
            | Self::ResultTooLong(_)
            | Self::UnknownTool
            | Self::ToolChanged
            | Self::InvalidArguments(_)
            | Self::TooManyCalls(_)
            | Self::Cancelled
            | Self::NotReady
            | Self::DuplicateCall
            | Self::Spoke(_) => false,
        }
    }
}

fn in_brackets(errno: Option<i32>) -> String {
    errno.map_or(String::new(), |errno| format!(" (error {errno})"))
}

fn exited(status: Option<i32>, signal: Option<i32>) -> String {
    match (status, signal) {
        (Some(status), _) => format!("the app exited with status {status}"),
        (None, Some(signal)) => format!("the app was ended by signal {signal}"),
        (None, None) => "the app exited".to_owned(),
    }
}
