//! The screener that a configuration or a command names.

#[cfg_attr(not(feature = "attention"), path = "left_out.rs")]
mod attention;

use anyhow::{Context, Result, bail};
use config::{Screener as Settings, ScreenerKind};
use screen::{Defence, LmJudge, NaiveTainting, RedactAll};

pub(crate) use self::attention::check;

/// Its name on command lines: that of its defence.
///
/// # Errors
/// This build does not know it.
pub(crate) fn name(kind: ScreenerKind) -> Result<&'static str> {
    Ok(match kind {
        ScreenerKind::Judge => LmJudge::NAME,
        ScreenerKind::Naive => NaiveTainting::NAME,
        ScreenerKind::RedactAll => RedactAll::NAME,
        ScreenerKind::Attention => attention::ATTENTION,
        ScreenerKind::Combined => attention::COMBINED,
        kind => bail!("the screener {kind:?} is not part of this build"),
    })
}

/// Every name that [`defence`] takes, for messages.
fn names() -> String {
    let here = [attention::ATTENTION, attention::COMBINED];
    [&screen::NAMES[..], &here].concat().join(", ")
}

/// The defence of this name, with the settings of the configuration's `[screener]`. The attention
/// screener's model is loaded here.
///
/// # Errors
/// There is none of this name, its model is not here, or this build has no attention screener.
pub(crate) fn defence(name: &str, settings: &Settings) -> Result<Defence> {
    match name {
        attention::ATTENTION | attention::COMBINED => attention::defence(name, settings),
        other => screen::defence(other)
            .with_context(|| format!("there is no defence {name}; use one of {}", names())),
    }
}
