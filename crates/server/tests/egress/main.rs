//! What an app can reach by name, from inside a real spoke.
//!
//! They need user namespaces, Python, Node and curl in `/usr/bin`, and the binaries `sluice-spoke` and `misbehaving-app`,
//! which `cargo xtask test` builds.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod attacks;
mod flows;
mod programs;
mod remote;
mod stage;
mod users_program;
