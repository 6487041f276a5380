//! System calls as a hostile program makes them: by number, past every wrapper.

use std::ffi::CString;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use libc::c_long;

/// What a system call returned, or the kernel's error.
pub(crate) type Answer = io::Result<usize>;

/// Makes a system call. Addresses in `arguments` are of values that the caller keeps alive and that the kernel may write.
pub(crate) fn call<const N: usize>(number: c_long, arguments: [usize; N]) -> Answer {
    let at = |index: usize| arguments.get(index).copied().unwrap_or(0);
    // SAFETY: the program that makes this call is made to be hostile to itself, runs in a process of its own for each
    // attempt, and passes addresses of buffers that live longer than the call and are as long as it says.
    #[expect(unsafe_code, reason = "no safe wrapper offers these calls")]
    let returned = unsafe { libc::syscall(number, at(0), at(1), at(2), at(3), at(4), at(5)) };
    usize::try_from(returned).map_err(|_| io::Error::last_os_error())
}

/// As what a call returned, but with these errors as success too: those by which the kernel answers just these arguments when
/// nothing has refused the call before. For calls that come to something only with what a host may lack, or with what would
/// harm it.
pub(crate) fn made(answer: Answer, errors: &[i32]) -> Answer {
    answer.or_else(|error| match error.raw_os_error() {
        Some(number) if errors.contains(&number) => Ok(0),
        _ => Err(error),
    })
}

/// As [`call`], for calls that return a new descriptor, which is closed when the result is dropped.
pub(crate) fn open<const N: usize>(number: c_long, arguments: [usize; N]) -> io::Result<OwnedFd> {
    let number = call(number, arguments)?;
    let number = i32::try_from(number).map_err(io::Error::other)?;
    // SAFETY: the kernel has just given it to this process, and nothing else owns it.
    #[expect(unsafe_code, reason = "a raw number becomes a descriptor")]
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Forks; whether this is the child. The program has one thread.
pub(crate) fn fork() -> io::Result<Option<i32>> {
    // SAFETY: with one thread the child may go on with ordinary code.
    #[expect(unsafe_code, reason = "no safe fork exists")]
    match unsafe { libc::fork() } {
        0 => Ok(None),
        child @ 1.. => Ok(Some(child)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Writes to memory that may not be there; it ends this process if it is not.
pub(crate) fn poke(address: usize, value: u8) {
    let place = std::ptr::with_exposed_provenance_mut::<u8>(address);
    // SAFETY: the address is of a mapping that the kernel has just made, or the kernel ends this process.
    #[expect(unsafe_code, reason = "touching pages is the attempt")]
    unsafe {
        place.write_volatile(value);
    }
}

/// The descriptor of this number, which was there when this program started.
pub(crate) fn inherited(number: i32) -> OwnedFd {
    // SAFETY: it is called once for each number, and nothing else owns it.
    #[expect(unsafe_code, reason = "what was inherited is known by its number")]
    unsafe {
        OwnedFd::from_raw_fd(number)
    }
}

/// System call 20 (`getpid`) of the 32-bit interface, which numbers its calls otherwise than the filter's table does.
#[cfg(target_arch = "x86_64")]
pub(crate) fn call_in_32_bits() -> i32 {
    let returned: i32;
    // SAFETY: the call takes no argument and returns a number; or the kernel ends this process.
    #[expect(unsafe_code, reason = "there is no other way to that interface")]
    unsafe {
        std::arch::asm!("int 0x80", inlateout("eax") 20 => returned, options(nostack));
    }
    returned
}

/// An address as a number.
pub(crate) fn address<T: ?Sized>(value: &T) -> usize {
    (&raw const *value).cast::<u8>().expose_provenance()
}

/// The same of a value that the kernel writes.
pub(crate) fn address_mut<T: ?Sized>(value: &mut T) -> usize {
    (&raw mut *value).cast::<u8>().expose_provenance()
}

/// A path as the kernel takes it.
pub(crate) fn path(text: &str) -> CString {
    CString::new(text).unwrap_or_default()
}

pub(crate) fn of(path: &CString) -> usize {
    path.as_ptr().expose_provenance()
}

/// A flag or a number as an argument.
pub(crate) const fn flag(value: i32) -> usize {
    value.cast_unsigned() as usize
}

/// A value that stands for "none" or "the current directory" as an argument.
pub(crate) const fn minus(value: i32) -> usize {
    (value as isize).cast_unsigned()
}
