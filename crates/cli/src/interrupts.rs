//! Ctrl-C and SIGTERM.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

use crate::exit::Exit;

static IS_TERMINATED: AtomicBool = AtomicBool::new(false);

/// Whether the program got SIGTERM. It then ends with [`Exit::Terminated`].
pub(crate) fn is_terminated() -> bool {
    IS_TERMINATED.load(Ordering::Relaxed)
}

/// Ctrl-C and SIGTERM as a notification. Two within a second end the program at once, and the kernel
/// ends the spokes.
pub(crate) fn interrupts() -> Arc<Notify> {
    let cancel = Arc::new(Notify::new());
    let notify = Arc::clone(&cancel);
    // Registered here, so that a signal before the first run of the task counts.
    let signals = [SignalKind::interrupt(), SignalKind::terminate()].map(signal);
    let [Ok(mut interrupts), Ok(mut terminations)] = signals else {
        return cancel;
    };
    tokio::spawn(async move {
        let mut last: Option<Instant> = None;
        loop {
            tokio::select! {
                Some(()) = interrupts.recv() => {}
                Some(()) = terminations.recv() => IS_TERMINATED.store(true, Ordering::Relaxed),
                else => return,
            }
            if last.is_some_and(|last| last.elapsed() < Duration::from_secs(1)) {
                let exit = match is_terminated() {
                    true => Exit::Terminated,
                    false => Exit::Interrupted,
                };
                std::process::exit(exit.number().into());
            }
            last = Some(Instant::now());
            notify.notify_one();
        }
    });
    cancel
}
