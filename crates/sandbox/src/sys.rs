//! The system calls for which no safe wrapper exists, and one that several files need.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::UnshareFlags;

/// Which side of a fork this is.
pub(crate) enum Fork {
    /// The process that forked, with the id of its child.
    Parent(Pid),
    /// The new process.
    Child,
}

/// Forks. Refused with `EBUSY` unless the process has one thread, since the child of a process with several may find
/// locks held for ever.
pub(crate) fn fork_single_threaded() -> Result<Fork, Errno> {
    require_single_thread()?;
    // SAFETY: this is the only thread (checked above, and no other could start one), so no lock is held by a thread
    // that does not exist in the child, and the child may go on running ordinary code.
    #[expect(unsafe_code, reason = "no safe fork exists")]
    let forked = unsafe { libc::fork() };
    which(forked.into())
}

/// As [`fork_single_threaded`], and the child starts in a control group, given by its directory. (To move it there later
/// takes ten times as long, since the kernel then waits for all processors.)
pub(crate) fn fork_into_group(group: BorrowedFd<'_>) -> Result<Fork, Errno> {
    /// `CLONE_INTO_CGROUP`, which the C library's own type for flags is too small for.
    const INTO_GROUP: u64 = 1 << 33;

    require_single_thread()?;
    // SAFETY: plain numbers, of which zero means "none" throughout.
    #[expect(unsafe_code, reason = "the C library's structure has no constructor")]
    let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
    arguments.flags = INTO_GROUP;
    arguments.exit_signal = u64::from(libc::SIGCHLD.unsigned_abs());
    arguments.cgroup = u64::from(group.as_raw_fd().unsigned_abs());
    // SAFETY: `arguments` outlives the call, and the size is its size. Without `CLONE_VM` the child has its own copy of
    // the memory and goes on from here, as after `fork`, and with one thread (checked above) the same holds as there.
    // What the C library would have brought up to date in the child is the thread's number, which nothing before the
    // next execution asks it for.
    #[expect(unsafe_code, reason = "the C library's fork knows no control groups")]
    let forked = unsafe {
        libc::syscall(
            libc::SYS_clone3,
            &raw mut arguments,
            size_of::<libc::clone_args>(),
        )
    };
    which(forked)
}

fn require_single_thread() -> Result<(), Errno> {
    let threads = std::fs::read_dir("/proc/self/task")
        .map_err(|_| Errno::BUSY)?
        .count();
    if threads == 1 {
        Ok(())
    } else {
        Err(Errno::BUSY)
    }
}

/// Which side this is, by what a call that forks returned.
fn which(returned: i64) -> Result<Fork, Errno> {
    match i32::try_from(returned) {
        Ok(0) => Ok(Fork::Child),
        Ok(pid @ 1..) => Pid::from_raw(pid).map(Fork::Parent).ok_or(Errno::SRCH),
        _ => Err(last_errno()),
    }
}

/// Moves this process into new namespaces. Descriptor tables cannot be unshared by this.
pub(crate) fn unshare_namespaces(flags: UnshareFlags) -> Result<(), Errno> {
    if flags.contains(UnshareFlags::FILES) {
        return Err(Errno::INVAL);
    }
    // SAFETY: the call is unsafe only with `FILES` (threads would stop sharing descriptors), refused above.
    #[expect(unsafe_code, reason = "rustix marks unshare unsafe because of FILES")]
    unsafe {
        rustix::thread::unshare_unsafe(flags)
    }
}

/// Closes every descriptor from `first` on. Only for a process that owns none of them in a Rust value any more.
pub(crate) fn close_from(first: u32) -> Result<(), Errno> {
    close_range(first, 0)
}

/// Marks every descriptor from `first` on to be closed by the next execution.
pub(crate) fn close_on_exec_from(first: u32) -> Result<(), Errno> {
    close_range(first, libc::CLOSE_RANGE_CLOEXEC)
}

fn close_range(first: u32, flags: libc::c_uint) -> Result<(), Errno> {
    // SAFETY: the call takes plain numbers and touches no memory. Without the flag it closes descriptors by number;
    // `close_from` is called only at the very start, when no Rust value owns a descriptor yet, and in the waiting
    // process, which owns none any more and never opens another.
    #[expect(unsafe_code, reason = "no safe close_range exists")]
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, flags) };
    if result == 0 {
        Ok(())
    } else {
        Err(last_errno())
    }
}

/// The version of Landlock that this kernel has; 0 without any.
#[must_use]
pub fn landlock_abi() -> u32 {
    const VERSION: u32 = 1;
    // SAFETY: with this flag the kernel takes no attributes, and answers with a number.
    #[expect(unsafe_code, reason = "the landlock crate does not tell the number")]
    let abi = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<u8>(),
            0_usize,
            VERSION,
        )
    };
    u32::try_from(abi).unwrap_or(0)
}

/// Sets mount attributes (`MOUNT_ATTR_*`) on the mount at `mount`, and with `recursive` on all below it.
pub(crate) fn set_mount_attributes(
    mount: &OwnedFd,
    attributes: u64,
    recursive: bool,
) -> Result<(), Errno> {
    let attributes = libc::mount_attr {
        attr_set: attributes,
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the path is a NUL-terminated constant, `attributes` outlives the call, and the size is its size.
    #[expect(unsafe_code, reason = "rustix has no mount_setattr")]
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(last_errno())
    }
}

/// Waits for at most `limit`; whether the descriptor can be read from. A pid descriptor can be once its process has
/// ended.
pub(crate) fn readable_within(descriptor: &impl AsFd, limit: Duration) -> Result<bool, Errno> {
    let timeout = Timespec::try_from(limit).ok();
    let mut descriptors = [PollFd::new(descriptor, PollFlags::IN)];
    rustix::io::retry_on_intr(|| poll(&mut descriptors, timeout.as_ref())).map(|ready| ready > 0)
}

fn last_errno() -> Errno {
    std::io::Error::last_os_error()
        .raw_os_error()
        .map_or(Errno::IO, Errno::from_raw_os_error)
}
