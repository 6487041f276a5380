//! What the turn machine asks of its driver, and what the driver brings back.

use std::fmt;

use ifc::{CallId, Labeled, Permit, Question, RegionId, Relevance};

#[cfg(doc)]
use crate::Agent;
use crate::CompletionRequest;

/// What the machine needs next.
#[must_use]
#[derive(Debug)]
pub enum Need {
    /// A screening of [`Agent::history`], and of [`Agent::draft`] if there is one: bring it with
    /// [`Agent::handle_screened`].
    Screen,
    /// A language model's answer: bring it with [`Agent::handle_completion`].
    Complete(CompletionRequest),
    /// The user's answer: bring both back with [`Agent::handle_answer`].
    Confirm(Question),
    /// The execution of one call: bring its result with [`Agent::handle_result`].
    Execute(Permit),
    /// The execution of these calls by whoever holds the conversation ([`Execution::Elsewhere`]).
    /// The turn is over for this machine: the results come with the next history.
    ///
    /// [`Execution::Elsewhere`]: crate::Execution::Elsewhere
    HandOver(HandOver),
    /// The answer to the previous need.
    Answer,
    /// The user: the turn is over (or none has begun). [`Agent::user`] starts the next.
    User(Option<Outcome>),
}

/// The calls of one step that may run, and what the model said beside them.
#[must_use]
#[derive(Debug)]
pub struct HandOver {
    /// The model's text; may be empty.
    pub text: Labeled,
    /// The calls, in order, at least one, as the history names them.
    pub calls: Vec<(CallId, Permit)>,
}

/// How a turn ended.
#[derive(Clone, PartialEq)]
pub struct Outcome {
    /// The final answer, labelled (line 18); or why there is none.
    pub result: Result<Labeled, Stop>,
    /// Calls that policy or the user refused during the turn.
    pub refused: usize,
}

/// Why a turn ended without an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stop {
    /// No answer after so many steps.
    Steps(usize),
    /// The model proposed the same call again and again.
    Repetition(String),
    /// The history is larger than its limit.
    HistoryFull(usize),
    /// The language model failed.
    Model(String),
    /// Policy does not let any answer be shown.
    Withheld(String),
    /// The app or its spoke is gone.
    Spoke(String),
    /// The turn took longer than its limit, in seconds.
    Timeout(u64),
    /// The user interrupted the turn.
    Interrupted,
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Steps(limit) => write!(
                f,
                "no answer after {limit} steps; ask for less at once, or raise limits.steps"
            ),
            Self::Repetition(tool) => {
                write!(
                    f,
                    "the model keeps calling {tool} with the same arguments; rephrase the request"
                )
            }
            Self::HistoryFull(bytes) => {
                write!(
                    f,
                    "the conversation has {bytes} bytes, over its limit; start a new one"
                )
            }
            Self::Model(reason) | Self::Withheld(reason) | Self::Spoke(reason) => {
                f.write_str(reason)
            }
            Self::Timeout(seconds) => write!(
                f,
                "no answer within {seconds} s; ask for less at once, or raise limits.turn_timeout_s"
            ),
            Self::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Outcome({:?}, {} refused)", self.result, self.refused)
    }
}

/// A screening, as the driver brings it.
#[derive(Debug)]
pub struct Screened {
    /// The screener's name.
    pub screener: String,
    /// The regions of interest, or why there are none to tell: an error means everything.
    pub relevance: Result<Relevance, String>,
    /// Why the screener could not tell by itself, although there are regions of interest: for the
    /// trace alone, as is the rest of [`ifc::Report`].
    pub failure: Option<String>,
    /// How strongly the draft depends on the regions.
    pub scores: Vec<(RegionId, f32)>,
}

/// What became of an executed call.
#[derive(Debug)]
pub enum CallOutcome {
    /// The app answered.
    Returned {
        /// The result's text.
        text: String,
        /// Whether the app called it an error.
        is_error: bool,
    },
    /// The app did not answer properly; the spoke lives. The reason may quote the app: it is
    /// labelled like the app's most restrictive result.
    Failed(String),
    /// The app or the spoke is gone. The reason is for the user; no prompt shows it.
    Lost(String),
}

/// A `handle_*` that the machine did not ask for. A bug in the driver; nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Misuse {
    /// What was brought.
    pub brought: &'static str,
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the turn machine did not ask for {}", self.brought)
    }
}

impl std::error::Error for Misuse {}
