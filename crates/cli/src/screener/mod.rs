//! The configured screener.

#[cfg_attr(not(feature = "attention"), path = "left_out.rs")]
mod attention;

use anyhow::{Context, Result, bail};
use config::{Screener as Settings, ScreenerKind};
use screen::{Defence, LmJudge, NaiveTainting, RedactAll};

pub(crate) use self::attention::check;

/// The defence of the configuration's `[screener]`. The attention screener's model is loaded here.
pub(crate) fn defence(settings: &Settings) -> Result<Defence> {
    let name = match settings.kind {
        ScreenerKind::Attention | ScreenerKind::Combined => return attention::defence(settings),
        ScreenerKind::Judge => LmJudge::NAME,
        ScreenerKind::Naive => NaiveTainting::NAME,
        ScreenerKind::RedactAll => RedactAll::NAME,
        kind => bail!("the screener {kind:?} is not part of this build"),
    };
    screen::defence(name).with_context(|| format!("there is no screener {name}"))
}
