//! What lies on the host beside a spoke, and what became of it.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use sandbox::{Access, Limits, Mount};

use crate::Error;
use crate::attempt::{
    CONTENT, FILE, Ground, LATE_SOCKET, LINK, SET_ID_PROGRAM, SOCKET, Seen, Setting, escaped, held,
};
use crate::inside::places;
use crate::kernel::{call, flag};

/// Small, so that going beyond each is quick.
pub(crate) const LIMITS: Limits = Limits {
    memory_bytes: 64 << 20,
    processes: 40,
    open_files: 64,
    file_bytes: 4 << 20,
    tmp_bytes: 8 << 20,
    address_space_bytes: sandbox::defaults::ADDRESS_SPACE_BYTES,
    cpu_seconds: None,
};
/// A user id that is nobody's here, for a program that would run under it.
const ANOTHER_USER: u32 = 12_345;
/// An entry of the hub's environment.
pub(crate) const VARIABLE: &str = "SLUICE_ESCAPES_SECRET";

/// The folders that are mounted: to read, to write, and to execute.
const FOLDERS: [&str; 3] = ["ro", "rw", "bin"];

type Arrivals = Arc<Mutex<Vec<String>>>;

pub(crate) struct World {
    /// Removed in the end.
    _folder: tempfile::TempDir,
    base: PathBuf,
    secret: String,
    arrivals: Arrivals,
    victim: Child,
    /// Its niceness, which is that of the shell that started all of this.
    niceness: Option<i64>,
    queue: Option<i32>,
    tcp: u16,
    udp: u16,
    /// A port of 127.0.0.2 of the host.
    pub(crate) relayed: u16,
    abstract_name: String,
    pipe: fs::File,
    /// The file that may only be read, as it was.
    before: Vec<String>,
}

impl World {
    pub(crate) fn new() -> Result<Self, Error> {
        let folder = tempfile::tempdir()?;
        let base = folder.path().canonicalize()?;
        fs::set_permissions(&base, fs::Permissions::from_mode(0o755))?;
        for name in FOLDERS {
            fs::create_dir(base.join(name))?;
        }
        let secret = format!("secret of {}", std::process::id());
        fs::write(base.join("secret"), &secret)?;
        fs::write(base.join("ro").join(FILE), CONTENT)?;
        symlink(base.join("secret"), base.join("ro").join(LINK))?;
        for folder in ["rw", "bin"] {
            set_id_program(&base.join(folder).join(SET_ID_PROGRAM))?;
        }
        let arrivals = Arrivals::default();
        let tcp = listen("[::]:0".parse()?, "TCP", &arrivals)?;
        let relayed = listen("127.0.0.2:0".parse()?, "TCP on a permitted port", &arrivals)?;
        let udp = datagrams(&arrivals)?;
        let abstract_name = format!("sluice-escapes-{}", std::process::id());
        abstract_sockets(&abstract_name, &arrivals)?;
        for folder in FOLDERS {
            sockets(&base.join(folder), SOCKET, &arrivals)?;
        }
        let pipe = pipe(&base.join("ro"))?;
        // A copy with a name of its own, by which an attempt would know it in `/proc`.
        let victim = base.join(format!("victim-{}", std::process::id()));
        fs::copy("/usr/bin/sleep", &victim)?;
        let victim = Command::new(victim)
            .arg("1000")
            .stdin(Stdio::null())
            .spawn()?;
        let queue = call(libc::SYS_msgget, [0, flag(libc::IPC_CREAT | 0o600)]);
        let before = about_read_only(&base)?;
        Ok(Self {
            _folder: folder,
            base,
            secret,
            arrivals,
            niceness: niceness(victim.id()),
            victim,
            tcp,
            udp,
            relayed,
            abstract_name,
            pipe,
            before,
            queue: queue.ok().and_then(|it| i32::try_from(it).ok()),
        })
    }

    /// Name of the process that a spoke must not reach.
    fn victim_name(&self) -> String {
        format!("victim-{}", std::process::id())
    }

    /// The mounts of the spoke: at places of its own, or, where there is no mount namespace, where they are.
    pub(crate) fn mounts(&self, in_place: bool) -> Vec<Mount> {
        let mount = |name: &str, access, executable| Mount {
            source: self.base.join(name),
            target: self.target(name, in_place),
            access,
            executable,
        };
        vec![
            mount("ro", Access::ReadOnly, false),
            mount("rw", Access::ReadWrite, false),
            mount("bin", Access::ReadOnly, true),
        ]
    }

    fn target(&self, name: &str, in_place: bool) -> PathBuf {
        match in_place {
            true => self.base.join(name),
            false => Path::new("/data").join(name),
        }
    }

    pub(crate) fn ground(&self, in_place: bool) -> Ground {
        let at = |name: &str| self.target(name, in_place).display().to_string();
        let there = places().filter(|place| Path::new(place).symlink_metadata().is_ok());
        Ground {
            mounts: [at("ro"), at("rw"), at("bin")],
            secret_path: self.base.join("secret").display().to_string(),
            secret: self.secret.clone(),
            hub_variable: VARIABLE.to_owned(),
            tcp: self.tcp,
            udp: self.udp,
            relayed: self.relayed,
            host_address: host_address(),
            unix: format!("{}/{SOCKET}", at("ro")),
            abstract_name: self.abstract_name.clone(),
            hub: std::process::id().cast_signed(),
            victim: self.victim.id().cast_signed(),
            victim_name: self.victim_name(),
            host_name: rustix::system::uname()
                .nodename()
                .to_string_lossy()
                .into_owned(),
            queue: self.queue,
            another_user: ANOTHER_USER,
            hub_is_root: rustix::process::geteuid().is_root(),
            processes: LIMITS.processes,
            memory_bytes: LIMITS.memory_bytes,
            tmp_bytes: LIMITS.tmp_bytes,
            file_bytes: LIMITS.file_bytes,
            open_files: LIMITS.open_files,
            control_group: false,
            setting: Setting::Folders,
            own_pids: true,
            there: there.map(str::to_owned).collect(),
            only: Vec::new(),
        }
    }

    /// Servers of the host that begin when the spoke runs.
    pub(crate) fn make_late_sockets(&self) -> Result<(), Error> {
        sockets(&self.base.join("bin"), LATE_SOCKET, &self.arrivals)
    }

    /// Looks at everything again, when the spoke is gone.
    pub(crate) fn look(&mut self) -> Vec<Seen> {
        let read_only = match about_read_only(&self.base) {
            Ok(now) if now == self.before => held("as it was"),
            Ok(now) => escaped(format!("{:?} became {now:?}", self.before)),
            Err(error) => escaped(error),
        };
        let secret = match fs::read_to_string(self.base.join("secret")) {
            Ok(now) if now == self.secret => held("as it was"),
            other => escaped(format!("{other:?}")),
        };
        // No thread reads the pipe, so what was written is still in it.
        let _ = self.pipe.read(&mut [0; 64]).map(|length| match length {
            0 => {}
            _ => arrived(&self.arrivals, "the named pipe"),
        });
        let arrivals = self
            .arrivals
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let arrivals = match arrivals.is_empty() {
            true => held("nothing arrived"),
            false => escaped(arrivals.join(", ")),
        };
        let left = match left_behind(&self.base.join("rw")) {
            Ok(left) if left.is_empty() => held("files of this user, without special bits"),
            Ok(left) => escaped(left.join(", ")),
            Err(error) => escaped(error),
        };
        let victim = match (self.victim.try_wait(), niceness(self.victim.id())) {
            (Ok(None), nice) if nice.is_some() && nice == self.niceness => {
                held("it runs as before")
            }
            (ended, nice) => escaped(format!("{ended:?}, niceness {nice:?}")),
        };
        let named = [
            ("outside: the read-only mount", read_only),
            ("outside: the hub's secret", secret),
            ("outside: the host's listeners", arrivals),
            ("outside: the writable mount", left),
            ("outside: a process of the host", victim),
        ];
        let seen = named.map(|(name, observed)| Seen {
            name: name.to_owned(),
            observed,
        });
        seen.into()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
        if let Some(queue) = self.queue {
            let _ = call(libc::SYS_msgctl, [flag(queue), flag(libc::IPC_RMID), 0]);
        }
    }
}

/// A copy of `id` that belongs to another user, where this one may give it away, and runs as its owner.
fn set_id_program(path: &Path) -> Result<(), Error> {
    fs::copy("/usr/bin/id", path)?;
    // The owner before the mode: `chown` clears the bit that makes a program run as its owner.
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(path, Some(ANOTHER_USER), Some(ANOTHER_USER))?;
    }
    Ok(fs::set_permissions(
        path,
        fs::Permissions::from_mode(0o4755),
    )?)
}

fn arrived(arrivals: &Arrivals, what: &str) {
    arrivals
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(what.to_owned());
}

/// Answers whoever connects, and remembers that somebody did.
fn listen(at: SocketAddr, what: &'static str, arrivals: &Arrivals) -> Result<u16, Error> {
    let listener = TcpListener::bind(at)?;
    let port = listener.local_addr()?.port();
    let arrivals = Arc::clone(arrivals);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            arrived(&arrivals, what);
            // An echo of the mark, by which an attempt tells this listener from the end of a relay.
            let mut said = [0; 7];
            let mut stream = stream;
            let _ = stream.set_read_timeout(Some(std::time::Duration::from_millis(500)));
            let _ = stream.read(&mut said).and_then(|_| stream.write_all(&said));
        }
    });
    Ok(port)
}

fn datagrams(arrivals: &Arrivals) -> Result<u16, Error> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    let port = socket.local_addr()?.port();
    let arrivals = Arc::clone(arrivals);
    std::thread::spawn(move || {
        let mut said = [0; 64];
        while let Ok((_, from)) = socket.recv_from(&mut said) {
            arrived(&arrivals, "UDP");
            let _ = socket.send_to(b"!", from);
        }
    });
    Ok(port)
}

/// Unix sockets of the host with this abstract name.
fn abstract_sockets(name: &str, arrivals: &Arrivals) -> Result<(), Error> {
    let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
    accept(
        UnixListener::bind_addr(&address)?,
        "an abstract Unix socket",
        arrivals,
    );
    let datagrams = UnixDatagram::bind_addr(&address)?;
    receive(datagrams, "an abstract Unix socket of datagrams", arrivals);
    Ok(())
}

/// Unix sockets of the host in a folder, which every user may use.
fn sockets(folder: &Path, name: &str, arrivals: &Arrivals) -> Result<(), Error> {
    let streams = folder.join(name);
    let datagrams = folder.join(format!("{name}-datagrams"));
    accept(
        UnixListener::bind(&streams)?,
        "a Unix socket in a mount",
        arrivals,
    );
    let what = "a Unix socket of datagrams in a mount";
    receive(UnixDatagram::bind(&datagrams)?, what, arrivals);
    for path in [streams, datagrams] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o777))?;
    }
    Ok(())
}

fn accept(listener: UnixListener, what: &'static str, arrivals: &Arrivals) {
    let arrivals = Arc::clone(arrivals);
    std::thread::spawn(move || {
        for _ in listener.incoming().flatten() {
            arrived(&arrivals, what);
        }
    });
}

fn receive(socket: UnixDatagram, what: &'static str, arrivals: &Arrivals) {
    let arrivals = Arc::clone(arrivals);
    std::thread::spawn(move || {
        while socket.recv(&mut [0; 64]).is_ok() {
            arrived(&arrivals, what);
        }
    });
}

/// A named pipe in the folder, whose reading end is returned.
fn pipe(folder: &Path) -> Result<fs::File, Error> {
    // By `mknodat`, for which the standard library has no function: 0o010_666 is a named pipe that everybody may use.
    let pipe = folder.join(format!("{SOCKET}-pipe"));
    let name = crate::kernel::path(&pipe.display().to_string());
    call(
        libc::SYS_mknodat,
        [
            crate::kernel::minus(libc::AT_FDCWD),
            crate::kernel::of(&name),
            0o010_666,
            0,
        ],
    )?;
    // Open for both, so that it stays open; and without waiting.
    Ok(fs::OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(pipe)?)
}

/// Names, modes, times and contents in the folder that may only be read.
fn about_read_only(base: &Path) -> Result<Vec<String>, Error> {
    let mut about = Vec::new();
    for entry in fs::read_dir(base.join("ro"))? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        let content = match metadata.is_file() {
            true => fs::read_to_string(entry.path())?,
            false => String::new(),
        };
        let name = entry.file_name().to_string_lossy().into_owned();
        let (mode, links) = (metadata.mode(), metadata.nlink());
        about.push(format!(
            "{name} {mode:o} {links} {}.{} {content}",
            metadata.mtime(),
            metadata.mtime_nsec()
        ));
    }
    about.sort();
    Ok(about)
}

/// What is in the writable folder that must not be: special files, special bits, other owners, names of other files.
fn left_behind(folder: &Path) -> Result<Vec<String>, Error> {
    let own = rustix::process::geteuid().as_raw();
    let mut left = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (name, metadata) = (
            entry.file_name().to_string_lossy().into_owned(),
            entry.metadata()?,
        );
        // Put there by the host.
        if name == SET_ID_PROGRAM || name.starts_with(SOCKET) {
            continue;
        }
        let kind = metadata.file_type();
        let special =
            kind.is_socket() || kind.is_char_device() || kind.is_block_device() || kind.is_fifo();
        if special
            || metadata.mode() & 0o6000 != 0
            || metadata.uid() != own
            || metadata.nlink() > 1 && metadata.is_file()
        {
            left.push(format!("{name} {:o}", metadata.mode()));
        }
    }
    Ok(left)
}

fn niceness(process: u32) -> Option<i64> {
    field(process, 19)
}

/// The process that started a process, or took it over.
pub(crate) fn parent(process: u32) -> Option<i64> {
    field(process, 4)
}

/// A field of a process's line (proc(5)), from the third on.
fn field(process: u32, number: usize) -> Option<i64> {
    let line = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The second field is the name, in parentheses, with whatever in it. Behind it comes the third.
    let (_, rest) = line.rsplit_once(") ")?;
    rest.split(' ').nth(number.checked_sub(3)?)?.parse().ok()
}

/// The address by which this machine would be seen outside; nothing is sent.
fn host_address() -> Option<String> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    Some(socket.local_addr().ok()?.ip().to_string())
}
