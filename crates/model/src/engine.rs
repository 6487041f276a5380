//! The thread that owns the model: reads prompts, writes answers.

use std::num::{NonZeroU16, NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::OnceLock;
use std::sync::mpsc::Receiver;
use std::thread;

use llama_cpp_2::context::{LlamaContext, params::LlamaContextParams};
use llama_cpp_2::llama_backend::LlamaBackend;
use llama_cpp_2::llama_batch::LlamaBatch;
use llama_cpp_2::model::{LlamaModel, params::LlamaModelParams};
use llama_cpp_2::token::LlamaToken;
use model_files::protocol::{self, Answer, Event, Message, Request, Shape, Stop, Usage};

use crate::grammar::answer_grammar;
use crate::link::{Job, Link};
use crate::parse::AnswerStream;
use crate::repeat::RepeatDetector;
use crate::sample::Picker;
use crate::slots::{Place, Slots};
use crate::template::ChatTemplate;
use crate::tokens::{Specials, TokenError};

/// Tokens that one conversation may hold. 28 KiB of memory each for the 1.5B model.
const CONTEXT_TOKENS: u32 = 8192;
/// Conversations whose beginnings are kept: a spoke's steps, the judge and the planner.
const SLOTS: u32 = 3;
/// Tokens of a prompt that are read at once; a cancelled call stops after as many. Larger batches
/// are not faster on two cores.
const BATCH_TOKENS: u32 = 128;
/// Room for the answer that a prompt must leave, if as much is asked for.
const LEAST_ANSWER: u32 = 64;

#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) model: PathBuf,
    /// Tokens of one prompt with its answer.
    pub(crate) context_tokens: u32,
    /// Conversations whose prompts are kept in memory.
    pub(crate) slots: u32,
    /// Threads that compute; more than there are cores makes it much slower.
    pub(crate) threads: NonZeroUsize,
}

impl Config {
    pub(crate) fn new(model: impl Into<PathBuf>) -> Self {
        Self {
            model: model.into(),
            context_tokens: CONTEXT_TOKENS,
            slots: SLOTS,
            threads: thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
        }
    }

    fn unusable(&self, reason: impl std::fmt::Display) -> String {
        let path = self.model.display();
        format!("{path}: {reason}; pull the model again with `sluice model pull`")
    }
}

/// What to do when an answer turns out to be text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WhenText {
    GoOn,
    Stop,
}

#[derive(Debug)]
enum Failure {
    Cancelled,
    Answered(protocol::Failure),
}

impl Failure {
    fn too_long(lengths: String) -> Self {
        Self::Answered(protocol::Failure::TooLong(lengths))
    }

    fn model(reason: impl Into<String>) -> Self {
        Self::Answered(protocol::Failure::Model(reason.into()))
    }

    /// What failed, and llama.cpp's or the template's reason.
    fn of(what: &str, error: impl std::fmt::Display) -> Self {
        Self::model(format!("{what}: {error}"))
    }
}

/// The body of the thread: loads the model, reports, then serves jobs until there are no more.
pub(crate) fn run(config: &Config, link: &Link, jobs: &Receiver<Job>) {
    if let Err(reason) = serve(config, link, jobs) {
        link.send(&Event::Unusable(reason));
    }
}

/// # Errors
/// Why the model cannot be used, for the user.
fn serve(config: &Config, link: &Link, jobs: &Receiver<Job>) -> Result<(), String> {
    // Before anything of llama.cpp runs: its first instruction may be one of them.
    check_processor()?;
    let backend = backend()?;
    if !config.model.is_file() {
        return Err(config.unusable("there is no such file"));
    }
    let params = pin!(LlamaModelParams::default());
    let model = LlamaModel::load_from_file(backend, &config.model, &params)
        .map_err(|error| config.unusable(error))?;
    let mut engine = Engine::new(backend, &model, config, link)?;
    link.send(&Event::Ready);
    while let Ok(job) = jobs.recv() {
        let result = engine.answer(&job);
        link.forget(job.id);
        let result = match result {
            Ok(answer) => Ok(answer),
            Err(Failure::Answered(failure)) => Err(failure),
            // It has no reader.
            Err(Failure::Cancelled) => continue,
        };
        link.send(&Event::Done { id: job.id, result });
    }
    Ok(())
}

/// llama.cpp, which starts once in a process.
pub(crate) fn backend() -> Result<&'static LlamaBackend, String> {
    static BACKEND: OnceLock<Option<LlamaBackend>> = OnceLock::new();
    let backend = BACKEND.get_or_init(|| {
        let mut backend = LlamaBackend::init().ok()?;
        backend.void_logs();
        Some(backend)
    });
    let backend = backend.as_ref();
    backend.ok_or_else(|| "llama.cpp does not start".to_owned())
}

/// llama.cpp is compiled for x86-64-v3; without this check an older processor would end the
/// process with an illegal instruction.
fn check_processor() -> Result<(), String> {
    #[cfg(target_arch = "x86_64")]
    {
        let needed = [
            ("AVX2", std::is_x86_feature_detected!("avx2")),
            ("FMA", std::is_x86_feature_detected!("fma")),
            ("F16C", std::is_x86_feature_detected!("f16c")),
            ("BMI2", std::is_x86_feature_detected!("bmi2")),
        ];
        if let Some((name, _)) = needed.iter().find(|(_, present)| !present) {
            return Err(format!(
                "this processor has no {name}, which the embedded model needs; use an OpenAI-compatible provider"
            ));
        }
    }
    Ok(())
}

struct Engine<'m> {
    model: &'m LlamaModel,
    context: LlamaContext<'m>,
    template: ChatTemplate,
    specials: Specials,
    slots: Slots,
    config: &'m Config,
    link: &'m Link,
}

impl<'m> Engine<'m> {
    fn new(
        backend: &LlamaBackend,
        model: &'m LlamaModel,
        config: &'m Config,
        link: &'m Link,
    ) -> Result<Self, String> {
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
            config.unusable("it has no chat template; use an instruction-tuned model")
        })?;
        let template = ChatTemplate::new(&source, &text_of(vocab.bos()), &text_of(vocab.eos()))
            .map_err(|error| config.unusable(format!("its chat template: {error}")))?;
        let threads = i32::try_from(config.threads.get()).unwrap_or(i32::MAX);
        let params = LlamaContextParams::default()
            .with_n_ctx(NonZeroU32::new(
                config.context_tokens.saturating_mul(config.slots),
            ))
            .with_n_seq_max(config.slots)
            .with_n_batch(BATCH_TOKENS)
            .with_n_ubatch(BATCH_TOKENS)
            .with_n_threads(threads)
            .with_n_threads_batch(threads)
            .with_no_perf(true);
        // llama.cpp gives no reason. The parameters are ours, so what is missing is memory.
        let context = model
            .new_context(backend, params)
            .map_err(|_| {
                let path = config.model.display();
                let megabytes = cache_bytes(model, config) >> 20;
                format!("{path}: no context for it, which takes {megabytes} MiB; free some memory or use a smaller model")
            })?;
        Ok(Self {
            specials: Specials::of(&vocab),
            model,
            context,
            template,
            slots: Slots::new(usize::try_from(config.slots).unwrap_or(1)),
            config,
            link,
        })
    }

    /// A small model that sees tools talks about them instead of answering. So, once there are
    /// results to answer from, it decides with the tools in view whether to call, and the words
    /// themselves are made without them.
    fn answer(&mut self, job: &Job) -> Result<Answer, Failure> {
        // Given up while it waited: the prompt would take the place of one that is cached.
        if self.link.is_cancelled(job.id) {
            return Err(Failure::Cancelled);
        }
        let ask = &job.request;
        let is_result = |message: &Message| matches!(message, Message::Tool { .. });
        let decide_first = ask.shape == Shape::TextOrCalls && ask.messages.iter().any(is_result);
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
        let words = Request {
            shape: Shape::Text,
            ..ask.clone()
        };
        let (completion, _) = self.complete(job, &words, WhenText::GoOn)?;
        let mut completion = completion.ok_or_else(|| Failure::model("it stopped by itself"))?;
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
        ask: &Request,
        when_text: WhenText,
    ) -> Result<(Option<Answer>, Usage), Failure> {
        let prompt = self.prompt(ask)?;
        // The grammar and the sampler before a sequence is taken: an error here leaves the cache as it was.
        let grammar = answer_grammar(&ask.shape, &ask.tools).map_err(Failure::model)?;
        let picker = Picker::new(self.model, grammar.as_deref()).map_err(Failure::model)?;
        let place = self.slots.place(&ids(&prompt));
        let result = self
            .read(job, &prompt, place)
            .and_then(|()| self.write(job, ask, when_text, &prompt, place, picker));
        // After a cancelled call the sequence holds exactly what the slots say, and the next prompt may begin with it.
        if matches!(result, Err(Failure::Answered(_))) {
            self.slots.forget(place.slot);
        }
        result
    }

    fn prompt(&self, ask: &Request) -> Result<Vec<LlamaToken>, Failure> {
        let tools = match ask.shape {
            Shape::Text => &[],
            _ => ask.tools.as_slice(),
        };
        let pieces = self.template.render(&ask.messages, tools);
        let pieces = pieces.map_err(|error| Failure::of("chat template", error))?;
        let context = self.config.context_tokens;
        let most = usize::try_from(context).unwrap_or(usize::MAX);
        let tokens = self.specials.tokenize(&self.model.vocab(), &pieces, most);
        let tokens = tokens.map_err(|error| match error {
            TokenError::TooLong { bytes, limit } => Failure::too_long(format!(
                "{bytes} bytes of text, but the context holds at most {limit}"
            )),
            TokenError::Markup => {
                Failure::model("text would become markup; use another model file")
            }
        })?;
        if tokens.is_empty() {
            return Err(Failure::model("the prompt is empty"));
        }
        // A prompt that leaves no room would be read for nothing.
        let answer = ask.max_tokens.min(LEAST_ANSWER);
        if tokens.len() as u64 + u64::from(answer) > u64::from(context) {
            return Err(Failure::too_long(format!(
                "{} tokens and {answer} for the answer, but the context holds {context}",
                tokens.len()
            )));
        }
        Ok(tokens)
    }

    /// Brings the sequence to the end of the prompt.
    fn read(&mut self, job: &Job, prompt: &[LlamaToken], place: Place) -> Result<(), Failure> {
        let sequence = sequence(place.slot);
        if let Some(from) = place.copy_from {
            self.context
                .copy_kv_cache_seq(self::sequence(from), sequence, None, None)
                .map_err(|error| Failure::of("prefix cache", error))?;
        }
        // What the sequence holds beyond the shared beginning is of another prompt, and must not be attended to.
        let keep = u32::try_from(place.keep).unwrap_or(u32::MAX);
        self.context
            .kv_cache_seq_rm(sequence, Some(keep), None)
            .map_err(|error| Failure::of("prefix cache", error))?;
        let size = usize::try_from(BATCH_TOKENS).unwrap_or(1);
        let mut batch = LlamaBatch::new(size, 1);
        let mut at = place.keep;
        for chunk in prompt.get(place.keep..).unwrap_or_default().chunks(size) {
            if self.link.is_cancelled(job.id) {
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
        ask: &Request,
        when_text: WhenText,
        prompt: &[LlamaToken],
        place: Place,
        mut picker: Picker,
    ) -> Result<(Option<Answer>, Usage), Failure> {
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
            total_time: job.received.elapsed(),
        };
        let stop = loop {
            // Between tokens: a cancelled call must not hold up the queue.
            if self.link.is_cancelled(job.id) {
                return Err(Failure::Cancelled);
            }
            if written >= ask.max_tokens || at >= context {
                break Stop::Length;
            }
            let token = picker.pick(&self.context, &self.specials);
            let token = token.map_err(Failure::model)?;
            first.get_or_insert_with(|| job.received.elapsed());
            if vocab.is_eog(token) {
                break Stop::End;
            }
            written += 1;
            // Without the text of control tokens: an answer is text and never markup.
            let text = utf8.push(&vocab.token_to_piece(token, false, None::<NonZeroU16>));
            if let Some(delta) = stream.push(&text) {
                if when_text == WhenText::Stop {
                    return Ok((None, usage(written, first)));
                }
                self.link.send(&Event::Text {
                    id: job.id,
                    text: delta,
                });
            }
            // After the text was sent: what was repeated so far is part of the answer, and the stop reason says why it
            // ends.
            if repeats.push(token.0) {
                break Stop::Repetition;
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
            self.link.send(&Event::Text {
                id: job.id,
                text: rest,
            });
        }
        let completion = Answer {
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
            .map_err(|error| Failure::of("inference", error))
    }
}

/// Bytes of what a context keeps of its tokens.
fn cache_bytes(model: &LlamaModel, config: &Config) -> u64 {
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
    let position = i32::try_from(at).map_err(|error| Failure::of("position", error))?;
    batch
        .add(token, position, &[sequence], last)
        .map_err(|error| Failure::of("batch", error))
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
