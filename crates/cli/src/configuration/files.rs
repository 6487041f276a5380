//! The files of a configuration, and what was in them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::fs::OFlags;
use sha2::{Digest, Sha256};

use crate::hex::hex;

/// Longest text file. Written by hand, they have a few kilobytes.
const MAX_TEXT_BYTES: u64 = 1 << 20;

/// Longest file of any kind: weights of a screener have some hundred kilobytes.
const MAX_BYTES: u64 = 256 << 20;

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
    ///
    /// # Errors
    /// It is no regular file, is longer than 1 MiB, is not UTF-8, has changed since it was read before, or cannot be read.
    pub(crate) fn read(&self, path: &Path) -> io::Result<String> {
        let mut text = String::new();
        open(path)?
            // One byte more than allowed tells a file that is too long from one that just fits.
            .take(MAX_TEXT_BYTES + 1)
            .read_to_string(&mut text)?;
        if text.len() as u64 > MAX_TEXT_BYTES {
            return Err(io::Error::other("it is longer than 1 MiB"));
        }
        self.insert(path, &Sha256::digest(text.as_bytes()))?;
        Ok(text)
    }

    /// Remembers the content of a file.
    ///
    /// # Errors
    /// It is no regular file, is longer than 256 MiB, has changed since it was read before, or cannot be read.
    pub(crate) fn remember(&self, path: &Path) -> Result<()> {
        let remember = || {
            let mut file = BufReader::new(open(path)?.take(MAX_BYTES + 1));
            let (mut hasher, mut length) = (Sha256::new(), 0);
            loop {
                let piece = file.fill_buf()?;
                if piece.is_empty() {
                    return self.insert(path, &hasher.finalize());
                }
                hasher.update(piece);
                let read = piece.len();
                length += read as u64;
                if length > MAX_BYTES {
                    return Err(io::Error::other("it is longer than 256 MiB"));
                }
                file.consume(read);
            }
        };
        remember().with_context(|| format!("cannot read {}", path.display()))
    }

    fn insert(&self, path: &Path, digest: &[u8]) -> io::Result<()> {
        let digest = hex(digest);
        let mut all = self.0.borrow_mut();
        // A file may be named twice. What was parsed first must not go with the digest of what came second.
        if all.get(path).is_some_and(|before| *before != digest) {
            return Err(io::Error::other("it has changed since it was read first"));
        }
        all.insert(path.to_owned(), digest);
        Ok(())
    }

    /// Digests by path.
    pub(crate) fn digests(&self) -> BTreeMap<PathBuf, String> {
        self.0.borrow().clone()
    }
}

/// Opens a regular file. What an untrusted configuration names may also be a pipe or a device, whose
/// reading never ends or has effects.
fn open(path: &Path) -> io::Result<File> {
    // To open a pipe would wait for a writer, before it can be seen that it is a pipe.
    let without_waiting = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(without_waiting)
        .open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is no regular file")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that two apps name is read twice, and whoever can write it could show another one in between.
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
}
