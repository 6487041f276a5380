//! `sluice-remote` between a client of the test's and servers of the test's, on loopback.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod client;
mod hostile;
mod mirrored;
mod speaking;
