//! Models that the demo, the case studies and the end-to-end tests run agents with, in the place of a language model.
//!
//! They are no part of the product: what they show is what an agent's guard must hold against.

mod open_call;
mod worst_case;

pub use open_call::OpenCall;

pub use worst_case::{Argument, PlannedCall, SummaryPart, Task, WorstCase, parse_redacted};
