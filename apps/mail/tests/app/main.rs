//! The app as its users meet it: a child process that speaks MCP.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests fail by panicking"
)]

#[path = "../../../support/tests/client/mod.rs"]
mod client;
mod manifest;
mod sample;
mod stdio;
mod support;
mod tls;
