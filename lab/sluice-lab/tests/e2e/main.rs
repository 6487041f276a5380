//! The program as its users meet it: real processes, a real sandbox, the real mail app, a real
//! mail server, and a model over the OpenAI-compatible API on loopback.
//!
//! They need user namespaces, and the binaries that `cargo xtask test` builds.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests fail by panicking"
)]

mod asking;
mod cases;
mod interruptions;
mod langchain;
mod leakage;
mod memory;
mod permissions;
mod screen;
mod service;
mod several;
mod sitting;
mod spokes;
mod stage;
mod terminal;
mod usage;
mod worst_case;
