//! MCP client over stdio.
//!
//! [`AppProcess::spawn`] starts an unmodified MCP stdio server, [`AppClient::start`] initializes it, and
//! [`AppClient::call`] calls its tools. Between the app's stdout and `rmcp` stands a guard: a line that is
//! too long, not a JSON object, too deep or too rich, an answer to no request, or a flood of
//! unasked messages ends the app with a typed reason before anything interprets the line.
//!
//! Arguments are checked against the tool's input schema before the app sees them, and the check fails
//! closed (SecGPT's fails open). A question of the app to the user (elicitation, `input_required`) becomes a
//! [`Request`], on which the hub decides. Sampling and roots, which the protocol has deprecated, are not offered.

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
mod schema;
mod tools;
mod transport;

pub use client::{AppClient, CallResult};
pub use mediator::{Asked, Request, Waiting};
pub use process::{AppFailure, AppProcess};
