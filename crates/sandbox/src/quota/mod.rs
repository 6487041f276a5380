//! A bound on what lies in the folders that a spoke may write.
//!
//! The quotas of file systems need root, a mount that has them switched on, and marks on the user's files; a file system of
//! a size of its own needs root, or is no longer the user's folder; `RLIMIT_FSIZE` bounds a single file. So the hub
//! measures: whenever the disk has got fuller by half of what is left, and now and then in any case. A spoke that is over its
//! size is ended. That is after the fact, by as much as can be written within some tens of milliseconds; what could take
//! more at once (`fallocate`) is refused to a spoke with a quota. What nobody can look at is not taken for nothing: a mapping
//! of a deleted file counts as the largest file that the spoke may make, where the hub may not ask for its size, and a spoke
//! that keeps descriptors on the way for [`UNRECEIVED`] is ended.
//!
//! Most looks are taken while the spoke runs, and so tell nothing of a spoke that moves its files about. A look that counts
//! is taken while it is held still ([`Still`]): before it is ended, when the disk has got fuller since the last one by what
//! would fill the folder, and now and then, since others may have made room meanwhile. Until it is still it goes on being
//! looked at, and what is [`FLAGRANT`] then ends it as well.

mod held;
mod processes;
mod still;
mod stop;

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, fstatvfs, openat2};
use rustix::process::{Signal, pidfd_send_signal};

use self::held::{Held, Seen};
use self::processes::Processes;
use self::still::Still;
use crate::control_group::Freezer;
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
/// How long it is believed what was seen while a spoke ran, as far as the free space of the disk speaks for it: another
/// program may free as much as the spoke takes.
const BELIEVED: Duration = Duration::from_secs(10);
/// The shortest time between two stops of a spoke, whatever it and others write.
const RESPITE: Duration = Duration::from_millis(100);
/// Bytes that every program of the machine writes now and then. A spoke is not stopped for fewer.
const ENOUGH: u64 = 1 << 20;
/// So many looks are taken at a spoke that has run while it was to be still. Nothing that means well continues itself.
const ATTEMPTS: u32 = 5;
/// How often it is asked whether a spoke is still.
const ASK: Duration = Duration::from_millis(1);
/// How often a folder is looked at until its spoke is still, which most are within less.
const GLANCE: Duration = Duration::from_millis(20);
/// So many times its size a folder may seem to hold while the spoke is to be still and is not. A file that is moved meanwhile
/// counts twice, so less than that proves nothing.
const FLAGRANT: u64 = 2;

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
    /// The last look, and the last one that counts.
    last: Look,
    sure: Look,
    /// Since when there have been descriptors on the way, at every look.
    unreceived: Option<Instant>,
}

/// What was found at one look.
#[derive(Clone, Copy)]
struct Look {
    /// What the folder held, and its disk before it was looked at.
    bytes: u64,
    disk: Disk,
    /// When it had ended, and how long it took.
    at: Instant,
    took: Duration,
}

/// What a disk says of itself, whoever has filled it.
#[derive(Clone, Copy, Default)]
struct Disk {
    /// Bytes that are free.
    free: u64,
    /// Files and folders that lie on it. Many file systems have room for them set aside, so that one more takes no byte.
    entries: u64,
}

/// Opens the folders, and refuses one that holds too much already.
pub(crate) fn open(spec: &Spec) -> Result<Vec<Folder>, SandboxError> {
    let opened = spec.quotas.iter().map(|quota| {
        let mut folder = Folder::open(quota, spec)?;
        // There is no spoke yet, so this look counts.
        match folder.look(None, 1).and_then(|held| folder.judge(&held)) {
            Ok(()) => {
                folder.sure = folder.last;
                Ok(folder)
            }
            Err(why) => Err(SandboxError::Full(why)),
        }
    });
    opened.collect()
}

/// A spoke whose folders are watched.
struct Spoke {
    processes: Processes,
    /// Of the control group that all of them are in, if they have one of their own.
    freezer: Option<Freezer>,
}

/// Watches the folders in a thread of its own until the spoke is gone. `outer` ends with it, `inner` is its process 1, and
/// `freezer` that of its control group.
pub(crate) fn watch(
    mut folders: Vec<Folder>,
    outer: OwnedFd,
    inner: OwnedFd,
    freezer: Option<Freezer>,
) -> std::io::Result<Overrun> {
    let overrun = Overrun::default();
    if folders.is_empty() {
        return Ok(overrun);
    }
    let verdict = overrun.clone();
    let spoke = Spoke {
        processes: Processes::of(inner.try_clone()?),
        freezer,
    };
    let thread = std::thread::Builder::new().name("sandbox-quota".to_owned());
    thread.spawn(move || {
        while !ended_within(&outer, LOOK) {
            let mut judged = folders.iter_mut().map(|folder| folder.attend(&spoke));
            if let Some(why) = judged.find_map(Result::err) {
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
        let nothing = Look {
            bytes: 0,
            disk: Disk::default(),
            at: Instant::now(),
            took: Duration::ZERO,
        };
        Ok(Self {
            quota: quota.clone(),
            place,
            seen: seen(quota, spec),
            last: nothing,
            sure: nothing,
            unreceived: None,
        })
    }

    /// Looks at it if there is reason to.
    ///
    /// # Errors
    /// Why the spoke must not go on.
    fn attend(&mut self, spoke: &Spoke) -> Result<(), String> {
        if self.is_doubtful() {
            return self.make_sure(spoke);
        }
        if !self.is_due() {
            return Ok(());
        }
        let held = self.look(Some(&spoke.processes), 1);
        match held.and_then(|held| self.judge(&held)) {
            Ok(()) => Ok(()),
            // A file that was moved meanwhile may have been counted twice.
            Err(_) => self.make_sure(spoke),
        }
    }

    /// Whether enough was written on the disk to matter, by whomever, or much time has passed.
    fn is_due(&self) -> bool {
        let Look { at, took, .. } = self.last;
        let since = at.elapsed();
        let enough = self.left(&self.last) / 2;
        since >= LONGEST.max(took * CALM)
            || since >= took * HURRY && self.fuller(&self.last) >= enough
    }

    /// Whether more may lie there than was seen while the spoke could move it about.
    fn is_doubtful(&self) -> bool {
        let Look { at, took, .. } = self.sure;
        let since = at.elapsed();
        if since < RESPITE.max(took * HURRY) {
            return false;
        }
        let full = self.fuller(&self.sure) >= self.left(&self.sure).max(ENOUGH);
        full || self.unreceived.is_some() || since >= BELIEVED.max(took * CALM)
    }

    /// Bytes that could have been written since a look without filling it.
    fn left(&self, look: &Look) -> u64 {
        self.quota.bytes.saturating_sub(look.bytes)
    }

    /// Bytes by which its disk has got fuller since a look, as they would count in a folder.
    fn fuller(&self, look: &Look) -> u64 {
        disk(&self.place).fuller(look.disk)
    }

    /// Measures it while nothing of the spoke runs.
    ///
    /// # Errors
    /// Why the spoke must not go on.
    fn make_sure(&mut self, spoke: &Spoke) -> Result<(), String> {
        let mut still = Still::begin(&spoke.processes, spoke.freezer.as_ref());
        for _ in 0..ATTEMPTS {
            self.wait_for(&mut still, spoke)?;
            let held = self.look(Some(&spoke.processes), FLAGRANT);
            let has_held = still.has_held().map_err(|why| self.unmeasured(&why))?;
            if has_held {
                let held = held?;
                self.sure = self.last;
                if !held.in_flight() {
                    self.unreceived = None;
                }
                return self.judge(&held);
            }
            // Files may have been moved past it, and what it could not look at may be there again.
            held.map_or(Ok(()), |held| self.judge_unproven(&held))?;
        }
        Err(self.unmeasured("its processes do not stop when they are held still"))
    }

    /// Waits until nothing of the spoke runs.
    ///
    /// # Errors
    /// Why the spoke must not go on.
    fn wait_for(&mut self, still: &mut Still<'_>, spoke: &Spoke) -> Result<(), String> {
        let mut next = Instant::now() + GLANCE;
        while !still.is_reached().map_err(|why| self.unmeasured(&why))? {
            if Instant::now() >= next {
                let held = self.look(Some(&spoke.processes), FLAGRANT);
                held.map_or(Ok(()), |held| self.judge_unproven(&held))?;
                // At least half of the time goes into having it stop.
                next = Instant::now() + GLANCE.max(self.last.took);
            }
            std::thread::sleep(ASK);
        }
        Ok(())
    }

    /// Measures it, up to so many times its size.
    fn look(&mut self, spoke: Option<&Processes>, times: u64) -> Result<Held, String> {
        let begun = Instant::now();
        // Before, so that what is written meanwhile counts next time.
        let disk = disk(&self.place);
        let most = self.quota.bytes.saturating_mul(times);
        let held = held::below(self.place.as_fd(), most);
        let held = held.and_then(|held| match spoke {
            Some(spoke) => held.with_deleted(spoke, &self.seen),
            None => Ok(held),
        });
        let held = held.map_err(|why| self.unmeasured(&why))?;
        if held.in_flight() {
            self.unreceived = self.unreceived.or(Some(begun));
        }
        self.last = Look {
            bytes: held.bytes(),
            disk,
            at: Instant::now(),
            took: begun.elapsed(),
        };
        Ok(held)
    }

    /// Whether a look in which the spoke ran has found what no moving of files explains.
    ///
    /// # Errors
    /// It has.
    fn judge_unproven(&self, held: &Held) -> Result<(), String> {
        match held.bytes() > self.quota.bytes.saturating_mul(FLAGRANT) {
            true => Err(self.over()),
            false => Ok(()),
        }
    }

    /// Whether this is too much.
    ///
    /// # Errors
    /// It is, or nobody can tell.
    fn judge(&self, held: &Held) -> Result<(), String> {
        let waits = self.unreceived.map_or(Duration::ZERO, |it| it.elapsed());
        if waits > UNRECEIVED {
            return Err(self.unmeasured("it keeps descriptors in sockets that nobody reads"));
        }
        match held.bytes() > self.quota.bytes {
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

impl Disk {
    fn fuller(self, before: Self) -> u64 {
        let entries = self.entries.saturating_sub(before.entries);
        let bytes = before.free.saturating_sub(self.free);
        bytes.saturating_add(entries.saturating_mul(held::ENTRY))
    }
}

/// The disk of a folder; a full one if that cannot be told, which has the folder measured.
fn disk(place: &OwnedFd) -> Disk {
    let about = fstatvfs(place);
    about.map_or(Disk::default(), |about| Disk {
        free: about.f_bfree.saturating_mul(about.f_frsize),
        // Not those that are free: some have as many as there are free bytes for.
        entries: about.f_files.saturating_sub(about.f_ffree),
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_files_fill_a_disk_too() {
        let disk = |free, entries| Disk { free, entries };
        let before = disk(1000, 10);
        assert_eq!(before.fuller(before), 0);
        assert_eq!(disk(400, 10).fuller(before), 600);
        assert_eq!(disk(1000, 13).fuller(before), 3 * held::ENTRY);
        // Somebody has made room.
        assert_eq!(disk(2000, 9).fuller(before), 0);
    }
}
