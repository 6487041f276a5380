//! What the turn machine asks of a language model, and what it gets back.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ifc::{ArgumentPath, Arguments, Label, PastCall, Prompt, Unread};
use serde::{Deserialize, Serialize};

/// One call of a language model: the only text it may see, and how it must answer.
#[derive(Debug)]
pub struct CompletionRequest {
    /// The redacted view of the history; its label bounds everything in it.
    pub prompt: Prompt,
    /// What the call is for; providers keep one cached prefix per purpose.
    pub purpose: Purpose,
    /// The shape the answer must have.
    pub shape: AnswerShape,
    /// Upper bound on generated tokens.
    pub max_tokens: u32,
}

/// What a completion is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// The next message of the agent (RTBAS Algorithm 4, lines 6 and 17).
    Step,
    /// The next message as a model drafts it for the screener alone (RTBAS §8.3.3).
    Draft,
    /// The LM-judge's dependency screening (RTBAS §7.1).
    Judge,
    /// The hub planner's choice of an app (SecGPT §4.1.2).
    Plan,
    /// A summary of a conversation that is too long.
    Summary,
    /// The facts in a turn that are to be remembered.
    Facts,
}

/// The shape that an answer must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnswerShape {
    /// Text, or calls of the prompt's tools.
    TextOrCalls,
    /// Text only, even if the prompt lists tools.
    Text,
    /// At least one call of the prompt's tools.
    Calls,
    /// One JSON value that matches this JSON Schema (its text).
    Json {
        /// The schema, as JSON text.
        schema: String,
    },
}

/// A model's answer. Unlabelled: the turn machine labels it with the prompt's label, and `Debug` does
/// not show what the model wrote.
#[derive(Clone, Default, PartialEq)]
pub struct Completion {
    /// The text part; empty when the answer is calls only.
    pub text: String,
    /// Proposed tool calls, in order.
    pub calls: Vec<ProposedCall>,
    /// Why generation ended.
    pub stop: StopReason,
    /// What it cost.
    pub usage: Usage,
    /// What its server needs back with the step that it becomes.
    pub unread: Option<Arc<Unread>>,
}

/// A tool call as a model wrote it. Nothing is checked yet. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct ProposedCall {
    /// The tool's name.
    pub tool: String,
    /// The arguments, as JSON text.
    pub arguments: String,
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bytes, calls, stop) = (self.text.len(), &self.calls, self.stop);
        write!(f, "Completion({bytes} bytes, {calls:?}, {stop:?})")
    }
}

impl fmt::Debug for ProposedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tool, arguments) = (self.tool.len(), self.arguments.len());
        write!(f, "ProposedCall({tool} and {arguments} bytes)")
    }
}

impl ProposedCall {
    /// Whether both propose the same: one tool, and arguments of one canonical form. Arguments that
    /// have none are compared as they stand.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        let canonical = |call: &Self| Arguments::parse(&call.arguments, &Label::bottom());
        self.tool == other.tool
            && (self.arguments == other.arguments
                || canonical(self).is_ok_and(|own| canonical(other).is_ok_and(|it| own.same(&it))))
    }

    /// Whether both propose the same, except for the values at these paths of their arguments.
    pub(crate) fn same_but<'p>(
        &self,
        other: &Self,
        places: impl Iterator<Item = &'p ArgumentPath> + Clone,
    ) -> bool {
        let read = |call: &Self| Arguments::parse(&call.arguments, &Label::bottom());
        let (Ok(arguments), Ok(others)) = (read(self), read(other)) else {
            return false;
        };
        self.tool == other.tool && arguments.same_but(&others, places)
    }
}

/// As it was proposed, with every label left behind: to be compared, and never shown.
impl From<&PastCall> for ProposedCall {
    fn from(call: &PastCall) -> Self {
        Self {
            tool: call.tool.clone(),
            arguments: call.arguments.reveal_tcb().to_owned(),
        }
    }
}

/// Why generation ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The model ended its message.
    #[default]
    End,
    /// `max_tokens` was reached; the text may be cut.
    Length,
    /// The provider saw the model repeat itself and cut it off.
    Repetition,
    /// The provider's content filter ended it.
    Filter,
    /// The provider ended it for another reason than that it was whole.
    Other,
}

/// What a completion cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// How many of them came from a cached prefix.
    pub cached_tokens: u32,
    /// Generated tokens.
    pub completion_tokens: u32,
    /// Wall time from the request to the first generated token, where the provider can tell.
    pub time_to_first_token: Option<Duration>,
    /// Wall time of the whole call.
    pub total_time: Duration,
}
