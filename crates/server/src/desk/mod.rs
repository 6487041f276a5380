//! The desk: where all fronts put their questions, and where they are answered from.
//!
//! [`Desk`] is the one of a front. It puts a question into the store that all processes of the user share, and waits until one
//! of them has answered it. [`router`] is the API for programs.

mod api;
mod approver;
mod front;
pub mod page;
mod views;

pub use api::{router, shown};
pub use approver::{Answered, Approver, DropCalls, Other, QuestionOrigin};
pub use front::{Desk, DeskSetup, Notice, fresh_token};

pub use views::{AppFacts, Apps, Decisions, Item, Listed, Overview, ToolDecisions, ToolFacts};
