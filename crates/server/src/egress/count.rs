//! What has gone through a connection so far, and why it ends.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};

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
    most: u64,
    silence: Duration,
}

impl Count {
    /// Nothing yet, of so many bytes at most, both ways together, and with silence for so long at most.
    pub(super) fn new(most: u64, silence: Duration) -> Self {
        Self {
            most,
            silence,
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
        if all > self.most {
            return Err(End::TooMuch);
        }
        Ok(())
    }

    /// Resolves when nothing has gone through for too long.
    pub(super) async fn idle(&self) {
        // Something may go through meanwhile, so the time is looked at again afterwards.
        while let Some(left) = self.patience(Instant::now()) {
            sleep(left).await;
        }
    }

    /// How much longer it may be silent; `None` if it was for too long.
    fn patience(&self, now: Instant) -> Option<Duration> {
        let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let left = self.silence.checked_sub(now.duration_since(last))?;
        (!left.is_zero()).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_ends_by_its_silence_and_not_by_its_age() {
        let silence = Duration::from_secs(60);
        let count = Count::new(10, silence);
        let begun = Instant::now();
        assert!(count.patience(begun).is_some());
        assert_eq!(count.patience(begun + silence), None);
        // What goes through in the last moment gives it all of its time again.
        *count.last.lock().unwrap() = begun + silence;
        assert_eq!(count.patience(begun + silence), Some(silence));
        assert_eq!(count.patience(begun + 2 * silence), None);
        assert!(count.add(&count.sent, 10).is_ok());
        assert!(matches!(count.add(&count.received, 1), Err(End::TooMuch)));
    }
}
