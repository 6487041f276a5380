//! Ctrl-C and SIGTERM.

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Once};
use std::time::{Duration, Instant};

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

use crate::exit::Exit;

type Undo = Box<dyn FnOnce() + Send>;

/// Ctrl-C does this and ends the program, until another is set. For commands without [`interrupts`].
pub(crate) fn on_interrupt(undo: Option<Undo>) {
    static UNDO: Mutex<Option<Undo>> = Mutex::new(None);
    static WATCH: Once = Once::new();
    let set = |undo| {
        UNDO.lock()
            .ok()
            .and_then(|mut it| mem::replace(&mut *it, undo))
    };
    set(undo);
    // On a thread of the runtime's: a question blocks the main one.
    let watch = async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            set(None).into_iter().for_each(|undo| undo());
            std::process::exit(Exit::Interrupted.number().into());
        }
    };
    WATCH.call_once(|| drop(tokio::spawn(watch)));
}

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
