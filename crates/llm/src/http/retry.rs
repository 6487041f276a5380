//! When to try again, and after how long.

use std::time::{Duration, SystemTime};

use reqwest::header::{HeaderMap, RETRY_AFTER};

use super::config::Retry;

impl Retry {
    /// The wait before retry `attempt` (0 is the first): exponential, less up to half at random.
    pub(super) fn backoff(&self, attempt: u32, random: f64) -> Duration {
        // Saturates, and the longest wait bounds it.
        let factor = 2u32.checked_pow(attempt).unwrap_or(u32::MAX);
        let full = self.base.saturating_mul(factor).min(self.longest);
        full.mul_f64(1.0 - random.clamp(0.0, 1.0) / 2.0)
    }

    /// The wait before the next attempt, or `None` when the error must be passed on.
    pub(super) fn wait(&self, attempt: u32, asked: Option<Duration>) -> Option<Duration> {
        // A server that asks for longer than we would wait is passed on at once: a user should not sit through a
        // wait that ends in the same error.
        if attempt >= self.attempts || asked.is_some_and(|asked| asked > self.longest) {
            return None;
        }
        let own = self.backoff(attempt, fastrand::f64());
        // Never sooner than by our own backoff: a server that asks for zero seconds would be asked again without a
        // pause.
        Some(asked.map_or(own, |asked| asked.max(own)))
    }
}

/// The wait that a server asks for: seconds, or a date.
pub(super) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    // A date in the past means now.
    let date = httpdate::parse_http_date(value).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const RETRY: Retry = Retry {
        attempts: 3,
        base: Duration::from_millis(100),
        longest: Duration::from_secs(1),
    };

    #[test]
    fn waits_double_and_are_bounded() {
        let full: Vec<u128> = (0..6).map(|n| RETRY.backoff(n, 0.0).as_millis()).collect();
        assert_eq!(full, [100, 200, 400, 800, 1000, 1000]);
        assert_eq!(RETRY.backoff(1, 1.0).as_millis(), 100);
        assert_eq!(RETRY.backoff(u32::MAX, 0.0), RETRY.longest);
    }

    #[test]
    fn the_server_is_obeyed_within_the_bound() {
        let second = Duration::from_secs(1);
        assert_eq!(RETRY.wait(0, Some(second)), Some(second));
        assert_eq!(RETRY.wait(0, Some(second * 2)), None);
        assert_eq!(RETRY.wait(3, None), None);
        assert!(RETRY.wait(2, None).unwrap() >= Duration::from_millis(200));
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        let check = |value: &str, expected: Option<u64>| {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, value.parse().unwrap())]);
            let expected = expected.map(Duration::from_secs);
            assert_eq!(retry_after(&headers, now), expected, "{value}");
        };
        check("7", Some(7));
        check("Sun, 06 Nov 1994 08:49:40 GMT", Some(3));
        check("Sun, 06 Nov 1994 08:00:00 GMT", Some(0));
        check("soon", None);
        check("-1", None);
    }
}
