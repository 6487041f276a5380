//! `sluice-lab screener`: makes and measures the attention screener (RTBAS §7.2).

mod eval;
mod features;
mod kept;
mod train;

pub(crate) use kept::steps;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::exit::Exit;
use crate::progress::Progress;

#[derive(Debug, Args)]
pub(crate) struct Screener {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Read the recorded steps with the small model: what training and evaluation start from.
    #[command(
        after_help = "Example:\n  sluice-lab screener features --steps 1500\n\nAbout a second per step; whatever is done stays, and the next call goes on."
    )]
    Features(features::FeaturesArgs),
    /// Train the classifier, and write its weights.
    #[command(
        after_help = "Example:\n  sluice-lab screener train --learner best --out attention.bin\n  sluice-lab screener train --learner paper --out paper.bin\n  sluice-lab screener train --without banking --out others.bin\n\nUse the file with `weights = \"FILE\"` under [screener], or `sluice-lab bench agentdojo loop --weights FILE`."
    )]
    Train(train::TrainArgs),
    /// Cross-validate classifiers and baselines: accuracy and AUROC, per suite.
    #[command(
        after_help = "Example:\n  sluice-lab screener eval\n  sluice-lab screener eval --learner paper,best --split suite --truth hand"
    )]
    Eval(eval::EvalArgs),
}

pub(crate) async fn screener(args: Screener) -> Result<Exit> {
    let progress = Progress::new();
    let stop = Arc::new(AtomicBool::new(false));
    // What it appends to its file must be whole; a step takes about a second.
    let ends_in_order = matches!(args.action, Action::Features(_));
    let mut work = pin!(act(args.action, &progress, &stop));
    tokio::select! {
        done = &mut work => return done,
        _ = tokio::signal::ctrl_c() => stop.store(true, Ordering::Relaxed),
    }
    if ends_in_order {
        work.await?;
    }
    progress.clear();
    Ok(Exit::Interrupted)
}

/// Arithmetic stands on a thread of its own, so that Ctrl-C is heard.
async fn act(action: Action, progress: &Progress, stop: &Arc<AtomicBool>) -> Result<Exit> {
    let own = progress.clone();
    let work = match action {
        Action::Features(args) => {
            let stop = Arc::clone(stop);
            tokio::task::spawn_blocking(move || features::features(&args, &own, &stop))
        }
        Action::Train(args) => tokio::task::spawn_blocking(move || train::train(&args, &own)),
        Action::Eval(args) => tokio::task::spawn_blocking(move || eval::eval(&args, &own)),
    };
    work.await?
}
