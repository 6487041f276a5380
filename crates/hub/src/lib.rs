//! Everything that decides, sans-IO: the turn machine, the planner, conversations, the trace.
//!
//! The hub is SecGPT's trusted interface between the user and the apps (§4.1). [`TurnMachine`] holds one labelled
//! conversation and runs RTBAS's Algorithm 4 on it. [`TurnMachine::poll`] returns the next [`Need`]: a screening, a
//! completion, a confirmation, the execution of a call. The driver answers it with a `handle_*` method. The machine does
//! no I/O and has no clock or randomness, so it also drives tests, benchmarks and replay.

pub mod address;
mod apps;
mod completion;
mod guard;
pub mod isc;
pub mod memory;
mod need;
mod outcome;
mod permits;
pub mod planner;
pub mod question;
pub mod recognise;
pub mod schema;
mod serving;
mod settings;
pub mod state;
pub mod trace;
mod turn;

pub use apps::{Apps, OtherTools};
pub use completion::{
    AnswerShape, Completion, CompletionRequest, ProposedCall, Purpose, StopReason, Usage,
};
pub use guard::{CallBudget, Guard, Received, bounded};
pub use need::{CallOutcome, Misuse, Need, Opening, Screened};
pub use outcome::{HandOver, Outcome, Stop};
pub use permits::{Permits, REDEEMABLE_FOR, Redeemed};
pub use question::{Asked, Requested};
pub use serving::Serving;
pub use settings::{Attribution, Drafter, Execution, Filling, Limits, Screening, Settings, Setup};
pub use turn::{
    Admits, AppQuestion, AppTool, AppTools, CHECK_NOTE, FILL_NOTE, OPEN, Refinement, TurnMachine,
    conversation,
};
