//! How long an "always" lasts, and whether it counts for scripts.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};
use store::Time;

/// How long a permission lasts if it is not revoked before, and where it counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct KeepFor {
    /// In whole hours.
    pub(crate) hours: Option<u64>,
    /// Whether it counts without a terminal too.
    pub(crate) scripts: bool,
}

/// Ten years.
const MOST_HOURS: u64 = 10 * 366 * 24;

impl KeepFor {
    /// When a permission that is given now ends.
    pub(crate) fn end(self) -> Result<Option<Time>> {
        let Some(hours) = self.hours else {
            return Ok(None);
        };
        let end = SystemTime::now().checked_add(Duration::from_secs(hours * 3600));
        Ok(Some(end.context("the clock has no such time")?.into()))
    }
}

/// As in a question: "until you revoke it", or "in scripts too, for 7 days, or until you revoke it".
impl fmt::Display for KeepFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.scripts {
            f.write_str("in scripts too, ")?;
        }
        match self.hours {
            None => {}
            Some(hours) if hours.is_multiple_of(24) => {
                write!(f, "for {} days, or ", hours / 24)?;
            }
            Some(hours) => write!(f, "for {hours} hours, or ")?,
        }
        f.write_str("until you revoke it")
    }
}

impl FromStr for KeepFor {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let unit = |unit: char, hours: u64| Some((text.strip_suffix(unit)?, hours));
        let found = unit('h', 1)
            .or_else(|| unit('d', 24))
            .or_else(|| unit('w', 7 * 24));
        let hours = found.and_then(|(number, unit)| number.parse::<u64>().ok()?.checked_mul(unit));
        match hours {
            Some(hours) if (1..=MOST_HOURS).contains(&hours) => Ok(Self {
                hours: Some(hours),
                scripts: false,
            }),
            _ => bail!("write a number of hours, days or weeks up to ten years: 12h, 7d, 4w"),
        }
    }
}
