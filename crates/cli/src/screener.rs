//! The screener that a configuration or a command names.

use std::borrow::Cow;
use std::fs::read;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use config::{Screener as Settings, ScreenerKind};
use hub::Drafter;
use llm::models::{Cache, SMOLLM2_135M};
use screen::attention::{AttentionScreener, Combined, WEIGHTS, open};
use screen::{ByDraft, Defence};

use crate::embedded::model;

/// Its name on command lines: that of its defence.
///
/// # Errors
/// This build does not know it.
pub(crate) fn name(kind: ScreenerKind) -> Result<&'static str> {
    Ok(match kind {
        ScreenerKind::Judge => screen::JUDGE.name(),
        ScreenerKind::Naive => screen::NAIVE.name(),
        ScreenerKind::RedactAll => screen::REDACT_ALL.name(),
        ScreenerKind::Attention => AttentionScreener::NAME,
        ScreenerKind::Combined => Combined::NAME,
        kind => bail!("the screener {kind:?} is not part of this build"),
    })
}

/// Every name that [`defence`] takes, for messages.
pub(crate) fn names() -> String {
    let known = screen::names().chain([AttentionScreener::NAME, Combined::NAME]);
    known.collect::<Vec<_>>().join(", ")
}

/// The defence of this name, with the settings of the configuration's `[screener]`. The attention
/// screener's model is loaded here.
///
/// # Errors
/// There is none of this name, or its model is not here.
pub(crate) fn defence(name: &str, settings: &Settings) -> Result<Arc<dyn Defence>> {
    let drafter = match settings.draft {
        Some(_) => Drafter::Other,
        None => Drafter::Own,
    };
    let by_draft = match name {
        AttentionScreener::NAME => {
            let attention = attention(settings.weights.as_deref(), settings.recall)?;
            ByDraft::attention(Arc::new(attention))
        }
        Combined::NAME => {
            let attention = attention(settings.weights.as_deref(), settings.recall)?;
            let attention = Arc::new(attention);
            let band = attention.band();
            ByDraft::combined(Arc::new(Combined::new(attention, band)))
        }
        other => {
            let known = screen::defence(other);
            return known
                .with_context(|| format!("there is no defence {name}; use one of {}", names()));
        }
    };
    Ok(Arc::new(by_draft.with_drafter(drafter)))
}

/// The attention screener with its model from the cache and the weights of this file, or those of
/// this program, to find so many per cent of the dependencies.
///
/// # Errors
/// The model was not pulled, or is not what it should be; or the file holds no weights for it.
pub(crate) fn attention(weights: Option<&Path>, recall: Option<u8>) -> Result<AttentionScreener> {
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
