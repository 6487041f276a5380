//! `sluice bench`: what the guard costs, measured here.

#[cfg(feature = "bench")]
mod agentdojo;
mod load;
mod proxy;

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::exit::Exit;

#[derive(Debug, Args)]
pub(crate) struct Bench {
    #[command(subcommand)]
    action: BenchAction,
}

#[derive(Debug, Subcommand)]
enum BenchAction {
    /// AgentDojo: utility, security and cost of every defence.
    #[cfg(feature = "bench")]
    Agentdojo(agentdojo::AgentDojo),
    /// Latency of the guard proxy beside the direct path, against a mock on loopback.
    #[command(after_help = "Example:\n  sluice bench proxy --rate 1000 --seconds 20")]
    Proxy(proxy::Proxy),
}

/// Runs a bench.
pub(crate) async fn bench(args: Bench) -> Result<Exit> {
    match args.action {
        #[cfg(feature = "bench")]
        BenchAction::Agentdojo(args) => agentdojo::agentdojo(args).await,
        BenchAction::Proxy(args) => proxy::proxy(args).await,
    }
}
