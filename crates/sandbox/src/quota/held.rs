//! What a folder takes on its disk. The spoke changes it meanwhile, and may want to hide something: links are not followed,
//! nothing is taken for what it is called, and what cannot be looked at is an error.

use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, openat, statat};
use rustix::io::Errno;

/// What one entry counts for at least: an inode, a name, and a block of a file system.
const ENTRY: u64 = 4096;
/// The unit of a file's blocks, whatever those of its file system are.
const BLOCK: u64 = 512;
/// Folders within folders. Trees of sources and packages have less than 30; each open one takes a descriptor of the hub.
const DEPTH: usize = 100;

/// What was found.
pub(super) struct Held {
    bytes: u64,
    most: u64,
    device: u64,
    /// Files that have more than one name, or none: each counts once.
    counted: HashSet<u64>,
    /// Descriptors have been sent and not received. They are open in no process, so nobody can tell what they hold.
    in_flight: bool,
}

/// All that lies in a folder and below it, or as much as is more than `most`.
pub(super) fn below(folder: BorrowedFd<'_>, most: u64) -> Result<Held, String> {
    let own = fstat(folder).map_err(|errno| errno.to_string())?;
    let mut held = Held {
        bytes: 0,
        most,
        device: own.st_dev,
        counted: HashSet::new(),
        in_flight: false,
    };
    let top = open_in(folder, c".").map_err(|errno| errno.to_string())?;
    let mut open = vec![top];
    loop {
        let depth = open.len();
        let Some(listing) = open.last_mut() else {
            break;
        };
        // With the first byte too many all is known.
        if held.bytes > most {
            break;
        }
        let Some(entry) = listing.read() else {
            open.pop();
            continue;
        };
        let entry = entry.map_err(|errno| errno.to_string())?;
        if matches!(entry.file_name().to_bytes(), b"." | b"..") {
            continue;
        }
        let inside = listing.fd().map_err(|errno| errno.to_string())?;
        let name = entry.file_name();
        let about = match statat(inside, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(about) => about,
            Err(Errno::NOENT) => continue,
            Err(errno) => return Err(errno.to_string()),
        };
        // What is mounted below it lies on another disk.
        if about.st_dev != own.st_dev {
            continue;
        }
        held.add(&about);
        if FileType::from_raw_mode(about.st_mode) == FileType::Directory {
            if depth >= DEPTH {
                return Err(format!("folders are nested deeper than {DEPTH}"));
            }
            match open_in(inside, name) {
                Ok(deeper) => open.push(deeper),
                // It was replaced meanwhile.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                Err(errno) => return Err(format!("open a folder in it: {errno}")),
            }
        }
    }
    Ok(held)
}

/// Opens a folder so that the spoke does not see by its time of access that it is measured: whoever knows what was read
/// already moves what is large to there.
fn open_in(folder: BorrowedFd<'_>, name: &std::ffi::CStr) -> Result<Dir, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = openat(folder, name, flags | OFlags::NOATIME, Mode::empty());
    match opened {
        // It belongs to another user, so the spoke has not made it.
        Err(Errno::PERM) => Dir::new(openat(folder, name, flags, Mode::empty())?),
        opened => Dir::new(opened?),
    }
}

impl Held {
    /// Bytes, or a number above the most.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether there are descriptors of which nobody can tell what they hold.
    pub(super) fn in_flight(&self) -> bool {
        self.in_flight
    }

    fn add(&mut self, about: &Stat) {
        let blocks = about.st_blocks.unsigned_abs();
        let file = FileType::from_raw_mode(about.st_mode) != FileType::Directory;
        if file && about.st_nlink != 1 && !self.counted.insert(about.st_ino) {
            return;
        }
        self.count(blocks);
    }

    fn count(&mut self, blocks: u64) {
        let bytes = blocks.saturating_mul(BLOCK).max(ENTRY);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// With what was deleted and is still held: by an open descriptor of a process below this one, or mapped into it.
    pub(super) fn with_deleted(
        mut self,
        process: BorrowedFd<'_>,
        seen: &Seen,
    ) -> Result<Self, String> {
        for process in descendants(process)? {
            if self.bytes > self.most {
                break;
            }
            let own = Path::new("/proc").join(process.to_string());
            match self.of_process(&own, seen) {
                // Gone in the middle.
                Err(error) if is_gone(&error) => {}
                Err(error) => {
                    return Err(format!("what one of its processes holds open: {error}"));
                }
                Ok(()) => {}
            }
        }
        Ok(self)
    }

    /// By its threads, and not by the process: a thread can have descriptors of its own (`clone` without `CLONE_FILES`), and
    /// where the first thread has ended the kernel shows neither descriptors nor memory under the number of the process.
    fn of_process(&mut self, process: &Path, seen: &Seen) -> std::io::Result<()> {
        let mut knows_memory = false;
        for thread in fs::read_dir(process.join("task"))? {
            let thread = thread?.path();
            match self.of_thread(&thread, seen, &mut knows_memory) {
                Err(error) if is_gone(&error) || is_dead(&thread) => {}
                other => other?,
            }
        }
        Ok(())
    }

    fn of_thread(
        &mut self,
        thread: &Path,
        seen: &Seen,
        knows_memory: &mut bool,
    ) -> std::io::Result<()> {
        for descriptor in fs::read_dir(thread.join("fd"))? {
            let descriptor = descriptor?;
            let about = match fs::metadata(descriptor.path()) {
                Ok(about) => about,
                Err(error) if is_gone(&error) => continue,
                Err(error) => return Err(error),
            };
            if about.file_type().is_socket() {
                let info = thread.join("fdinfo").join(descriptor.file_name());
                match fs::read_to_string(info) {
                    Ok(info) => self.in_flight |= has_descriptors(&info),
                    Err(error) if is_gone(&error) => continue,
                    Err(error) => return Err(error),
                }
            }
            self.add_deleted(&about);
        }
        // All threads of a process have one memory, so the first that has one left is enough.
        if !*knows_memory {
            let maps = fs::read_to_string(thread.join("maps"))?;
            *knows_memory = !maps.is_empty();
            for mapping in maps.lines().filter_map(Mapping::of_deleted) {
                self.add_mapping(thread, &mapping, seen)?;
            }
        }
        Ok(())
    }

    fn add_deleted(&mut self, about: &Metadata) {
        let deleted = about.nlink() == 0 && about.dev() == self.device;
        if deleted && about.is_file() && self.counted.insert(about.ino()) {
            self.count(about.blocks());
        }
    }

    /// One mapped page keeps a whole file on the disk, so the length of the mapping says nothing about what it takes.
    fn add_mapping(
        &mut self,
        thread: &Path,
        mapping: &Mapping<'_>,
        seen: &Seen,
    ) -> std::io::Result<()> {
        // Below the process alone: a thread's folder has no such links.
        let process = thread.parent().and_then(Path::parent).unwrap_or(thread);
        match fs::metadata(process.join("map_files").join(&mapping.range)) {
            Ok(about) => self.add_deleted(&about),
            // Unmapped meanwhile, or the first thread has ended, with which the links go.
            Err(error) if is_gone(&error) && process.join("exe").exists() => {}
            // The kernel lets root follow these links and nobody else. To an ordinary user's hub the file may be as large
            // as any that the spoke can make; not so a library that was updated, which lies in no folder with a size.
            Err(_) if seen.shows(mapping.path) && self.counted.insert(mapping.inode) => {
                self.count(seen.largest.div_ceil(BLOCK));
            }
            Err(_) => {}
        }
        Ok(())
    }
}

/// Whether descriptors lie in what a socket has received and nobody has read yet (`unix(7)`, `SCM_RIGHTS`), by the text
/// of its `fdinfo`. The kernel has said so since 5.6, and Landlock came later.
fn has_descriptors(info: &str) -> bool {
    let said = info.lines().find_map(|line| line.strip_prefix("scm_fds:"));
    said.is_some_and(|number| number.trim() != "0")
}

/// What the spoke may do with the folder.
#[derive(Debug)]
pub(super) struct Seen {
    /// Where it sees the folder, or a part of it, or what it is a part of.
    pub(super) targets: Vec<PathBuf>,
    /// Bytes that a file of its may have.
    pub(super) largest: u64,
}

impl Seen {
    fn shows(&self, path: &str) -> bool {
        let mut targets = self.targets.iter();
        targets.any(|target| Path::new(path).starts_with(target))
    }
}

/// A mapping of a file that has no name any more.
#[derive(Debug, PartialEq, Eq)]
struct Mapping<'m> {
    /// As its link in `map_files` is called.
    range: String,
    inode: u64,
    /// As its process sees it.
    path: &'m str,
}

impl<'m> Mapping<'m> {
    /// Of a line of `maps`.
    fn of_deleted(line: &'m str) -> Option<Self> {
        let rest = line.strip_suffix(" (deleted)")?;
        // The path comes last, and may have blanks in it.
        let path = rest.get(rest.find('/')?..)?;
        let mut words = rest.split_ascii_whitespace();
        let (from, to) = words.next()?.split_once('-')?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        Some(Self {
            // `maps` fills up with zeros, the links do not.
            range: format!("{:x}-{:x}", number(from)?, number(to)?),
            inode: words.nth(3)?.parse().ok()?,
            path,
        })
    }
}

/// A thread that has ended and is still listed has given back what it held; only root may see that nothing is left.
fn is_dead(thread: &Path) -> bool {
    let line = fs::read_to_string(thread.join("stat"));
    line.is_ok_and(|line| matches!(fields(&line).next(), Some("Z" | "X")))
}

fn is_gone(error: &std::io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::NOENT | Errno::SRCH))
}

/// A process and all below it. Orphans of a pid namespace come to its process 1, so none gets lost.
fn descendants(process: BorrowedFd<'_>) -> Result<Vec<u32>, String> {
    let about = format!("/proc/self/fdinfo/{}", process.as_raw_fd());
    let about = fs::read_to_string(about).map_err(|error| error.to_string())?;
    let own = about.lines().find_map(|line| line.strip_prefix("Pid:"));
    let own = own.and_then(|own| own.trim().parse::<u32>().ok());
    // A process that is gone has no number.
    let Some(own) = own else {
        return Ok(Vec::new());
    };
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc")
        .map_err(|error| error.to_string())?
        .flatten()
    {
        let name = entry.file_name();
        let Some(number) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        if let Some(parent) = parent(&entry.path()) {
            parents.push((number, parent));
        }
    }
    let mut found = vec![own];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        let children = parents.iter().filter(|(_, its)| *its == parent);
        found.extend(children.map(|(child, _)| *child));
        next += 1;
    }
    Ok(found)
}

/// The process that started it.
fn parent(process: &Path) -> Option<u32> {
    let line = fs::read_to_string(process.join("stat")).ok()?;
    fields(&line).nth(1)?.parse().ok()
}

/// What stands in a line of `stat` after the name, which is in parentheses and may hold anything, `) ` too.
fn fields(line: &str) -> impl Iterator<Item = &str> {
    let rest = line.rsplit_once(") ").map_or("", |(_, rest)| rest);
    rest.split(' ')
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::os::unix::fs::symlink;

    use rustix::process::{PidfdFlags, getpid, pidfd_open};

    use super::*;

    const MIB: u64 = 1 << 20;

    fn held(folder: &Path, most: u64) -> Result<Held, String> {
        let folder = File::open(folder).unwrap();
        below(folder.as_fd(), most)
    }

    fn fill(path: &Path, bytes: u64) -> File {
        let mut file = File::create(path).unwrap();
        file.write_all(&vec![1; usize::try_from(bytes).unwrap()])
            .unwrap();
        file
    }

    #[test]
    fn what_counts_is_on_the_disk_and_counts_once() {
        let folder = tempfile::tempdir().unwrap();
        let (top, elsewhere) = (folder.path().join("top"), folder.path().join("elsewhere"));
        fs::create_dir_all(top.join("a/b")).unwrap();
        fill(&elsewhere, 8 * MIB);
        fill(&top.join("a/b/file"), MIB);
        // A second name, a link to what lies outside, and a hole take nothing more than an entry.
        fs::hard_link(top.join("a/b/file"), top.join("again")).unwrap();
        symlink(&elsewhere, top.join("link")).unwrap();
        symlink(folder.path(), top.join("up")).unwrap();
        File::create(top.join("hole"))
            .unwrap()
            .set_len(MIB << 10)
            .unwrap();
        let bytes = held(&top, u64::MAX).unwrap().bytes();
        assert!((MIB..MIB + 12 * ENTRY).contains(&bytes), "{bytes}");
        // Empty files are not free.
        for number in 0..1000 {
            File::create(top.join(format!("empty-{number}"))).unwrap();
        }
        let bytes = held(&top, u64::MAX).unwrap().bytes();
        assert!(bytes >= MIB + 1000 * ENTRY, "{bytes}");
        // It stops where enough is known.
        assert!(held(&top, MIB / 2).unwrap().bytes() < 2 * MIB);
    }

    #[test]
    fn folders_without_end_cannot_be_measured() {
        let folder = tempfile::tempdir().unwrap();
        let mut deep = folder.path().to_owned();
        for _ in 0..DEPTH {
            deep.push("d");
        }
        fs::create_dir_all(deep).unwrap();
        assert!(held(folder.path(), u64::MAX).is_err());
    }

    #[test]
    fn what_was_deleted_and_is_held_counts() {
        let folder = tempfile::tempdir().unwrap();
        let own = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
        let with_deleted = || {
            let held = held(folder.path(), u64::MAX).unwrap();
            let seen = Seen {
                targets: Vec::new(),
                largest: 0,
            };
            held.with_deleted(own.as_fd(), &seen).unwrap().bytes()
        };
        let before = with_deleted();
        let path = folder.path().join("file");
        let file = fill(&path, 3 * MIB);
        fs::remove_file(path).unwrap();
        let more = with_deleted() - before;
        // Other tests of this process delete files too.
        assert!(more >= 3 * MIB, "{more}");
        drop(file);
    }

    #[test]
    fn a_mapping_of_a_deleted_file_is_found() {
        let line =
            "00010000-00110000 rw-s 00000000 fe:00 1234                       /data/x y (deleted)";
        let expected = Mapping {
            range: "10000-110000".to_owned(),
            inode: 1234,
            path: "/data/x y",
        };
        assert_eq!(Mapping::of_deleted(line), Some(expected));
        assert_eq!(
            Mapping::of_deleted(line.trim_end_matches(" (deleted)")),
            None
        );
        let seen = Seen {
            targets: vec!["/data".into()],
            largest: MIB,
        };
        assert!(seen.shows("/data/x y"));
        assert!(!seen.shows("/database/x"));
    }
}
