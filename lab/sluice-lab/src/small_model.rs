//! The small model that the attention screener reads with.

use std::borrow::Cow;
use std::fs::read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use llm::models::{Cache, Model, SMOLLM2_135M, find};
use screen::attention::{AttentionScreener, WEIGHTS, open};

fn model() -> Result<&'static Model> {
    find(SMOLLM2_135M).with_context(|| format!("there is no model '{SMOLLM2_135M}'"))
}

/// Its file, checked.
pub(crate) fn file() -> Result<PathBuf> {
    Ok(Cache::of_user()?.open(model()?)?)
}

/// The weights of this file, or those that come with the product.
pub(crate) fn weights(file: Option<&Path>) -> Result<Cow<'static, [u8]>> {
    let Some(file) = file else {
        return Ok(Cow::Borrowed(WEIGHTS));
    };
    let bytes = read(file);
    let cannot = || format!("cannot read the screener's weights {}", file.display());
    Ok(Cow::Owned(bytes.with_context(cannot)?))
}

/// The attention screener with these weights.
pub(crate) fn screener(weights: &[u8]) -> Result<AttentionScreener> {
    // The weights are bound to the hash of the model's file: with another model their features
    // would mean nothing.
    open(&file()?, model()?.sha256, weights)
        .context("write other weights with `sluice-lab screener train`")
}
