//! The embedded model: loading one, and what the doctor says of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::{Context, Result};
use llm::Provider;
use llm::models::{Cache, KNOWN, Model, Presence, QWEN_CODER_1_5B, find};

use crate::finding::Finding;

/// The known model of that name; the default one if there is no name.
///
/// # Errors
/// No such model.
pub(crate) fn model(name: Option<&str>) -> Result<&'static Model> {
    let name = name.unwrap_or(QWEN_CODER_1_5B);
    find(name).with_context(|| {
        let known: Vec<&str> = KNOWN.iter().map(|model| model.name).collect();
        format!("there is no model '{name}'; known are {}", known.join(", "))
    })
}

/// Loads a model from the cache.
///
/// # Errors
/// It is unknown, was not pulled, or is not what it should be.
#[cfg(feature = "embedded")]
pub(crate) async fn provider(name: &str, model: &str) -> Result<Arc<dyn Provider>> {
    let path = Cache::of_user()?.open(self::model(Some(model))?)?;
    let config = llm::embedded::EmbeddedConfig::new(name, path);
    Ok(Arc::new(llm::embedded::Embedded::load(config).await?))
}

/// This build has no embedded model.
#[cfg(not(feature = "embedded"))]
pub(crate) async fn provider(name: &str, _: &str) -> Result<Arc<dyn Provider>> {
    anyhow::bail!(
        "the provider {name} is embedded, and this build has no embedded models; build with the feature `embedded`"
    )
}

/// Which instructions embedded models compute with. Where none is `needed`, a processor without them is no fault.
#[cfg(feature = "embedded")]
pub(crate) fn instructions(needed: bool) -> Option<Finding> {
    let backend = llm::embedded::cpu_backend();
    let ok = backend.is_ok() || !needed;
    let detail = backend.map_or_else(|error| error.to_string(), |backend| backend.to_string());
    Some(Finding::model("instructions", ok, detail))
}

/// This build has no embedded models.
#[cfg(not(feature = "embedded"))]
pub(crate) fn instructions(_: bool) -> Option<Finding> {
    None
}

/// Which models are here. Those that are `needed` have to be.
pub(crate) fn findings(needed: &BTreeSet<&str>) -> Vec<Finding> {
    let cache = match Cache::of_user() {
        Ok(cache) => cache,
        Err(error) => return vec![Finding::model("cache", false, error.to_string())],
    };
    let finding = |model: &Model| {
        let present = cache.presence(model);
        let (ok, detail) = match present {
            Presence::Ready => (true, cache.path(model).display().to_string()),
            // What a session would do: the file counts if it is what it should be.
            Presence::Unverified => match cache.open(model) {
                Ok(path) => (true, path.display().to_string()),
                Err(error) => (!needed.contains(model.name), error.to_string()),
            },
            Presence::Missing => (
                !needed.contains(model.name),
                format!("not here; `sluice model pull {}` fetches it", model.name),
            ),
        };
        Finding::model(model.name, ok, detail)
    };
    KNOWN.iter().map(finding).collect()
}
