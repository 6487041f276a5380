//! Why an app or a call failed.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Quote;

/// Why an app ended or a call has no result. Numbers and our own words only: `Display` never repeats
/// what the app wrote. That is in [`FailureReason::quote`], to be labelled and escaped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum FailureReason {
    /// The program could not be started at all.
    SpawnFailed(SpawnFailed),
    /// The process ended.
    AppExited(AppExited),
    /// The app closed its stdout or stdin but keeps running; it was killed.
    OutputClosed,
    /// A line of the app is longer than allowed.
    LineTooLong(Limit),
    /// A line of the app is not one JSON object.
    InvalidJson,
    /// A line of the app is nested too deep.
    TooDeep(Limit),
    /// A line of the app holds too many values.
    TooManyValues(Limit),
    /// The app wrote more than allowed that nobody had asked for.
    Flood(Flood),
    /// The app did not finish initialization in time.
    StartTimeout(Timeout),
    /// The call took too long.
    CallTimeout(Timeout),
    /// The app broke the MCP protocol.
    Protocol(Protocol),
    /// The app offers more tools than allowed.
    TooManyTools(Limit),
    /// A tool's description cannot be accepted.
    BadTool(BadTool),
    /// The app answered the call with an error.
    AppError(AppError),
    /// The result is longer than allowed.
    ResultTooLong(Limit),
    /// The app offers no tool of this name.
    UnknownTool,
    /// The tool is no longer what it was at the start; the app was not called.
    ToolChanged,
    /// The arguments do not fit the tool's input schema; the app was not called.
    InvalidArguments(InvalidArguments),
    /// More calls at once than allowed; the app was not called.
    TooManyCalls(Limit),
    /// The hub cancelled the call.
    Cancelled,
    /// The hub asked for something that this state of the spoke does not allow.
    NotReady,
    /// A call with this id is running already; the new one was not started.
    DuplicateCall,
    /// The spoke itself failed, not the app.
    Spoke(SpokeFault),
}

/// The program could not be started at all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpawnFailed {
    /// The operating system's error number, when there is one.
    pub errno: Option<i32>,
}

/// How a process ended: exactly one of the two is set, or none when nobody could tell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AppExited {
    /// The exit status.
    pub status: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

/// A limit that was passed, in the unit that the variant names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// The most that is allowed.
    pub limit: u64,
}

/// Unasked output beyond the limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flood {
    /// Most unasked messages.
    pub max_messages: u64,
    /// Most unasked bytes.
    pub max_bytes: u64,
}

/// Something was not done in time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timeout {
    /// The time that it had, in milliseconds.
    pub ms: u64,
}

/// A breach of the MCP protocol.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Protocol {
    /// What kind of breach.
    pub breach: Breach,
    /// What the app said, if anything.
    pub said: Quote,
}

/// The kinds of protocol breach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Breach {
    /// Initialization failed: an error, or an answer that is not one.
    Initialize,
    /// The list of tools is an error, is malformed, or never ends.
    ListTools,
    /// The answer to a call is not a tool result.
    CallAnswer,
    /// A message is JSON but not JSON-RPC 2.0.
    Message,
    /// An answer to a question that nobody asked, or a second answer.
    UnknownAnswer,
}

/// A tool whose description cannot be accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BadTool {
    /// What is wrong with it.
    pub problem: ToolProblem,
    /// The tool's name as the app wrote it.
    pub name: Quote,
}

/// What can be wrong with a tool's description.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolProblem {
    /// The name is empty, too long, or has other characters than letters, digits, `_`, `-`, `.`, `/`.
    Name,
    /// Two tools have the same name.
    Duplicate,
    /// The input schema is too long.
    SchemaTooLong,
    /// The input schema is not a schema that arguments can be checked against.
    SchemaInvalid,
    /// All names, descriptions and schemas together are too long.
    TotalTooLong,
}

/// The app answered with a JSON-RPC error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AppError {
    /// The error code.
    pub code: i32,
    /// The error message.
    pub said: Quote,
}

/// Arguments that do not fit the schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InvalidArguments {
    /// What is wrong, for the model to correct itself. It holds words of the app's schema.
    pub problem: Quote,
}

/// A fault of the spoke.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpokeFault {
    /// The operating system refused a resource.
    Resources,
    /// A task of the spoke ended without an answer.
    Internal,
}

impl FailureReason {
    /// What the app wrote in connection with the failure, if anything.
    #[must_use]
    pub fn quote(&self) -> Option<&Quote> {
        let quote = match self {
            Self::Protocol(it) => &it.said,
            Self::BadTool(it) => &it.name,
            Self::AppError(it) => &it.said,
            Self::InvalidArguments(it) => &it.problem,
            _ => return None,
        };
        (!quote.is_empty()).then_some(quote)
    }

    /// Whether the app is gone, or was ended, for this reason: an `AppFailed` follows.
    #[must_use]
    pub fn ends_app(&self) -> bool {
        // Each by its name: a new reason does not compile until it says here whether the app lives.
        match self {
            Self::SpawnFailed(_)
            | Self::AppExited(_)
            | Self::OutputClosed
            | Self::LineTooLong(_)
            | Self::InvalidJson
            | Self::TooDeep(_)
            | Self::TooManyValues(_)
            | Self::Flood(_)
            | Self::StartTimeout(_)
            | Self::Protocol(_)
            | Self::TooManyTools(_)
            | Self::BadTool(_) => true,
            Self::CallTimeout(_)
            | Self::AppError(_)
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

impl fmt::Display for FailureReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SpawnFailed(SpawnFailed { errno: Some(errno) }) => {
                write!(
                    f,
                    "the app's program could not be started (error {errno}); check its command"
                )
            }
            Self::SpawnFailed(SpawnFailed { errno: None }) => {
                f.write_str("the app's program could not be started; check its command")
            }
            Self::AppExited(exit) => exit.fmt(f),
            Self::OutputClosed => f.write_str("the app closed its connection; it was ended"),
            Self::LineTooLong(it) => {
                write!(
                    f,
                    "the app wrote a line of more than {} bytes; it was ended",
                    it.limit
                )
            }
            Self::InvalidJson => {
                f.write_str("the app wrote a line that is not a JSON object; it was ended")
            }
            Self::TooDeep(it) => {
                write!(
                    f,
                    "the app wrote JSON nested deeper than {} levels; it was ended",
                    it.limit
                )
            }
            Self::TooManyValues(it) => {
                write!(
                    f,
                    "the app wrote JSON of more than {} values; it was ended",
                    it.limit
                )
            }
            Self::Flood(it) => write!(
                f,
                "the app wrote more than {} messages or {} bytes that nobody asked for; it was ended",
                it.max_messages, it.max_bytes
            ),
            Self::StartTimeout(it) => {
                write!(f, "the app did not start within {} ms; it was ended", it.ms)
            }
            Self::CallTimeout(it) => write!(f, "the app did not answer within {} ms", it.ms),
            Self::Protocol(it) => write!(f, "the app broke the protocol: {}", it.breach),
            Self::TooManyTools(it) => write!(f, "the app offers more than {} tools", it.limit),
            Self::BadTool(it) => write!(
                f,
                "the app describes a tool that cannot be accepted: {}",
                it.problem
            ),
            Self::AppError(it) => write!(f, "the app answered with error {}", it.code),
            Self::ResultTooLong(it) => {
                write!(
                    f,
                    "the result is longer than {} bytes; ask for less at once",
                    it.limit
                )
            }
            Self::UnknownTool => f.write_str("the app has no tool of this name"),
            Self::ToolChanged => f.write_str(
                "the app has changed this tool since it started; the app was not called. Start it again to review the tool",
            ),
            // Words of ours alone: those of the app are a `quote`, and are labelled and shown as such.
            Self::InvalidArguments(_) => {
                f.write_str("the arguments do not fit the tool's schema; the app was not called")
            }
            Self::TooManyCalls(it) => {
                write!(
                    f,
                    "more than {} calls at once; wait for one to finish",
                    it.limit
                )
            }
            Self::Cancelled => f.write_str("the call was cancelled"),
            Self::NotReady => f.write_str("the app is not ready for this request"),
            Self::DuplicateCall => f.write_str("a call with this id is running already"),
            Self::Spoke(SpokeFault::Resources) => {
                f.write_str("the spoke ran out of processes, descriptors or memory")
            }
            Self::Spoke(SpokeFault::Internal) => {
                f.write_str("the spoke failed; start the app again")
            }
        }
    }
}

impl fmt::Display for AppExited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.status, self.signal) {
            (Some(status), _) => write!(f, "the app exited with status {status}"),
            (None, Some(signal)) => write!(f, "the app was ended by signal {signal}"),
            (None, None) => f.write_str("the app exited"),
        }
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Initialize => "it could not be initialized",
            Self::ListTools => "it gave no usable list of tools",
            Self::CallAnswer => "its answer to a call is not a tool result",
            Self::Message => "it wrote something other than a JSON-RPC 2.0 message",
            Self::UnknownAnswer => "it answered a question that nobody asked, or answered twice",
        })
    }
}

impl fmt::Display for ToolProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Name => "its name is empty, too long, or has unusual characters",
            Self::Duplicate => "two tools have the same name",
            Self::SchemaTooLong => "its input schema is too long",
            Self::SchemaInvalid => "its input schema cannot be used to check arguments",
            Self::TotalTooLong => "all tools together are described at too great length",
        })
    }
}
