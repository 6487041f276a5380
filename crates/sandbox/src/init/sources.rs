//! Mount sources. An app that may write a folder can plant anything in it, and wait until the next start mounts it; so
//! a source is opened without following a link, and what was opened is what is mounted.

use std::ffi::OsString;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, StatxFlags, fstat, openat2, statx,
};
use rustix::io::Errno;

use super::layers::Failure;
use crate::Mount;

/// File systems that are interfaces of the kernel, by which a spoke would read or change the host. Their names, since
/// several of them (`devtmpfs`) share their number with a harmless one.
const OF_THE_KERNEL: [&str; 25] = [
    "autofs",
    "binder",
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "devpts",
    "devtmpfs",
    "efivarfs",
    "functionfs",
    "fusectl",
    "hugetlbfs",
    "mqueue",
    "nfsd",
    "nsfs",
    "proc",
    "pstore",
    "resctrl",
    "rpc_pipefs",
    "securityfs",
    "selinuxfs",
    "sysfs",
    "tracefs",
];

/// A file or directory of the host, opened and found fit to be mounted.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) place: OwnedFd,
    pub(super) directory: bool,
}

/// Opens the sources of `mounts`, in their order. To be called in the mount namespace in which they are used.
pub(super) fn open(mounts: &[Mount]) -> Result<Vec<Source>, Failure> {
    if mounts.is_empty() {
        return Ok(Vec::new());
    }
    let table = MountTable::read()?;
    mounts
        .iter()
        .map(|mount| {
            open_one(&mount.source, &table).map_err(|why| {
                Failure::plain(format!("mount source {}: {why}", mount.source.display()))
            })
        })
        .collect()
}

fn open_one(path: &Path, table: &MountTable) -> Result<Source, String> {
    let place = open_without_links(path).map_err(|errno| match errno {
        Errno::LOOP => blame_link(path),
        errno => errno.to_string(),
    })?;
    let told = |errno: Errno| errno.to_string();
    let directory = match FileType::from_raw_mode(fstat(&place).map_err(told)?.st_mode) {
        FileType::Directory => true,
        FileType::RegularFile => false,
        // A socket is the daemon behind it, a device the driver.
        _ => return Err("neither a directory nor a regular file".to_owned()),
    };
    let status = statx(&place, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).map_err(told)?;
    // The kernel may be too old to say it (before 5.8), and then nothing is known.
    let known = StatxFlags::from_bits_retain(status.stx_mask).contains(StatxFlags::MNT_ID);
    let kind = known.then(|| table.kind_of(status.stx_mnt_id)).flatten();
    let kind = kind.ok_or("its file system cannot be told")?;
    if OF_THE_KERNEL.contains(&kind) {
        return Err(format!(
            "it lies in a {kind} file system, an interface of the kernel; mount a copy of what is needed"
        ));
    }
    // The tree is mounted with all that is mounted below it.
    match table.kernel_interface_below(path) {
        Some((point, kind)) => Err(format!(
            "it holds {}, a {kind} file system, an interface of the kernel; mount a folder beside it",
            point.display()
        )),
        None => Ok(Source { place, directory }),
    }
}

fn open_without_links(path: &Path) -> Result<OwnedFd, Errno> {
    // Not `NOFOLLOW`, which would open a link at the end of the path instead of refusing it.
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    rustix::io::retry_on_intr(|| openat2(CWD, path, flags, Mode::empty(), resolve))
}

/// Which part of the path is a link, and what to do if it is the user's own. Only for the message: what it finds may
/// have changed since.
fn blame_link(path: &Path) -> String {
    let mut parts: Vec<_> = path.ancestors().collect();
    parts.reverse();
    let link = parts
        .into_iter()
        .find_map(|part| fs::read_link(part).ok().map(|to| (part, to)));
    match link {
        Some((part, to)) => format!(
            "{} is a symbolic link to {}, and links are not followed, since an app may have planted it; \
             if it is yours, write the path without the link",
            part.display(),
            to.display()
        ),
        None => "a symbolic link, and links are not followed; write the path without it".to_owned(),
    }
}

/// What is mounted where, in this process's mount namespace.
#[derive(Debug)]
struct MountTable(Vec<Mounted>);

#[derive(Debug, PartialEq, Eq)]
struct Mounted {
    id: u64,
    point: PathBuf,
    kind: String,
}

impl MountTable {
    fn read() -> Result<Self, Failure> {
        let table = fs::read("/proc/self/mountinfo").map_err(|error| {
            Failure::plain(format!("read what is mounted on the host: {error}"))
        })?;
        let lines = table.split(|byte| *byte == b'\n');
        lines
            .filter(|line| !line.is_empty())
            .map(|line| {
                parse(line).ok_or_else(|| {
                    let line = String::from_utf8_lossy(line);
                    Failure::plain(format!("a mount of the host is not understood: {line}"))
                })
            })
            .collect::<Result<_, _>>()
            .map(Self)
    }

    fn kind_of(&self, id: u64) -> Option<&str> {
        let mounted = self.0.iter().find(|mounted| mounted.id == id);
        mounted.map(|mounted| mounted.kind.as_str())
    }

    /// One under `path` that is an interface of the kernel. Also one that another mount covers: it is the rarer mistake.
    fn kernel_interface_below(&self, path: &Path) -> Option<(&Path, &str)> {
        let found = self.0.iter().find(|mounted| {
            mounted.point.starts_with(path) && OF_THE_KERNEL.contains(&mounted.kind.as_str())
        });
        found.map(|mounted| (mounted.point.as_path(), mounted.kind.as_str()))
    }
}

/// A line of `mountinfo`: `ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [FIELD…] - KIND SOURCE OPTIONS`.
fn parse(line: &[u8]) -> Option<Mounted> {
    let mut fields = line.split(|byte| *byte == b' ');
    let id = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let point = PathBuf::from(OsString::from_vec(unescape(fields.nth(3)?)));
    fields.find(|field| field == b"-")?;
    let kind = String::from_utf8(fields.next()?.to_owned()).ok()?;
    Some(Mounted { id, point, kind })
}

/// Space, tab, newline and backslash are written as a backslash and three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let octal = match (first, after) {
            (b'\\', [a, b, c, after @ ..]) => std::str::from_utf8(&[*a, *b, *c])
                .ok()
                .and_then(|digits| u8::from_str_radix(digits, 8).ok())
                .map(|byte| (byte, after)),
            _ => None,
        };
        let (byte, after) = octal.unwrap_or((*first, after));
        bytes.push(byte);
        rest = after;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_read_with_blanks_in_its_name_and_with_optional_fields() {
        let line =
            br"36 35 98:0 /mnt1 /mnt\0402\134 rw,noatime master:1 shared:2 - ext3 /dev/root rw";
        let mounted = Mounted {
            id: 36,
            point: PathBuf::from("/mnt 2\\"),
            kind: "ext3".to_owned(),
        };
        assert_eq!(parse(line), Some(mounted));
        let bare = b"36 35 0:5 / / rw - proc proc rw";
        assert_eq!(parse(bare).unwrap().kind, "proc");
        for broken in [
            &b"36"[..],
            b"x 35 0:5 / / rw - proc",
            b"36 35 0:5 / / rw shared:1",
        ] {
            assert_eq!(parse(broken), None);
        }
    }

    #[test]
    fn a_kernel_interface_is_found_below_and_at_a_path_and_not_beside_it() {
        let mounted = |point: &str, kind: &str| Mounted {
            id: 1,
            point: point.into(),
            kind: kind.to_owned(),
        };
        let table = MountTable(vec![mounted("/", "ext4"), mounted("/srv/a/proc", "proc")]);
        let below = |path: &str| table.kernel_interface_below(Path::new(path)).is_some();
        assert!(below("/srv") && below("/srv/a/proc") && below("/"));
        assert!(!below("/srv/a/pro") && !below("/srv/b") && !below("/srv/a/proc/1"));
    }
}
