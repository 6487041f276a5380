//! Reads files that packages wrote.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};

/// Reads a file of a tree, of at most `limit` bytes and reached without links. A link could lead to any file of the host, a
/// pipe could block for ever, and a device has no end.
pub(super) fn read(tree: &Path, inside: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let tree = openat(CWD, tree, flags | OFlags::NOFOLLOW, Mode::empty())?;
    // A pipe must not block, and a terminal must not become the controlling one.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let file = openat2(tree.as_fd(), inside, flags, Mode::empty(), resolve)?;
    let file = File::from(file);
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    let mut bytes = Vec::new();
    // By the bytes read: a file of the kernel has no length.
    let count = file.take(limit + 1).read_to_end(&mut bytes)?;
    match count as u64 <= limit {
        true => Ok(bytes),
        false => Err(io::Error::other("it is too long")),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use rustix::fs::{FileType, mknodat};

    use super::*;

    #[test]
    fn only_a_short_file_of_the_tree_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path().join("tree");
        fs::create_dir_all(tree.join("a")).unwrap();
        fs::write(tree.join("a/file"), "12345678").unwrap();
        fs::write(folder.path().join("outside"), "x").unwrap();
        symlink("file", tree.join("a/link")).unwrap();
        symlink("a", tree.join("b")).unwrap();
        symlink("/dev/zero", tree.join("zero")).unwrap();
        symlink(&tree, folder.path().join("c")).unwrap();
        let pipe = tree.join("pipe");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let of = |inside: &str, limit| read(&tree, Path::new(inside), limit);
        assert_eq!(of("a/file", 8).unwrap(), b"12345678");
        assert!(of("a/file", 7).is_err());
        for other in [
            "a/link",
            "b/file",
            "zero",
            "pipe",
            "a",
            "../outside",
            "/dev/zero",
        ] {
            assert!(of(other, 8).is_err(), "{other}");
        }
        assert!(read(&folder.path().join("c"), Path::new("a/file"), 8).is_err());
    }
}
