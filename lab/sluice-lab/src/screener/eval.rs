//! `sluice-lab screener eval`.

use anyhow::Result;
use attention::data::hand;
use attention::examples::Labels;
use attention::tables::cross;
use attention::train::evaluation::{Evaluation, evaluate};
use attention::train::model_spec::ModelSpec;
use clap::{Args, ValueEnum};

use super::kept::Kept;
use crate::exit::Exit;
use crate::progress::Progress;
use crate::terminal::print;

#[derive(Debug, Args)]
pub(super) struct EvalArgs {
    #[command(flatten)]
    kept: Kept,
    /// Learners: `paper`, `best`.
    #[arg(long, value_delimiter = ',', default_values = ["paper", "best"])]
    learner: Vec<ModelSpec>,
    /// What is held out.
    #[arg(long, value_delimiter = ',', default_values = ["task", "suite"])]
    split: Vec<HeldOut>,
    /// The labels that predictions are compared with. Training always uses the weak ones.
    #[arg(long, value_delimiter = ',', default_values = ["hand", "weak"])]
    truth: Vec<Truth>,
    /// Of folds and weights.
    #[arg(long, default_value_t = 1)]
    seed: u64,
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
    let (header, examples) = args.kept.read(progress)?;
    let held_out = |split: &HeldOut| match split {
        HeldOut::Task => cross::HeldOut::UserTasks,
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
        seed: args.seed,
    };
    let reports = evaluate(&header, &examples, &evaluation, &mut |line| {
        progress.say(line)
    })?;
    progress.clear();
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
