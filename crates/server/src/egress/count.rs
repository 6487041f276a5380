//! What has gone through a connection so far, and why it ends.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// Bytes of one connection, both ways together: a large download, and not a disk.
pub(super) const MOST_BYTES: u64 = 1 << 30;
/// How long a connection may be silent. Servers close idle connections after one to five minutes.
const IDLE: Duration = Duration::from_secs(300);

/// Why a connection ended before its ends wanted it to.
pub(super) enum End {
    Cut,
    Misfit(String),
    TooMuch,
    Broken(io::Error),
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        Self::Broken(error)
    }
}

/// What went through so far.
pub(super) struct Count {
    pub(super) sent: AtomicU64,
    pub(super) received: AtomicU64,
    last: Mutex<Instant>,
}

impl Count {
    /// Nothing yet.
    pub(super) fn new() -> Self {
        Self {
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            last: Mutex::new(Instant::now()),
        }
    }

    /// Counts what has gone through in one direction.
    ///
    /// # Errors
    /// It is too much for one connection.
    pub(super) fn add(&self, to: &AtomicU64, bytes: usize) -> Result<(), End> {
        // A sum by which no other memory is read, so the weakest order will do.
        to.fetch_add(bytes as u64, Ordering::Relaxed);
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        let all = self.sent.load(Ordering::Relaxed) + self.received.load(Ordering::Relaxed);
        if all > MOST_BYTES {
            return Err(End::TooMuch);
        }
        Ok(())
    }

    /// Resolves when nothing has gone through for too long.
    pub(super) async fn idle(&self) {
        loop {
            let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
            if last.elapsed() >= IDLE {
                return;
            }
            // Something may go through meanwhile, so the time is looked at again afterwards.
            sleep_until(last + IDLE).await;
        }
    }
}
