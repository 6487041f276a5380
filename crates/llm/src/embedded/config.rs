//! How an embedded model is run.

use std::{num::NonZeroUsize, path::PathBuf, thread};

/// Tokens that one conversation may hold. 28 KiB of memory each for the 1.5B model.
const CONTEXT_TOKENS: u32 = 8192;
/// Conversations whose beginnings are kept: a spoke's steps, the judge and the planner.
const SLOTS: u32 = 3;
/// Tokens of a prompt that are read at once; a cancelled call stops after as many. Larger batches
/// are not faster on two cores.
const BATCH_TOKENS: u32 = 128;

/// The environment variable that, set to `off`, keeps llama.cpp to the portable CPU backend.
pub const AVX512_VARIABLE: &str = "SLUICE_AVX512";

/// How an [`Embedded`](super::Embedded) model is run.
#[derive(Debug, Clone, PartialEq)]
pub struct EmbeddedConfig {
    /// The provider's name.
    pub name: String,
    /// The GGUF file.
    pub model: PathBuf,
    /// Tokens of one prompt with its answer.
    pub context_tokens: u32,
    /// Conversations whose prompts are kept in memory, see [`ModelInfo::cache_bytes`].
    pub slots: u32,
    /// Tokens of a prompt between two looks at whether the call was cancelled.
    pub batch_tokens: u32,
    /// Threads that compute; more than there are cores makes it much slower.
    pub threads: NonZeroUsize,
    /// How tokens are chosen.
    pub sampling: Sampling,
}

/// How tokens are chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// 0 takes the likeliest token each time.
    pub temperature: f32,
    /// For temperatures above 0; each call starts from it.
    pub seed: u32,
}

impl EmbeddedConfig {
    /// The defaults for a model file: greedy, all cores.
    pub fn new(name: impl Into<String>, model: impl Into<PathBuf>) -> Self {
        Self {
            name: name.into(),
            model: model.into(),
            context_tokens: CONTEXT_TOKENS,
            slots: SLOTS,
            batch_tokens: BATCH_TOKENS,
            threads: thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
            sampling: Sampling {
                temperature: 0.0,
                seed: 0,
            },
        }
    }
}

/// What is known about a loaded model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelInfo {
    /// Its number of parameters.
    pub parameters: u64,
    /// Tokens of one prompt with its answer.
    pub context_tokens: u32,
    /// Memory of the KV cache, all slots.
    pub cache_bytes: u64,
}

/// Why an [`Embedded`](super::Embedded) model does not start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EmbeddedError {
    /// The processor lacks instructions that the inference code was compiled for.
    #[error(
        "this processor has no {0}, which the embedded model needs; use an OpenAI-compatible provider"
    )]
    Processor(&'static str),
    /// The model file cannot be used.
    #[error("{}: {reason}; pull the model again with `sluice model pull`", path.display())]
    Model {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// There is too little memory for what the model keeps of its prompts.
    #[error(
        "{}: no context for it, which takes {} MiB; free some memory or use a smaller model",
        path.display(),
        bytes >> 20
    )]
    Context {
        /// The file.
        path: PathBuf,
        /// See [`ModelInfo::cache_bytes`].
        bytes: u64,
    },
    /// A setting makes no sense.
    #[error("embedded model: {0}")]
    Setting(&'static str),
    /// llama.cpp cannot be started.
    #[error("llama.cpp does not start; something else in this process uses it")]
    Backend,
    /// The thread cannot be started, or died while it loaded the model.
    #[error("the thread of the embedded model does not run: {0}; free some memory")]
    Thread(String),
}
