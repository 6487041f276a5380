//! `sluice-lab screener eval`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use attention::data::hand;
use attention::examples::Labels;
use attention::tables::cross;
use attention::tables::report::Report;
use attention::train::evaluation::{Evaluation, FOLDS, evaluate};
use attention::train::model_spec::{ModelSpec, USUAL};
use clap::{Args, ValueEnum};
use screen::attention::TARGET_RECALL;

use super::kept::Kept;
use crate::exit::Exit;
use crate::progress::Progress;
use crate::terminal::print;

#[derive(Debug, Args)]
pub(super) struct EvalArgs {
    #[command(flatten)]
    kept: Kept,
    /// Learners: `paper`, `best`, or `lstm` with `:FEATURES`.
    #[arg(long, value_delimiter = ',', default_values = USUAL)]
    learner: Vec<ModelSpec>,
    /// What is held out.
    #[arg(long, value_delimiter = ',', default_values = ["task", "suite"])]
    split: Vec<HeldOut>,
    /// The labels that predictions are compared with. Training always uses the weak ones.
    #[arg(long, value_delimiter = ',', default_values = ["hand", "weak"])]
    truth: Vec<Truth>,
    /// The target recall on the validation set, in per cent: for the figures with an @.
    #[arg(long, value_name = "PERCENT", default_value_t = TARGET_RECALL, value_parser = clap::value_parser!(u8).range(50..=99))]
    recall: u8,
    /// Of folds and weights.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write `eval.json` here.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print all figures as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum HeldOut {
    /// Each fifth of the user's tasks once.
    Task,
    /// Each suite once.
    Suite,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Truth {
    /// Those of the sample that two runs of a language model read one by one.
    Hand,
    /// Those by values and rules.
    Weak,
}

pub(super) fn eval(args: &EvalArgs, progress: &Progress) -> Result<Exit> {
    // Before minutes of work, not after them.
    if let Some(folder) = &args.out {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    }
    let (header, examples) = args.kept.read(progress)?;
    let held_out = |split: &HeldOut| match split {
        HeldOut::Task => cross::HeldOut::UserTasks { folds: FOLDS },
        HeldOut::Suite => cross::HeldOut::Suites,
    };
    let labels = |truth: &Truth| match truth {
        Truth::Hand => Labels::Hand,
        Truth::Weak => Labels::Weak,
    };
    let evaluation = Evaluation {
        models: args.learner.clone(),
        held_out: args.split.iter().map(held_out).collect(),
        labels: args.truth.iter().map(labels).collect(),
        target_recall: args.recall,
        seed: args.seed,
    };
    let reports = evaluate(&header, &examples, &evaluation, &mut |line| {
        progress.say(line)
    })?;
    progress.clear();
    if let Some(folder) = &args.out {
        keep(folder, &reports)?;
    }
    if args.json {
        print(&serde_json::to_string_pretty(&reports)?)?;
        return Ok(Exit::Done);
    }
    let agreement = hand::agreement()?;
    print(&format!(
        "{} steps with features; {} pairs were read twice, not by people: the passes agree on {:.1} %, \
         kappa {:.3} (by two runs of one language model)\n",
        examples.len(),
        agreement.pairs,
        agreement.raw * 100.0,
        agreement.kappa
    ))?;
    for report in &reports {
        print(&report.text())?;
    }
    Ok(Exit::Done)
}

/// All figures.
fn keep(folder: &Path, reports: &[Report]) -> Result<()> {
    let file = folder.join("eval.json");
    std::fs::write(&file, serde_json::to_string_pretty(&reports)?)
        .with_context(|| format!("cannot write {}", file.display()))
}
