//! The standard streams of a program that the user works with.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, fstat, major, minor};
use rustix::termios::isatty;

use crate::SandboxError;

/// The device number of `/dev/null`.
const NULL: (u32, u32) = (1, 3);

/// The standard streams of a program that the user works with, in the place of the null device and the hub's pipe.
///
/// Beside them a program has what a server has no use for, each of it inside the sandbox alone:
/// - control of terminals (`ioctl`), but no typing for the user (`TIOCSTI`);
/// - `/dev/tty`, and pseudo-terminals of its own in `/dev/pts`;
/// - programs in `/tmp`, where compilers and runtimes put what they execute;
/// - more file watchers and files in `/tmp`.
#[derive(Debug)]
pub struct Streams {
    /// Standard input.
    pub input: OwnedFd,
    /// Standard output.
    pub output: OwnedFd,
    /// Standard error.
    pub error: OwnedFd,
    /// Whether those of them that are a terminal are one that was made for this program. It becomes its controlling terminal.
    pub terminal: bool,
}

impl Streams {
    /// Refuses a descriptor by which a program would reach more than a stream of bytes.
    pub(crate) fn check(&self) -> Result<(), SandboxError> {
        for (name, stream) in [
            ("standard input", &self.input),
            ("standard output", &self.output),
            ("standard error", &self.error),
        ] {
            if !self.terminal && isatty(stream) {
                return Err(SandboxError::Spec(format!(
                    "{name} is a terminal of the user's; give the program one of its own"
                )));
            }
            if !isatty(stream) && !Self::is_plain(stream) {
                return Err(SandboxError::Spec(format!(
                    "{name} is neither a pipe nor a file nor a terminal; use a pipe"
                )));
            }
        }
        Ok(())
    }

    /// Whether a descriptor is passed on as it is: a pipe, a regular file or `/dev/null`. From a folder a program could
    /// reach the host's tree, and by a socket or a device more than bytes.
    #[must_use]
    pub fn is_plain(stream: impl AsFd) -> bool {
        let Ok(status) = fstat(stream) else {
            return false;
        };
        match FileType::from_raw_mode(status.st_mode) {
            FileType::Fifo | FileType::RegularFile => true,
            FileType::CharacterDevice => (major(status.st_rdev), minor(status.st_rdev)) == NULL,
            _ => false,
        }
    }

    /// In the order of their numbers.
    pub(crate) fn into_array(self) -> [OwnedFd; 3] {
        [self.input, self.output, self.error]
    }
}

/// The terminal among some streams.
pub(crate) fn terminal_of(streams: &[OwnedFd]) -> Option<BorrowedFd<'_>> {
    streams
        .iter()
        .find(|stream| isatty(stream))
        .map(AsFd::as_fd)
}
