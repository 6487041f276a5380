//! `sluice-lab screener gif`.

use anyhow::Result;
use attention::extract::Extractor;
use attention::gif::{Plan, measure};
use clap::Args;
use screen::attention::{Classifier, WEIGHTS};

use super::kept::steps;
use crate::exit::Exit;
use crate::progress::Progress;
use crate::small_model;
use crate::terminal::print;

#[derive(Debug, Args)]
pub(super) struct GifArgs {
    /// How many steps are scored; the hundred with hand labels come first.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..))]
    steps: u16,
    /// Vector–Jacobian products of a step: more make GIF's estimate better, and take longer.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    products: u16,
    /// Leave out steps with more tokens of history. Each takes 0.6 MB.
    #[arg(long, value_name = "TOKENS", default_value_t = 8192)]
    longest: usize,
    /// Of the sample and the random vectors.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print all figures as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn gif(args: &GifArgs, progress: &Progress) -> Result<Exit> {
    let steps = steps(progress)?;
    progress.say("loading the model");
    let classifier = Classifier::from_bytes(WEIGHTS)?;
    let extractor = Extractor::open(&small_model::file()?)?;
    // Only the columns that the classifier reads, and no cache, so that the costs of both are those
    // of one step alone.
    let extractor = extractor
        .with_columns(classifier.columns.clone())
        .without_cache()?;
    let plan = Plan {
        steps: usize::from(args.steps),
        products: usize::from(args.products),
        longest: args.longest,
        seed: args.seed,
    };
    let report = measure(&extractor, &classifier, &steps, &plan, &mut |done, of| {
        progress.moved("scoring steps", done, of);
    })?;
    progress.clear();
    match args.json {
        true => print(&serde_json::to_string_pretty(&report)?)?,
        false => print(&report.text())?,
    }
    Ok(Exit::Done)
}
