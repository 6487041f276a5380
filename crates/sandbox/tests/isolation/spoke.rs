//! The spoke's part: reads one attempt per line from descriptor 3, tries it, answers with one line of JSON.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Something that the spoke tries.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Attempt {
    /// Read a file (or list a directory).
    Read(String),
    /// Write a file.
    Write(String),
    /// Append bytes to a file until refused, at most so many MiB; answers how many went in.
    Fill(String, u64),
    /// The environment as `KEY=value` lines.
    Environment,
    /// The open descriptors, by number.
    Descriptors,
    /// The processes that are visible.
    Processes,
    /// User and group id, host name, own process id.
    Identity,
    /// Connect to a port of 127.0.0.1, send "ping", read the answer.
    Connect(u16),
    /// Listen on a port of 127.0.0.1 (0 for any), and connect to it.
    Serve(u16),
    /// A system call by number with arguments.
    Syscall(i64, [u64; 6]),
    /// Fork children until refused, at most so many; answers how many.
    ForkBomb(u32),
    /// Allocate and touch memory until refused, at most so many MiB; answers how many.
    Memory(u64),
    /// Run a program with arguments, answer its standard output.
    Run(Vec<String>),
    /// Start `sleep` as a daemonised grandchild with a mark in its arguments.
    Daemon(String),
    /// Connect to an abstract Unix socket.
    Abstract(String),
    /// Listen on a Unix socket at a path, and connect to it.
    ServeUnix(String),
    /// Connect to the Unix socket at a path, as a stream.
    ConnectUnix(String),
    /// Send a datagram to the Unix socket at a path, from a socket of this type of pair.
    SendUnix(String),
    /// Make a symbolic link: where it leads, where it lies.
    Link(String, String),
    /// Give a file a mode.
    SetMode(String, u32),
    /// Create a file with a mode.
    CreateWithMode(String, u32),
    /// Renames the first path to the second.
    Rename(String, String),
    /// Makes the second path a hard link to the first.
    HardLink(String, String),
    /// Create a directory with a mode.
    MakeDirectory(String, u32),
    /// Take shared memory from a device, so many bytes; answers what was done with it.
    SharedMemory(String, usize),
    /// Watch for changes of files with as many instances as can be had, at most so many; answers how many.
    Watchers(u32),
    /// End with this code.
    Exit(i32),
}

pub(crate) type Answer = Result<String, String>;

pub(crate) fn main() -> ExitCode {
    // Descriptor 3 is the channel, by the contract of `init_main`.
    // SAFETY: nothing else in this process owns descriptor 3.
    #[expect(unsafe_code, reason = "the channel is known by its number")]
    let channel = unsafe { UnixStream::from_raw_fd(3) };
    for line in BufReader::new(&channel).lines() {
        let Ok(line) = line else { break };
        let answer = match serde_json::from_str(&line) {
            Ok(attempt) => perform(attempt),
            Err(error) => Err(format!("not an attempt: {error}")),
        };
        let Ok(mut answer) = serde_json::to_string(&answer) else {
            return ExitCode::FAILURE;
        };
        answer.push('\n');
        if (&channel).write_all(answer.as_bytes()).is_err() {
            break;
        }
    }
    ExitCode::SUCCESS
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn perform(attempt: Attempt) -> Answer {
    match attempt {
        Attempt::Read(path) => match fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() => list(&path),
            _ => fs::read(&path)
                .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
                .map_err(text),
        },
        Attempt::Write(path) => fs::write(path, "written in the sandbox")
            .map(|()| String::new())
            .map_err(text),
        Attempt::Fill(path, most) => fill(&path, most),
        Attempt::Environment => Ok(std::env::vars()
            .map(|(key, value)| format!("{key}={value}"))
            .collect::<Vec<_>>()
            .join("\n")),
        Attempt::Descriptors => descriptors(),
        Attempt::Processes => list("/proc").map(|names| {
            let numbers = names.lines().filter(|name| name.parse::<u32>().is_ok());
            numbers.collect::<Vec<_>>().join("\n")
        }),
        Attempt::Identity => {
            let name = rustix::system::uname()
                .nodename()
                .to_string_lossy()
                .into_owned();
            let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
            Ok(format!(
                "{}:{} {name} {}",
                user.as_raw(),
                group.as_raw(),
                std::process::id()
            ))
        }
        Attempt::Connect(port) => connect(port),
        Attempt::Serve(port) => TcpListener::bind(("127.0.0.1", port))
            .and_then(|listener| {
                let mut client = TcpStream::connect(listener.local_addr()?)?;
                exchange(&mut client, &mut listener.accept()?.0)
            })
            .map_err(text),
        Attempt::ServeUnix(path) => UnixListener::bind(&path)
            .and_then(|listener| {
                let mut client = UnixStream::connect(path)?;
                exchange(&mut client, &mut listener.accept()?.0)
            })
            .map_err(text),
        Attempt::Syscall(number, arguments) => syscall(number, arguments),
        Attempt::ForkBomb(most) => fork_bomb(most),
        Attempt::Memory(most) => memory(most),
        Attempt::Run(words) => run(&words),
        Attempt::Daemon(mark) => daemon(&mark),
        Attempt::Abstract(name) => {
            use std::os::linux::net::SocketAddrExt;
            let address = std::os::unix::net::SocketAddr::from_abstract_name(name).map_err(text)?;
            UnixStream::connect_addr(&address)
                .map(|_| String::new())
                .map_err(text)
        }
        Attempt::ConnectUnix(path) => UnixStream::connect(path)
            .map(|_| String::new())
            .map_err(text),
        Attempt::SendUnix(path) => send_unix(&path),
        Attempt::Link(to, path) => std::os::unix::fs::symlink(to, path)
            .map(|()| String::new())
            .map_err(text),
        Attempt::SetMode(path, mode) => fs::set_permissions(path, fs::Permissions::from_mode(mode))
            .map(|()| String::new())
            .map_err(text),
        Attempt::Rename(from, to) => fs::rename(from, to).map(|()| String::new()).map_err(text),
        Attempt::HardLink(from, to) => fs::hard_link(from, to)
            .map(|()| String::new())
            .map_err(text),
        Attempt::CreateWithMode(path, mode) => fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(path)
            .map(|_| String::new())
            .map_err(text),
        Attempt::MakeDirectory(path, mode) => fs::DirBuilder::new()
            .mode(mode)
            .create(path)
            .map(|()| String::new())
            .map_err(text),
        Attempt::SharedMemory(path, bytes) => shared_memory(&path, bytes),
        Attempt::Watchers(most) => watchers(most),
        Attempt::Exit(code) => std::process::exit(code),
    }
}

fn exchange(client: &mut impl Write, server: &mut impl Read) -> std::io::Result<String> {
    client.write_all(b"ping")?;
    let mut heard = [0; 4];
    server.read_exact(&mut heard)?;
    Ok(String::from_utf8_lossy(&heard).into_owned())
}

fn list(path: &str) -> Answer {
    let mut names = Vec::new();
    for entry in fs::read_dir(path).map_err(text)? {
        names.push(
            entry
                .map_err(text)?
                .file_name()
                .to_string_lossy()
                .into_owned(),
        );
    }
    names.sort();
    Ok(names.join("\n"))
}

fn descriptors() -> Answer {
    let directory = fs::File::open("/proc/self/fd").map_err(text)?;
    let own = directory.as_raw_fd().to_string();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc/self/fd").map_err(text)? {
        let entry = entry.map_err(text)?;
        let number = entry.file_name().to_string_lossy().into_owned();
        // Not the two that look: the directory opened above, and the one that lists (whose link leads to the same).
        let target = fs::read_link(entry.path())
            .map_err(text)?
            .to_string_lossy()
            .into_owned();
        if number != own && !target.starts_with("/proc/") {
            found.push(format!("{number} {target}"));
        }
    }
    found.sort();
    Ok(found.join("\n"))
}

fn fill(path: &str, most: u64) -> Answer {
    let mut file = fs::File::create(path).map_err(text)?;
    let block = vec![1; 1 << 20];
    for written in 0..most {
        if file.write_all(&block).is_err() {
            return Ok(written.to_string());
        }
    }
    Ok(most.to_string())
}

fn connect(port: u16) -> Answer {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).map_err(text)?;
    stream
        .set_read_timeout(Some(Duration::from_secs(2)))
        .map_err(text)?;
    stream.write_all(b"ping").map_err(text)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(text)?;
    Ok(answer)
}

fn syscall(number: i64, [a, b, c, d, e, f]: [u64; 6]) -> Answer {
    // SAFETY: the tests pass numbers and null pointers only, to calls that must be refused before they look, or
    // that allocate something new.
    #[expect(unsafe_code, reason = "no safe wrapper offers these calls")]
    let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    if result == -1 {
        let error = std::io::Error::last_os_error();
        return Err(error
            .raw_os_error()
            .map_or_else(|| error.to_string(), errno_name));
    }
    Ok(result.to_string())
}

fn errno_name(number: i32) -> String {
    match number {
        libc::EPERM => "EPERM".to_owned(),
        libc::ENOSYS => "ENOSYS".to_owned(),
        other => format!("errno {other}"),
    }
}

fn fork_bomb(most: u32) -> Answer {
    let mut children = Vec::new();
    let mut refused = None;
    for _ in 0..most {
        // `sleep` and not a bare fork: what counts is real processes.
        match Command::new("/usr/bin/sleep")
            .arg("1000")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
        {
            Ok(child) => children.push(child),
            Err(error) => {
                refused = Some(error);
                break;
            }
        }
    }
    let count = children.len();
    for mut child in children {
        let _ = child.kill();
        let _ = child.wait();
    }
    match refused {
        Some(_) => Ok(count.to_string()),
        None => Err(format!("{count} children and none refused")),
    }
}

fn memory(most: u64) -> Answer {
    let mut blocks: Vec<Vec<u8>> = Vec::new();
    for count in 0..most {
        let mut block = Vec::new();
        if block.try_reserve_exact(1 << 20).is_err() {
            drop(blocks);
            return Ok(count.to_string());
        }
        block.resize(1 << 20, 7);
        blocks.push(block);
    }
    Err(format!("{most} MiB and none refused"))
}

fn run(words: &[String]) -> Answer {
    let (program, arguments) = words.split_first().ok_or("no program")?;
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(text)?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    } else {
        Err(format!(
            "{}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        ))
    }
}

fn daemon(mark: &str) -> Answer {
    // The shell leaves the grandchild behind, in a session of its own.
    let script = format!("(setsid sleep {mark} >/dev/null 2>&1 &) ");
    run(&["/bin/sh".to_owned(), "-c".to_owned(), script])
}

/// A datagram socket need not be connected by `connect`: each datagram can name where it goes.
fn send_unix(path: &str) -> Answer {
    let socket = UnixDatagram::unbound().or_else(|_| UnixDatagram::pair().map(|(one, _)| one));
    let sent = socket.and_then(|socket| socket.send_to(b"ping", path));
    sent.map(|_| String::new()).map_err(text)
}

fn shared_memory(path: &str, bytes: usize) -> Answer {
    let file = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .map_err(text)?;
    // SAFETY: the kernel chooses a fresh place, nothing else knows it, and it is written within its length only.
    #[expect(unsafe_code, reason = "no safe wrapper maps memory")]
    unsafe {
        let (read_write, shared) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        let place = libc::mmap(
            std::ptr::null_mut(),
            bytes,
            read_write,
            shared,
            file.as_raw_fd(),
            0,
        );
        if place == libc::MAP_FAILED {
            return Err(text(std::io::Error::last_os_error()));
        }
        std::ptr::write_bytes(place.cast::<u8>(), 7, bytes);
        libc::munmap(place, bytes);
    }
    Ok(format!("{bytes} bytes written"))
}

fn watchers(most: u32) -> Answer {
    let mut held = Vec::new();
    for _ in 0..most {
        // SAFETY: the call takes a number and returns a new descriptor.
        #[expect(unsafe_code, reason = "no safe wrapper in use here offers it")]
        let instance = unsafe { libc::inotify_init1(libc::IN_CLOEXEC) };
        if instance < 0 {
            return Ok(held.len().to_string());
        }
        // SAFETY: it is new (above), and nothing else owns it.
        #[expect(unsafe_code, reason = "raw number to descriptor")]
        held.push(unsafe { OwnedFd::from_raw_fd(instance) });
    }
    Err(format!("{most} instances and none refused"))
}
