//! `sluice-lab bench saliency`: what attention saliency shows and costs (RTBAS §3.3).

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use attention::examples::Labels;
use attention::figures::{Reader, Script, SpeedPlan, distributions, following, speed};
use clap::{Args, ValueEnum};
use serde_json::{Map, Value};

use crate::exit::Exit;
use crate::progress::Progress;
use crate::screener::{Kept, steps};
use crate::small_model;
use crate::terminal::print;

#[derive(Debug, Args)]
pub(crate) struct Saliency {
    /// What to show.
    #[arg(long, value_delimiter = ',', default_values = ["dependence", "following"])]
    figure: Vec<Figure>,
    #[command(flatten)]
    kept: Kept,
    /// Steps of each situation that are read for `following`.
    #[arg(long, default_value_t = 60, value_name = "N")]
    steps: usize,
    /// Runs of each size for `speed`.
    #[arg(long, default_value_t = 5, value_name = "N")]
    runs: usize,
    /// A Python with PyTorch: `speed` runs the reference beside the engine, at 2,000 + 50 tokens. Minutes.
    #[arg(long, value_name = "PYTHON")]
    reference: Option<PathBuf>,
    /// The reference's script.
    #[arg(
        long,
        value_name = "FILE",
        default_value = "lab/attention/python/reference.py"
    )]
    script: PathBuf,
    /// Backward passes of the reference that are run; the rest is extrapolated.
    #[arg(long, value_name = "N")]
    passes: Option<usize>,
    /// Of samples.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write a plot of each figure and `saliency.json` here.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the figures as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Figure {
    /// Figure 2: scores of regions that calls depend on, and of others (`sluice-lab screener features` first).
    Dependence,
    /// Figure 3: the user's prompt against the tools' responses, with and without an injection.
    Following,
    /// Seconds by new tokens.
    Speed,
}

/// One figure: text for people, the same as JSON, a plot if there is one.
struct Shown {
    name: &'static str,
    text: String,
    json: Value,
    svg: Option<String>,
}

pub(crate) async fn saliency(args: Saliency) -> Result<Exit> {
    let progress = Progress::new();
    let own = progress.clone();
    let work = tokio::task::spawn_blocking(move || run(&args, &own));
    tokio::select! {
        done = work => done?,
        _ = tokio::signal::ctrl_c() => {
            progress.clear();
            Ok(Exit::Interrupted)
        }
    }
}

fn run(args: &Saliency, progress: &Progress) -> Result<Exit> {
    // Before minutes of work, not after them.
    if let Some(folder) = &args.out {
        fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    }
    let mut all = Map::new();
    // Each figure is printed and saved as soon as it is there: the next one may be interrupted.
    for figure in &args.figure {
        let shown = show(*figure, args, progress)?;
        progress.clear();
        all.insert(shown.name.to_owned(), shown.json.clone());
        if let Some(folder) = &args.out {
            keep(folder, &shown, &all)?;
        }
        if !args.json {
            print(&shown.text)?;
        }
    }
    if args.json {
        print(&serde_json::to_string_pretty(&all)?)?;
    }
    Ok(Exit::Done)
}

/// The plot of a figure, and the numbers of all so far.
fn keep(folder: &Path, shown: &Shown, all: &Map<String, Value>) -> Result<()> {
    let cannot = || format!("cannot write to {}", folder.display());
    // One file for all figures, written anew with each.
    let json = serde_json::to_string_pretty(all)?;
    fs::write(folder.join("saliency.json"), json).with_context(cannot)?;
    if let Some(svg) = &shown.svg {
        fs::write(folder.join(format!("{}.svg", shown.name)), svg).with_context(cannot)?;
    }
    Ok(())
}

fn show(figure: Figure, args: &Saliency, progress: &Progress) -> Result<Shown> {
    Ok(match figure {
        Figure::Dependence => {
            let (_, examples) = args.kept.read(progress)?;
            let found = distributions(&examples, Labels::HandElseWeak)?;
            Shown {
                name: "dependence",
                text: found.text(),
                json: serde_json::to_value(&found)?,
                svg: Some(found.svg()),
            }
        }
        Figure::Following => {
            let (reader, steps) = (Reader::open(&small_model::file()?)?, steps(progress)?);
            let mut moved = |done, of| progress.moved("following instructions", done, of);
            let found = following(&reader, &steps, args.steps, args.seed, &mut moved)?;
            Shown {
                name: "following",
                text: found.text(),
                json: serde_json::to_value(&found)?,
                svg: Some(found.svg()),
            }
        }
        Figure::Speed => {
            let (reader, steps) = (Reader::open(&small_model::file()?)?, steps(progress)?);
            let plan = SpeedPlan {
                runs: args.runs,
                ..SpeedPlan::default()
            };
            let tokens = reader.text(&steps, plan.tokens());
            let reference = script(args)?;
            let mut say = |line: &str| progress.say(line);
            let model = reader.engine().model();
            let found = speed(model, &tokens, &plan, reference.as_ref(), &mut say)?;
            Shown {
                name: "speed",
                text: found.text(),
                json: serde_json::to_value(&found)?,
                svg: Some(found.svg()),
            }
        }
    })
}

/// The reference, if it is wanted.
fn script(args: &Saliency) -> Result<Option<Script>> {
    let Some(python) = &args.reference else {
        return Ok(None);
    };
    let script = Script {
        python: python.clone(),
        script: args.script.clone(),
        model: small_model::file()?,
        history: REFERENCE.0,
        output: REFERENCE.1,
        lean: true,
        passes: args.passes,
    };
    // A missing package is reported before the engine's minutes, not after them.
    script.check()?;
    Ok(Some(script))
}

/// History and output tokens at which the reference is compared with.
const REFERENCE: (usize, usize) = (2000, 50);
