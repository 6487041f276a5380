//! `sluice-lab bench`: what the guard costs, measured here.

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::exit::Exit;
#[cfg(feature = "training")]
use crate::saliency;
use crate::{agentdojo, proxy, serve, service, spokes};

#[derive(Debug, Args)]
pub(crate) struct Bench {
    #[command(subcommand)]
    action: BenchAction,
}

#[derive(Debug, Subcommand)]
enum BenchAction {
    /// AgentDojo: utility, security and cost of every defence.
    Agentdojo(agentdojo::AgentDojo),
    /// Attention saliency: seconds of one step by new tokens, and memory.
    #[cfg(feature = "training")]
    #[command(after_help = "Example:\n  sluice-lab bench saliency")]
    Saliency(saliency::Saliency),
    /// Latency of the guard proxy beside the direct path, against a mock on loopback.
    #[command(after_help = "Example:\n  sluice-lab bench proxy --rate 1000 --seconds 20")]
    Proxy(proxy::Proxy),
    /// Endurance: replicas of `sluice serve` under load, one of which is reloaded and another restarted each minute.
    #[command(
        after_help = "Example:\n  sluice-lab bench serve --minutes 5\n  sluice-lab bench serve --rate 50 --sqlite --replicas 1 --json"
    )]
    Serve(serve::Serve),
    /// Customer service: an agent of a shop behind the guard proxy, with strangers' text all around it.
    #[command(
        after_help = "Example:\n  sluice-lab bench service\n  sluice-lab bench service --benign --questions"
    )]
    Service(service::Service),
    /// Many spokes at once, and many starts: memory of each, and that nothing is left behind.
    #[command(after_help = "Example:\n  sluice-lab bench spokes --count 200 --starts 10000")]
    Spokes(spokes::SpokesArgs),
}

pub(crate) async fn bench(args: Bench) -> Result<Exit> {
    match args.action {
        BenchAction::Agentdojo(args) => agentdojo::agentdojo(args).await,
        #[cfg(feature = "training")]
        BenchAction::Saliency(args) => saliency::saliency(args).await,
        BenchAction::Proxy(args) => proxy::proxy(args).await,
        BenchAction::Serve(args) => serve::serve(args).await,
        BenchAction::Service(args) => service::service(args).await,
        BenchAction::Spokes(args) => spokes::spokes(args).await,
    }
}
