//! `sluice-lab bench agentdojo`: utility, security and cost of every defence.

mod closed_loop;
mod replay;

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
        after_help = "Example:\n  sluice-lab bench agentdojo loop --quick\n  sluice-lab bench agentdojo loop --attack important_instructions --defence none,oracle-eager,judge\n  sluice-lab bench agentdojo loop --defence attention --suite banking\n  sluice-lab bench agentdojo loop --goals --defence naive-checked\n  sluice-lab bench agentdojo loop --policies mine --package fork/src --version v1 --defence none,naive-checked\n\nThe defence `attention` needs `sluice model pull smollm2-135m`.\nThe first run installs AgentDojo, pinned by hash, in the user's cache folder."
    )]
    Loop(Box<closed_loop::LoopArgs>),
    /// The recorded runs of GPT-4o, replayed through labels and policy: attacks stopped, and benign runs without a question.
    #[command(
        after_help = "Example:\n  sluice-lab bench agentdojo replay --quick\n\nOpen loop: the recorded model saw everything unmasked.\nThe first run fetches AgentDojo and the recorded runs, pinned by hash, into the user's cache folder."
    )]
    Replay(replay::ReplayArgs),
}

pub(crate) async fn agentdojo(args: AgentDojo) -> Result<Exit> {
    match args.action {
        Action::Loop(args) => closed_loop::closed_loop(*args).await,
        Action::Replay(args) => replay::replay(args).await,
    }
}
