//! The embedded model: its program, its files, and what to configure where there is none.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use llm::models::{Cache, KNOWN, Model, Presence, QWEN_CODER_1_5B, find};
use llm::{Embedded, Provider};

use crate::paths::{self, MODEL_PROGRAM as PROGRAM};

/// The finding and remedy where the program is missing.
pub(crate) const NOT_INSTALLED: &str = "not installed; only embedded models need it; install it with \
                                        `cargo install --path crates/model --locked`";

/// The known model of that name; the default one if there is no name.
pub(crate) fn model(name: Option<&str>) -> Result<&'static Model> {
    let name = name.unwrap_or(QWEN_CODER_1_5B);
    find(name).with_context(|| {
        let known: Vec<&str> = KNOWN.iter().map(|model| model.name).collect();
        format!(
            "there is no model '{name}'; choose one of {}",
            known.join(", ")
        )
    })
}

/// A model from the cache. Its program starts with the first request.
pub(crate) fn provider(name: &str, model: &str) -> Result<Arc<dyn Provider>> {
    let model = self::model(Some(model))?;
    let Some(program) = program() else {
        bail!("the provider {name} is the embedded model, and {PROGRAM} is {NOT_INSTALLED}");
    };
    let file = Cache::of_user()?.open(model)?;
    Ok(Arc::new(Embedded::new(name, program, file)))
}

/// Whether the default model can be used: its program is installed, and its file is here.
pub(crate) fn is_ready() -> bool {
    let is_here = |cache: Cache| {
        let model = self::model(None);
        model.is_ok_and(|model| cache.presence(model) != Presence::Missing)
    };
    program().is_some() && Cache::of_user().is_ok_and(is_here)
}

/// Where the program is; `None` if it is not installed.
pub(crate) fn program() -> Option<PathBuf> {
    paths::binary(PROGRAM).ok()
}
