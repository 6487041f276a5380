//! `sluice-lab bench saliency`: what attention saliency costs (RTBAS §3.3).

use anyhow::Result;
use attention::speed::{Reader, SpeedPlan, speed, text};
use clap::Args;

use crate::exit::Exit;
use crate::progress::Progress;
use crate::screener::steps;
use crate::small_model;
use crate::terminal::print;

#[derive(Debug, Args)]
pub(crate) struct Saliency {
    /// Runs of each size.
    #[arg(long, default_value_t = 5, value_name = "N")]
    runs: usize,
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
    let (reader, steps) = (Reader::open(&small_model::file()?)?, steps(progress)?);
    let plan = SpeedPlan {
        runs: args.runs,
        ..SpeedPlan::default()
    };
    let tokens = reader.text(&steps, plan.tokens());
    let found = speed(reader.model(), &tokens, &plan, &mut |line| {
        progress.say(line)
    })?;
    progress.clear();
    print(&text(&found))?;
    Ok(Exit::Done)
}
