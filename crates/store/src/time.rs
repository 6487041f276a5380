//! Points in time, as they are stored.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// A point in time: milliseconds since 1970-01-01 UTC, negative before.
///
/// Callers pass the time, so that tests can use any clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Time(i64);

impl Time {
    /// That many milliseconds after 1970-01-01 UTC.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since 1970-01-01 UTC.
    pub const fn millis(self) -> i64 {
        self.0
    }
}

impl From<SystemTime> for Time {
    /// A time further away than 292 million years becomes the end of the range.
    fn from(time: SystemTime) -> Self {
        let millis = |span: std::time::Duration| i64::try_from(span.as_millis());
        Self(match time.duration_since(UNIX_EPOCH) {
            Ok(after) => millis(after).unwrap_or(i64::MAX),
            Err(before) => millis(before.duration()).map_or(i64::MIN, |span| -span),
        })
    }
}
