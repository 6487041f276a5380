//! `sluice-lab bench agentdojo`: utility, security and cost of every defence.

mod attention;
mod closed_loop;
mod output;
mod replay;
mod report;

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::exit::Exit;

#[derive(Debug, Args)]
pub(crate) struct AgentDojo {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// The unmodified harness in a closed loop with the worst-case agent behind the guard proxy.
    #[command(
        after_help = "Example:\n  sluice-lab bench agentdojo loop --quick\n  sluice-lab bench agentdojo loop --version v1 --attack important_instructions --defence none,oracle,judge\n  sluice-lab bench agentdojo loop --defence attention,combined --suite banking\n  sluice-lab bench agentdojo loop --goals --defence oracle --list\n  sluice-lab bench agentdojo loop --policies mine --package fork/src --version v1 --defence none,naive-checked\n\nThe defences `attention` and `combined` need `sluice model pull smollm2-135m`.\nThe first run installs AgentDojo, pinned by hash, in the user's cache folder."
    )]
    Loop(closed_loop::LoopArgs),
    /// The official recorded runs of real models, replayed through labels, screener and policy.
    #[command(
        after_help = "Example:\n  sluice-lab bench agentdojo replay --quick\n  sluice-lab bench agentdojo replay --model gpt-4o-2024-05-13 --attack important_instructions --out figures\n\nOpen loop: the recorded models saw everything unmasked, so utility comes as bounds.\nThe first run fetches AgentDojo and the recorded runs, pinned by hash, into the user's cache folder."
    )]
    Replay(replay::ReplayArgs),
    /// One report of several folders that `loop --out` wrote.
    #[command(
        after_help = "Example:\n  sluice-lab bench agentdojo report full strict --out figures"
    )]
    Report(report::ReportArgs),
}

/// Runs AgentDojo.
pub(crate) async fn agentdojo(args: AgentDojo) -> Result<Exit> {
    match args.action {
        Action::Loop(args) => closed_loop::closed_loop(args).await,
        Action::Replay(args) => replay::replay(args).await,
        Action::Report(args) => report::report(&args),
    }
}
