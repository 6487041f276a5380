//! The embedded model with the CPU backend that is chosen here and with the portable one, in one run and by turns, so
//! that a noisy machine is noisy to both.
//!
//! A process has one backend, so each is a child process: it loads the model, and for each line that it gets makes one
//! completion and prints a [`Measured`] as a line of JSON.

use std::env::current_exe;
use std::fs::read_to_string;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::thread::available_parallelism;

use anyhow::{Context, Result, ensure};
use clap::Args;
use hub::{AnswerShape, CompletionRequest, Purpose};
use ifc::{History, Label, Labeled, redact};
use llm::embedded::{AVX512_VARIABLE, Embedded, EmbeddedConfig, cpu_backend};
use llm::models::{Cache, QWEN_CODER_1_5B, find};
use llm::{Broker, DeltaSink};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines, stdin};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::exit::Exit;
use crate::progress::Progress;
use crate::terminal::print;

/// Tokens of an answer: enough to tell how fast they are written.
const ANSWER_TOKENS: u32 = 16;
/// What prompts are made of; about one token each.
const WORDS: [&str; 16] = [
    " river", " table", " green", " seven", " under", " paper", " music", " north", " quick",
    " glass", " about", " water", " house", " light", " never", " stone",
];

#[derive(Debug, Args)]
pub(crate) struct EmbeddedArgs {
    /// The embedded model.
    #[arg(long, default_value = QWEN_CODER_1_5B)]
    model: String,
    /// Words of each prompt.
    #[arg(long, default_value_t = 512)]
    words: usize,
    /// Prompts that each backend reads. One more comes first and is not counted.
    #[arg(long, default_value_t = 7)]
    rounds: u32,
    /// Threads that compute; all cores if left out.
    #[arg(long)]
    threads: Option<NonZeroUsize>,
    /// Another build of this program to compare with, such as one whose llama.cpp is for this processor alone.
    #[arg(long, value_name = "PROGRAM")]
    beside: Option<PathBuf>,
    /// Print one backend per line, as JSON.
    #[arg(long)]
    json: bool,
    /// Be one of the processes that are compared.
    #[arg(long, hide = true)]
    child: bool,
}

/// What one completion cost.
#[derive(Debug, Serialize, Deserialize)]
struct Measured {
    /// What it was computed with, in words.
    backend: String,
    /// Tokens a second of the prompt, without those that were cached.
    read: f64,
    /// The same by seconds of processor time, all threads together: what others do on the machine counts less. Exact with
    /// one thread only, since threads wait for each other by computing.
    read_by_processor: f64,
    /// Tokens a second of the answer.
    written: f64,
}

/// Measures, or is measured.
pub(crate) async fn embedded(args: EmbeddedArgs) -> Result<Exit> {
    if args.child {
        serve(&args).await?;
    } else {
        compare(&args).await?;
    }
    Ok(Exit::Done)
}

async fn compare(args: &EmbeddedArgs) -> Result<()> {
    ensure!(args.rounds > 0, "no rounds: nothing to compare");
    let own = current_exe().context("cannot find out where this program is")?;
    let mut sides = vec![
        Side::start("portable", &own, args, true)?,
        Side::start("chosen", &own, args, false)?,
    ];
    if let Some(program) = &args.beside {
        sides.push(Side::start("beside", program, args, false)?);
    }
    let progress = Progress::new();
    for round in 0..=args.rounds {
        for side in &mut sides {
            progress.say(&format!("round {round} of {}: {}", args.rounds, side.name));
            let measured = side.measure().await?;
            // The first one pays for pages of the model that are not in memory yet.
            if round > 0 {
                side.measured.push(measured);
            }
        }
    }
    progress.clear();
    report(args, &sides)
}

fn report(args: &EmbeddedArgs, sides: &[Side]) -> Result<()> {
    let portable = &sides.first().context("nothing was compared")?.measured;
    for side in sides {
        // A median, and that of the ratios of each round to the portable one.
        let medians = |what: fn(&Measured) -> f64| {
            let pairs = side.measured.iter().zip(portable);
            let ratios = pairs.map(|(of, portable)| what(of) / what(portable));
            (median(side.measured.iter().map(what)), median(ratios))
        };
        let (read, faster) = medians(|of| of.read);
        let (by_processor, cheaper) = medians(|of| of.read_by_processor);
        let (written, faster_writing) = medians(|of| of.written);
        let backend = side.measured.first().map_or("", |of| of.backend.as_str());
        let line = if args.json {
            json!({
                "side": side.name,
                "backend": backend,
                "rounds": side.measured.len(),
                "read": read,
                "read_ratio": faster,
                "read_by_processor": by_processor,
                "read_by_processor_ratio": cheaper,
                "written": written,
                "written_ratio": faster_writing,
            })
            .to_string()
        } else {
            format!(
                "{:<9} reads {read:.1} tokens/s ({faster:.2}×), {by_processor:.1} by processor time ({cheaper:.2}×); writes {written:.1} ({faster_writing:.2}×); {backend}",
                side.name
            )
        };
        print(&line)?;
    }
    Ok(())
}

/// The middle one; of an even number the mean of both.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let at = |place: usize| sorted.get(place).copied().unwrap_or(f64::NAN);
    f64::midpoint(at(sorted.len().saturating_sub(1) / 2), at(sorted.len() / 2))
}

/// A process that is compared.
struct Side {
    name: &'static str,
    ask: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    measured: Vec<Measured>,
    /// Killed when this is dropped.
    _process: Child,
}

impl Side {
    fn start(
        name: &'static str,
        program: &Path,
        args: &EmbeddedArgs,
        portable: bool,
    ) -> Result<Self> {
        let mut command = Command::new(program);
        command.args(["bench", "embedded", "--child"]);
        command.args(["--model", &args.model]);
        command.args(["--words", &args.words.to_string()]);
        // Said to each side, so that no build counts the cores in a way of its own.
        let threads = args.threads.map_or_else(available_parallelism, Ok)?;
        command.args(["--threads", &threads.to_string()]);
        if portable {
            command.env(AVX512_VARIABLE, "off");
        } else {
            command.env_remove(AVX512_VARIABLE);
        }
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let output = process.stdout.take().context("no output to read")?;
        Ok(Self {
            name,
            ask: process.stdin.take().context("no input to write to")?,
            answers: BufReader::new(output).lines(),
            measured: Vec::new(),
            _process: process,
        })
    }

    async fn measure(&mut self) -> Result<Measured> {
        let ended = || format!("the process '{}' ended", self.name);
        self.ask.write_all(b"\n").await.with_context(ended)?;
        let line = self.answers.next_line().await?.with_context(ended)?;
        serde_json::from_str(&line).with_context(|| format!("'{}' printed: {line}", self.name))
    }
}

/// The child's side.
async fn serve(args: &EmbeddedArgs) -> Result<()> {
    let model = find(&args.model).with_context(|| format!("no model '{}'", args.model))?;
    let mut config = EmbeddedConfig::new("bench", Cache::of_user()?.open(model)?);
    if let Some(threads) = args.threads {
        config.threads = threads;
    }
    let broker = Broker::new(Arc::new(Embedded::load(config).await?), Label::top());
    let backend = cpu_backend()?.to_string();
    let mut asked = BufReader::new(stdin()).lines();
    let mut number = 0;
    while asked.next_line().await?.is_some() {
        number += 1;
        let request = request(number, args.words);
        // Wall time is the engine's own, to the first token; processor time is taken here and by the sink at the first
        // text.
        let mut sink = FirstText::default();
        let before = processor_time()?;
        let answer = broker.complete(&request, &mut sink).await?;
        let usage = answer.completion.usage;
        let reading = usage.time_to_first_token.context("no time of reading")?;
        let read = usage.prompt_tokens.saturating_sub(usage.cached_tokens);
        let writing = usage.total_time.saturating_sub(reading);
        let measured = Measured {
            backend: backend.clone(),
            read: f64::from(read) / reading.as_secs_f64(),
            read_by_processor: f64::from(read) / (sink.processor_time()? - before),
            written: f64::from(usage.completion_tokens) / writing.as_secs_f64(),
        };
        print(&serde_json::to_string(&measured)?)?;
    }
    Ok(())
}

/// Looks at the processor's clock when the first text comes: then the prompt was read.
#[derive(Default)]
struct FirstText(Option<Result<f64>>);

impl FirstText {
    fn processor_time(self) -> Result<f64> {
        self.0.context("the model wrote nothing")?
    }
}

impl DeltaSink for FirstText {
    fn text(&mut self, _: &str) {
        self.0.get_or_insert_with(processor_time);
    }
}

/// Seconds of processor time that this process has had, all threads, to a hundredth.
fn processor_time() -> Result<f64> {
    /// The unit in which the kernel tells them.
    const TICKS_PER_SECOND: f64 = 100.0;
    let text = read_to_string("/proc/self/stat").context("cannot read the processor's time")?;
    // The second field is the program's name in brackets, and may contain anything.
    let fields = text.rsplit(')').next().unwrap_or_default();
    // The 14th and the 15th of all: in the program, and in the kernel for it.
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks: Vec<f64> = ticks.map(str::parse).collect::<Result<_, _>>()?;
    ensure!(ticks.len() == 2, "no processor time in /proc/self/stat");
    Ok(ticks.iter().sum::<f64>() / TICKS_PER_SECOND)
}

/// A prompt that begins like no other, so that nothing of it is cached.
fn request(number: usize, words: usize) -> CompletionRequest {
    let text: String = (0..words)
        .map(|place| (place * place + place * number) / 3 + number)
        .filter_map(|index| WORDS.get(index % WORDS.len()).copied())
        .collect();
    let mut history = History::new(Vec::new());
    history.push_user(Labeled::trusted_tcb(format!(
        "{number}:{text}. Count from one to a hundred, in words."
    )));
    CompletionRequest {
        prompt: redact(&history, &Label::bottom()),
        purpose: Purpose::Step,
        shape: AnswerShape::Text,
        max_tokens: ANSWER_TOKENS,
    }
}

#[cfg(test)]
mod tests {
    use ifc::PromptMessage;

    use super::*;

    #[test]
    fn a_median_is_in_the_middle() {
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), 2.5);
        assert!(median([].into_iter()).is_nan());
    }

    #[test]
    fn computing_takes_processor_time() {
        let start = processor_time().unwrap();
        let mut last = 0;
        while processor_time().unwrap() < start + 0.05 {
            last = std::hint::black_box(last + 1);
        }
        assert!(last > 0 && start < 3600.0, "{start}");
    }

    #[test]
    fn prompts_differ_from_their_beginning() {
        let text = |number| match request(number, 8).prompt.messages() {
            [PromptMessage::User(text)] => text.clone(),
            _ => panic!("not one message"),
        };
        assert_ne!(text(1).get(..2), text(2).get(..2));
        assert_eq!(text(1).matches(' ').count(), 8 + 8, "{}", text(1));
    }
}
