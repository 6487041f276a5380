//! Conversation types and the turn machine (RTBAS Algorithms 1 and 4). Sans-IO.

mod completion;

pub use completion::{
    AnswerShape, Completion, CompletionRequest, ProposedCall, Purpose, StopReason, Usage,
};
