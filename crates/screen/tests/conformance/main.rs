//! The conformance suites: one for screeners by themselves, one for defences in the turn machine.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod attention;
mod checks;
#[path = "../common/mod.rs"]
mod common;
mod defences;
mod model;
mod run;
mod scenarios;
mod screeners;
