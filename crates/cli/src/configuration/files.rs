//! The files of a configuration, and the hashes of their contents.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::fs::OFlags;
use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

use crate::hex::hex;

/// Longest text file, in MiB; those written by hand have a few kilobytes.
const MAX_TEXT_MIB: u64 = 1;

/// Longest file of any kind, in MiB; weights of a screener have some hundred kilobytes.
const MAX_MIB: u64 = 16;

/// The SHA-256 of every file that was read, by its path.
#[derive(Debug, Default)]
pub(crate) struct Files(RefCell<BTreeMap<PathBuf, String>>);

impl Files {
    /// Only this file.
    pub(crate) fn of(path: &Path) -> Result<Self> {
        let files = Self::default();
        files.remember(path)?;
        Ok(files)
    }

    /// Reads a text file and remembers its content.
    pub(crate) fn read(&self, path: &Path) -> io::Result<String> {
        let bytes = bytes(path, MAX_TEXT_MIB)?;
        self.insert(path, &Sha256::digest(&bytes))?;
        String::from_utf8(bytes).map_err(|_| io::Error::other("it is not UTF-8"))
    }

    /// Remembers the content of a file.
    pub(crate) fn remember(&self, path: &Path) -> Result<()> {
        bytes(path, MAX_MIB)
            .and_then(|bytes| self.insert(path, &Sha256::digest(bytes)))
            .with_context(|| format!("cannot read {}", path.display()))
    }

    /// A copy of a file with the content that is remembered, in a folder of the user's alone: it is read later, when the
    /// file itself may be another one.
    pub(crate) fn copy(&self, path: &Path, folder: &Path) -> Result<PathBuf> {
        let copy = || -> io::Result<PathBuf> {
            let bytes = bytes(path, MAX_MIB)?;
            let digest = Sha256::digest(&bytes);
            self.insert(path, &digest)?;
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(folder)?;
            let mut file = NamedTempFile::new_in(folder)?;
            file.write_all(&bytes)?;
            let to = folder.join(hex(&digest));
            file.persist(&to).map_err(|error| error.error)?;
            Ok(to)
        };
        copy().with_context(|| format!("cannot copy {}", path.display()))
    }

    fn insert(&self, path: &Path, digest: &[u8]) -> io::Result<()> {
        let digest = hex(digest);
        let mut all = self.0.borrow_mut();
        // A file that is named twice may change in between: parsed content must not get the digest of other content.
        if all.get(path).is_some_and(|before| *before != digest) {
            return Err(io::Error::other("it changed while it was read"));
        }
        all.insert(path.to_owned(), digest);
        Ok(())
    }

    /// Whether these are files of `known`, one of them with this text.
    pub(super) fn are_among(&self, known: &Self, path: &Path, text: &str) -> bool {
        let mut expected = known.digests();
        expected.insert(path.to_owned(), hex(&Sha256::digest(text)));
        let own = self.digests();
        own.iter()
            .all(|(path, digest)| expected.get(path) == Some(digest))
    }

    /// Digests by path.
    pub(crate) fn digests(&self) -> BTreeMap<PathBuf, String> {
        self.0.borrow().clone()
    }
}

/// The content of a regular file of at most so many MiB. An untrusted configuration may name a pipe or a device, whose
/// reading never ends or has effects.
fn bytes(path: &Path, mib: u64) -> io::Result<Vec<u8>> {
    // Otherwise opening a pipe would wait for a writer.
    let without_waiting = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
    let mut options = OpenOptions::new();
    let file = options
        .read(true)
        .custom_flags(without_waiting)
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let (most, mut bytes) = (mib << 20, Vec::new());
    if file.take(most + 1).read_to_end(&mut bytes)? as u64 > most {
        return Err(io::Error::other(format!("it is longer than {mib} MiB")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that two apps name is read twice, and could be replaced in between.
    #[test]
    fn a_file_that_changes_while_it_is_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("app.toml");
        std::fs::write(&path, "one").unwrap();
        let files = Files::default();
        assert_eq!(files.read(&path).unwrap(), "one");
        files.remember(&path).unwrap();
        std::fs::write(&path, "two").unwrap();
        assert!(files.read(&path).is_err() && files.remember(&path).is_err());
    }

    #[test]
    fn what_is_read_later_is_a_copy_of_what_was_trusted() {
        let folder = tempfile::tempdir().unwrap();
        let (path, own) = (folder.path().join("ca.pem"), folder.path().join("own"));
        std::fs::write(&path, "trusted").unwrap();
        let files = Files::of(&path).unwrap();
        let copy = files.copy(&path, &own).unwrap();
        assert_eq!(files.copy(&path, &own).unwrap(), copy);
        std::fs::write(&path, "another").unwrap();
        assert_eq!(std::fs::read_to_string(copy).unwrap(), "trusted");
        let error = format!("{:#}", files.copy(&path, &own).unwrap_err());
        assert!(error.contains("changed while it was read"), "{error}");
    }
}
