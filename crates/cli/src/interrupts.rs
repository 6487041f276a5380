//! Ctrl-C.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

/// Ctrl-C as a notification. Pressed twice within a second it ends the program at once; the
/// kernel then ends the spokes.
pub(crate) fn interrupts() -> Arc<Notify> {
    let cancel = Arc::new(Notify::new());
    let notify = Arc::clone(&cancel);
    // Registered here and not in the task, so that a Ctrl-C before its first run counts already.
    let Ok(mut signals) = signal(SignalKind::interrupt()) else {
        return cancel;
    };
    tokio::spawn(async move {
        let mut last: Option<Instant> = None;
        while signals.recv().await.is_some() {
            if last.is_some_and(|last| last.elapsed() < Duration::from_secs(1)) {
                std::process::exit(130);
            }
            last = Some(Instant::now());
            notify.notify_one();
        }
    });
    cancel
}
