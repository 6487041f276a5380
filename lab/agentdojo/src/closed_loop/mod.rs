//! The closed loop: the unmodified AgentDojo runs its tasks against an agent behind a defence.
//!
//! A [`Cell`] is one defence, suite, attack and user; its tasks are run one after the other by
//! AgentDojo's own pipeline in a few Python processes, against a server in this process. Every
//! task is one [`Row`](crate::report::Row), written as soon as it is known.

mod cell;
mod drive;
mod model;
mod runner;
mod serve;
mod settings;
mod store;
mod watch;

pub use cell::{ATTACKS, Cell, Defence, PromptDefence, SLUICE_ATTACKS, UserModel, quick_pairs};
pub use drive::Loop;
pub use model::Model;
pub use runner::{Job, MadeCall, Message, Outcome, Runner};
pub use settings::Settings;
pub use store::Store;
