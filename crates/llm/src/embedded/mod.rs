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

use std::{thread, time::Instant};

use async_trait::async_trait;
pub use ggml_avx512::{CpuBackend, Reason};
use hub::Completion;
use tokio::sync::{mpsc, oneshot};

use crate::{Cleared, DeltaSink, Provider, ProviderError, one_line};
pub use config::{AVX512_VARIABLE, EmbeddedConfig, EmbeddedError, ModelInfo, Sampling};
use engine::{Ask, Event, Failure, Job};

mod config;
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
/// llama.cpp recurses while it parses grammars and templates of tokens.
const STACK_BYTES: usize = 64 << 20;

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
        // Before anything of llama.cpp runs: its first instruction may be one of them.
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
        // Unbounded, because the thread must not wait for a slow reader; it holds one event per
        // token at most.
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
        // Copied: the thread may still be reading it when this future is dropped.
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
                // Nobody waits any more for what was cancelled.
                Failure::Cancelled | Failure::Model(_) => ProviderError::Model {
                    provider,
                    reason: one_line(&failure.to_string()),
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
