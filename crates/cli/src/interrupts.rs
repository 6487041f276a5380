//! Ctrl-C and SIGTERM.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

use crate::exit::Exit;

static IS_TERMINATED: AtomicBool = AtomicBool::new(false);

/// Whether the program was told to end by SIGTERM. Then it ends when what is under way is over, with
/// [`Exit::Terminated`].
pub(crate) fn is_terminated() -> bool {
    IS_TERMINATED.load(Ordering::Relaxed)
}

/// Ctrl-C and SIGTERM as a notification. Twice within a second they end the program at once; the
/// kernel then ends the spokes.
pub(crate) fn interrupts() -> Arc<Notify> {
    let cancel = Arc::new(Notify::new());
    let notify = Arc::clone(&cancel);
    // Registered here and not in the task, so that a signal before its first run counts already.
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
