//! The thread that owns the model: reads prompts, writes answers.

use std::{
    env,
    num::{NonZeroU16, NonZeroU32},
    pin::pin,
    sync::OnceLock,
    time::Instant,
};

use ggml_avx512::CpuBackend;
use hub::{AnswerShape, Completion, StopReason, Usage};
use ifc::{PromptMessage, PromptTool};
use llama_cpp_2::{
    context::{LlamaContext, params::LlamaContextParams},
    llama_backend::LlamaBackend,
    llama_batch::LlamaBatch,
    model::{LlamaModel, params::LlamaModelParams},
    token::LlamaToken,
};
use tokio::sync::{mpsc, oneshot};

use super::{
    config::{AVX512_VARIABLE, EmbeddedConfig, EmbeddedError, ModelInfo},
    grammar::answer_grammar,
    parse::AnswerStream,
    repeat::RepeatDetector,
    sample::Picker,
    slots::{Place, Slots},
    template::ChatTemplate,
    tokens::{Specials, TokenError},
};

/// Room for the answer that a prompt must leave, if as much is asked for.
const LEAST_ANSWER: u32 = 64;

/// One completion to make.
#[derive(Debug, Clone)]
pub(super) struct Ask {
    pub(super) messages: Vec<PromptMessage>,
    pub(super) tools: Vec<PromptTool>,
    pub(super) shape: AnswerShape,
    pub(super) max_tokens: u32,
}

/// What to do when an answer turns out to be text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WhenText {
    GoOn,
    Stop,
}

/// An [`Ask`] on its way to the thread. Dropping the receiver of `events` cancels it.
pub(super) struct Job {
    pub(super) ask: Ask,
    pub(super) asked: Instant,
    pub(super) events: mpsc::UnboundedSender<Event>,
}

/// What the thread says about a [`Job`]. At most one event per token, so the channel is bounded
/// by the asked number of tokens.
#[derive(Debug)]
pub(super) enum Event {
    Text(String),
    Done(Result<Completion, Failure>),
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Failure {
    #[error("{prompt} tokens and {answer} for the answer, but the context holds {context}")]
    TooLong {
        prompt: usize,
        answer: u32,
        context: u32,
    },
    #[error("{bytes} bytes of text, but the context holds at most {limit}")]
    TooManyBytes { bytes: usize, limit: usize },
    #[error("cancelled")]
    Cancelled,
    #[error("{0}")]
    Model(String),
}

impl Failure {
    fn model(what: &str, error: impl std::fmt::Display) -> Self {
        Self::Model(format!("{what}: {error}"))
    }
}

/// The body of the thread: loads, reports, then serves jobs until all senders are gone.
pub(super) fn run(
    config: &EmbeddedConfig,
    ready: oneshot::Sender<Result<ModelInfo, EmbeddedError>>,
    mut jobs: mpsc::Receiver<Job>,
) {
    // On this thread, which then owns the model and its context: neither is moved or shared.
    let loaded = llama().and_then(|llama| Ok((&llama.backend, load(&llama.backend, config)?)));
    let (backend, model) = match loaded {
        Ok(loaded) => loaded,
        Err(error) => {
            let _ = ready.send(Err(error));
            return;
        }
    };
    let mut engine = match Engine::new(backend, &model, config) {
        Ok(engine) => engine,
        Err(error) => {
            let _ = ready.send(Err(error));
            return;
        }
    };
    let _ = ready.send(Ok(engine.info()));
    while let Some(job) = jobs.blocking_recv() {
        let result = engine.answer(&job);
        let _ = job.events.send(Event::Done(result));
    }
}

/// llama.cpp, started once in a process.
pub(super) struct Llama {
    pub(super) backend: LlamaBackend,
    /// What it computes with.
    pub(super) cpu: CpuBackend,
}

pub(super) fn llama() -> Result<&'static Llama, EmbeddedError> {
    static LLAMA: OnceLock<Option<Llama>> = OnceLock::new();
    LLAMA
        .get_or_init(|| {
            let mut backend = LlamaBackend::init().ok()?;
            // llama.cpp would write to standard error, which belongs to the terminal's user.
            backend.void_logs();
            let wanted = env::var_os(AVX512_VARIABLE).is_none_or(|value| value != "off");
            let cpu = ggml_avx512::choose(&mut backend, wanted);
            Some(Llama { backend, cpu })
        })
        .as_ref()
        .ok_or(EmbeddedError::Backend)
}

fn load(backend: &LlamaBackend, config: &EmbeddedConfig) -> Result<LlamaModel, EmbeddedError> {
    let unusable = |reason: &str| EmbeddedError::Model {
        path: config.model.clone(),
        reason: reason.to_owned(),
    };
    if !config.model.is_file() {
        return Err(unusable("there is no such file"));
    }
    let params = pin!(LlamaModelParams::default());
    LlamaModel::load_from_file(backend, &config.model, &params)
        .map_err(|error| unusable(&error.to_string()))
}

struct Engine<'m> {
    model: &'m LlamaModel,
    context: LlamaContext<'m>,
    template: ChatTemplate,
    specials: Specials,
    slots: Slots,
    config: &'m EmbeddedConfig,
}

impl<'m> Engine<'m> {
    fn new(
        backend: &LlamaBackend,
        model: &'m LlamaModel,
        config: &'m EmbeddedConfig,
    ) -> Result<Self, EmbeddedError> {
        let unusable = |reason: String| EmbeddedError::Model {
            path: config.model.clone(),
            reason,
        };
        let vocab = model.vocab();
        let text_of = |token: LlamaToken| {
            // llama.cpp's sign for a token that the vocabulary lacks.
            if token.0 < 0 {
                return String::new();
            }
            String::from_utf8(vocab.token_to_piece(token, true, None::<NonZeroU16>))
                .unwrap_or_default()
        };
        let source = model.meta_val_str("tokenizer.chat_template").map_err(|_| {
            unusable("it has no chat template; use an instruction-tuned model".into())
        })?;
        let template = ChatTemplate::new(&source, &text_of(vocab.bos()), &text_of(vocab.eos()))
            .map_err(|error| unusable(format!("its chat template: {error}")))?;
        let threads = i32::try_from(config.threads.get()).unwrap_or(i32::MAX);
        let params = LlamaContextParams::default()
            .with_n_ctx(NonZeroU32::new(
                config.context_tokens.saturating_mul(config.slots),
            ))
            .with_n_seq_max(config.slots)
            .with_n_batch(config.batch_tokens)
            .with_n_ubatch(config.batch_tokens)
            .with_n_threads(threads)
            .with_n_threads_batch(threads)
            .with_no_perf(true);
        // llama.cpp gives no reason. The parameters are ours, so what is missing is memory.
        let context = model
            .new_context(backend, params)
            .map_err(|_| EmbeddedError::Context {
                path: config.model.clone(),
                bytes: cache_bytes(model, config),
            })?;
        Ok(Self {
            specials: Specials::of(&vocab),
            model,
            context,
            template,
            slots: Slots::new(usize::try_from(config.slots).unwrap_or(1)),
            config,
        })
    }

    fn info(&self) -> ModelInfo {
        ModelInfo {
            parameters: self.model.n_params(),
            context_tokens: self.config.context_tokens,
            cache_bytes: cache_bytes(self.model, self.config),
        }
    }

    /// A small model that sees tools talks about them instead of answering. So, once there are
    /// results to answer from, it decides with the tools in view whether to call, and the words
    /// themselves are made without them.
    fn answer(&mut self, job: &Job) -> Result<Completion, Failure> {
        // Given up while it waited: the prompt would take the place of one that is cached.
        if job.events.is_closed() {
            return Err(Failure::Cancelled);
        }
        let ask = &job.ask;
        let is_result = |message: &PromptMessage| matches!(message, PromptMessage::Tool { .. });
        let decide_first =
            ask.shape == AnswerShape::TextOrCalls && ask.messages.iter().any(is_result);
        let when_text = if decide_first {
            WhenText::Stop
        } else {
            WhenText::GoOn
        };
        let (completion, decision) = self.complete(job, ask, when_text)?;
        if let Some(completion) = completion {
            return Ok(completion);
        }
        // It chose words: they are made without tools in view, in a prompt of their own.
        let words = Ask {
            shape: AnswerShape::Text,
            ..ask.clone()
        };
        let (completion, _) = self.complete(job, &words, WhenText::GoOn)?;
        let mut completion =
            completion.ok_or_else(|| Failure::Model("it stopped by itself".into()))?;
        // Both readings were paid for.
        completion.usage.prompt_tokens += decision.prompt_tokens;
        completion.usage.cached_tokens += decision.cached_tokens;
        completion.usage.completion_tokens += decision.completion_tokens;
        completion.usage.time_to_first_token = decision.time_to_first_token;
        Ok(completion)
    }

    /// One reading of a prompt and the answer to it, with what it cost; `None` if it was stopped
    /// because it is text.
    fn complete(
        &mut self,
        job: &Job,
        ask: &Ask,
        when_text: WhenText,
    ) -> Result<(Option<Completion>, Usage), Failure> {
        let prompt = self.prompt(ask)?;
        // The grammar and the sampler before a sequence is taken: an error here leaves the cache as it was.
        let grammar =
            answer_grammar(&ask.shape, &ask.tools).map_err(|why| Failure::Model(why.into()))?;
        let picker = Picker::new(self.model, grammar.as_deref(), &self.config.sampling)
            .map_err(Failure::Model)?;
        let place = self.slots.place(&ids(&prompt));
        let result = self
            .read(job, &prompt, place)
            .and_then(|()| self.write(job, ask, when_text, &prompt, place, picker));
        // After a cancelled call the sequence holds exactly what the slots say, and the next prompt may begin with it.
        if matches!(result, Err(Failure::Model(_))) {
            self.slots.forget(place.slot);
        }
        result
    }

    fn prompt(&self, ask: &Ask) -> Result<Vec<LlamaToken>, Failure> {
        let tools = match ask.shape {
            AnswerShape::Text => &[],
            _ => ask.tools.as_slice(),
        };
        let pieces = self
            .template
            .render(&ask.messages, tools)
            .map_err(|error| Failure::model("chat template", error))?;
        let context = self.config.context_tokens;
        let tokens = self
            .specials
            .tokenize(
                &self.model.vocab(),
                &pieces,
                usize::try_from(context).unwrap_or(usize::MAX),
            )
            .map_err(|error| match error {
                TokenError::TooLong { bytes, limit } => Failure::TooManyBytes { bytes, limit },
                TokenError::Markup => {
                    Failure::Model("text would become markup; use another model file".into())
                }
            })?;
        if tokens.is_empty() {
            return Err(Failure::Model("the prompt is empty".into()));
        }
        // A prompt that leaves no room would be read for nothing.
        let answer = ask.max_tokens.min(LEAST_ANSWER);
        if tokens.len() as u64 + u64::from(answer) > u64::from(context) {
            return Err(Failure::TooLong {
                prompt: tokens.len(),
                answer,
                context,
            });
        }
        Ok(tokens)
    }

    /// Brings the sequence to the end of the prompt.
    fn read(&mut self, job: &Job, prompt: &[LlamaToken], place: Place) -> Result<(), Failure> {
        let sequence = sequence(place.slot);
        if let Some(from) = place.copy_from {
            self.context
                .copy_kv_cache_seq(self::sequence(from), sequence, None, None)
                .map_err(|error| Failure::model("prefix cache", error))?;
        }
        // What the sequence holds beyond the shared beginning is of another prompt, and must not be attended to.
        let keep = u32::try_from(place.keep).unwrap_or(u32::MAX);
        self.context
            .kv_cache_seq_rm(sequence, Some(keep), None)
            .map_err(|error| Failure::model("prefix cache", error))?;
        let size = usize::try_from(self.config.batch_tokens)
            .unwrap_or(1)
            .max(1);
        let mut batch = LlamaBatch::new(size, 1);
        let mut at = place.keep;
        for chunk in prompt.get(place.keep..).unwrap_or_default().chunks(size) {
            if job.events.is_closed() {
                return Err(Failure::Cancelled);
            }
            batch.clear();
            for token in chunk {
                at += 1;
                // Logits are asked for at the prompt's last token alone: computing them for all is much of the work.
                add(&mut batch, *token, at - 1, sequence, at == prompt.len())?;
            }
            self.decode(&mut batch)?;
            // Only after the batch was decoded, so that the slots never claim what the sequence does not hold.
            self.slots.extend(place.slot, ids(chunk));
        }
        Ok(())
    }

    /// The answer to a prompt that was read, as [`Engine::complete`] returns it.
    fn write(
        &mut self,
        job: &Job,
        ask: &Ask,
        when_text: WhenText,
        prompt: &[LlamaToken],
        place: Place,
        mut picker: Picker,
    ) -> Result<(Option<Completion>, Usage), Failure> {
        let vocab = self.model.vocab();
        let mut stream = AnswerStream::new(&ask.shape, !ask.tools.is_empty());
        let mut utf8 = Utf8::default();
        let mut repeats = RepeatDetector::new();
        let mut first = None;
        let mut written = 0_u32;
        let mut at = prompt.len();
        let context = usize::try_from(self.config.context_tokens).unwrap_or(usize::MAX);
        let mut batch = LlamaBatch::new(1, 1);
        let usage = |written, first| Usage {
            prompt_tokens: u32::try_from(prompt.len()).unwrap_or(u32::MAX),
            cached_tokens: u32::try_from(place.keep).unwrap_or(u32::MAX),
            completion_tokens: written,
            time_to_first_token: first,
            total_time: job.asked.elapsed(),
        };
        let stop = loop {
            // Between tokens: a call that nobody waits for must not hold up the queue.
            if job.events.is_closed() {
                return Err(Failure::Cancelled);
            }
            if written >= ask.max_tokens || at >= context {
                break StopReason::Length;
            }
            let token = picker
                .pick(&self.context, &self.specials)
                .map_err(Failure::Model)?;
            first.get_or_insert_with(|| job.asked.elapsed());
            if vocab.is_eog(token) {
                break StopReason::End;
            }
            written += 1;
            // Without the text of control tokens: an answer is text and never markup.
            let text = utf8.push(&vocab.token_to_piece(token, false, None::<NonZeroU16>));
            if let Some(delta) = stream.push(&text) {
                if when_text == WhenText::Stop {
                    return Ok((None, usage(written, first)));
                }
                let _ = job.events.send(Event::Text(delta));
            }
            // After the text was sent: what was repeated so far is part of the answer, and the stop reason says why it
            // ends.
            if repeats.push(token.0, &text) {
                break StopReason::Repetition;
            }
            batch.clear();
            add(&mut batch, token, at, sequence(place.slot), true)?;
            self.decode(&mut batch)?;
            self.slots.extend(place.slot, [token.0]);
            at += 1;
        };
        let names: Vec<&str> = ask.tools.iter().map(|tool| tool.name.as_str()).collect();
        let (text, calls, rest) = stream.finish(&names);
        let usage = usage(written, first);
        // Text that only looked like a call until its end.
        if when_text == WhenText::Stop && calls.is_empty() {
            return Ok((None, usage));
        }
        if let Some(rest) = rest {
            let _ = job.events.send(Event::Text(rest));
        }
        let completion = Completion {
            text,
            calls,
            stop,
            usage,
        };
        Ok((Some(completion), usage))
    }

    fn decode(&mut self, batch: &mut LlamaBatch<'_>) -> Result<(), Failure> {
        self.context
            .decode(batch)
            .map_err(|error| Failure::model("inference", error))
    }
}

/// Bytes of what a context keeps of its tokens.
fn cache_bytes(model: &LlamaModel, config: &EmbeddedConfig) -> u64 {
    let heads = u64::from(model.n_head()).max(1);
    let width = u64::try_from(model.n_embd()).unwrap_or(0) / heads;
    let kept = u64::from(model.n_head_kv()) * width * u64::from(model.n_layer());
    // Keys and values, two bytes each.
    kept * 4 * u64::from(config.context_tokens) * u64::from(config.slots)
}

fn add(
    batch: &mut LlamaBatch<'_>,
    token: LlamaToken,
    at: usize,
    sequence: i32,
    last: bool,
) -> Result<(), Failure> {
    let position = i32::try_from(at).map_err(|error| Failure::model("position", error))?;
    batch
        .add(token, position, &[sequence], last)
        .map_err(|error| Failure::model("batch", error))
}

fn sequence(slot: usize) -> i32 {
    i32::try_from(slot).unwrap_or(0)
}

fn ids(tokens: &[LlamaToken]) -> Vec<i32> {
    tokens.iter().map(|token| token.0).collect()
}

/// Tokens can end inside a character.
#[derive(Debug, Default)]
struct Utf8(Vec<u8>);

impl Utf8 {
    fn push(&mut self, bytes: &[u8]) -> String {
        self.0.extend_from_slice(bytes);
        let mut text = String::new();
        loop {
            match std::str::from_utf8(&self.0) {
                Ok(valid) => {
                    text.push_str(valid);
                    self.0.clear();
                    return text;
                }
                Err(error) => {
                    let (valid, rest) = self.0.split_at(error.valid_up_to());
                    text.push_str(&String::from_utf8_lossy(valid));
                    let Some(bad) = error.error_len() else {
                        // The beginning of a character: wait for its end.
                        self.0 = rest.to_vec();
                        return text;
                    };
                    text.push(char::REPLACEMENT_CHARACTER);
                    self.0 = rest.get(bad..).unwrap_or_default().to_vec();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_come_in_parts_are_joined() {
        let mut utf8 = Utf8::default();
        let bytes = "aé🦀".as_bytes();
        let text: String = bytes.iter().map(|b| utf8.push(&[*b])).collect();
        assert_eq!(text, "aé🦀");
        assert_eq!(utf8.push(b"x\xffy"), "x\u{fffd}y");
    }
}
