//! The file tree of a spoke: a fresh root in which only what was put there exists.
//!
//! Sources are opened without following a symbolic link (see `sources`) and cloned as detached mounts first, with their
//! attributes set before anything can be reached through them, then attached to targets that are walked to in the same way.

use std::ffi::OsString;
use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use libc::{MOUNT_ATTR_NODEV, MOUNT_ATTR_NOEXEC, MOUNT_ATTR_NOSUID, MOUNT_ATTR_RDONLY};
use rustix::fs::{
    CWD, Dir, FileType, Mode, OFlags, ResolveFlags, fstat, mkdirat, openat, openat2, symlinkat,
};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, UnmountFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen,
    mount_change, move_mount, open_tree, unmount,
};
use rustix::termios::ttyname;
use rustix::thread::UnshareFlags;

use super::layers::{Failure, Layers};
use super::namespaces;
use super::sources::{self, Source};
use crate::control::Request;
use crate::layer::NO_SOCKETS;
use crate::spec::{PROGRAM_TMP_FILES, TMP_FILES};
use crate::sys;
use crate::{Access, Layer, Limits, Mount, Spec};

/// Where the spoke binary lies inside.
const PROGRAM: &str = "/sluice-spoke";
/// Directories of the system, read-only. Where one is a link into another (as `/bin` to `usr/bin`), so it is inside.
pub const SYSTEM: [&str; 7] = [
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32",
];
/// Where services that were built on the host may have their sockets, below [`SYSTEM`].
const LOCAL: &str = "/usr/local";
/// Settings of the host below [`SYSTEM`], which may hold keys as `/etc` does: an empty folder covers each.
const COVERED: [&str; 2] = ["/usr/etc", "/usr/local/etc"];
/// Parts of `/etc` that programs need, and that hold no secret (so not `/etc/ssl`, which has private keys below it).
pub const ETC: [&str; 11] = [
    "/etc/ld.so.cache",
    "/etc/chromium.d",
    "/etc/fonts",
    "/etc/localtime",
    "/etc/alternatives",
    "/etc/ssl/certs",
    "/etc/ssl/cert.pem",
    "/etc/ssl/openssl.cnf",
    "/etc/pki/tls/certs",
    "/etc/pki/ca-trust/extracted",
    "/etc/ca-certificates/extracted",
];
/// Files of `/etc` that would tell about the host, in a version that does not.
const SYNTHETIC: [(&str, &str); 4] = [
    (
        "etc/passwd",
        "root:x:0:0:root:/:/usr/sbin/nologin\nspoke:x:1000:1000:spoke:/tmp:/bin/sh\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n",
    ),
    ("etc/group", "root:x:0:\nspoke:x:1000:\nnogroup:x:65534:\n"),
    ("etc/hosts", "127.0.0.1 localhost spoke\n"),
    ("etc/hostname", "spoke\n"),
];
/// The same of what tells programs where to ask for names: a spoke without names has no resolver.
const WITHOUT_NAMES: [(&str, &str); 2] = [
    (
        "etc/nsswitch.conf",
        "passwd: files\ngroup: files\nhosts: files\n",
    ),
    ("etc/resolv.conf", ""),
];
/// And a spoke with names has the hub. The C libraries, Go, Node and Python read one of the two files or both.
const WITH_NAMES: [(&str, &str); 2] = [
    (
        "etc/nsswitch.conf",
        "passwd: files\ngroup: files\nhosts: files dns\n",
    ),
    (
        "etc/resolv.conf",
        "nameserver 127.0.0.1\noptions timeout:3 attempts:2\n",
    ),
];
/// Devices without memory and without neighbours. A `/dev/zero` that is open for writing gives shared memory, which no
/// limit counts.
const DEVICES: [(&str, Rights); 5] = [
    ("/dev/null", Rights::Device),
    ("/dev/zero", Rights::Read),
    ("/dev/full", Rights::Device),
    ("/dev/random", Rights::Device),
    ("/dev/urandom", Rights::Device),
];
/// The controlling terminal, for a program of the user's: only that of its own session is behind it.
const TTY: (&str, Rights) = ("/dev/tty", Rights::Terminal);
/// Where a program makes terminals of its own: an instance that has no others.
const PTS: &str = "/dev/pts";
/// Most such terminals. An agent has one for each command that it runs.
const MOST_PTS: &str = "128";
/// Under which name a program finds the terminal that it was given, which is none of its own. (C libraries look for the name
/// of a terminal in `/dev`.)
const CONSOLE: &str = "/dev/console";
/// Links that programs expect.
const LINKS: [(&str, &str); 6] = [
    ("/proc/self/fd", "dev/fd"),
    ("/proc/self/fd/0", "dev/stdin"),
    ("/proc/self/fd/1", "dev/stdout"),
    ("/proc/self/fd/2", "dev/stderr"),
    ("/tmp", "dev/shm"),
    ("../usr/lib/os-release", "etc/os-release"),
];
/// What covers files and folders of `/proc`: a file that no user may read, and an empty folder.
const NO_FILE: &str = "no-file";
const NO_FOLDER: &str = "no-folder";
/// Where the new root is attached until it becomes the root. Every system has it, and nothing is opened there meanwhile.
const BASE: &str = "/usr";
/// Bytes of the new root; it holds a few small files and directories, and is read-only afterwards.
const ROOT_BYTES: u64 = 1 << 20;

/// What a spoke may do with a path; the Landlock rules are made of this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rights {
    Read,
    ReadExecute,
    ReadWrite,
    ReadWriteExecute,
    OwnSockets,
    OwnPipes,
    Device,
    Terminal,
}

/// The tree as the spoke will see it.
#[derive(Debug)]
pub(super) struct View {
    /// The spoke binary.
    pub(super) program: PathBuf,
    /// Everything that may be reached, and how.
    pub(super) rules: Vec<(Place, Rights)>,
    /// Whether no Unix socket of the host can be reached in it.
    pub(super) own_sockets: bool,
}

/// Where a rule holds.
#[derive(Debug)]
pub(super) enum Place {
    /// What is there under this name. For names that no app can lead elsewhere: of the system, or in a tree of our own.
    Named(PathBuf),
    /// What was opened.
    Opened(Source),
}

/// The binary that this process runs, by a path that is known to lead to it.
#[derive(Debug)]
pub(super) struct Program(PathBuf);

impl Program {
    pub(super) fn find() -> Result<Self, Failure> {
        let find = || -> std::io::Result<Option<PathBuf>> {
            let path = fs::read_link("/proc/self/exe")?;
            // An update may have put another file there meanwhile, and the spoke would run an unchecked program.
            let (running, found) = (fs::metadata("/proc/self/exe")?, fs::metadata(&path)?);
            Ok((running.dev() == found.dev() && running.ino() == found.ino()).then_some(path))
        };
        match find() {
            Ok(Some(path)) => Ok(Self(path)),
            Ok(None) => Err(Failure::plain(
                "the spoke binary was replaced while it started; start again",
            )),
            Err(error) => Err(Failure::plain(format!(
                "find the spoke binary: {error}; was it replaced? start again"
            ))),
        }
    }
}

/// What the tree of a program that the user works with has beside that of a server.
#[derive(Debug)]
struct Desk {
    /// The terminal that it was given, by its name on the host.
    terminal: Option<PathBuf>,
}

impl Desk {
    fn of(request: &Request, terminal: Option<BorrowedFd<'_>>) -> Option<Self> {
        let name = terminal.and_then(|terminal| ttyname(terminal, Vec::new()).ok());
        let terminal = name.map(|name| PathBuf::from(OsString::from_vec(name.into_bytes())));
        request.program.then_some(Self { terminal })
    }
}

/// Makes the tree and moves into it.
pub(super) fn enter(
    layers: &mut Layers,
    request: &Request,
    program: &Program,
    terminal: Option<BorrowedFd<'_>>,
    own_processes: bool,
) -> Result<View, Failure> {
    let (spec, desk) = (&request.spec, Desk::of(request, terminal));
    let desk = desk.as_ref();
    // Abstract names are those of the network, and without the other an overlay shows what mounts of the host cover.
    let needed = [Layer::NetNamespace, Layer::UserNamespace];
    let missing = needed.into_iter().find(|layer| !layers.has(*layer));
    let mut host_sockets = missing.map(|layer| format!("the layer {layer} is not in force"));
    let outcome = match enter_own_tree(spec, program, desk, own_processes, &mut host_sockets) {
        Ok((verified, note)) => {
            note.into_iter().for_each(|note| layers.note(note));
            Ok(verified)
        }
        Err(Failure {
            layer: Some(_),
            reason,
        }) => Err(reason),
        // What is no fault of the kernel, as a wrong source, is not cured by giving up the layer.
        Err(failure) => return Err(failure),
    };
    if layers.record(Layer::MountNamespace, outcome)? {
        let own_sockets = host_sockets.is_none();
        let why = host_sockets.map(|why| format!("{NO_SOCKETS}: {why}"));
        why.into_iter().for_each(|note| layers.note(note));
        Ok(view_inside(spec, desk, own_sockets))
    } else {
        view_on_host(spec, desk, program)
    }
}

fn view_inside(spec: &Spec, desk: Option<&Desk>, own_sockets: bool) -> View {
    let mut rules = common_rules(desk);
    let (temporary, terminals) = match desk {
        None => (Rights::ReadWrite, None),
        Some(_) => (Rights::ReadWriteExecute, Some([PTS, CONSOLE])),
    };
    let terminals = terminals.into_iter().flatten();
    rules.extend(terminals.map(|path| (place_of(path), Rights::Terminal)));
    // To look for the name of a terminal.
    rules.extend(desk.map(|_| (place_of("/dev"), Rights::Read)));
    rules.push((place_of("/etc"), Rights::Read));
    rules.push((place_of("/proc"), Rights::Read));
    rules.push((place_of("/tmp"), temporary));
    rules.extend(desk.map(|_| (place_of("/tmp"), Rights::OwnPipes)));
    rules.extend(own_sockets.then(|| (place_of("/tmp"), Rights::OwnSockets)));
    rules.push((place_of(PROGRAM), Rights::ReadExecute));
    // The way to each target was walked without following a link when it was attached.
    let mounts = spec.mounts.iter();
    rules.extend(mounts.map(|mount| (place_of(&mount.target), rights(mount))));
    View {
        program: PathBuf::from(PROGRAM),
        rules,
        own_sockets,
    }
}

/// Without a tree of its own the spoke sees the host's, and only Landlock stands before it: what a mount would have
/// moved or hidden cannot be had then.
fn view_on_host(spec: &Spec, desk: Option<&Desk>, program: &Program) -> Result<View, Failure> {
    let mut rules = common_rules(desk);
    rules.extend(ETC.iter().map(|path| (place_of(path), Rights::Read)));
    rules.push((place_of(&program.0), Rights::ReadExecute));
    for (mount, source) in spec.mounts.iter().zip(sources::open(&spec.mounts)?) {
        if mount.source != mount.target {
            let (source, target) = (mount.source.display(), mount.target.display());
            return Err(Failure::plain(format!(
                "without a mount namespace {source} cannot be shown as {target}"
            )));
        }
        rules.push((Place::Opened(source), rights(mount)));
    }
    Ok(View {
        program: program.0.clone(),
        rules,
        own_sockets: false,
    })
}

fn common_rules(desk: Option<&Desk>) -> Vec<(Place, Rights)> {
    let system = SYSTEM.into_iter().map(|path| (path, Rights::ReadExecute));
    let rules = system.chain(DEVICES).chain(desk.map(|_| TTY));
    rules
        .map(|(path, rights)| (place_of(path), rights))
        .collect()
}

fn place_of(path: impl Into<PathBuf>) -> Place {
    Place::Named(path.into())
}

fn rights(mount: &Mount) -> Rights {
    match (mount.access, mount.executable) {
        (Access::ReadOnly, false) => Rights::Read,
        (Access::ReadOnly, true) => Rights::ReadExecute,
        (Access::ReadWrite, false) => Rights::ReadWrite,
        (Access::ReadWrite, true) => Rights::ReadWriteExecute,
    }
}

/// A failure of the kernel, so of the layer.
fn denied(what: impl Into<String>) -> impl FnOnce(Errno) -> Failure {
    let what = what.into();
    move |errno| Failure::of(Layer::MountNamespace, format!("{what}: {errno}"))
}

/// Returns what was verified, and a note when there is no `/proc`. `host_sockets` is the reason if a Unix socket of the host
/// could be reached in the tree.
fn enter_own_tree(
    spec: &Spec,
    program: &Program,
    desk: Option<&Desk>,
    own_processes: bool,
    host_sockets: &mut Option<String>,
) -> Result<(String, Option<String>), Failure> {
    let verified = namespaces::enter("mnt", UnshareFlags::NEWNS)
        .map_err(|reason| Failure::of(Layer::MountNamespace, reason))?;
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    // A shared mount would show on the host what is mounted here.
    mount_change("/", private).map_err(denied("make the mounts private"))?;
    let pieces = pieces(spec, program, desk, host_sockets)?;
    let root = tmpfs(
        ROOT_BYTES,
        TMP_FILES,
        "755",
        MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV,
    )
    .map_err(denied("make the root"))?;
    let (detached, anywhere) = (MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH, CWD);
    move_mount(&root, "", anywhere, BASE, detached).map_err(denied("attach the root"))?;

    let finish = || {
        let note = populate(&root, spec, desk, pieces, own_processes, host_sockets)?;
        rustix::process::fchdir(&root).map_err(denied("enter the root"))?;
        // Not `chroot`, which leaves the old root mounted and can be climbed out of.
        rustix::process::pivot_root(".", ".").map_err(denied("change the root"))?;
        Ok(note)
    };
    let note = finish().inspect_err(|_| {
        // The layer may have been given up; then the spoke runs in the host's tree, and needs what lies below.
        let _ = unmount(BASE, UnmountFlags::DETACH);
    })?;
    // The old root lies over the new one at this moment; from here on nothing of the host can be named.
    unmount(".", UnmountFlags::DETACH)
        .map_err(|errno| Failure::plain(format!("leave the old root: {errno}")))?;
    rustix::process::chdir("/")
        .map_err(|errno| Failure::plain(format!("enter the new root: {errno}")))?;
    // The root alone: `/tmp` and the mounts below it have attributes of their own.
    sys::set_mount_attributes(&root, MOUNT_ATTR_RDONLY, false)
        .map_err(|errno| Failure::plain(format!("make the root read-only: {errno}")))?;
    Ok((verified, note))
}

/// A part of the host's tree, cloned with its attributes set, and where it belongs.
struct Piece {
    tree: OwnedFd,
    target: PathBuf,
    directory: bool,
    /// A file system of our own, in which targets of mounts are made.
    ours: bool,
    /// The folder, if a socket of the host may lie in it. Folders of the distribution hold none: its packages alone write
    /// there, and their services have their sockets in `/run`.
    source: Option<OwnedFd>,
}

/// Clones everything that is bound from the host. Later nothing of the host is opened any more.
fn pieces(
    spec: &Spec,
    program: &Program,
    desk: Option<&Desk>,
    host_sockets: &mut Option<String>,
) -> Result<Vec<Piece>, Failure> {
    let read_only = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
    let mut pieces = Vec::new();
    for path in SYSTEM
        .iter()
        .map(Path::new)
        .filter(|path| is_real_directory(path))
    {
        pieces.push(piece(path, path, read_only)?);
    }
    let local = Path::new(LOCAL);
    if is_real_directory(local) {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let source = openat(CWD, local, flags, Mode::empty());
        pieces.push(Piece {
            source: Some(source.map_err(denied(format!("open {LOCAL}")))?),
            ..piece(local, local, read_only)?
        });
    }
    for target in COVERED
        .iter()
        .filter_map(|path| fs::canonicalize(path).ok())
    {
        // A link may lead to where nothing of the host is shown.
        if SYSTEM.iter().any(|system| target.starts_with(system)) {
            let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
            let tree = tmpfs(ROOT_BYTES, TMP_FILES, "755", attributes);
            pieces.push(Piece {
                tree: tree.map_err(denied(format!("cover {}", target.display())))?,
                target,
                directory: true,
                ours: true,
                source: None,
            });
        }
    }
    for path in ETC.iter().map(Path::new).filter(|path| path.exists()) {
        pieces.push(piece(path, path, read_only | MOUNT_ATTR_NOEXEC)?);
    }
    let devices = DEVICES.into_iter().chain(desk.map(|_| TTY));
    for path in devices.map(|(path, _)| Path::new(path)) {
        // Without NODEV, which would make these files useless: they are the only devices that a spoke has.
        pieces.push(piece(path, path, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC)?);
    }
    if let Some(terminal) = desk.and_then(|desk| desk.terminal.as_deref()) {
        let attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC;
        pieces.push(piece(terminal, Path::new(CONSOLE), attributes)?);
    }
    pieces.push(piece(&program.0, Path::new(PROGRAM), read_only)?);
    // Outer targets first, so that an inner one is not covered.
    let mut mounts: Vec<_> = spec
        .mounts
        .iter()
        .zip(sources::open(&spec.mounts)?)
        .collect();
    mounts.sort_by_key(|(mount, _)| mount.target.components().count());
    for (mount, source) in mounts {
        // A connection takes the rights of the socket, not those of the mount.
        if source.directory && (mount.access, mount.executable) != (Access::ReadOnly, true) {
            *host_sockets = Some(format!(
                "it sees {}, where a socket of this machine could be",
                mount.source.display()
            ));
        }
        let write = if mount.access == Access::ReadOnly {
            MOUNT_ATTR_RDONLY
        } else {
            0
        };
        let execute = if mount.executable {
            0
        } else {
            MOUNT_ATTR_NOEXEC
        };
        let attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | write | execute;
        let tree = clone(&source.place, Path::new(""), attributes)
            .map_err(denied(format!("clone {}", mount.source.display())))?;
        pieces.push(Piece {
            tree,
            target: mount.target.clone(),
            directory: source.directory,
            ours: false,
            source: source.directory.then_some(source.place),
        });
    }
    Ok(pieces)
}

fn is_real_directory(path: &Path) -> bool {
    path.symlink_metadata()
        .is_ok_and(|metadata| metadata.is_dir())
}

/// A part of the system, by a name that only its administrator can lead elsewhere.
fn piece(source: &Path, target: &Path, attributes: u64) -> Result<Piece, Failure> {
    let failed = || denied(format!("clone {}", source.display()));
    let tree = clone(CWD, source, attributes).map_err(failed())?;
    let directory = fstat(&tree).map_err(failed())?.st_mode & libc::S_IFMT == libc::S_IFDIR;
    Ok(Piece {
        tree,
        target: target.to_owned(),
        directory,
        ours: false,
        source: None,
    })
}

/// Clones the tree at `path` below `place`, or at `place` itself if the path is empty.
fn clone(place: impl AsFd, path: &Path, attributes: u64) -> Result<OwnedFd, Errno> {
    // Recursive: mounts below are locked to the one above and cannot be left out (and what they cover must stay covered).
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_EMPTY_PATH;
    let tree = open_tree(place, path, flags)?;
    sys::set_mount_attributes(&tree, attributes, true)?;
    Ok(tree)
}

/// Lays a folder of a program over an empty one. A socket is known by its inode, and here each file has another one, so that
/// not even a socket that is made later can be connected to. Not for documents: what the host changes may not show.
fn overlay(folder: &OwnedFd, empty: &OwnedFd) -> Result<OwnedFd, Errno> {
    let path = |folder: &OwnedFd| format!("/proc/self/fd/{}", folder.as_raw_fd());
    let layers = format!("{}:{}", path(folder), path(empty));
    let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY
        | MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV;
    file_system("overlay", &[("lowerdir", &layers)], attributes)
}

/// Fills the new root. Returns a note when there is no `/proc`.
fn populate(
    root: &OwnedFd,
    spec: &Spec,
    desk: Option<&Desk>,
    pieces: Vec<Piece>,
    own_processes: bool,
    host_sockets: &mut Option<String>,
) -> Result<Option<String>, Failure> {
    let no_power = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let (files, attributes) = match desk {
        None => (TMP_FILES, no_power),
        Some(_) => (
            TMP_FILES * PROGRAM_TMP_FILES,
            no_power - MountAttrFlags::MOUNT_ATTR_NOEXEC,
        ),
    };
    let temporary = tmpfs(spec.limits.tmp_bytes, files, "1777", attributes);
    let temporary = temporary.map_err(denied("make /tmp"))?;
    // What `/tmp` covers stays empty.
    mkdirat(root, "tmp", Mode::from_raw_mode(0o755)).map_err(denied("make /tmp"))?;
    let folder = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let empty = openat(root, "tmp", folder, Mode::empty()).map_err(denied("open /tmp"))?;
    // Before the mounts: one may lie below it, and its target is made there.
    attach(root, &temporary, Path::new("/tmp"), true, &[root])?;
    let covers = || pieces.iter().filter(|piece| piece.ours).map(|it| &it.tree);
    let ours: Vec<_> = [root, &temporary].into_iter().chain(covers()).collect();
    for path in SYSTEM.iter().filter_map(|path| path.strip_prefix('/')) {
        if let Ok(link) = fs::read_link(Path::new("/").join(path)) {
            // As on the host, `/bin` to `usr/bin`, so that a program finds one file under both names.
            symlinkat(&link, root, path).map_err(denied(format!("link {path}")))?;
        }
    }
    for piece in &pieces {
        let source = piece.source.as_ref().filter(|_| host_sockets.is_none());
        // Shown as it is where its file system cannot be laid over, or another mount is below it.
        let over = source.map(|source| overlay(source, &empty));
        if let Some(Err(errno)) = over {
            let target = piece.target.display();
            *host_sockets = Some(format!("{target} cannot be shown as an overlay: {errno}"));
        }
        let tree = over.and_then(Result::ok);
        let tree = tree.as_ref().unwrap_or(&piece.tree);
        attach(root, tree, &piece.target, piece.directory, &ours)?;
    }
    for cover in covers() {
        sys::set_mount_attributes(cover, MOUNT_ATTR_RDONLY, false)
            .map_err(denied("make a cover read-only"))?;
    }
    let names = match spec.names.is_empty() {
        true => WITHOUT_NAMES,
        false => WITH_NAMES,
    };
    for (path, content) in SYNTHETIC.into_iter().chain(names) {
        write(root, path, content).map_err(denied(format!("write {path}")))?;
    }
    for (link, path) in LINKS {
        symlinkat(link, root, path).map_err(denied(format!("link {path}")))?;
    }
    if desk.is_some() {
        // Without NODEV, as with the devices.
        let no_programs = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        let options = [("mode", "600"), ("ptmxmode", "666"), ("max", MOST_PTS)];
        let terminals = file_system("devpts", &options, no_programs);
        let terminals = terminals.map_err(denied(format!("make {PTS}")))?;
        attach(root, &terminals, Path::new(PTS), true, &ours)?;
        symlinkat("pts/ptmx", root, "dev/ptmx").map_err(denied("link dev/ptmx"))?;
    }
    if !own_processes {
        return Ok(Some("no /proc, as there is no pid namespace".to_owned()));
    }
    let attributes = no_power | MountAttrFlags::MOUNT_ATTR_RDONLY;
    let proc = |options| file_system("proc", options, attributes);
    let target = Path::new("/proc");
    // What does not concern processes is settings and state of the host, some of which root's id may write.
    match proc(&[]) {
        Ok(proc) => {
            let below = stand_ins(root, &spec.limits).map_err(denied("make files of /proc"))?;
            attach(root, &proc, target, true, &ours)?;
            cover(root, &proc, &below, &ours).map(|()| None)
        }
        // Where only the part of it without those may be mounted.
        Err(_) => match proc(&[("subset", "pid")]) {
            Ok(proc) => attach(root, &proc, target, true, &ours).map(|()| None),
            Err(errno) => Ok(Some(format!(
                "no /proc: {errno}; it is masked in a container"
            ))),
        },
    }
}

/// Makes what covers files of `/proc`, below where that is attached, and returns the folder. Runtimes read how many
/// processors there are and how much memory: they see what the spoke may use, and nothing of the host's model or times.
/// Browsers read which instructions the processor has, which any program can ask it.
fn stand_ins(root: &OwnedFd, limits: &Limits) -> Result<OwnedFd, Errno> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let host = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let is_flags = |line: &&str| line.starts_with("flags") || line.starts_with("Features");
    let flags = host.lines().find(is_flags).unwrap_or_default();
    let of_each = |line: &dyn Fn(usize) -> String| (0..processors).map(line).collect::<String>();
    let models = of_each(&|at| {
        format!("processor\t: {at}\nmodel name\t: processor\ncpu MHz\t\t: 1000.000\n{flags}\n\n")
    });
    let times = of_each(&|at| format!("cpu{at} 0 0 0 0 0 0 0 0 0 0\n"));
    let memory = limits.memory_bytes / 1024;
    mkdirat(root, "proc", Mode::from_raw_mode(0o755))?;
    for (path, content) in [
        ("proc/cpuinfo", models),
        (
            "proc/stat",
            format!(
                "cpu  0 0 0 0 0 0 0 0 0 0\n{times}intr 0\nctxt 0\nbtime 0\nprocesses 1\nprocs_running 1\nprocs_blocked 0\n"
            ),
        ),
        (
            "proc/meminfo",
            format!(
                "MemTotal: {memory} kB\nMemFree: {memory} kB\nMemAvailable: {memory} kB\nBuffers: 0 kB\nCached: 0 kB\n\
                SwapTotal: 0 kB\nSwapFree: 0 kB\n"
            ),
        ),
        ("proc/uptime", "1.00 1.00\n".to_owned()),
        ("proc/loadavg", "0.00 0.00 0.00 1/1 1\n".to_owned()),
    ] {
        write(root, path, &content)?;
    }
    let unreadable = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    openat(root, format!("proc/{NO_FILE}"), unreadable, Mode::empty())?;
    mkdirat(
        root,
        format!("proc/{NO_FOLDER}"),
        Mode::from_raw_mode(0o555),
    )?;
    let folder = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(root, "proc", folder, Mode::empty())
}

/// Covers every file and folder of `/proc` that is of no process, by what stands in for it or by nothing.
fn cover(
    root: &OwnedFd,
    proc: &OwnedFd,
    below: &OwnedFd,
    ours: &[&OwnedFd],
) -> Result<(), Failure> {
    let listed = || -> Result<Vec<_>, Errno> {
        let readable = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Dir::new(openat(proc, ".", readable, Mode::empty())?)?.collect()
    };
    for entry in listed().map_err(denied("list /proc"))? {
        let name = entry.file_name().to_string_lossy();
        let of_process = name.bytes().all(|it| it.is_ascii_digit());
        // The links lead to the process's own files.
        if of_process || name.starts_with('.') || entry.file_type() == FileType::Symlink {
            continue;
        }
        let directory = entry.file_type() == FileType::Directory;
        let nothing = if directory { NO_FOLDER } else { NO_FILE };
        let by = |source: &str| {
            let attributes =
                MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
            clone(below, Path::new(source), attributes)
        };
        let tree = match by(&name) {
            Err(Errno::NOENT) => by(nothing),
            found => found,
        };
        let tree = tree.map_err(denied(format!("cover /proc/{name}")))?;
        attach(
            root,
            &tree,
            &Path::new("/proc").join(&*name),
            directory,
            ours,
        )?;
    }
    Ok(())
}

fn write(root: &OwnedFd, path: &str, content: &str) -> Result<(), Errno> {
    // `EXCL`: a name that is there already is a mount's, and would be written to on the host.
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(root, path, flags, Mode::from_raw_mode(0o644))?;
    rustix::io::write(file, content.as_bytes()).and_then(|n| {
        if n == content.len() {
            Ok(())
        } else {
            Err(Errno::NOSPC)
        }
    })
}

fn tmpfs(bytes: u64, files: u64, mode: &str, attributes: MountAttrFlags) -> Result<OwnedFd, Errno> {
    file_system(
        "tmpfs",
        &[
            ("size", &bytes.to_string()),
            ("nr_inodes", &files.to_string()),
            ("mode", mode),
        ],
        attributes,
    )
}

fn file_system(
    kind: &str,
    options: &[(&str, &str)],
    attributes: MountAttrFlags,
) -> Result<OwnedFd, Errno> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in options {
        fsconfig_set_string(&context, *key, *value)?;
    }
    fsconfig_create(&context)?;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

/// Attaches a detached mount at `target` below `root`.
fn attach(
    root: &OwnedFd,
    tree: &OwnedFd,
    target: &Path,
    directory: bool,
    ours: &[&OwnedFd],
) -> Result<(), Failure> {
    let place = place(root, target, directory, ours)
        .map_err(|errno| Failure::plain(format!("mount target {}: {errno}", target.display())))?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(tree, "", &place, "", flags)
        .map_err(denied(format!("mount on {}", target.display())))
}

/// Walks to `target`, following no link, and creates what is missing, but only in our own file systems: a mount target
/// inside a mount of the host has to exist there.
fn place(
    root: &OwnedFd,
    target: &Path,
    directory: bool,
    ours: &[&OwnedFd],
) -> Result<OwnedFd, Errno> {
    let mut names = target
        .components()
        .filter_map(|part| {
            if let Component::Normal(name) = part {
                Some(name)
            } else {
                None
            }
        })
        .peekable();
    let mut here = openat(
        root,
        ".",
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    while let Some(name) = names.next() {
        let kind = if directory || names.peek().is_some() {
            OFlags::DIRECTORY
        } else {
            OFlags::empty()
        };
        let open = || {
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC | kind;
            let resolve =
                ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
            openat2(&here, name, flags, Mode::empty(), resolve)
        };
        // One name at a time, so that it is known of each step whether it would be made in a file system of ours.
        let next = match open() {
            Err(Errno::NOENT) if is_one_of(&here, ours)? => {
                if kind.is_empty() {
                    let create = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                    openat(&here, name, create, Mode::from_raw_mode(0o644))?;
                } else {
                    mkdirat(&here, name, Mode::from_raw_mode(0o755))?;
                }
                open()?
            }
            other => other?,
        };
        here = next;
    }
    Ok(here)
}

fn is_one_of(place: &OwnedFd, file_systems: &[&OwnedFd]) -> Result<bool, Errno> {
    // Each tmpfs has a device of its own, which nothing that was mounted from the host can have.
    let device = fstat(place)?.st_dev;
    for file_system in file_systems {
        if fstat(file_system)?.st_dev == device {
            return Ok(true);
        }
    }
    Ok(false)
}
