//! Whole sessions: a real sandbox, a real spoke, a real (misbehaving) MCP server, a scripted model.
//!
//! They need user namespaces, and the binaries `sluice-spoke` and `misbehaving-app`, which
//! `cargo xtask test` builds.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests fail by panicking"
)]

mod asking;
mod asks;
mod cleared;
mod collaborating;
mod connecting;
mod deaths;
mod each;
mod facts;
mod floods;
mod images;
mod joint;
mod memory;
mod models;
mod names;
mod planning;
mod private;
mod rules;
mod selecting;
mod served;
mod stage;
mod summaries;
mod trusting;
mod turns;
