//! `sluice-lab screener features`.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use attention::data::hand;
use attention::extract::{Extractor, extract};
use clap::Args;

use super::kept::{Kept, steps};
use crate::exit::Exit;
use crate::progress::Progress;
use crate::small_model;
use crate::terminal::say;

#[derive(Debug, Args)]
pub(super) struct FeaturesArgs {
    #[command(flatten)]
    kept: Kept,
    /// How many steps are read, the hand-labelled first [default: all].
    #[arg(long, value_name = "N")]
    steps: Option<usize>,
}

/// Reads steps until there are enough, or until it is told to stop.
pub(super) fn features(
    args: &FeaturesArgs,
    progress: &Progress,
    stop: &AtomicBool,
) -> Result<Exit> {
    let steps = steps(progress)?;
    let sample = hand::sample()?;
    // Without the hand-labelled steps there is nothing to judge by, so a run that is ended early
    // has them.
    let first: BTreeSet<String> = sample.into_iter().map(|sampled| sampled.step).collect();
    progress.say("loading the model");
    let extractor = Extractor::open(&small_model::file()?)?;
    let enough = args.steps.unwrap_or(usize::MAX);
    let path = args.kept.file()?;
    let done = extract(&extractor, &steps, &first, &path, &mut |at, of| {
        progress.moved("reading steps", at, of.min(enough));
        at < enough && !stop.load(Ordering::Relaxed)
    })?;
    progress.clear();
    say(&format!(
        "{} steps in {}; {} more have a draft that is empty or too long to read\n",
        done.steps,
        path.display(),
        done.unread
    ));
    Ok(Exit::Done)
}
