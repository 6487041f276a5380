//! How a turn ends.

use std::fmt;

use ifc::{CallId, Labeled, Permit};

use crate::StopReason;
use crate::trace::AnswerSource;

/// How a turn ended.
#[derive(Clone, PartialEq)]
pub struct Outcome {
    /// The final answer, labelled (line 18); or why there is none. Both have passed the answer's
    /// sink: they may be shown.
    pub result: Result<Labeled, Stop>,
    /// Why the completion ended that the answer is.
    pub stop: StopReason,
    /// Calls that policy or the user refused during the turn.
    pub refused: usize,
    /// Calls of which it is not known whether they ran: they were sent, and no answer came. The trace
    /// names them.
    pub unknown: usize,
    /// Requests to other apps to which no response of the agreed form came.
    pub dropped: usize,
    /// Words of the answer that are shown otherwise than they were written, since they could be addresses
    /// that may not be active.
    pub inert: usize,
    /// The untrusted sources that the answer may depend on.
    pub sources: Vec<AnswerSource>,
}

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Outcome({:?}, {} refused, {} unknown, {} dropped)",
            self.result, self.refused, self.unknown, self.dropped
        )
    }
}

/// The calls of one step that may run, and what the model said beside them.
#[must_use]
#[derive(Debug)]
pub struct HandOver {
    /// The model's text; may be empty.
    pub text: Labeled,
    /// Why the completion ended that the step is: a step that was cut off may lack calls.
    pub stop: StopReason,
    /// The calls, in order, at least one, as the history names them.
    pub calls: Vec<(CallId, Permit)>,
}

/// Why a turn ended without an answer.
///
/// Text that quotes a model, a provider, an app or a spoke is labelled. `Display` leaves it out;
/// [`Stop::reveal_tcb`] has it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stop {
    /// No answer after so many steps.
    Steps(usize),
    /// The model proposed the same call again and again. Which one is not said: a model chose its
    /// name.
    Repetition,
    /// The history is larger than its limit, in bytes.
    HistoryFull(usize),
    /// The conversation is too long for a prompt, and there is no summary of it, since its provider says
    /// this.
    Unsummarised(Labeled),
    /// The language model failed, and its provider says this.
    Model(Labeled),
    /// The model gave no answer after these calls were refused, each with its reason.
    Unanswered(Labeled),
    /// The provider may not see what was read, so there is no answer from it. These taints are above its clearance.
    Uncleared(Vec<String>),
    /// Policy does not let any answer be shown. Its words are the policy's.
    Withheld(String),
    /// The app or its spoke is gone; the words may be the app's.
    Spoke(Labeled),
    /// The call that the user made gave no result: these are our words about why, or the app's.
    Call(Labeled),
    /// The turn took longer than its limit, in seconds.
    Timeout(u64),
    /// The user interrupted the turn.
    Interrupted,
    /// It was the turn of a conversation that serves another app's request: its answer is for that app,
    /// and passes the sink of messages.
    Served,
}

impl Stop {
    /// The foreign words, if there are any.
    #[must_use]
    pub fn words(&self) -> Option<&Labeled> {
        match self {
            Self::Model(words)
            | Self::Unanswered(words)
            | Self::Spoke(words)
            | Self::Call(words)
            | Self::Unsummarised(words) => Some(words),
            _ => None,
        }
    }

    /// The same stop with these words in the place of the foreign ones.
    pub(crate) fn with_words(self, words: Labeled) -> Self {
        match self {
            Self::Model(_) => Self::Model(words),
            Self::Unanswered(_) => Self::Unanswered(words),
            Self::Unsummarised(_) => Self::Unsummarised(words),
            Self::Spoke(_) => Self::Spoke(words),
            Self::Call(_) => Self::Call(words),
            other => other,
        }
    }

    /// The reason with the foreign words in it. Only of a stop in an [`Outcome`], whose words have
    /// passed the answer's sink, or for the trace.
    #[must_use]
    pub fn reveal_tcb(&self) -> String {
        match self.words() {
            Some(words) => words.reveal_tcb().to_owned(),
            None => self.to_string(),
        }
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Steps(limit) => write!(
                f,
                "no answer after {limit} steps; ask for less at once, or raise limits.steps"
            ),
            Self::Repetition => f.write_str(
                "the model keeps making one call with the same arguments; rephrase the request",
            ),
            Self::HistoryFull(bytes) => {
                write!(
                    f,
                    "the conversation has {bytes} bytes, over its limit; start a new one"
                )
            }
            Self::Unsummarised(_) => f.write_str(
                "the conversation is too long, and could not be summarised; start a new one",
            ),
            Self::Model(_) => f.write_str("the language model failed"),
            Self::Unanswered(_) => f.write_str("the model gave no answer after a refusal"),
            Self::Spoke(_) => f.write_str("the app is gone"),
            Self::Call(_) => f.write_str("the call gave no result"),
            Self::Uncleared(above) => write!(
                f,
                "the model may not see what the apps returned (labelled {}), so there is no answer; nothing of it was sent",
                above.join(", ")
            ),
            Self::Withheld(reason) => f.write_str(reason),
            Self::Timeout(seconds) => write!(
                f,
                "no answer within {seconds} s; ask for less at once, or raise limits.turn_timeout_s"
            ),
            Self::Interrupted => f.write_str("interrupted"),
            Self::Served => f.write_str("the answer is for the app that asked"),
        }
    }
}
