//! A small language model on the CPU that says which input tokens each output token depends on
//! (RTBAS §3.3, equation 2).
//!
//! The saliency of input token `i` for output token `o` is `Σ_{h,l} |A_{h,l,i,o} · ∂L_o/∂A_{h,l,i,o}|`:
//! over all heads and layers, the attention that the row which predicts `o` pays to `i`, times the
//! gradient of `o`'s own loss with respect to it.
//!
//! Only the output rows need a backward pass, and each only through itself: the keys and values of
//! the history are constants, which a cache keeps from step to step.

mod attention;
mod backward;
mod cache;
mod config;
mod engine;
mod forward;
pub mod gguf;
mod kernels;
mod observer;
mod state;
pub mod tokenizer;
mod weights;

pub use cache::CACHE_BYTES;
pub use config::{Config, ModelError};
pub use engine::{Engine, Losses, SaliencyError};
pub use observer::{Observer, Row};
pub use weights::{LayerWeights, Model, Weights};
