//! What outlives a process is read as it was written, or as more; and what several processes do of one conversation is done
//! once.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests fail by panicking"
)]

mod protocol;
mod twins;
