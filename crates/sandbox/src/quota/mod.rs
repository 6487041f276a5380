//! A bound on what lies in the folders that a spoke may write.
//!
//! The quotas of file systems need root, a mount that has them switched on, and marks on the user's files; a file system of
//! a size of its own needs root, or is no longer the user's folder; `RLIMIT_FSIZE` bounds a single file. So the hub
//! measures: whenever the disk has got fuller by half of what is left, and now and then in any case. A spoke that is over its
//! size is ended. That is after the fact, by as much as can be written within some tens of milliseconds; what could take
//! more at once (`fallocate`) is refused to a spoke with a quota. What nobody can look at is not taken for nothing: a mapping
//! of a deleted file counts as the largest file that the spoke may make, where the hub may not ask for its size, and a spoke
//! that keeps descriptors on the way for [`UNRECEIVED`] is ended.

mod held;

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, fstatvfs, openat2};
use rustix::process::{Signal, pidfd_send_signal};

use self::held::Seen;
use crate::{Quota, SandboxError, Spec};

/// How often the free space of a disk is looked at, which takes a microsecond.
const LOOK: Duration = Duration::from_millis(10);
/// How long a folder is not measured that nothing points to.
const LONGEST: Duration = Duration::from_millis(500);
/// How long descriptors may be sent and not received. A process that gets them has time to do so on a busy machine; one
/// that hides deleted files so has to keep them there at each look, since a descriptor that it takes out counts again.
const UNRECEIVED: Duration = Duration::from_secs(1);
/// At most this part of a processor goes into measuring, once in a while and when the disk fills up.
const CALM: u32 = 50;
const HURRY: u32 = 4;

/// Why a spoke was ended by a quota, if it was. Clones tell of the same spoke.
#[derive(Clone, Debug, Default)]
pub struct Overrun(Arc<OnceLock<String>>);

impl Overrun {
    /// What happened, and what to do: one line.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.0.get().map(String::as_str)
    }
}

/// A folder with its quota, opened.
pub(crate) struct Folder {
    quota: Quota,
    place: OwnedFd,
    seen: Seen,
    /// What it held, and what was free on its disk, when it was measured last; how long that took.
    bytes: u64,
    free: u64,
    measured: Instant,
    took: Duration,
    /// Since when there have been descriptors on the way, at every look.
    unreceived: Option<Instant>,
}

/// Opens the folders, and refuses one that holds too much already.
pub(crate) fn open(spec: &Spec) -> Result<Vec<Folder>, SandboxError> {
    let opened = spec.quotas.iter().map(|quota| {
        let mut folder = Folder::open(quota, spec)?;
        match folder.measure(None) {
            Ok(()) => Ok(folder),
            Err(why) => Err(SandboxError::Full(why)),
        }
    });
    opened.collect()
}

/// Watches the folders in a thread of its own until the spoke is gone. `outer` ends with it, `inner` is its process 1.
pub(crate) fn watch(
    mut folders: Vec<Folder>,
    outer: OwnedFd,
    inner: OwnedFd,
) -> std::io::Result<Overrun> {
    let overrun = Overrun::default();
    if folders.is_empty() {
        return Ok(overrun);
    }
    let verdict = overrun.clone();
    let thread = std::thread::Builder::new().name("sandbox-quota".to_owned());
    thread.spawn(move || {
        while !ended_within(&outer, LOOK) {
            let due = folders.iter_mut().filter(|folder| folder.is_due());
            let over = due.filter_map(|folder| folder.measure(Some(&inner)).err());
            if let Some(why) = over.into_iter().next() {
                // First the reason, then the end: whoever sees the end finds it.
                let _ = verdict.0.set(why);
                // Refused only if it is gone already.
                let _ = pidfd_send_signal(&inner, Signal::KILL);
                return;
            }
        }
    })?;
    Ok(overrun)
}

impl Folder {
    fn open(quota: &Quota, spec: &Spec) -> Result<Self, SandboxError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let place = openat2(CWD, &quota.folder, flags, Mode::empty(), resolve);
        let place = place.map_err(SandboxError::system("open a folder with a size"))?;
        Ok(Self {
            quota: quota.clone(),
            place,
            seen: seen(quota, spec),
            bytes: 0,
            free: 0,
            measured: Instant::now(),
            took: Duration::ZERO,
            unreceived: None,
        })
    }

    /// Whether enough was written on the disk to matter, by whomever, or much time has passed.
    fn is_due(&self) -> bool {
        let since = self.measured.elapsed();
        let left = self.quota.bytes.saturating_sub(self.bytes);
        let fuller = || self.free.saturating_sub(free(&self.place)) >= left / 2;
        since >= LONGEST.max(self.took * CALM) || since >= self.took * HURRY && fuller()
    }

    /// Measures it.
    ///
    /// # Errors
    /// Why the spoke must not go on.
    fn measure(&mut self, inner: Option<&OwnedFd>) -> Result<(), String> {
        let begun = Instant::now();
        // Before, so that what is written meanwhile counts next time.
        self.free = free(&self.place);
        let most = self.quota.bytes;
        let held = held::below(self.place.as_fd(), most);
        let held = held.and_then(|held| match inner {
            Some(inner) => held.with_deleted(inner.as_fd(), &self.seen),
            None => Ok(held),
        });
        let held = held.map_err(|why| self.unmeasured(&why))?;
        self.bytes = held.bytes();
        self.unreceived = match held.in_flight() {
            true => self.unreceived.or(Some(begun)),
            false => None,
        };
        let waits = self.unreceived.map_or(Duration::ZERO, |it| it.elapsed());
        if waits > UNRECEIVED {
            return Err(self.unmeasured("it keeps descriptors in sockets that nobody reads"));
        }
        (self.measured, self.took) = (Instant::now(), begun.elapsed());
        match self.bytes > most {
            true => Err(self.over()),
            false => Ok(()),
        }
    }

    fn over(&self) -> String {
        format!(
            "the folder {} holds more than its size of {}; delete what is not needed, or give the mount a larger size",
            self.quota.folder.display(),
            size(self.quota.bytes)
        )
    }

    fn unmeasured(&self, why: &str) -> String {
        let folder = self.quota.folder.display();
        format!("nobody can tell whether the folder {folder} is over its size: {why}")
    }
}

/// Where the spoke sees the folder: by each mount that shows all of it or a part, not only by the one that it may write.
fn seen(quota: &Quota, spec: &Spec) -> Seen {
    let shows =
        |source: &Path| source.starts_with(&quota.folder) || quota.folder.starts_with(source);
    let mounts = spec.mounts.iter().filter(|mount| shows(&mount.source));
    Seen {
        targets: mounts.map(|mount| mount.target.clone()).collect(),
        largest: spec.limits.file_bytes,
    }
}

/// Bytes that are free on the disk of a folder; none if that cannot be told, which has it measured.
fn free(place: &OwnedFd) -> u64 {
    let about = fstatvfs(place);
    about.map_or(0, |about| about.f_bfree.saturating_mul(about.f_frsize))
}

fn size(bytes: u64) -> String {
    match bytes >> 20 {
        0 => format!("{bytes} bytes"),
        whole => format!("{whole} MiB"),
    }
}

fn ended_within(outer: &OwnedFd, limit: Duration) -> bool {
    let timeout = Timespec::try_from(limit).ok();
    let mut descriptors = [PollFd::new(outer, PollFlags::IN)];
    // An error would be a descriptor that is none.
    rustix::io::retry_on_intr(|| poll(&mut descriptors, timeout.as_ref()))
        .is_ok_and(|ready| ready > 0)
}
