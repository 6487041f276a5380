//! MCP client; the only crate that uses rmcp.
//!
//! [`AppProcess::spawn`] starts an unmodified MCP stdio server, [`AppClient::start`] initializes it, and
//! [`AppClient::call`] calls its tools. Between the app's stdout and `rmcp` stands a guard: a line that is
//! too long, not a JSON object, too deep or too rich, an answer that nobody asked for, or a flood of
//! unasked messages ends the app with a typed reason before anything interprets the line.
//!
//! Arguments are checked against the tool's input schema before the app sees them, and the check fails
//! closed (SecGPT's fails open). What the app asks of us is mediated: its roots are the mounts of its sandbox; a
//! question to the user (elicitation, `input_required`) and, where it was offered, a completion (sampling)
//! become a [`Request`] that somebody else decides on.

mod claims;
mod client;
mod exact;
mod extras;
mod failure;
mod form;
mod guard;
mod mediator;
mod pages;
mod process;
mod render;
mod sampling;
mod schema;
mod tools;
mod transport;

pub use client::{AppClient, CallResult};
pub use mediator::{Asked, Request, Waiting};
pub use process::{AppFailure, AppProcess};
