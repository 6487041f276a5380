//! `sluice screener train`.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use attention::extract::model_of;
use attention::train::classifier::{Training, train as fit};
use attention::train::contender::Contender;
use clap::Args;
use screen::attention::{About, TARGET_RECALL};

use super::Kept;
use crate::exit::Exit;
use crate::progress::Progress;
use crate::terminal::print;

#[derive(Debug, Args)]
pub(super) struct TrainArgs {
    #[command(flatten)]
    kept: Kept,
    /// `paper`, `best`, or `lstm:FEATURES` with features such as `head.15+text+values`.
    #[arg(long, default_value = "best")]
    learner: Contender,
    /// The same seed on the same machine gives the same weights.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The part of the dependencies in the validation part to find, in per cent. The default was chosen by looking
    /// at AgentDojo's closed loop, so that loop's figures are in sample for it.
    #[arg(long, default_value_t = TARGET_RECALL, value_parser = clap::value_parser!(u8).range(50..=99))]
    recall: u8,
    /// Suites to learn nothing of, to measure with: banking, slack, travel, workspace.
    #[arg(long, value_delimiter = ',', value_name = "SUITE")]
    without: Vec<String>,
    /// Where to write the weights.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

pub(super) fn train(args: &TrainArgs, progress: &Progress) -> Result<Exit> {
    let (header, mut examples) = args.kept.read(progress)?;
    let mut without = String::new();
    for suite in &args.without {
        let before = examples.len();
        examples.retain(|example| example.suite != *suite);
        if examples.len() == before {
            bail!(
                "no recorded step is of a suite {suite}; leave out banking, slack, travel or workspace"
            );
        }
        without += &format!(" --without {suite}");
    }
    let training = Training {
        recall: args.recall,
        ..Training::new(args.learner.clone(), args.seed)
    };
    let (model, outcome) = fit(&header, &examples, &training, &mut |line| {
        progress.say(line)
    })?;
    let about = About {
        name: args.learner.to_string(),
        model: model_of(&header).unwrap_or_default().to_owned(),
        data: attention::examples::digest(&examples),
        command: format!(
            "sluice screener train --learner {} --seed {} --recall {}{without}",
            args.learner, args.seed, args.recall
        ),
    };
    let bytes = model.classifier(args.recall, about)?.to_bytes()?;
    progress.clear();
    let shown = args.out.display();
    std::fs::write(&args.out, &bytes).with_context(|| format!("cannot write {shown}"))?;
    print(&serde_json::to_string_pretty(&outcome)?)?;
    Ok(Exit::Done)
}
