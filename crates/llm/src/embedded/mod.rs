//! A GGUF model inside this process, over llama.cpp (cargo feature `embedded`).
//!
//! One thread owns the model and its context; calls wait in a queue and are answered one at a
//! time. Dropping a call's future stops the work at the next token or the next batch of the
//! prompt.
//!
//! # What it guarantees
//! - **Text is never markup.** The chat template comes from the model file. What messages and
//!   tools contain is given to the tokenizer apart from it, so a mail that imitates
//!   `<|im_end|>` or `<tool_call>` stays text.
//! - **Calls are well-formed.** Answers are constrained by a grammar that is made from the tools'
//!   JSON Schemas ([`AnswerShape`](hub::AnswerShape)). An answer that was cut off
//!   ([`StopReason`](hub::StopReason)) can be incomplete; what does not parse is text.
//! - **Work is reused, content is not.** Prompts of all purposes and sessions share a few
//!   sequences in the KV cache. A prompt reuses exactly the tokens that it begins with itself, so
//!   nothing of another prompt can reach its answer.

use std::{num::NonZeroUsize, path::PathBuf, thread, time::Instant};

use async_trait::async_trait;
pub use ggml_avx512::{CpuBackend, Reason};
use hub::Completion;
use tokio::sync::{mpsc, oneshot};

use crate::{Cleared, DeltaSink, Provider, ProviderError, one_line};
use engine::{Ask, Event, Failure, Job};

mod engine;
mod grammar;
mod json;
mod parse;
mod repeat;
mod sample;
mod schema;
mod slots;
mod template;
mod tokens;

/// Calls that may wait; further callers wait to get into the queue.
const QUEUE: usize = 16;
/// Tokens that one conversation may hold. 28 KiB of memory each for the 1.5B model.
const CONTEXT_TOKENS: u32 = 8192;
/// Conversations whose beginnings are kept: a spoke's steps, the judge and the planner.
const SLOTS: u32 = 3;
/// Tokens of a prompt that are read at once; a cancelled call stops after as many. Larger batches
/// are not faster on two cores.
const BATCH_TOKENS: u32 = 128;
/// llama.cpp recurses while it parses grammars and templates of tokens.
const STACK_BYTES: usize = 64 << 20;

/// The environment variable that, set to `off`, keeps llama.cpp to the portable CPU backend.
pub const AVX512_VARIABLE: &str = "SLUICE_AVX512";

/// How an [`Embedded`] model is run.
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

/// Why an [`Embedded`] model does not start.
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

/// A model that runs in this process.
#[derive(Debug)]
pub struct Embedded {
    name: String,
    info: ModelInfo,
    jobs: mpsc::Sender<Job>,
}

impl Embedded {
    /// Loads a model and starts its thread. Takes a second or two; the thread ends with the
    /// value.
    ///
    /// # Errors
    /// See [`EmbeddedError`].
    pub async fn load(config: EmbeddedConfig) -> Result<Self, EmbeddedError> {
        check_processor()?;
        if config.slots == 0 || config.batch_tokens == 0 || config.context_tokens < 256 {
            return Err(EmbeddedError::Setting(
                "it needs at least one slot, a batch of one token and a context of 256",
            ));
        }
        let name = config.name.clone();
        let (jobs, queue) = mpsc::channel(QUEUE);
        let (ready, loaded) = oneshot::channel();
        thread::Builder::new()
            .name("embedded-model".into())
            .stack_size(STACK_BYTES)
            .spawn(move || engine::run(&config, ready, queue))
            .map_err(|error| EmbeddedError::Thread(error.to_string()))?;
        let info = loaded
            .await
            .map_err(|_| EmbeddedError::Thread("it stopped while it loaded".into()))??;
        Ok(Self { name, info, jobs })
    }

    /// What is known about the model.
    pub fn info(&self) -> ModelInfo {
        self.info
    }

    async fn ask(&self, ask: Ask, sink: &mut dyn DeltaSink) -> Result<Completion, Failure> {
        let gone = || Failure::Model("its thread has stopped; start again".into());
        let (events, mut answer) = mpsc::unbounded_channel();
        let asked = Instant::now();
        self.jobs
            .send(Job { ask, asked, events })
            .await
            .map_err(|_| gone())?;
        while let Some(event) = answer.recv().await {
            match event {
                Event::Text(text) => sink.text(&text),
                Event::Done(result) => return result,
            }
        }
        Err(gone())
    }
}

#[async_trait]
impl Provider for Embedded {
    fn name(&self) -> &str {
        &self.name
    }

    async fn complete(
        &self,
        request: &Cleared<'_>,
        sink: &mut dyn DeltaSink,
    ) -> Result<Completion, ProviderError> {
        let request = request.request();
        let ask = Ask {
            messages: request.prompt.messages().to_vec(),
            tools: request.prompt.tools().to_vec(),
            shape: request.shape.clone(),
            max_tokens: request.max_tokens,
        };
        self.ask(ask, sink).await.map_err(|failure| {
            let provider = self.name.clone();
            match failure {
                Failure::TooLong { .. } | Failure::TooManyBytes { .. } => {
                    ProviderError::ContextLength {
                        provider,
                        message: failure.to_string(),
                    }
                }
                Failure::Cancelled => ProviderError::Cancelled { provider },
                Failure::Model(reason) => ProviderError::Model {
                    provider,
                    reason: one_line(&reason),
                },
            }
        })
    }
}

/// What embedded models compute with in this process. Starts llama.cpp, if it does not run yet.
///
/// # Errors
/// [`EmbeddedError::Processor`] and [`EmbeddedError::Backend`].
pub fn cpu_backend() -> Result<CpuBackend, EmbeddedError> {
    check_processor()?;
    Ok(engine::llama()?.cpu)
}

/// llama.cpp is compiled for x86-64-v3; without this check an older processor would end the
/// process with an illegal instruction.
fn check_processor() -> Result<(), EmbeddedError> {
    #[cfg(target_arch = "x86_64")]
    {
        let needed = [
            ("AVX2", std::is_x86_feature_detected!("avx2")),
            ("FMA", std::is_x86_feature_detected!("fma")),
            ("F16C", std::is_x86_feature_detected!("f16c")),
            ("BMI2", std::is_x86_feature_detected!("bmi2")),
        ];
        if let Some((name, _)) = needed.iter().find(|(_, present)| !present) {
            return Err(EmbeddedError::Processor(name));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
