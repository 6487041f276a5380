//! Servers on loopback for the tests of other crates: [`host`] for bytes, [`Server`] for HTTP, [`Upstream`] for a model.
//!
//! Each connection has a thread of its own, so that tests with and without a runtime use the same servers.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests fail by panicking"
)]

mod bytes;
mod dialects;
mod http;
mod postgres;
mod upstream;

pub use bytes::{Stream, free_port, host, tls_host};
pub use dialects::{Answer, Call, Wire};
pub use http::{Reply, Request, Server, events, json, json_with, status};
pub use postgres::{PASSWORD, Postgres};
pub use upstream::{ModelReply, Upstream, calls, in_api, newest, says};

/// Waits for an operation, in a test without a runtime.
pub fn wait<T>(operation: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().build().unwrap().block_on(operation)
}
