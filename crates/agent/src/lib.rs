//! Conversation types and the turn machine (RTBAS Algorithms 1 and 4). Sans-IO.
//!
//! [`Agent`] holds one spoke's labelled conversation. [`Agent::poll`] says what it needs next
//! ([`Need`]): a screening, a completion, the user's confirmation, the execution of a call; the
//! driver brings it with one of the `handle_*` methods. The same machine drives the chat, tests,
//! benchmarks and replay, because it does no I/O, has no clock and draws no randomness.

mod completion;
mod event;
mod need;
mod settings;
mod turn;

pub use completion::{
    AnswerShape, Completion, CompletionRequest, ProposedCall, Purpose, StopReason, Usage,
};
pub use event::{Event, Scored, Verdict};
pub use need::{CallOutcome, HandOver, Misuse, Need, Outcome, Screened, Stop};
pub use settings::{Drafter, Execution, Limits, Mode, PromptDefence, Screening, Settings};
pub use turn::{Agent, bounded};
