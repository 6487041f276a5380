//! Mount sources. An app that may write a folder can plant anything in it, and wait until the next start mounts it; so
//! a source is opened without following a link, and what was opened is what is mounted.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, StatxFlags, fstat, openat2, statx,
};
use rustix::io::Errno;

use super::layers::Failure;
use crate::Mount;
use crate::mounted::{self, Mounted};

/// File systems that are interfaces of the kernel, by which a spoke would read or change the host. Their names, since
/// several of them (`devtmpfs`) share their number with a harmless one.
const OF_THE_KERNEL: &str = "autofs binder binfmt_misc bpf cgroup cgroup2 configfs debugfs devpts devtmpfs efivarfs functionfs \
    fusectl hugetlbfs mqueue nfsd nsfs proc pstore resctrl rpc_pipefs securityfs selinuxfs sysfs tracefs";

fn is_of_the_kernel(kind: &str) -> bool {
    OF_THE_KERNEL.split(' ').any(|own| own == kind)
}

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
    let table = mounted::read().map_err(Failure::plain)?;
    mounts
        .iter()
        .map(|mount| {
            open_one(&mount.source, &table).map_err(|why| {
                Failure::plain(format!("mount source {}: {why}", mount.source.display()))
            })
        })
        .collect()
}

fn open_one(path: &Path, table: &[Mounted]) -> Result<Source, String> {
    let place = open_without_links(path).map_err(|errno| match errno {
        Errno::LOOP => blame_link(path),
        errno => errno.to_string(),
    })?;
    let message = |errno: Errno| errno.to_string();
    let directory = match FileType::from_raw_mode(fstat(&place).map_err(message)?.st_mode) {
        FileType::Directory => true,
        FileType::RegularFile => false,
        // A socket is the daemon behind it, a device the driver.
        _ => return Err("neither a directory nor a regular file".to_owned()),
    };
    // By the number of the mount that was opened. A path could lead elsewhere by now.
    let status = statx(&place, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).map_err(message)?;
    // The kernel may be too old to say it (before 5.8), and then nothing is known.
    let known = StatxFlags::from_bits_retain(status.stx_mask).contains(StatxFlags::MNT_ID);
    let kind = known.then(|| kind_of(table, status.stx_mnt_id)).flatten();
    let kind = kind.ok_or("its file system cannot be told")?;
    if is_of_the_kernel(kind) {
        return Err(format!(
            "it lies in a {kind} file system, an interface of the kernel; mount a copy of what is needed"
        ));
    }
    // The tree is mounted with all that is mounted below it.
    match kernel_interface_below(table, path) {
        Some(Mounted { point, kind, .. }) => Err(format!(
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

/// The kind of file system of the mount with this number.
fn kind_of(mounts: &[Mounted], id: u64) -> Option<&str> {
    let mounted = mounts.iter().find(|mounted| mounted.id == id);
    mounted.map(|mounted| mounted.kind.as_str())
}

/// A mount at or under `path` that is an interface of the kernel. Also one that another mount covers: it is the rarer
/// mistake.
fn kernel_interface_below<'m>(mounts: &'m [Mounted], path: &Path) -> Option<&'m Mounted> {
    mounts
        .iter()
        .find(|mounted| mounted.point.starts_with(path) && is_of_the_kernel(&mounted.kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_interface_is_found_below_and_at_a_path_and_not_beside_it() {
        let mounted = |point: &str, kind: &str| Mounted {
            id: 1,
            root: "/".into(),
            point: point.into(),
            kind: kind.to_owned(),
        };
        let mounts = [mounted("/", "ext4"), mounted("/srv/a/proc", "proc")];
        let below = |path: &str| kernel_interface_below(&mounts, Path::new(path)).is_some();
        assert!(below("/srv") && below("/srv/a/proc") && below("/"));
        assert!(!below("/srv/a/pro") && !below("/srv/b") && !below("/srv/a/proc/1"));
    }
}
