//! MCP client over stdio.
//!
//! [`AppProcess::spawn`] starts an unmodified MCP stdio server, [`AppClient::start`] initializes it, and
//! [`AppClient::call`] calls its tools. Between the app's stdout and `rmcp` stands a guard. A line that is no message is
//! skipped and counted; an answer that is too long, too deep or too rich, or that cannot be read, fails its request; a
//! flood of unasked messages ends the app. All of this is known before anything interprets the line.
//!
//! The smallest unit fails, by name: a tool that cannot be described is left out, a part of a result that cannot be
//! read is a note. Results are taken as the app wrote them.
//!
//! Arguments are checked against the tool's input schema before the app sees them. A tool whose schema cannot be used is
//! marked as unchecked: what limits its calls then is the policy, which reads the arguments and not the schema. A question of the app to the user (elicitation, `input_required`) becomes a
//! [`Request`], on which the hub decides. Sampling and roots, which the protocol has deprecated, are not offered.

mod claims;
mod client;
mod exact;
mod extras;
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
