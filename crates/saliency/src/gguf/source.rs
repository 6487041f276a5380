//! Where the bytes come from.

use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// A file, or bytes in memory, with its length as it was on opening.
pub(super) enum Source {
    File { file: File, length: u64 },
    Memory(Vec<u8>),
}

impl Source {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        // A device or pipe has no length that counts and offsets could be checked against.
        if !metadata.is_file() {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                "it is not a regular file",
            ));
        }
        let length = metadata.len();
        Ok(Self::File { file, length })
    }

    pub(super) fn length(&self) -> u64 {
        match self {
            Self::File { length, .. } => *length,
            Self::Memory(bytes) => bytes.len() as u64,
        }
    }

    /// Fills the buffer from that place on.
    pub(super) fn read_exact_at(&self, buffer: &mut [u8], at: u64) -> Result<()> {
        match self {
            Self::File { file, .. } => file.read_exact_at(buffer, at),
            Self::Memory(bytes) => {
                let rest = usize::try_from(at).ok().and_then(|at| bytes.get(at..));
                let found = rest.and_then(|rest| rest.get(..buffer.len()));
                buffer.copy_from_slice(found.ok_or(ErrorKind::UnexpectedEof)?);
                Ok(())
            }
        }
    }
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.length())
    }
}
