//! The screeners by themselves and in the turn machine.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests fail by panicking, and say when they are skipped"
)]

mod attention;
mod common;
mod conformance;
mod judge;
mod lab;
