//! System calls as rows of a table.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;

use rustix::process::{Pid, Signal, kill_process};

use crate::attempt::{Attempts, CONTENT, FILE, Ground, Observed, escaped, held, nothing};
use crate::kernel::{self, Answer, call, flag, made, minus, of, open, path};

/// The current directory, before the path of a call.
pub(super) const CWD: i32 = libc::AT_FDCWD;
/// The file that may only be read, as a template.
pub(super) const THE_FILE: &str = "{ro}/file";
/// A file in the writable mount.
pub(super) const OWN_FILE: &str = "{rw}/own";

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Process {
    /// The host's process that a spoke must not reach.
    Victim,
    Hub,
    /// A child of the attempt, which waits.
    Child,
    /// Process 1 of the spoke.
    First,
}

#[derive(Clone, Copy)]
pub(super) enum Arg {
    Number(usize),
    /// The address of a path, a template (see [`filled`]).
    Path(&'static str),
    /// The address of these words, which the kernel may write.
    Words(&'static [u64]),
    /// The address of these bytes.
    Bytes(&'static [u8]),
    /// The address of `struct iovec` with a buffer of eight bytes. A child has it at the same address.
    Buffer,
    /// The address of `sockaddr_in` with the host's port of TCP on 127.0.0.1.
    Address,
    /// A descriptor of a file that is opened for reading.
    File(&'static str),
    /// A descriptor of a folder that is opened for its path alone.
    Folder(&'static str),
    /// A new socket of TCP.
    Tcp,
    /// The writing end of a new pipe, whose other end stays open.
    Pipe,
    /// A new watcher of files.
    Watcher,
    Pid(Process),
    PidFd(Process),
    /// The host's message queue.
    Queue,
}

impl From<i32> for Arg {
    fn from(number: i32) -> Self {
        Self::Number(minus(number))
    }
}

impl From<u32> for Arg {
    fn from(number: u32) -> Self {
        Self::Number(number as usize)
    }
}

impl From<u64> for Arg {
    fn from(number: u64) -> Self {
        Self::Number(usize::try_from(number).unwrap_or(usize::MAX))
    }
}

impl From<usize> for Arg {
    fn from(number: usize) -> Self {
        Self::Number(number)
    }
}

impl From<&'static str> for Arg {
    fn from(path: &'static str) -> Self {
        Self::Path(path)
    }
}

impl<const N: usize> From<&'static [u64; N]> for Arg {
    fn from(words: &'static [u64; N]) -> Self {
        Self::Words(words)
    }
}

impl<const N: usize> From<&'static [u8; N]> for Arg {
    fn from(bytes: &'static [u8; N]) -> Self {
        Self::Bytes(bytes)
    }
}

pub(super) struct Syscall {
    pub(super) number: i64,
    pub(super) arguments: Vec<Arg>,
    /// Errors that mean that nothing has refused the call (see [`made`]).
    pub(super) answers: &'static [i32],
}

/// Adds a row for each call: its name, the call, and the errors that count as success.
macro_rules! calls {
    ($attempts:ident.$add:ident; $($name:literal: $number:ident($($argument:expr),*) $(or $($answer:ident),*)?;)*) => {
        $($attempts.$add($name, crate::inside::call::Syscall {
            number: libc::$number,
            arguments: vec![$(crate::inside::call::Arg::from($argument)),*],
            answers: &[$($(libc::$answer),*)?],
        });)*
    };
}
pub(super) use calls;

/// A template with what the attacker knows: `{ro}`, `{rw}`, `{bin}`, `{secret}`, `{hub}` and `{unix}`.
pub(super) fn filled(template: &str, ground: &Ground) -> String {
    let [ro, rw, bin] = &ground.mounts;
    let text = template
        .replace("{ro}", ro)
        .replace("{rw}", rw)
        .replace("{bin}", bin);
    let text = text
        .replace("{secret}", &ground.secret_path)
        .replace("{unix}", &ground.unix);
    text.replace("{hub}", &ground.hub.to_string())
}

/// `sockaddr_in` of a port of 127.0.0.1.
pub(super) fn loopback(port: u16) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..2].copy_from_slice(&2_u16.to_ne_bytes());
    bytes[2..4].copy_from_slice(&port.to_be_bytes());
    bytes[4] = 127;
    bytes[7] = 1;
    bytes
}

impl Syscall {
    pub(super) fn make(&self, ground: &Ground) -> Answer {
        // What the addresses lead to, and open descriptors, until the call is made.
        let (mut paths, mut words, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
        let mut open_ones: Vec<OwnedFd> = Vec::new();
        let mut numbers = [0; 6];
        let own = |process: &Process| *process == Process::Child;
        let needs_child = self.arguments.iter().any(|argument| match argument {
            Arg::Pid(process) | Arg::PidFd(process) => own(process),
            _ => false,
        });
        // Addresses first: a child has a copy of what is there when it is made.
        for (number, argument) in numbers.iter_mut().zip(&self.arguments) {
            *number = match argument {
                Arg::Number(number) => *number,
                Arg::Path(template) => {
                    paths.push(path(&filled(template, ground)));
                    paths.last().map_or(0, of)
                }
                Arg::Words(given) => kept(&mut words, given.to_vec()),
                Arg::Bytes(given) => kept(&mut bytes, given.to_vec()),
                Arg::Address => kept(&mut bytes, loopback(ground.tcp).to_vec()),
                Arg::Buffer => {
                    let buffer = kept(&mut words, vec![0]);
                    kept(&mut words, vec![buffer as u64, 8])
                }
                Arg::Queue => ground.queue.map_or(0, flag),
                _ => continue,
            };
        }
        let child = match needs_child {
            true => waiting_child()?,
            false => 0,
        };
        let id = |process: &Process| match process {
            Process::Victim => ground.victim,
            Process::Hub => ground.hub,
            Process::Child => child,
            Process::First => 1,
        };
        let done = (|| {
            for (number, argument) in numbers.iter_mut().zip(&self.arguments) {
                let opened: OwnedFd = match argument {
                    Arg::Pid(process) => {
                        *number = flag(id(process));
                        continue;
                    }
                    Arg::PidFd(process) => open(libc::SYS_pidfd_open, [flag(id(process)), 0])?,
                    Arg::File(template) => File::open(filled(template, ground))?.into(),
                    Arg::Folder(template) => {
                        let mut options = OpenOptions::new();
                        let options = options.read(true).custom_flags(libc::O_PATH);
                        options.open(filled(template, ground))?.into()
                    }
                    Arg::Tcp => socket(libc::AF_INET, libc::SOCK_STREAM, 0)?,
                    Arg::Watcher => open(libc::SYS_inotify_init1, [0])?,
                    Arg::Pipe => {
                        let (ours, theirs) = io::pipe()?;
                        open_ones.push(ours.into());
                        theirs.into()
                    }
                    _ => continue,
                };
                *number = flag(opened.as_raw_fd());
                open_ones.push(opened);
            }
            let answer = made(call(self.number, numbers), self.answers);
            match answer {
                // The other side of a fork.
                Ok(0) if matches!(self.number, libc::SYS_clone | libc::SYS_clone3) => {
                    std::process::exit(0)
                }
                answer => answer,
            }
        })();
        if let Some(child) = Pid::from_raw(child) {
            let _ = kill_process(child, Signal::KILL);
        }
        done
    }
}

/// Keeps a buffer; its address.
fn kept<T>(buffers: &mut Vec<Vec<T>>, buffer: Vec<T>) -> usize {
    buffers.push(buffer);
    buffers
        .last_mut()
        .map_or(0, |buffer| buffer.as_mut_ptr().expose_provenance())
}

fn waiting_child() -> io::Result<i32> {
    match kernel::fork()? {
        None => loop {
            std::thread::park();
        },
        Some(child) => Ok(child),
    }
}

pub(super) fn socket(family: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
    open(libc::SYS_socket, [flag(family), flag(kind), flag(protocol)])
}

/// One of a pair of datagram sockets; the other is closed.
pub(super) fn half_of_a_pair() -> io::Result<UnixDatagram> {
    Ok(UnixDatagram::pair()?.0)
}

impl Attempts {
    /// A call that must give nothing.
    pub(super) fn call(&mut self, name: &'static str, syscall: Syscall) {
        let asks_queue = syscall.arguments.iter().any(|it| matches!(it, Arg::Queue));
        self.add(name, move |ground| {
            match asks_queue && ground.queue.is_none() {
                true => Observed::Absent("this machine has no message queues".to_owned()),
                false => nothing(syscall.make(ground), "it was done"),
            }
        });
    }

    /// A call after which the file that may only be read must be as it was.
    pub(super) fn unchanged(&mut self, name: &'static str, syscall: Syscall) {
        self.add(name, move |ground| {
            unchanged(ground, syscall.make(ground).map(drop))
        });
    }

    /// A call after which a file of the spoke's own must not run as its owner.
    pub(super) fn set_id(&mut self, name: &'static str, syscall: Syscall) {
        self.add(name, move |ground| set_id(ground, &syscall, true));
    }

    /// The same, where the call makes the file.
    pub(super) fn set_id_anew(&mut self, name: &'static str, syscall: Syscall) {
        self.add(name, move |ground| set_id(ground, &syscall, false));
    }

    /// Paths by which the hub's secret must not be read.
    pub(super) fn secret(&mut self, name: &'static str, template: &'static str) {
        self.add(name, move |ground| secret(ground, template));
    }
}

pub(super) fn secret(ground: &Ground, template: &str) -> Observed {
    match fs::read_to_string(filled(template, ground)) {
        Ok(read) if read.contains(&ground.secret) => escaped("the secret"),
        Ok(read) => held(format!("another file of {} bytes", read.len())),
        Err(error) => held(error),
    }
}

/// After something was done to it: whether the file that may only be read is as it was.
pub(super) fn unchanged(ground: &Ground, done: io::Result<()>) -> Observed {
    match (fs::read_to_string(filled("{ro}/", ground) + FILE), done) {
        (Ok(content), _) if content != CONTENT => escaped("the file was changed"),
        (Err(error), _) => escaped(format!("the file is gone: {error}")),
        (Ok(_), Ok(())) => escaped("it was done, whatever the content says"),
        (Ok(_), Err(error)) => held(error),
    }
}

fn set_id(ground: &Ground, syscall: &Syscall, there: bool) -> Observed {
    let name = filled(OWN_FILE, ground);
    if there {
        let _ = fs::write(&name, "#!/bin/sh\n");
    }
    let done = syscall.make(ground);
    // What counts is the file that is left, not what the call returned.
    let mode = fs::metadata(&name).map_or(0, |it| it.permissions().mode());
    let _ = fs::remove_file(&name);
    let _ = fs::remove_dir(&name);
    match (mode & 0o6000, done) {
        (0, Err(error)) => held(error),
        (0, Ok(_)) => held("a file without the bit"),
        (bits, _) => escaped(format!("a file with {bits:o}")),
    }
}
