//! Reaping what process 1 inherits.
//!
//! An app's children that outlive their parent become ours. Unreaped, each holds a process number until the
//! sandbox has none left. The app itself is tokio's to reap, so its status is looked at and left in place.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{MissedTickBehavior, interval};

/// Signals can merge, and the app's own status can stand in front of an orphan's until tokio takes it.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Reaps orphans as long as the runtime runs.
#[derive(Debug, Clone)]
pub(crate) struct Reaper {
    /// The app's process number, 0 before there is one.
    app: Arc<AtomicU32>,
}

impl Reaper {
    /// Must be started before the app, inside the runtime.
    pub(crate) fn start() -> io::Result<Self> {
        let reaper = Self {
            app: Arc::new(AtomicU32::new(0)),
        };
        let children = signal(SignalKind::child())?;
        tokio::spawn(reaper.clone().run(children));
        Ok(reaper)
    }

    /// Leaves this child to tokio. To be called before the next await after its start.
    pub(crate) fn spare(&self, app: u32) {
        self.app.store(app, Ordering::SeqCst);
    }

    async fn run(self, mut children: Signal) {
        let mut clock = interval(LOOK_AGAIN);
        clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = children.recv() => {}
                _ = clock.tick() => {}
            }
            while let Some(orphan) = self.next_orphan() {
                // By its number: `Id::All` could take the app's status here, if that has ended since, and tokio
                // would find none. How an orphan ended is of no interest.
                let _ = waitid(Id::Pid(orphan), WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG);
            }
        }
    }

    /// A dead child that is not the app. Looking (`WNOWAIT`) leaves the status for its own waiter.
    fn next_orphan(&self) -> Option<Pid> {
        let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        let pid = match waitid(Id::All, look) {
            Ok(WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, _, _)) => pid,
            _ => return None,
        };
        (u32::try_from(pid.as_raw()).ok() != Some(self.app.load(Ordering::SeqCst))).then_some(pid)
    }
}
