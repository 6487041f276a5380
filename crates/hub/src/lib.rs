//! Everything that decides, sans-IO: the turn machine, the planner, conversations, the trace.
//!
//! The hub is SecGPT's trustworthy interface between the user and the apps (§4.1). [`TurnMachine`] holds
//! one labelled conversation and runs RTBAS's Algorithm 4 on it. [`TurnMachine::poll`] says what it
//! needs next ([`Need`]): a screening, a completion, the user's confirmation, the execution of a
//! call; the driver brings it with one of the `handle_*` methods. The same machine drives sessions,
//! the proxy, tests, benchmarks and replay, because it does no I/O, has no clock and draws no
//! randomness. The `server` crate brings it the world.

pub mod address;
mod apps;
mod completion;
mod guard;
pub mod isc;
pub mod memory;
mod need;
mod outcome;
pub mod planner;
pub mod question;
pub mod recognise;
pub mod schema;
mod serving;
mod settings;
pub mod trace;
mod turn;

pub use apps::Apps;
pub use completion::{
    AnswerShape, Completion, CompletionRequest, ProposedCall, Purpose, StopReason, Usage,
};
pub use guard::{Guard, Principal, Received, bounded};
pub use need::{CallOutcome, Misuse, Need, Opening, Screened};
pub use outcome::{HandOver, Outcome, Stop};
pub use question::{Asked, Requested};
pub use serving::Serving;
pub use settings::{Attribution, Drafter, Execution, Filling, Limits, Screening, Settings, Setup};
pub use turn::{
    Admits, AppQuestion, AppTool, AppTools, CHECK_NOTE, FILL_NOTE, OPEN, Refinement, TurnMachine,
    conversation,
};
