//! The real spoke binary with real apps, over a socketpair, without the sandbox.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod asking;
mod calling;
mod ending;
mod extras;
mod hub;
mod lifecycle;
mod odd;
