//! The engine: a model, its threads, and the cache that all sessions share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::{
    Observer,
    backward::{Outputs, backward},
    cache::Cache,
    forward::{Goal, forward, losses},
    state::Sequence,
    weights::Model,
};

/// History tokens that go through the model together. More would not be faster, and 512 rows of
/// activations take 20 MB at SmolLM2's size.
const HISTORY_ROWS: usize = 512;

/// Output tokens that go through the model and back together: 128 rows keep 80 MB of activations and
/// 25 MB of logits at SmolLM2's size.
const OUTPUT_ROWS: usize = 128;

/// The loss of each output token, in nats.
pub type Losses = Vec<f32>;

/// Why there is no saliency.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SaliencyError {
    /// No history.
    #[error("the history has no tokens; give at least one (the beginning-of-text token)")]
    NoHistory,
    /// More tokens than the model was made for.
    #[error(
        "{tokens} tokens of history and output are more than the model's {context}; leave out the oldest"
    )]
    TooLong {
        /// History and output together.
        tokens: usize,
        /// The most there may be.
        context: usize,
    },
    /// A token that the model does not know.
    #[error(
        "token {token} is not in the model's vocabulary of {vocab}; use the model's own tokenizer"
    )]
    UnknownToken {
        /// The token.
        token: u32,
        /// Tokens are below this.
        vocab: usize,
    },
    /// The model's numbers overflow.
    #[error("the loss of output token {0} is not a number; the model file is damaged")]
    NotFinite(usize),
    /// The operating system gave no threads.
    #[error("no threads for the saliency engine: {0}")]
    Threads(String),
    /// It was called by a thread of a rayon pool, its own or another. While such a thread waits it
    /// takes on other work, which might be a call that waits for the one below it on the stack.
    #[error("the saliency engine cannot be called by a rayon thread; call it by another")]
    Nested,
}

/// Computes attention and its gradients, and keeps the keys and values of histories for the next call. Share
/// one by [`Arc`] between all sessions: histories that begin alike are computed once.
///
/// Each call that runs holds keys and values of its own (46 KB a token for SmolLM2), and can use all
/// threads. How many run at once is the caller's to bound.
pub struct Engine {
    model: Arc<Model>,
    threads: ThreadPool,
    cache: Mutex<Cache>,
}

impl Engine {
    /// An engine with a thread for each core. Its cache holds so many bytes when no call is running.
    pub fn new(model: Arc<Model>, cache_bytes: usize) -> Result<Self, SaliencyError> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = ThreadPoolBuilder::new()
            .num_threads(cores)
            .thread_name(|at| format!("saliency-{at}"))
            .build()
            .map_err(|error| SaliencyError::Threads(error.to_string()))?;
        Ok(Self {
            cache: Mutex::new(Cache::new(cache_bytes, &model.config)),
            model,
            threads,
        })
    }

    /// The model.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// How many tokens of a history are in the cache now.
    pub fn cached(&self, history: &[u32]) -> usize {
        self.cache().find(history).1
    }

    /// Bytes of the cache.
    pub fn cached_bytes(&self) -> usize {
        self.cache().bytes()
    }

    /// Shows every attention row of the output tokens with its gradient, and returns the losses.
    ///
    /// What is new of the history stays in the cache, but for its last token, which is computed with
    /// the output: its row predicts the first output token. Output tokens are never cached. With no
    /// output, only the cache is filled.
    ///
    /// # Errors
    /// See [`SaliencyError`]. The observer may have seen rows before an error.
    pub fn observe(
        &self,
        history: &[u32],
        output: &[u32],
        observer: &mut dyn Observer,
    ) -> Result<Losses, SaliencyError> {
        self.check(history, output)?;
        self.run(|| {
            let mut sequence = self.prefix(history);
            self.outputs(&mut sequence, history, output, observer)
        })
    }

    /// Runs the work on the engine's threads.
    fn run<T: Send>(
        &self,
        work: impl FnOnce() -> Result<T, SaliencyError> + Send,
    ) -> Result<T, SaliencyError> {
        if rayon::current_thread_index().is_some() {
            return Err(SaliencyError::Nested);
        }
        self.threads.install(work)
    }

    fn check(&self, history: &[u32], output: &[u32]) -> Result<(), SaliencyError> {
        let config = &self.model.config;
        if history.is_empty() {
            return Err(SaliencyError::NoHistory);
        }
        // Positions beyond the training length give numbers that mean nothing. Cutting the history
        // here would leave columns without a token, so the caller has to choose what to leave out.
        let tokens = history.len() + output.len();
        if tokens > config.context {
            let context = config.context;
            return Err(SaliencyError::TooLong { tokens, context });
        }
        let mut all = history.iter().chain(output).copied();
        // The kernels index embeddings and logits by token and panic beyond the end; this check keeps
        // them from it.
        match all.find(|token| *token as usize >= config.vocab) {
            Some(token) => Err(SaliencyError::UnknownToken {
                token,
                vocab: config.vocab,
            }),
            None => Ok(()),
        }
    }

    /// Keys and values of a history but for its last token, from the cache as far as it has them. The
    /// cache's lock is not held while the rest is computed, so that others can ask what is in it.
    fn prefix(&self, history: &[u32]) -> Sequence {
        let body = history.split_last().map_or(&[][..], |(_, body)| body);
        // `length` may end inside a block whose later slots belong to another history.
        // `Sequence::store` copies such a shared block before it writes, and the softmax masks what
        // is beyond the sequence.
        let (blocks, length) = self.cache().find(body);
        let mut sequence = Sequence { blocks, length };
        let new = body.get(length..).unwrap_or_default();
        for tokens in new.chunks(HISTORY_ROWS) {
            forward(&self.model, &mut sequence, tokens, Goal::Keys);
        }
        if !new.is_empty() {
            self.cache().insert(body, sequence.blocks.clone());
        }
        sequence
    }

    /// Output row `j` is that of the token before output token `j`.
    fn outputs(
        &self,
        sequence: &mut Sequence,
        history: &[u32],
        output: &[u32],
        observer: &mut dyn Observer,
    ) -> Result<Losses, SaliencyError> {
        // The last output token predicts nothing that is asked about, so it has no row.
        let inputs = history.last().into_iter().chain(output).copied();
        let inputs = inputs.take(output.len()).collect::<Vec<_>>();
        let mut all = Vec::with_capacity(output.len());
        let chunks = inputs.chunks(OUTPUT_ROWS).zip(output.chunks(OUTPUT_ROWS));
        for (inputs, targets) in chunks {
            // Each chunk is appended to `sequence`, so later output tokens attend to earlier ones;
            // `saved` is dropped with its chunk, which bounds the memory.
            let mut saved = Vec::new();
            let x = forward(&self.model, sequence, inputs, Goal::Gradient(&mut saved));
            let (losses, dlogits) = losses(&self.model, &x, targets);
            let first = all.len();
            // Checked before the backward pass: the gradients would be NaN too, and any comparison of
            // a screener with NaN is false.
            if let Some(at) = losses.iter().position(|loss| !loss.is_finite()) {
                return Err(SaliencyError::NotFinite(first + at));
            }
            all.extend(losses);
            let outputs = Outputs {
                first,
                x: &x,
                dlogits: &dlogits,
                saved: &saved,
            };
            backward(&self.model, sequence, &outputs, observer);
        }
        Ok(all)
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        // A panic leaves it consistent: the sequences are changed one at a time.
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
