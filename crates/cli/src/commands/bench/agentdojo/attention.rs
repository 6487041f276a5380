//! The attention screener for the benches of AgentDojo.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use llm::models::{Cache, Presence, SMOLLM2_135M};
use screen::attention::AttentionScreener;

use crate::{embedded, screener};

/// How the attention screener decides. Rows do not say it, so each setting needs a folder of its own.
#[derive(Debug, Clone, Args)]
pub(super) struct AttentionArgs {
    /// The part of the dependencies that the attention screener is to find, in per cent [default: what
    /// it was trained for].
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(50..=99))]
    recall: Option<u8>,
    /// The attention screener's weights, by `sluice screener train` [default: those of this program].
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
}

/// Whether its model was pulled.
pub(super) fn is_here() -> bool {
    let model = embedded::model(Some(SMOLLM2_135M));
    let cache = Cache::of_user();
    matches!((model, cache), (Ok(model), Ok(cache)) if cache.presence(model) == Presence::Ready)
}

/// The screener, if it is needed; takes about a second.
///
/// # Errors
/// Its model was not pulled, or is not what it should be; or there are no such weights.
pub(super) async fn open(
    needed: bool,
    args: &AttentionArgs,
) -> Result<Option<Arc<AttentionScreener>>> {
    if !needed {
        return Ok(None);
    }
    let AttentionArgs { recall, weights } = args.clone();
    let open = move || screener::attention(weights.as_deref(), recall);
    let opened = tokio::task::spawn_blocking(open).await??;
    Ok(Some(Arc::new(opened)))
}
