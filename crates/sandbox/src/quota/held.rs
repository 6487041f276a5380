//! What a folder takes on its disk. The spoke changes it meanwhile, and may want to hide something: links are not followed,
//! nothing is taken for what it is called, and what cannot be looked at is an error.

use std::collections::HashSet;
use std::ffi::{CStr, OsStr};
use std::fs::{self, Metadata};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dev, Dir, FileType, Mode, OFlags, Stat, fstat, makedev, openat, statat};
use rustix::io::Errno;

use super::processes::{Processes, is_dead, is_gone};

/// What one file or folder counts for at least: an inode, and a block of a file system. That is more than an empty file takes,
/// and room for what no block shows: where a link leads (up to 4 KiB). Extended attributes cannot be set by a spoke.
pub(super) const ENTRY: u64 = 4096;
/// What one name counts for, also a further one of a file that was counted: an entry of a folder (`ext4` shows it as a block
/// of the folder, `btrfs` and `tmpfs` nowhere), and memory of the kernel while it is in use.
const NAME: u64 = 256;
/// What each byte of a name counts for: `btrfs` keeps it three times.
const NAME_BYTE: u64 = 3;
/// The unit of a file's blocks, whatever those of its file system are.
const BLOCK: u64 = 512;
/// Folders within folders. Trees of sources and packages have less than 30; each open one takes a descriptor of the hub.
const DEPTH: usize = 100;

/// Characters that are shown of a place in it.
const PLACE: usize = 300;

/// What was found.
pub(super) struct Held {
    bytes: u64,
    most: u64,
    /// The devices that lie below it by their numbers: parts of one file system can have several (subvolumes of btrfs,
    /// layers of an overlay), and what else is mounted there is seen by the spoke as well.
    devices: HashSet<Dev>,
    /// Files that have more than one name, or none: each counts once.
    counted: HashSet<(Dev, u64)>,
    /// Descriptors have been sent and not received. They are open in no process, so nobody can tell what they hold.
    in_flight: bool,
}

/// All that lies in a folder and below it, or as much as is more than `most`.
pub(super) fn below(folder: BorrowedFd<'_>, most: u64) -> Result<Held, String> {
    let own = fstat(folder).map_err(|errno| errno.to_string())?;
    let mut held = Held {
        bytes: 0,
        most,
        devices: HashSet::from([own.st_dev]),
        counted: HashSet::new(),
        in_flight: false,
    };
    let top = open_in(folder, c".").map_err(|errno| errno.to_string())?;
    // Open folders and not their paths: the spoke may move one meanwhile, and its path would then lead elsewhere.
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
            Err(errno) => return Err(unreadable(inside, name, errno)),
        };
        held.add(&about, name);
        if FileType::from_raw_mode(about.st_mode) == FileType::Directory {
            if depth >= DEPTH {
                return Err(format!("folders are nested deeper than {DEPTH}"));
            }
            match open_in(inside, name) {
                Ok(deeper) => open.push(deeper),
                // It was replaced meanwhile.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                Err(errno) => return Err(unreadable(inside, name, errno)),
            }
        }
    }
    Ok(held)
}

/// What is said of a place in which nobody can look: another user's folder, or a file system mounted there that lets only its
/// own user in, or does not answer any more. The spoke may write there all the same, so it is not taken for empty.
fn unreadable(folder: BorrowedFd<'_>, name: &CStr, errno: Errno) -> String {
    let link = format!("/proc/self/fd/{}", folder.as_raw_fd());
    let folder = fs::read_link(link).unwrap_or_default();
    let place = folder.join(OsStr::from_bytes(name.to_bytes()));
    // The spoke may have chosen the name: neither lines nor more of it than a person reads.
    let place: String = format!("{place:?}").chars().take(PLACE).collect();
    format!(
        "{place} cannot be read ({errno}); let the user who runs sluice read it, or mount a folder without it"
    )
}

/// Opens a folder so that the spoke does not see by its time of access that it is measured: whoever knows what was read
/// already moves what is large to there.
fn open_in(folder: BorrowedFd<'_>, name: &CStr) -> Result<Dir, Errno> {
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

    fn add(&mut self, about: &Stat, name: &CStr) {
        let length = u64::try_from(name.count_bytes()).unwrap_or(u64::MAX);
        let name = length.saturating_mul(NAME_BYTE).saturating_add(NAME);
        self.bytes = self.bytes.saturating_add(name);
        let blocks = about.st_blocks.unsigned_abs();
        let file = FileType::from_raw_mode(about.st_mode) != FileType::Directory;
        self.devices.insert(about.st_dev);
        // Those with one name are met once, and not remembered: a tree may have more files than the hub should keep
        // numbers of.
        if file && about.st_nlink != 1 && !self.counted.insert((about.st_dev, about.st_ino)) {
            return;
        }
        self.count(blocks);
    }

    fn count(&mut self, blocks: u64) {
        let bytes = blocks.saturating_mul(BLOCK).max(ENTRY);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// With what was deleted and is still held: by an open descriptor of one of these processes, or mapped into it.
    pub(super) fn with_deleted(
        mut self,
        processes: &Processes,
        seen: &Seen,
    ) -> Result<Self, String> {
        for number in processes.numbers()? {
            if self.bytes > self.most {
                break;
            }
            let Some(process) = processes.open(number)? else {
                continue;
            };
            match self.of_process(&process.path(), seen) {
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
            // Where it was, as its process sees it.
            let place = || fs::read_link(descriptor.path()).unwrap_or_default();
            self.add_deleted(&about, || seen.shows(&place()));
        }
        // Where it works may be a folder that was removed.
        match fs::metadata(thread.join("cwd")) {
            Ok(about) => {
                let place = || fs::read_link(thread.join("cwd")).unwrap_or_default();
                self.add_deleted(&about, || seen.shows(&place()));
            }
            Err(error) if is_gone(&error) => {}
            Err(error) => return Err(error),
        }
        // All threads of a process have one memory, so the first that has one left is enough.
        if !*knows_memory {
            let maps = fs::read(thread.join("maps"))?;
            *knows_memory = !maps.is_empty();
            let lines = maps.split(|byte| *byte == b'\n');
            for mapping in lines.filter_map(Mapping::of_deleted) {
                self.add_mapping(thread, &mapping, seen)?;
            }
        }
        Ok(())
    }

    fn add_deleted(&mut self, about: &Metadata, was_inside: impl Fn() -> bool) {
        // A folder keeps the blocks of the names that it had.
        let deleted = about.nlink() == 0 && (about.is_file() || about.is_dir());
        // The last file of a layer or of a subvolume may be the only one of its device.
        let own = || self.devices.contains(&about.dev()) || was_inside();
        if deleted && own() && self.counted.insert((about.dev(), about.ino())) {
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
            Ok(about) => self.add_deleted(&about, || seen.shows(mapping.path)),
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
    fn shows(&self, path: &Path) -> bool {
        let mut targets = self.targets.iter();
        targets.any(|target| path.starts_with(target))
    }
}

/// A mapping of a file that has no name any more.
#[derive(Debug, PartialEq, Eq)]
struct Mapping<'m> {
    /// As its link in `map_files` is called.
    range: String,
    /// Its device, with its number there.
    inode: (Dev, u64),
    /// As its process sees it. A name of a file may hold any bytes.
    path: &'m Path,
}

impl<'m> Mapping<'m> {
    /// Of a line of `maps`.
    fn of_deleted(line: &'m [u8]) -> Option<Self> {
        let rest = line.strip_suffix(b" (deleted)")?;
        // The path comes last, and may have blanks in it.
        let (words, path) = rest.split_at(rest.iter().position(|byte| *byte == b'/')?);
        let mut words = std::str::from_utf8(words).ok()?.split_ascii_whitespace();
        let (from, to) = words.next()?.split_once('-')?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        let (major, minor) = words.nth(2)?.split_once(':')?;
        let device = makedev(
            u32::from_str_radix(major, 16).ok()?,
            u32::from_str_radix(minor, 16).ok()?,
        );
        Some(Self {
            // `maps` fills up with zeros, the links do not.
            range: format!("{:x}-{:x}", number(from)?, number(to)?),
            inode: (device, words.next()?.parse().ok()?),
            path: Path::new(OsStr::from_bytes(path)),
        })
    }
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

    /// With what this process holds of what was deleted.
    fn with_deleted(folder: &Path) -> Held {
        let own = Processes::of(pidfd_open(getpid(), PidfdFlags::empty()).unwrap());
        let seen = Seen {
            targets: Vec::new(),
            largest: 0,
        };
        held(folder, u64::MAX)
            .unwrap()
            .with_deleted(&own, &seen)
            .unwrap()
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
    fn names_are_not_free() {
        const NAMES: u64 = 2000;
        let folder = tempfile::tempdir().unwrap();
        File::create(folder.path().join("file")).unwrap();
        let before = held(folder.path(), u64::MAX).unwrap().bytes();
        let long = "x".repeat(200);
        for number in 0..NAMES {
            let name = folder.path().join(format!("{long}-{number}"));
            fs::hard_link(folder.path().join("file"), name).unwrap();
        }
        let bytes = held(folder.path(), u64::MAX).unwrap().bytes() - before;
        let least = NAMES * (NAME + 200 * NAME_BYTE);
        assert!((least..2 * least).contains(&bytes), "{bytes}");
        // It stops in the middle.
        assert!(held(folder.path(), least / 2).unwrap().bytes() < least);
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
        let before = with_deleted(folder.path()).bytes();
        let path = folder.path().join("file");
        let file = fill(&path, 3 * MIB);
        fs::remove_file(path).unwrap();
        let more = with_deleted(folder.path()).bytes() - before;
        // Other tests of this process delete files too.
        assert!(more >= 3 * MIB, "{more}");
        drop(file);
    }

    /// A folder that was emptied and removed has the blocks of its names until nobody holds it.
    #[test]
    fn a_folder_that_was_removed_and_is_held_counts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("folder");
        fs::create_dir(&path).unwrap();
        let long = "x".repeat(240);
        let names: Vec<_> = (0..2000)
            .map(|it| path.join(format!("{long}{it}")))
            .collect();
        for name in &names {
            File::create(name).unwrap();
        }
        for name in &names {
            fs::remove_file(name).unwrap();
        }
        let open = File::open(&path).unwrap();
        let about = open.metadata().unwrap();
        let counts = || {
            let held = with_deleted(folder.path());
            held.counted.contains(&(about.dev(), about.ino()))
        };
        assert!(!counts());
        fs::remove_dir(path).unwrap();
        assert!(counts());
    }

    #[test]
    fn a_mapping_of_a_deleted_file_is_found() {
        for path in [&b"/data/x y"[..], b"/data/\xff"] {
            let line = [
                b"00010000-00110000 rw-s 00000000 fe:00 1234                       ",
                path,
            ];
            let line = line.concat();
            let expected = Mapping {
                range: "10000-110000".to_owned(),
                inode: (makedev(0xfe, 0), 1234),
                path: Path::new(OsStr::from_bytes(path)),
            };
            let deleted = [&line, &b" (deleted)"[..]].concat();
            assert_eq!(Mapping::of_deleted(&deleted), Some(expected));
            assert_eq!(Mapping::of_deleted(&line), None);
        }
        let seen = Seen {
            targets: vec!["/data".into()],
            largest: MIB,
        };
        assert!(seen.shows(Path::new("/data/x y")));
        assert!(!seen.shows(Path::new("/database/x")));
    }
}
