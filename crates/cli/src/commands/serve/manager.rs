//! What the service manager (systemd) is told.

use std::time::Duration;

use sd_notify::NotifyState;

/// Tells the service manager, if there is one.
pub(super) fn tell(states: &[NotifyState<'_>]) {
    // Without one there is no socket, and this does nothing.
    let _ = sd_notify::notify(states);
}

/// Ticks twice in the time after which the service manager takes this process for hung; else rarely.
pub(super) fn watchdog() -> tokio::time::Interval {
    let time = sd_notify::watchdog_enabled().map_or(Duration::from_secs(3600), |time| time / 2);
    tokio::time::interval(time.max(Duration::from_millis(10)))
}
