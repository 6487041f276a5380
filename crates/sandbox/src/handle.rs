//! A running spoke, as the hub holds it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, ExitStatus};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Signal, pidfd_send_signal};

use crate::control_group::ControlGroup;
use crate::{Enforced, Overrun, WholeSpoke, sys};

/// How long the kernel may take to tear a killed spoke down before the waiting process is killed as well. Tearing down
/// takes milliseconds; longer means that a process hangs in a file system.
const TEARDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// A running spoke. Dropping it kills and reaps the whole tree; nothing is left running.
#[derive(Debug)]
pub struct Sandboxed {
    pub(crate) process: Process,
    pub(crate) stderr: Option<OwnedFd>,
    pub(crate) listeners: Vec<(u16, OwnedFd)>,
    pub(crate) names: Option<NameSockets>,
    pub(crate) enforced: Enforced,
    pub(crate) whole_spoke: WholeSpoke,
    pub(crate) overrun: Overrun,
}

/// The sockets by which a spoke reaches names, all inside its network.
#[derive(Debug)]
pub struct NameSockets {
    /// Where it asks for names, by UDP.
    pub queries: OwnedFd,
    /// The listening sockets of the ports, for every address of
    /// [`NAMES_NETWORK`](crate::defaults::NAMES_NETWORK) and of the spoke itself.
    pub listeners: Vec<(u16, OwnedFd)>,
}

impl Sandboxed {
    /// The reading end of the spoke's stderr; the hub must bound what it reads. `None` once taken.
    pub fn take_stderr(&mut self) -> Option<OwnedFd> {
        self.stderr.take()
    }

    /// The listening sockets inside the spoke's network, with their ports; the hub accepts on them. Empty once taken.
    pub fn take_listeners(&mut self) -> Vec<(u16, OwnedFd)> {
        std::mem::take(&mut self.listeners)
    }

    /// The sockets of names; the hub answers and accepts on them. `None` where the specification has none, or once taken.
    pub fn take_names(&mut self) -> Option<NameSockets> {
        self.names.take()
    }

    /// What is in force around this spoke.
    #[must_use]
    pub fn enforced(&self) -> &Enforced {
        &self.enforced
    }

    /// How much all of this spoke together can take.
    #[must_use]
    pub fn whole_spoke(&self) -> &WholeSpoke {
        &self.whole_spoke
    }

    /// Whether a folder was over its size, for which the spoke was ended.
    #[must_use]
    pub fn overrun(&self) -> Overrun {
        self.overrun.clone()
    }

    /// Process id, on the host, of the process that waits for the spoke. For messages; to act, use the descriptor.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.child.id()
    }

    /// Kills the spoke with everything in it. Returns at once; [`Self::wait`] returns when all of it is gone. Calling
    /// it again, or after the end, does nothing.
    ///
    /// # Errors
    /// When the system refuses the signal, which it has no reason to.
    pub fn kill(&self) -> io::Result<()> {
        self.process.kill()
    }

    /// Waits for the end of the spoke and everything in it. The status is the spoke's exit code; a spoke ended by
    /// `SIGKILL` shows that signal, one ended by another signal shows code 128 + signal. Blocks: an asynchronous caller
    /// polls this for readability first.
    ///
    /// # Errors
    /// When the system cannot wait, which it has no reason to.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        self.process.child.wait()
    }

    /// The status if the spoke and everything in it is gone, `None` while it runs.
    ///
    /// # Errors
    /// As for [`Self::wait`].
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.process.child.try_wait()
    }
}

/// A pid descriptor that becomes readable when the spoke and everything in it is gone.
impl AsFd for Sandboxed {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.process.outer.as_fd()
    }
}

/// The two processes of a spoke: `outer` waits for `inner`, which is process 1 of the spoke's pid namespace.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) child: Child,
    pub(crate) outer: OwnedFd,
    pub(crate) inner: Option<OwnedFd>,
    /// Around `inner`. Declared last, and so removed when both are gone.
    pub(crate) group: Option<ControlGroup>,
}

impl Process {
    /// Kills the innermost process known: with it the kernel kills its pid namespace, and `outer` ends by itself after
    /// all of that is gone, so its end means the end of everything.
    fn kill(&self) -> io::Result<()> {
        signal(self.inner.as_ref().unwrap_or(&self.outer))
    }

    /// Waits for at most `limit`; whether the process has ended.
    pub(crate) fn ended_within(&self, limit: Duration) -> bool {
        sys::readable_within(&self.outer, limit).unwrap_or(false)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        // Nothing can be done about errors here, and none is possible: the descriptors are ours and the signal is legal.
        let _ = self.kill();
        if !self.ended_within(TEARDOWN_TIMEOUT) {
            let _ = signal(&self.outer);
        }
        let _ = self.child.wait();
    }
}

fn signal(pidfd: &OwnedFd) -> io::Result<()> {
    match pidfd_send_signal(pidfd, Signal::KILL) {
        // The process is gone already, which is what was wanted.
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
