//! The trace: what happened, in the order it happened, for people and for replay.
//!
//! A trace is a file of JSON lines, one [`Record`] each. [`Event`] is the only type for what happened:
//! the turn machine makes it, with labels by name; the core's types are not serializable on purpose.

mod apps;
mod escape;
mod event;
mod parts;
mod saliency;
mod show;
mod text;

use serde::{Deserialize, Serialize};

pub use escape::{escape, escape_lines};
pub use event::{Event, MessageKind, UNANSWERED};
pub use parts::{AnswerSource, Call, Cause, Flow, Message, Names, Quote, Recalled, Score, Usage};
pub use saliency::saliency;
pub use show::{is_label, says_nothing, show};
pub use text::Text;

/// The format's version, in every record.
pub const VERSION: u32 = 2;

/// One line of a trace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// [`VERSION`].
    pub version: u32,
    /// Counts the records of a session from 1, without gaps.
    pub sequence: u64,
    /// Milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// The conversation that it belongs to, where one trace holds many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<String>,
    /// What happened.
    pub event: Event,
}
