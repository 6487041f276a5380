//! The attention screener: its model from the cache, weights, recall.

use std::borrow::Cow;
use std::fs::read;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use config::{Screener as Settings, ScreenerKind};
use hub::Drafter;
use llm::models::{Cache, SMOLLM2_135M};
use screen::Defence;
use screen::attention::{AttentionScreener, Combined, WEIGHTS, open};

use crate::embedded::model;

/// The attention screener alone, or combined with the judge.
pub(super) fn defence(settings: &Settings) -> Result<Defence> {
    let drafter = match settings.draft {
        Some(_) => Drafter::Other,
        None => Drafter::Own,
    };
    let attention = Arc::new(attention(settings.weights.as_deref(), settings.recall)?);
    Ok(match settings.kind {
        ScreenerKind::Combined => {
            let band = attention.band();
            Defence::by_draft(Arc::new(Combined::new(attention, band)), drafter)
        }
        _ => Defence::by_draft(attention, drafter),
    })
}

/// Whether the attention screener starts with these settings.
pub(crate) fn check(settings: &Settings) -> Result<()> {
    attention(settings.weights.as_deref(), settings.recall).map(drop)
}

/// The attention screener with its model from the cache and the weights of this file, or those of
/// this program, to find so many per cent of the dependencies.
fn attention(weights: Option<&Path>, recall: Option<u8>) -> Result<AttentionScreener> {
    let bytes = match weights {
        None => Cow::Borrowed(WEIGHTS),
        Some(file) => {
            let shown = file.display();
            let bytes = read(file);
            Cow::Owned(
                bytes.with_context(|| format!("cannot read the screener's weights {shown}"))?,
            )
        }
    };
    let model = model(Some(SMOLLM2_135M))?;
    let file = Cache::of_user()?
        .open(model)
        .with_context(|| format!("the attention screener reads with {SMOLLM2_135M}"))?;
    // The hash of the model is checked, since weights work only with the model with which they
    // were trained with.
    let screener = open(&file, model.sha256, &bytes).with_context(|| match weights {
        Some(weights) => format!(
            "the screener's weights {} cannot be used; write them with `sluice-lab screener train`",
            weights.display()
        ),
        None => "the screener's weights of this program cannot be used".to_owned(),
    })?;
    Ok(match recall {
        Some(percent) => screener.with_recall(percent),
        None => screener,
    })
}
