//! A spoke held still while its folders are measured: frozen with its control group where it has one, and else stopped.

use std::time::{Duration, Instant};

use super::processes::Processes;
use super::stop::Stop;
use crate::control_group::Freezer;

/// How long it may take until nothing runs. Each thread needs a moment of a processor for it, a system call that writes
/// much ends first, and a machine may have much else to do; a thread that waits for a disk counts as one that does nothing.
const PATIENCE: Duration = Duration::from_secs(5);

/// A spoke that is being held still. It goes on when this is dropped.
pub(super) struct Still<'s> {
    by: By<'s>,
    /// When it was last known to run.
    since: Instant,
}

enum By<'s> {
    /// The kernel lets nothing in the group run before it is thawed, whatever signals it gets.
    Freezer(&'s Freezer),
    Stop(Stop<'s>),
}

impl<'s> Still<'s> {
    /// Has a spoke stop. It takes a while; [`Self::is_reached`] tells when it has.
    pub(super) fn begin(processes: &'s Processes, freezer: Option<&'s Freezer>) -> Self {
        // Refused only where the group is gone, and the spoke with it.
        let freezer = freezer.filter(|freezer| freezer.freeze().is_ok());
        let by = match freezer {
            Some(freezer) => By::Freezer(freezer),
            None => By::Stop(Stop::of(processes)),
        };
        let since = Instant::now();
        Self { by, since }
    }

    /// Whether nothing of the spoke runs. Where something does, it is told to stop once more.
    ///
    /// # Errors
    /// It does not stop, or nobody can tell.
    pub(super) fn is_reached(&mut self) -> Result<bool, String> {
        let is_reached = match &mut self.by {
            By::Freezer(freezer) => freezer.is_frozen()?,
            By::Stop(stop) => stop.is_reached()?,
        };
        match is_reached || self.since.elapsed() <= PATIENCE {
            true => Ok(is_reached),
            false => Err("its processes cannot be held still".to_owned()),
        }
    }

    /// Whether nothing of the spoke has run since it was still. If something has, it can be waited for anew.
    ///
    /// # Errors
    /// Nobody can tell.
    pub(super) fn has_held(&mut self) -> Result<bool, String> {
        self.since = Instant::now();
        match &mut self.by {
            By::Freezer(freezer) => freezer.is_frozen(),
            By::Stop(stop) => stop.has_held(),
        }
    }
}

impl Drop for Still<'_> {
    fn drop(&mut self) {
        if let By::Freezer(freezer) = self.by {
            // Refused only where the group is gone.
            let _ = freezer.thaw();
        }
    }
}
