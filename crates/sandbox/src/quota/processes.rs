//! The processes of a spoke, as `/proc` shows them to the hub. What they say is theirs, and they come and go meanwhile.

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rustix::fs::{CWD, Mode, OFlags, PROC_SUPER_MAGIC, fstatfs, openat};
use rustix::io::Errno;
use rustix::process::{Signal, pidfd_send_signal};

/// All processes of one spoke.
pub(super) struct Processes {
    /// Process 1 of the spoke.
    inner: OwnedFd,
    /// The spoke's own `/proc`, which shows its processes and no others. A machine may have thousands of others.
    own: Option<OwnedFd>,
}

/// One of them, opened: its number may go to another process, and this stays the same.
pub(super) struct Process(OwnedFd);

impl Processes {
    /// Those of the spoke whose process 1 this is.
    pub(super) fn of(inner: OwnedFd) -> Self {
        let own = own_listing(&inner);
        Self { inner, own }
    }

    /// Their numbers, as [`Self::open`] takes them.
    pub(super) fn numbers(&self) -> Result<Vec<u32>, String> {
        match &self.own {
            Some(own) => Ok(numbers(&path_of(own))?.collect()),
            None => self.descendants(),
        }
    }

    /// The process with this number; `None` if it is gone.
    pub(super) fn open(&self, number: u32) -> Result<Option<Process>, String> {
        let (folder, is_own) = match &self.own {
            Some(own) => (path_of(own), true),
            None => (PathBuf::from("/proc"), false),
        };
        let process = match open(&folder.join(number.to_string())) {
            Ok(process) => Process(process),
            Err(Errno::NOENT | Errno::SRCH) => return Ok(None),
            Err(errno) => return Err(format!("look at one of its processes: {errno}")),
        };
        // Among those of the whole machine the number may be a stranger's by now, who shall get no signal of ours.
        let belongs = is_own || self.is_above(number, &process);
        Ok(belongs.then_some(process))
    }

    /// Process 1 and all below it, of all processes of the machine. Orphans of a pid namespace come to its process 1, so
    /// none gets lost.
    fn descendants(&self) -> Result<Vec<u32>, String> {
        // A process that is gone has no number.
        let Some(own) = number(&self.inner) else {
            return Ok(Vec::new());
        };
        let all = numbers(Path::new("/proc"))?;
        let with_parent = |number: u32| Some((number, parent(&proc_of(number))?));
        let parents: Vec<_> = all.filter_map(with_parent).collect();
        let mut found = vec![own];
        let mut next = 0;
        while let Some(parent) = found.get(next).copied() {
            let children = parents.iter().filter(|(_, its)| *its == parent);
            found.extend(children.map(|(child, _)| *child));
            next += 1;
        }
        Ok(found)
    }

    /// Whether a process is process 1 or below it. It was opened before, so its number was its own then.
    fn is_above(&self, number: u32, process: &Process) -> bool {
        let Some(own) = self::number(&self.inner) else {
            return false;
        };
        let mut above = parent(&process.path()).filter(|_| number != own);
        while let Some(number) = above.filter(|number| *number != own && *number > 1) {
            above = parent(&proc_of(number));
        }
        number == own || above == Some(own)
    }
}

impl Process {
    /// Its folder, for as long as this lives.
    pub(super) fn path(&self) -> PathBuf {
        path_of(&self.0)
    }

    /// Sends it a signal. One that is gone needs none.
    pub(super) fn signal(&self, signal: Signal) -> Result<(), String> {
        match pidfd_send_signal(&self.0, signal) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(errno) => Err(format!("hold one of its processes still: {errno}")),
        }
    }
}

/// The `/proc` that process 1 of a spoke sees, if it shows the processes of this spoke. Where the spoke has no mounts or no
/// process numbers of its own it would be the machine's.
fn own_listing(inner: &OwnedFd) -> Option<OwnedFd> {
    let outside = proc_of(number(inner)?);
    let own = open(&outside.join("root/proc")).ok()?;
    if fstatfs(&own).ok()?.f_type != PROC_SUPER_MAGIC {
        return None;
    }
    let namespace = |process: &Path| fs::read_link(process.join("ns/pid")).ok();
    // Process 1 of a list is in the namespace whose processes are listed, so it is the list of this one.
    let listed = namespace(&path_of(&own).join("1"))?;
    let is_of_spoke = namespace(&outside)? == listed;
    let is_of_hub = namespace(Path::new("/proc/self")).is_none_or(|hubs| hubs == listed);
    // Between both looks the number could have become another's.
    let is_alive = number(inner).is_some();
    (is_of_spoke && !is_of_hub && is_alive).then_some(own)
}

fn open(folder: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(CWD, folder, flags, Mode::empty())
}

fn path_of(folder: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()))
}

fn proc_of(number: u32) -> PathBuf {
    Path::new("/proc").join(number.to_string())
}

/// The folders of a `/proc` that are processes, or of a `task` that are threads.
pub(super) fn numbers(folder: &Path) -> Result<impl Iterator<Item = u32> + use<>, String> {
    let entries = fs::read_dir(folder).map_err(|error| error.to_string())?;
    // One that cannot be read is the end of the list, and not one of it.
    let names = entries.flatten().map(|entry| entry.file_name());
    Ok(names.filter_map(|name| name.to_str()?.parse().ok()))
}

/// The number of a process that has not ended, as the hub knows it.
fn number(process: &OwnedFd) -> Option<u32> {
    let about = format!("/proc/self/fdinfo/{}", process.as_raw_fd());
    let about = fs::read_to_string(about).ok()?;
    let number = about.lines().find_map(|line| line.strip_prefix("Pid:"))?;
    number.trim().parse().ok()
}

/// The process that started it.
fn parent(process: &Path) -> Option<u32> {
    let line = fs::read(process.join("stat")).ok()?;
    fields(&line).nth(1).and_then(parsed)
}

/// What stands in a line of `stat` after the name, which is in parentheses and may hold any bytes: no text, and `)` too.
fn fields(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let name = line.iter().rposition(|byte| *byte == b')');
    let rest = name.and_then(|end| line.get(end + 1..)).unwrap_or_default();
    rest.trim_ascii().split(|byte| *byte == b' ')
}

fn parsed<T: FromStr>(field: &[u8]) -> Option<T> {
    std::str::from_utf8(field).ok()?.parse().ok()
}

/// A thread that has ended and is still listed has given back what it held; only root may see that nothing is left.
pub(super) fn is_dead(thread: &Path) -> bool {
    let line = fs::read(thread.join("stat"));
    line.is_ok_and(|line| matches!(fields(&line).next(), Some(b"Z" | b"X")))
}

/// Whether a thread is ending, which can take long (memory and files are given back) and cannot be stopped.
pub(super) fn is_ending(thread: &Path) -> bool {
    // `PF_EXITING`, which has been this bit since there is this field.
    const EXITING: u64 = 4;
    let Ok(line) = fs::read(thread.join("stat")) else {
        return true;
    };
    let flags: Option<u64> = fields(&line).nth(6).and_then(parsed);
    flags.is_some_and(|flags| flags & EXITING != 0)
}

/// Whether this is what is said of a process that has ended meanwhile.
pub(super) fn is_gone(error: &std::io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::NOENT | Errno::SRCH))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::process::Command;

    use rustix::process::{PidfdFlags, getpid, pidfd_open};

    use super::*;

    #[test]
    fn a_name_may_hold_any_bytes() {
        for name in ["sh", "", ") Z 1", "a b", ")", "("] {
            for bytes in [name.as_bytes(), &[name.as_bytes(), b"\xff\xfe"].concat()] {
                let line = [b"12 (", bytes, b") S 7 12 12 0 -1 4 90\n"].concat();
                let fields: Vec<_> = fields(&line).collect();
                let expected = ["S", "7", "12", "12", "0", "-1", "4", "90"];
                assert_eq!(fields, expected.map(str::as_bytes), "{bytes:?}");
            }
        }
        assert_eq!(fields(b"12 (sh").next(), Some(&b""[..]));
    }

    /// Its name is that of its program, which no text has to be.
    #[test]
    fn a_child_without_a_text_for_a_name_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join(OsStr::from_bytes(b"\xff) Z 1 \xfe"));
        std::os::unix::fs::symlink("/bin/sleep", &program).unwrap();
        let mut child = Command::new(program).arg("1000").spawn().unwrap();
        let own = Processes::of(pidfd_open(getpid(), PidfdFlags::empty()).unwrap());
        let found = own.numbers().unwrap().contains(&child.id());
        let opened = own.open(child.id()).unwrap().is_some();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!((found, opened), (true, true));
    }
}
