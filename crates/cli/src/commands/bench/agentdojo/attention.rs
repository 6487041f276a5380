//! The attention screener for the benches of AgentDojo.

use std::sync::Arc;

use anyhow::Result;
use llm::models::{Cache, Presence, SMOLLM2_135M};
use screen::attention::AttentionScreener;

use crate::{embedded, screener};

/// Whether its model was pulled.
pub(super) fn is_here() -> bool {
    let model = embedded::model(Some(SMOLLM2_135M));
    let cache = Cache::of_user();
    matches!((model, cache), (Ok(model), Ok(cache)) if cache.presence(model) == Presence::Ready)
}

/// The screener, if it is needed, to find so many per cent of the dependencies; takes about a second.
///
/// # Errors
/// Its model was not pulled, or is not what it should be.
pub(super) async fn open(
    needed: bool,
    recall: Option<u8>,
) -> Result<Option<Arc<AttentionScreener>>> {
    if !needed {
        return Ok(None);
    }
    let opened = tokio::task::spawn_blocking(move || screener::attention(recall)).await??;
    Ok(Some(Arc::new(opened)))
}
