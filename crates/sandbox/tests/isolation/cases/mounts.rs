//! Mounts as a way out: what an app plants in a folder that it may write, and what the host keeps in one.

use std::fs;
use std::io::Write;
use std::os::linux::fs::MetadataExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::Path;
use std::process::Command;

use sandbox::{Access, Spec};

use super::common::{check, equal, job, mount, read, run_as_user, stand_in, users_folder, write};
use crate::Outcome;
use crate::hub::{Report, Spoke};
use crate::spoke::Attempt;

const SET_USER_ID: u32 = 0o4000;
const SET_GROUP_ID: u32 = 0o2000;

fn with_mount(source: &Path, access: Access) -> Spec {
    Spec {
        mounts: vec![mount(source, "/data", access, false)],
        ..Spec::default()
    }
}

/// The refusal of a start with this source.
fn refusal(source: &Path) -> Outcome<String> {
    match Spoke::start(&with_mount(source, Access::ReadWrite)) {
        Ok(_) => Err(format!("{} was mounted", source.display()).into()),
        Err(error) => Ok(error.to_string()),
    }
}

/// One start plants a link where the source of the next start lies.
pub(super) fn a_planted_link_is_no_mount_source() -> Outcome {
    let directory = tempfile::tempdir()?;
    let secret = tempfile::tempdir()?;
    fs::write(secret.path().join("file"), "of the hub")?;
    let here = directory.path();
    fs::create_dir(here.join("below"))?;
    let places = [
        "/etc".into(),
        "/proc/sys/kernel".into(),
        secret.path().to_owned(),
    ];
    for place in places {
        let mut app = Spoke::start(&with_mount(here, Access::ReadWrite))?;
        let planted = "/data/below/next".to_owned();
        app.allowed(&Attempt::Link(place.display().to_string(), planted))?;
        drop(app);
        let link = here.join("below/next");
        for source in [link.clone(), link.join("file")] {
            let error = refusal(&source)?;
            for word in [&*link.to_string_lossy(), "symbolic link"] {
                check(error.contains(word), format!("no {word:?} in: {error}"))?;
            }
        }
        fs::remove_file(link)?;
    }
    Ok(())
}

/// As above, for an ordinary user's hub: the link leads to another file of the user.
pub(super) fn a_planted_link_is_no_mount_source_for_an_ordinary_user() -> Outcome {
    let directory = users_folder()?;
    std::os::unix::fs::symlink("/usr/share", directory.path().join("link"))?;
    let mut job = job(&[], &[], vec![read("/data")]);
    job.spec.mounts = vec![mount(
        &directory.path().join("link"),
        "/data",
        Access::ReadOnly,
        false,
    )];
    let report = run_as_user(&job)?;
    let error = report.error.ok_or("a link was mounted")?;
    check(error.contains("symbolic link"), error)
}

/// Without a tree of its own, the spoke's only wall is Landlock, which must not follow the link either.
pub(super) fn a_planted_link_opens_nothing_without_a_mount_namespace() -> Outcome {
    let directory = tempfile::tempdir()?;
    let secret = tempfile::tempdir()?;
    fs::write(secret.path().join("file"), "of the hub")?;
    let link = directory.path().join("link");
    std::os::unix::fs::symlink(secret.path(), &link)?;
    let mut job = job(
        &[(libc::SYS_unshare, libc::CLONE_NEWNS)],
        &[sandbox::Layer::MountNamespace],
        vec![read(secret.path().join("file"))],
    );
    job.spec.mounts = vec![mount(
        &link,
        &link.to_string_lossy(),
        Access::ReadOnly,
        false,
    )];
    let report = super::common::run_job(&job)?;
    let error = report
        .error
        .ok_or_else(|| format!("{:?}", report.answers))?;
    check(error.contains("symbolic link"), error)
}

/// A mount source that another mount of the same spoke lets it replace.
pub(super) fn a_source_below_a_writable_mount_is_refused() -> Outcome {
    let directory = tempfile::tempdir()?;
    let below = directory.path().join("below");
    fs::create_dir(&below)?;
    let mounts = |access| {
        vec![
            mount(directory.path(), "/data", access, false),
            mount(&below, "/below", Access::ReadOnly, false),
        ]
    };
    let spec = |access| Spec {
        mounts: mounts(access),
        ..Spec::default()
    };
    Spoke::start(&spec(Access::ReadOnly))?;
    match Spoke::start(&spec(Access::ReadWrite)) {
        Ok(_) => Err("a source below a writable mount was accepted".into()),
        Err(error) => check(error.to_string().contains("writable"), error.to_string()),
    }
}

/// The program that builds the next sandbox must not be the app's to write.
pub(super) fn the_spoke_binary_is_in_no_writable_mount() -> Outcome {
    let program = std::env::current_exe()?;
    let folder = program.parent().ok_or("no folder")?;
    Spoke::start(&with_mount(folder, Access::ReadOnly))?;
    let error = refusal(folder)?;
    check(error.contains("binary"), error)
}

/// Kernel interfaces by their usual names, the root with all of them, and special files.
pub(super) fn kernel_interfaces_are_no_mount_sources() -> Outcome {
    let directory = tempfile::tempdir()?;
    let socket = directory.path().join("socket");
    let _listener = UnixListener::bind(&socket)?;
    let sources = [
        "/",
        "/proc",
        "/proc/sys",
        "/sys",
        "/dev",
        "/dev/shm",
        "/dev/null",
    ];
    for source in sources.iter().map(Path::new).chain([&*socket]) {
        for access in [Access::ReadOnly, Access::ReadWrite] {
            if Spoke::start(&with_mount(source, access)).is_ok() {
                return Err(format!("{} was mounted", source.display()).into());
            }
        }
    }
    Ok(())
}

/// The same file systems under another name, and below a harmless source.
pub(super) fn kernel_file_systems_are_no_mount_sources_under_another_name() -> Outcome {
    let directory = tempfile::tempdir()?;
    let inner = directory.path().join("inner");
    fs::create_dir(&inner)?;
    let program = std::env::current_exe()?;
    // A private mount namespace, so that nothing of this stays on the host.
    let as_root: &[&str] = if rustix::process::geteuid().is_root() {
        &["--mount"]
    } else {
        &["--user", "--map-root-user", "--mount", "--pid", "--fork"]
    };
    for kind in ["proc", "sysfs", "cgroup2", "mqueue"] {
        for source in [directory.path(), &inner] {
            let mut job = job(&[], &[], vec![read("/data")]);
            job.spec = with_mount(source, Access::ReadOnly);
            let script = format!("mount -t {kind} {kind} \"$0\" && exec \"$@\"");
            let inner = inner.to_string_lossy();
            let words = [&["unshare"], as_root, &["sh", "-c", &script, &inner]].concat();
            let output = stand_in(&job, &words, &program)?.output()?;
            if !output.status.success() {
                let _ = writeln!(
                    std::io::stderr(),
                    "NOT TESTED: {kind} cannot be mounted here: {}",
                    String::from_utf8_lossy(&output.stderr)
                );
                continue;
            }
            let report: Report = serde_json::from_slice(&output.stdout)?;
            let error = report.error.ok_or_else(|| {
                format!(
                    "{kind} came in by {}: {:?}",
                    source.display(),
                    report.answers
                )
            })?;
            check(error.contains(kind), format!("no {kind} in: {error}"))?;
        }
    }
    Ok(())
}

/// Package managers and version control put a file together in one folder and move it to another.
pub(super) fn files_move_between_folders_of_a_writable_mount_and_not_into_another() -> Outcome {
    let directory = tempfile::tempdir()?;
    for folder in ["one", "other"] {
        fs::create_dir(directory.path().join(folder))?;
    }
    let mut app = Spoke::start(&with_mount(directory.path(), Access::ReadWrite))?;
    let path = |name: &str| format!("/data/{name}");
    app.allowed(&write(path("one/file")))?;
    app.allowed(&Attempt::HardLink(path("one/file"), path("other/linked")))?;
    app.allowed(&Attempt::Rename(path("one/file"), path("other/moved")))?;
    // What is on another mount stays there.
    app.refused(&Attempt::HardLink(
        "/proc/self/status".to_owned(),
        path("one/status"),
    ))?;
    app.refused(&Attempt::Rename(path("other/moved"), "/moved".to_owned()))?;
    Ok(())
}

/// A set-user-id file that the app leaves on the host runs as the user who started the hub, for whoever executes it.
pub(super) fn no_set_user_id_file_is_left_in_a_writable_mount() -> Outcome {
    let directory = tempfile::tempdir()?;
    let mut app = Spoke::start(&with_mount(directory.path(), Access::ReadWrite))?;
    app.allowed(&write("/data/file"))?;
    app.allowed(&Attempt::SetMode("/data/file".to_owned(), 0o755))?;
    for bits in [SET_USER_ID, SET_GROUP_ID, SET_USER_ID | SET_GROUP_ID] {
        let mode = bits | 0o755;
        app.refused(&Attempt::SetMode("/data/file".to_owned(), mode))?;
        app.refused(&Attempt::CreateWithMode("/data/new".to_owned(), mode))?;
        app.refused(&Attempt::MakeDirectory("/data/folder".to_owned(), mode))?;
        // Every other call that takes a mode. Null instead of a path: a call that passed the filter says EFAULT.
        let (mode, new) = (u64::from(mode), flag(libc::O_CREAT | libc::O_WRONLY));
        let temporary = flag(libc::O_TMPFILE | libc::O_WRONLY);
        for (what, number, arguments) in mode_calls(mode, new, temporary) {
            let refusal = app.refused(&Attempt::Syscall(number, arguments))?;
            equal(what, refusal.as_str(), "EPERM")?;
        }
    }
    equal(
        "openat2, whose mode no filter sees",
        app.refused(&Attempt::Syscall(libc::SYS_openat2, [0; 6]))?
            .as_str(),
        "ENOSYS",
    )?;
    // With other bits they all reach the null, so what was refused above was the mode.
    let (new, temporary) = (
        flag(libc::O_CREAT | libc::O_WRONLY),
        flag(libc::O_TMPFILE | libc::O_WRONLY),
    );
    for (what, number, arguments) in mode_calls(0o1777, new, temporary) {
        let refusal = app.refused(&Attempt::Syscall(number, arguments))?;
        check(
            refusal != "EPERM",
            format!("{what} with a harmless mode: {refusal}"),
        )?;
    }
    drop(app);
    for entry in fs::read_dir(directory.path())? {
        let entry = entry?;
        let mode = entry.metadata()?.st_mode();
        let set = mode & (SET_USER_ID | SET_GROUP_ID);
        check(set == 0, format!("{:?} has mode {mode:o}", entry.path()))?;
    }
    Ok(())
}

fn flag(flag: i32) -> u64 {
    u64::from(flag.unsigned_abs())
}

/// Every call that takes a mode, with no path and this mode.
fn mode_calls(mode: u64, new: u64, temporary: u64) -> Vec<(&'static str, i64, [u64; 6])> {
    let here = i64::from(libc::AT_FDCWD).cast_unsigned();
    let nowhere = u64::MAX; // no descriptor
    let mut calls = vec![
        ("fchmod", libc::SYS_fchmod, [nowhere, mode, 0, 0, 0, 0]),
        ("fchmodat", libc::SYS_fchmodat, [here, 0, mode, 0, 0, 0]),
        ("fchmodat2", libc::SYS_fchmodat2, [here, 0, mode, 0, 0, 0]),
        ("openat", libc::SYS_openat, [here, 0, new, mode, 0, 0]),
        (
            "openat of a nameless file",
            libc::SYS_openat,
            [here, 0, temporary, mode, 0, 0],
        ),
        ("mkdirat", libc::SYS_mkdirat, [here, 0, mode, 0, 0, 0]),
    ];
    #[cfg(target_arch = "x86_64")]
    calls.extend([
        ("chmod", libc::SYS_chmod, [0, mode, 0, 0, 0, 0]),
        ("open", libc::SYS_open, [0, new, mode, 0, 0, 0]),
        (
            "open of a nameless file",
            libc::SYS_open,
            [0, temporary, mode, 0, 0, 0],
        ),
        ("creat", libc::SYS_creat, [0, mode, 0, 0, 0, 0]),
        ("mkdir", libc::SYS_mkdir, [0, mode, 0, 0, 0, 0]),
    ]);
    calls
}

/// As above, for an ordinary user's hub.
pub(super) fn an_ordinary_users_mount_gets_no_set_user_id_file() -> Outcome {
    let directory = users_folder()?;
    let path = "/data/file".to_owned();
    let attempts = vec![
        write(&path),
        Attempt::SetMode(path, SET_USER_ID | 0o755),
        Attempt::CreateWithMode("/data/new".to_owned(), SET_USER_ID | 0o755),
    ];
    let mut job = job(&[], &[], attempts);
    job.spec = with_mount(directory.path(), Access::ReadWrite);
    let report = run_as_user(&job)?;
    equal("error", report.error, None)?;
    check(
        matches!(report.answers.as_slice(), [Ok(_), Err(_), Err(_)]),
        format!("{:?}", report.answers),
    )?;
    let mode = fs::metadata(directory.path().join("file"))?
        .permissions()
        .mode();
    equal("bits", mode & (SET_USER_ID | SET_GROUP_ID), 0)
}

/// Sockets of the host in a folder: one that streams, and one of datagrams.
struct Sockets {
    _listener: UnixListener,
    receiver: UnixDatagram,
}

impl Sockets {
    fn in_folder(folder: &Path, name: &str) -> Outcome<Self> {
        let (stream, datagram) = (folder.join(name), folder.join(format!("{name}-datagrams")));
        let receiver = UnixDatagram::bind(&datagram)?;
        receiver.set_nonblocking(true)?;
        let _listener = UnixListener::bind(&stream)?;
        // As servers leave them that everybody may use.
        for path in [stream, datagram] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o777))?;
        }
        Ok(Self {
            _listener,
            receiver,
        })
    }

    /// Whether neither can be reached at this path. Returns the refusals.
    fn are_out_of_reach(&self, app: &mut Spoke, path: &str) -> Outcome<[String; 2]> {
        let refusals = [
            app.refused(&Attempt::ConnectUnix(path.to_owned()))?,
            app.refused(&Attempt::SendUnix(format!("{path}-datagrams")))?,
        ];
        let reached = self.receiver.recv(&mut [0; 8]).is_ok();
        check(!reached, "a datagram reached the host")?;
        Ok(refusals)
    }
}

/// A daemon's socket in a mounted folder is the daemon: docker's gives root on the host.
pub(super) fn sockets_of_the_host_in_a_mount_cannot_be_reached() -> Outcome {
    let directory = tempfile::tempdir()?;
    let sockets = Sockets::in_folder(directory.path(), "socket")?;
    for (access, executable) in [
        (Access::ReadOnly, false),
        (Access::ReadWrite, false),
        (Access::ReadWrite, true),
    ] {
        let spec = Spec {
            mounts: vec![mount(directory.path(), "/data", access, executable)],
            ..Spec::default()
        };
        let mut app = Spoke::start(&spec)?;
        for refusal in sockets.are_out_of_reach(&mut app, "/data/socket")? {
            check(refusal.contains("not permitted"), refusal)?;
        }
        app.refused(&Attempt::ServeUnix("/tmp/own".to_owned()))?;
        let why = app.sandboxed.enforced().no_sockets();
        let folder = directory.path().to_string_lossy();
        check(
            why.is_some_and(|why| why.contains(&*folder)),
            format!("{why:?}"),
        )?;
    }
    Ok(())
}

/// Where an app sees no folder but those of programs, it may have Unix sockets, and a socket of the host is still none.
pub(super) fn a_program_has_unix_sockets_of_its_own() -> Outcome {
    let directory = tempfile::tempdir()?;
    fs::write(directory.path().join("file"), "of the program")?;
    let early = Sockets::in_folder(directory.path(), "early")?;
    let one = mount(
        &directory.path().join("file"),
        "/one",
        Access::ReadWrite,
        false,
    );
    let spec = Spec {
        mounts: vec![
            mount(directory.path(), "/data", Access::ReadOnly, true),
            one,
        ],
        ..Spec::default()
    };
    let mut app = Spoke::start(&spec)?;
    equal("why not", app.sandboxed.enforced().no_sockets(), None)?;
    let late = Sockets::in_folder(directory.path(), "late")?;
    let mut places = vec![
        (early, "/data/early".to_owned()),
        (late, "/data/late".to_owned()),
    ];
    // Only root can have one there.
    let local = tempfile::tempdir_in("/usr/local/share").ok();
    if let Some(folder) = &local {
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
        let path = folder.path().join("socket").display().to_string();
        places.push((Sockets::in_folder(folder.path(), "socket")?, path));
    }
    for (sockets, path) in places {
        for refusal in sockets.are_out_of_reach(&mut app, &path)? {
            check(refusal.contains("refused"), refusal)?;
        }
    }
    let serve = |path: &str| Attempt::ServeUnix(path.to_owned());
    equal("served", &*app.allowed(&serve("/tmp/own"))?, "ping")?;
    for path in ["/data/own", "/own", "/usr/own", "/dev/own"] {
        app.refused(&serve(path))?;
    }
    equal(
        "file",
        &*app.allowed(&read("/data/file"))?,
        "of the program",
    )?;
    app.refused(&write("/data/new"))?;
    Ok(())
}

/// The argument by which the folders of the distribution are shown as they are.
pub(super) fn the_system_folders_hold_no_socket() -> Outcome {
    let mut find = Command::new("find");
    let system = sandbox::defaults::SYSTEM.iter();
    let shown = system.chain(&sandbox::defaults::ETC);
    find.args(shown.filter(|path| Path::new(path).exists()));
    find.args("-xdev -path /usr/local -prune -o -type s -print".split(' '));
    let found = find.output()?;
    equal("sockets", String::from_utf8_lossy(&found.stdout), "".into())
}

/// A named pipe of the host in a read-only mount: reading is what the mount gives, writing would be a way out.
pub(super) fn named_pipes_in_a_read_only_mount_cannot_be_written() -> Outcome {
    let directory = tempfile::tempdir()?;
    let pipe = directory.path().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status()?;
    check(made.success(), "mkfifo failed")?;
    // Somebody reads, so that an allowed open would not wait.
    let _reader = fs::OpenOptions::new().read(true).write(true).open(&pipe)?;
    let mut app = Spoke::start(&with_mount(directory.path(), Access::ReadOnly))?;
    app.refused(&write("/data/pipe"))?;
    Ok(())
}
