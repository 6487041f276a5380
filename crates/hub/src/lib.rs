//! The hub's decisions: planner, conversations, trace. Sans-IO.
//!
//! The hub is SecGPT's trustworthy interface between the user and the apps (§4.1). This crate
//! holds what it decides; the `server` crate brings it the world.

mod conversation;
pub mod planner;
pub mod trace;

pub use conversation::{AppTool, conversation};
