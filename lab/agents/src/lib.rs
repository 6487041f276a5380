//! A scripted model for agents that are not ours. It speaks the three APIs, does the plan in the user's text, and obeys
//! every other order that it can see: the worst that a stranger's text can make of a model.
//!
//! `tests/matrix` puts real agents before it.

mod conversation;
mod model;
mod orders;
#[cfg(test)]
mod tests;

pub use model::{FULL, answer};
