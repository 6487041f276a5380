//! A bound on what lies in the folders that a spoke may write.
//!
//! A folder of the host has no size of its own: the quotas of file systems need root, and a tmpfs would not be the user's
//! folder. So the hub measures each folder before the spoke starts and about once a second while it runs. What that
//! guarantees:
//!
//! - A spoke does not start while one of its folders holds more than its size.
//! - A spoke whose folder is found to hold more is ended. What it has written stays.
//! - No file grows beyond the largest size of its folders (`RLIMIT_FSIZE`).
//!
//! It is a guard against an app that writes too much, and no hard limit. A spoke can write as fast as its disk takes it
//! until the next measurement, and neither a file that was deleted while it is open nor one that is moved during a
//! measurement is sure to count. A hard limit is a file system of its own, mounted at the folder. `/tmp` has one: it is a
//! tmpfs with a size.

use std::collections::HashSet;
use std::ffi::{CStr, OsStr};
use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, openat, openat2, statat,
};
use rustix::io::Errno;
use rustix::process::{Signal, pidfd_send_signal};

use crate::{Quota, SandboxError, Spec, sys};

/// How often the folders are measured.
const INTERVAL: Duration = Duration::from_secs(1);
/// A measurement is followed by a pause of so many times its own duration, so that it takes at most 2 % of a processor.
const SHARE: u32 = 50;
/// What each name in a folder counts for at least: an inode and a block of a file system. It also bounds a measurement,
/// which ends once a folder is known to hold too much.
const ENTRY: u64 = 4096;
/// The unit of `st_blocks`.
const BLOCK: u64 = 512;
/// Folders within folders. Trees of packages have fewer than 30; each open one takes a descriptor of the hub.
const DEPTH: usize = 100;
/// Characters shown of a path that the spoke may have chosen.
const PATH: usize = 300;

/// Why a spoke was ended by a quota, if it was. Clones belong to the same spoke.
#[derive(Clone, Debug, Default)]
pub struct Overrun(Arc<OnceLock<String>>);

impl Overrun {
    /// What happened, and what to do: one line.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.0.get().map(String::as_str)
    }
}

/// A folder with its quota, opened: the spoke may replace what lies below its path.
pub(crate) struct Folder {
    quota: Quota,
    place: OwnedFd,
}

/// Opens the folders, and refuses one that holds too much already.
pub(crate) fn open(spec: &Spec) -> Result<Vec<Folder>, SandboxError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let open = |quota: &Quota| {
        let place = openat2(CWD, &quota.folder, flags, Mode::empty(), resolve)
            .map_err(SandboxError::system("open a folder with a size"))?;
        let folder = Folder {
            quota: quota.clone(),
            place,
        };
        folder.check().map_err(SandboxError::Full)?;
        Ok(folder)
    };
    spec.quotas.iter().map(open).collect()
}

/// Measures the folders in a thread of its own until the spoke is gone, and ends it if one holds too much. `outer` ends
/// with the spoke, and `inner` is its process 1.
pub(crate) fn watch(
    folders: Vec<Folder>,
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
        let mut pause = INTERVAL;
        while !sys::readable_within(&outer, pause).unwrap_or(true) {
            let begun = Instant::now();
            if let Some(why) = folders.iter().find_map(|folder| folder.check().err()) {
                // The reason is set first, so that it is there for everyone who sees the end.
                let _ = verdict.0.set(why);
                // Refused only if the spoke is gone already.
                let _ = pidfd_send_signal(&inner, Signal::KILL);
                return;
            }
            pause = INTERVAL.max(begun.elapsed() * SHARE);
        }
    })?;
    Ok(overrun)
}

impl Folder {
    /// Measures the folder.
    ///
    /// # Errors
    /// Why the spoke must not run.
    fn check(&self) -> Result<(), String> {
        let Quota { folder, bytes } = &self.quota;
        let folder = folder.display();
        match measure(self.place.as_fd(), *bytes) {
            Ok(held) if held <= *bytes => Ok(()),
            Ok(_) => Err(format!(
                "the folder {folder} holds more than its size of {}; delete what is not needed, or give the mount a larger size",
                size(*bytes)
            )),
            Err(why) => Err(format!("the folder {folder} cannot be measured: {why}")),
        }
    }
}

fn size(bytes: u64) -> String {
    match bytes >> 20 {
        0 => format!("{bytes} bytes"),
        mebibytes => format!("{mebibytes} MiB"),
    }
}

/// Bytes that everything below a folder takes on its disk, or the first number found above `most`. Links are not
/// followed.
fn measure(folder: BorrowedFd<'_>, most: u64) -> Result<u64, String> {
    let mut bytes: u64 = 0;
    // Files with more than one name. Their blocks count once, and each further name as one entry.
    let mut counted = HashSet::new();
    // Open folders and not their paths: the spoke may move one meanwhile, and its path would lead elsewhere.
    let mut open = vec![open_in(folder, c".").map_err(|errno| errno.to_string())?];
    loop {
        let depth = open.len();
        let Some(listing) = open.last_mut().filter(|_| bytes <= most) else {
            return Ok(bytes);
        };
        let Some(entry) = listing.read() else {
            open.pop();
            continue;
        };
        let entry = entry.map_err(|errno| errno.to_string())?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let inside = listing.fd().map_err(|errno| errno.to_string())?;
        let about = match statat(inside, name, AtFlags::SYMLINK_NOFOLLOW) {
            // It was deleted meanwhile.
            Err(Errno::NOENT) => continue,
            about => about.map_err(|errno| unreadable(inside, name, errno))?,
        };
        let is_folder = FileType::from_raw_mode(about.st_mode) == FileType::Directory;
        let is_first =
            is_folder || about.st_nlink == 1 || counted.insert((about.st_dev, about.st_ino));
        let blocks = if is_first {
            about.st_blocks.unsigned_abs()
        } else {
            0
        };
        bytes = bytes.saturating_add(blocks.saturating_mul(BLOCK).max(ENTRY));
        if is_folder {
            if depth >= DEPTH {
                return Err(format!("folders are nested deeper than {DEPTH}"));
            }
            match open_in(inside, name) {
                Ok(deeper) => open.push(deeper),
                // It was deleted or replaced meanwhile.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                Err(errno) => return Err(unreadable(inside, name, errno)),
            }
        }
    }
}

fn open_in(folder: BorrowedFd<'_>, name: &CStr) -> Result<Dir, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Dir::new(openat(folder, name, flags, Mode::empty())?)
}

/// The message about a place that the hub cannot read. The spoke may write there all the same, so it does not count as
/// empty.
fn unreadable(folder: BorrowedFd<'_>, name: &CStr, errno: Errno) -> String {
    let link = format!("/proc/self/fd/{}", folder.as_raw_fd());
    let path = fs::read_link(link).unwrap_or_default();
    let path = path.join(OsStr::from_bytes(name.to_bytes()));
    // Quoted and cut, since the spoke may have chosen the name.
    let path: String = format!("{path:?}").chars().take(PATH).collect();
    format!(
        "{path} cannot be read ({errno}); let the user who runs sluice read it, or mount a folder without it"
    )
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn measured(folder: &Path, most: u64) -> Result<u64, String> {
        measure(File::open(folder).unwrap().as_fd(), most)
    }

    #[test]
    fn blocks_count_once_and_names_always() {
        let folder = tempfile::tempdir().unwrap();
        let (top, elsewhere) = (folder.path().join("top"), folder.path().join("elsewhere"));
        fs::create_dir_all(top.join("a/b")).unwrap();
        fs::write(&elsewhere, vec![1; 8 << 20]).unwrap();
        fs::write(top.join("a/b/file"), vec![1; 1 << 20]).unwrap();
        // A second name, links that lead outside, and a hole count as one entry each.
        fs::hard_link(top.join("a/b/file"), top.join("again")).unwrap();
        symlink(&elsewhere, top.join("link")).unwrap();
        symlink(folder.path(), top.join("up")).unwrap();
        let hole = File::create(top.join("hole")).unwrap();
        hole.set_len(MIB << 10).unwrap();
        let bytes = measured(&top, u64::MAX).unwrap();
        assert!((MIB..MIB + 12 * ENTRY).contains(&bytes), "{bytes}");
        for number in 0..1000 {
            fs::hard_link(top.join("hole"), top.join(format!("{number}"))).unwrap();
        }
        let bytes = measured(&top, u64::MAX).unwrap();
        assert!(bytes >= MIB + 1000 * ENTRY, "{bytes}");
        // A measurement ends once enough is known.
        assert!(measured(&top, MIB / 2).unwrap() < 2 * MIB);
    }

    #[test]
    fn deep_folders_are_an_error() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("d/".repeat(DEPTH))).unwrap();
        assert!(measured(folder.path(), u64::MAX).is_err());
    }
}
