//! The descriptor with which a spoke is born.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::FdFlags;
use rustix::net::{AddressFamily, SocketType};

/// Number of the descriptor on which the spoke finds its channel to the hub.
const CHANNEL: RawFd = 3;

/// Whether the channel has been given out.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Takes the channel to the hub, descriptor 3, and marks it close-on-exec, so that no app inherits it.
///
/// # Errors
/// When descriptor 3 is not a Unix stream socket that this process was executed with, or when it was taken before.
pub fn inherited_channel() -> io::Result<OwnedFd> {
    if TAKEN.swap(true, Ordering::SeqCst) {
        return Err(io::Error::other("the channel to the hub was taken before"));
    }
    // SAFETY: the borrow ends before ownership is taken, and a number that is not open gives an error below.
    #[expect(unsafe_code, reason = "raw number to descriptor")]
    let borrowed = unsafe { BorrowedFd::borrow_raw(CHANNEL) };
    let flags = rustix::io::fcntl_getfd(borrowed)?;
    // Rust's library opens everything close-on-exec. A descriptor without that flag came with the execution of this
    // program, and so belongs to no Rust value.
    let inherited = !flags.contains(FdFlags::CLOEXEC);
    let kind = (
        rustix::net::sockopt::socket_domain(borrowed)?,
        rustix::net::sockopt::socket_type(borrowed)?,
    );
    if !inherited || kind != (AddressFamily::UNIX, SocketType::STREAM) {
        return Err(io::Error::other(
            "descriptor 3 is not the channel to the hub; a spoke is started by the hub only",
        ));
    }
    rustix::io::fcntl_setfd(borrowed, FdFlags::CLOEXEC)?;
    // SAFETY: it is open, it came with the execution (above), and `TAKEN` lets this line run once.
    #[expect(unsafe_code, reason = "raw number to descriptor")]
    let channel = unsafe { OwnedFd::from_raw_fd(borrowed.as_raw_fd()) };
    Ok(channel)
}
