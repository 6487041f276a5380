//! `sluice-lab bench agentdojo replay`: recorded runs of GPT-4o behind the default defence.

use std::thread::available_parallelism;

use agentdojo::python::{Python, cache_folder};
use agentdojo::replay::{Options, ReplayReport};
use anyhow::Result;
use clap::Args;

use crate::exit::{Exit, interruptible};
use crate::progress::Progress;
use crate::terminal::print;

/// Each thread has a Python process of its own, of some 200 MB.
const MAX_THREADS: usize = 8;

#[derive(Debug, Args)]
pub(super) struct ReplayArgs {
    /// A fixed sample, one run of 23: some seconds once everything is fetched.
    #[arg(long)]
    quick: bool,
}

pub(super) async fn replay(args: ReplayArgs) -> Result<Exit> {
    let progress = Progress::new();
    let own = progress.clone();
    let work = tokio::task::spawn_blocking(move || replayed(true, args.quick, &own));
    let done = interruptible(work).await;
    progress.clear();
    let Some(done) = done else {
        return Ok(Exit::Interrupted);
    };
    print(done??.text().trim_end())?;
    Ok(Exit::Done)
}

/// Replays the runs without an attack, and with `attacked` the attacks.
pub(super) fn replayed(attacked: bool, quick: bool, progress: &Progress) -> Result<ReplayReport> {
    let python = Python::ready(&mut |line| progress.say(line))?;
    let options = Options {
        cache: cache_folder()?,
        python: python.interpreter().to_owned(),
        attacked,
        quick,
        threads: available_parallelism()
            .map_or(1, usize::from)
            .min(MAX_THREADS),
    };
    agentdojo::replay::replay(&options, &|what, done, total| match total {
        0 => progress.say(what),
        _ => progress.moved(what, done, total),
    })
}
