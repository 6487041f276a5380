//! Opens files that may not be plain files.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// Opens a plain file. A stranger's `#!` line or binary may name a pipe, which would block, or a device.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    if !path.metadata()?.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    // It may have been replaced since.
    let no_wait = OFlags::NONBLOCK | OFlags::NOCTTY;
    File::options()
        .read(true)
        .custom_flags(no_wait.bits().cast_signed())
        .open(path)
}

/// The beginning of a file, at most so many bytes.
pub(crate) fn beginning(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The same as text.
pub(crate) fn text(path: &Path, most: u64) -> io::Result<String> {
    String::from_utf8(beginning(path, most)?).map_err(io::Error::other)
}
