//! Ways to keep a file on the disk that has no name any more.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
    sendmsg, socketpair,
};
use serde::{Deserialize, Serialize};

/// Where.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum Place {
    /// In a message that nobody receives: open in no process.
    Message,
    /// In a process whose first thread has ended, so that `/proc` shows nothing by the process's own number.
    LaterThread,
    /// Mapped, one page of each, and closed.
    Mapping,
}

/// So many files of a MiB each are written below a folder and hidden at once: none has a name when it gets longer.
/// Afterwards they are held for so long.
pub(crate) fn hide(place: Place, folder: &str, files: u32, held: Duration) -> io::Result<()> {
    match place {
        Place::Message => {
            let pair = socketpair(
                AddressFamily::UNIX,
                SocketType::STREAM,
                SocketFlags::CLOEXEC,
                None,
            )?;
            for _ in 0..files {
                send(&pair.0, nameless(folder)?)?;
            }
            std::thread::sleep(held);
            drop(pair);
        }
        Place::LaterThread => in_a_later_thread(folder.to_owned(), files, held)?,
        Place::Mapping => {
            for _ in 0..files {
                map(&nameless(folder)?)?;
            }
            std::thread::sleep(held);
        }
    }
    Ok(())
}

fn nameless(folder: &str) -> io::Result<File> {
    let path = format!("{folder}/hidden");
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create_new(true).open(&path);
    let mut file = file?;
    fs::remove_file(path)?;
    file.write_all(&vec![1; 1 << 20])?;
    Ok(file)
}

/// Gives this thread a name that is no text, and maps a file with such a name below a folder.
pub(crate) fn with_names_of_any_bytes(folder: &str) -> io::Result<()> {
    let name = c"\xff) Z 1 \xfe";
    rustix::thread::set_name(name)?;
    let path = Path::new(folder).join(OsStr::from_bytes(name.to_bytes()));
    fs::write(&path, [0; 4096])?;
    map(&File::open(path)?)
}

fn send(socket: &OwnedFd, file: File) -> io::Result<()> {
    let descriptors = [file.as_fd()];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut buffer = SendAncillaryBuffer::new(&mut space);
    buffer.push(SendAncillaryMessage::ScmRights(&descriptors));
    sendmsg(
        socket,
        &[IoSlice::new(b"x")],
        &mut buffer,
        SendFlags::empty(),
    )?;
    Ok(())
}

fn map(file: &File) -> io::Result<()> {
    // SAFETY: the kernel chooses a fresh place, and nothing reads or writes it.
    #[expect(unsafe_code, reason = "no safe wrapper maps memory")]
    let place = unsafe {
        let (nowhere, number) = (std::ptr::null_mut(), file.as_raw_fd());
        libc::mmap(nowhere, 4096, libc::PROT_READ, libc::MAP_SHARED, number, 0)
    };
    match place == libc::MAP_FAILED {
        true => Err(io::Error::last_os_error()),
        false => Ok(()),
    }
}

/// In a child, since the thread that ends is the one that answers here.
fn in_a_later_thread(folder: String, files: u32, held: Duration) -> io::Result<()> {
    // SAFETY: this process has one thread, so the child may go on with ordinary code.
    #[expect(unsafe_code, reason = "no safe fork exists")]
    match unsafe { libc::fork() } {
        0 => {}
        child @ 1.. => {
            let mut status = 0;
            // SAFETY: the child is this process's own, and the status lives longer than the call.
            #[expect(unsafe_code, reason = "waits for the child from above")]
            let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
            return match (ended == child, status) {
                (true, 0) => Ok(()),
                _ => Err(io::Error::other(format!("the child ended with {status}"))),
            };
        }
        _ => return Err(io::Error::last_os_error()),
    }
    std::thread::spawn(move || {
        // Not before the first thread has gone.
        std::thread::sleep(Duration::from_millis(50));
        let files: io::Result<Vec<_>> = (0..files).map(|_| nameless(&folder)).collect();
        std::thread::sleep(held);
        std::process::exit(i32::from(files.is_err()));
    });
    // SAFETY: it ends this thread alone, which owns nothing that the other one uses.
    #[expect(unsafe_code, reason = "ends one thread and not the process")]
    unsafe {
        libc::syscall(libc::SYS_exit, 0);
    }
    Ok(())
}
