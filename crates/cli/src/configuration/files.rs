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

/// Longest text file. Written by hand, they have a few kilobytes.
const MAX_TEXT_BYTES: u64 = 1 << 20;

/// Longest file of any kind: weights of a screener have some hundred kilobytes.
const MAX_BYTES: u64 = 256 << 20;

/// The SHA-256 of every file that was read, by its path.
#[derive(Debug, Default)]
pub(crate) struct Files(RefCell<BTreeMap<PathBuf, String>>);

impl Files {
    /// Only this file.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn of(path: &Path) -> Result<Self> {
        let files = Self::default();
        files.remember(path)?;
        Ok(files)
    }

    /// Reads a text file and remembers its content.
    ///
    /// # Errors
    /// It is no regular file, is longer than 1 MiB, is not UTF-8, or cannot be read.
    pub(crate) fn read(&self, path: &Path) -> io::Result<String> {
        let mut text = String::new();
        open(path)?
            .take(MAX_TEXT_BYTES + 1)
            .read_to_string(&mut text)?;
        if text.len() as u64 > MAX_TEXT_BYTES {
            return Err(io::Error::other("it is longer than 1 MiB"));
        }
        self.insert(path, &Sha256::digest(text.as_bytes()));
        Ok(text)
    }

    /// Remembers the content of a file.
    ///
    /// # Errors
    /// It is no regular file, is longer than 256 MiB, or cannot be read.
    pub(crate) fn remember(&self, path: &Path) -> Result<()> {
        let digest = || {
            let mut file = BufReader::new(open(path)?.take(MAX_BYTES + 1));
            let (mut hasher, mut length) = (Sha256::new(), 0);
            loop {
                let piece = file.fill_buf()?;
                if piece.is_empty() {
                    return Ok(hasher.finalize());
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
        let digest = digest().with_context(|| format!("cannot read {}", path.display()))?;
        self.insert(path, &digest);
        Ok(())
    }

    fn insert(&self, path: &Path, digest: &[u8]) {
        let digest = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        self.0.borrow_mut().insert(path.to_owned(), digest);
    }

    /// Digests by path.
    pub(crate) fn digests(&self) -> BTreeMap<PathBuf, String> {
        self.0.borrow().clone()
    }
}

/// Opens a regular file. What an untrusted configuration names may also be a pipe or a device, whose
/// reading never ends or has effects.
fn open(path: &Path) -> io::Result<File> {
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
