//! The cases. Where a machine lacks a layer they fail, with the error that names it: a sandbox that was not tested is not
//! one.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use sandbox::{Access, Layer, Limits, Mount, SandboxError, Spec};

use crate::Outcome;
use crate::hub::{Job, Spoke, Told};
use crate::spoke::Attempt;

/// A name and what it runs.
type Case = (&'static str, fn() -> Outcome);

/// Every case.
pub(crate) fn all() -> Vec<Trial> {
    let cases: [Case; 24] = [
        ("every_layer_is_in_force", every_layer_is_in_force),
        ("nothing_is_inherited", nothing_is_inherited),
        (
            "files_of_the_host_are_out_of_reach",
            files_of_the_host_are_out_of_reach,
        ),
        (
            "mounts_have_the_rights_of_the_spec",
            mounts_have_the_rights_of_the_spec,
        ),
        ("wrong_mounts_are_refused", wrong_mounts_are_refused),
        (
            "only_listed_listeners_are_reachable",
            only_listed_listeners_are_reachable,
        ),
        ("forbidden_calls_are_refused", forbidden_calls_are_refused),
        ("processes_are_bounded", processes_are_bounded),
        ("memory_is_bounded", memory_is_bounded),
        ("files_are_bounded", files_are_bounded),
        ("host_settings_stay", host_settings_stay),
        ("the_exit_code_is_forwarded", the_exit_code_is_forwarded),
        (
            "kill_takes_grandchildren_along",
            kill_takes_grandchildren_along,
        ),
        ("drop_leaves_nothing", drop_leaves_nothing),
        (
            "the_end_of_the_spoke_ends_all",
            the_end_of_the_spoke_ends_all,
        ),
        (
            "the_end_of_the_calling_thread_ends_nothing",
            the_end_of_the_calling_thread_ends_nothing,
        ),
        ("dies_with_the_hub", dies_with_the_hub),
        (
            "a_missing_layer_refuses_and_is_named",
            a_missing_layer_refuses_and_is_named,
        ),
        (
            "a_layer_can_be_given_up_by_name",
            a_layer_can_be_given_up_by_name,
        ),
        (
            "the_other_layers_hold_when_one_is_gone",
            the_other_layers_hold_when_one_is_gone,
        ),
        ("works_for_an_ordinary_user", works_for_an_ordinary_user),
        ("probe_tells_what_is_there", probe_tells_what_is_there),
        ("a_wrong_program_is_reported", a_wrong_program_is_reported),
        ("usual_runtimes_run", usual_runtimes_run),
    ];
    let trial = |(name, case): Case| {
        Trial::test(name, move || {
            case().map_err(|error| error.to_string().into())
        })
    };
    cases.into_iter().map(trial).collect()
}

fn check(holds: bool, what: impl Into<String>) -> Outcome {
    if holds {
        Ok(())
    } else {
        Err(what.into().into())
    }
}

fn equal<T: PartialEq + std::fmt::Debug>(what: &str, seen: T, expected: T) -> Outcome {
    check(
        seen == expected,
        format!("{what}: {seen:?} and not {expected:?}"),
    )
}

fn read(path: impl AsRef<Path>) -> Attempt {
    Attempt::Read(path.as_ref().display().to_string())
}

fn write(path: impl AsRef<Path>) -> Attempt {
    Attempt::Write(path.as_ref().display().to_string())
}

fn run(words: &[&str]) -> Attempt {
    Attempt::Run(words.iter().map(ToString::to_string).collect())
}

fn mount(source: &Path, target: &str, access: Access, executable: bool) -> Mount {
    Mount {
        source: source.to_owned(),
        target: target.into(),
        access,
        executable,
    }
}

fn every_layer_is_in_force() -> Outcome {
    let mut spoke = Spoke::start(&Spec::default())?;
    let enforced = spoke.sandboxed.enforced().clone();
    equal(
        "layers",
        enforced.layers.keys().copied().collect::<Vec<_>>(),
        Layer::ALL.to_vec(),
    )?;
    check(
        enforced.degraded.is_empty(),
        format!("{:?}", enforced.degraded),
    )?;
    equal(
        "identity",
        spoke.allowed(&Attempt::Identity)?.as_str(),
        "1000:1000 spoke 1",
    )?;
    equal(
        "processes",
        spoke.allowed(&Attempt::Processes)?.as_str(),
        "1",
    )?;
    // The kernel's own account, beside ours.
    let status = spoke.allowed(&read("/proc/self/status"))?;
    for line in [
        "CapEff:\t0000000000000000",
        "CapBnd:\t0000000000000000",
        "NoNewPrivs:\t1",
        "Seccomp:\t2",
    ] {
        check(status.contains(line), format!("no {line:?} in {status}"))?;
    }
    Ok(())
}

fn nothing_is_inherited() -> Outcome {
    // A descriptor that survives executions, as C libraries leave them behind.
    let leak = rustix::io::dup(fs::File::open("/etc/passwd")?)?;
    let spec = Spec {
        env: vec![("ONLY".to_owned(), "this".to_owned())],
        ..Spec::default()
    };
    let mut spoke = Spoke::start(&spec)?;
    drop(leak);
    equal(
        "environment",
        spoke.allowed(&Attempt::Environment)?.as_str(),
        "ONLY=this",
    )?;
    let descriptors = spoke.allowed(&Attempt::Descriptors)?;
    let kinds: Vec<_> = descriptors
        .lines()
        .map(|line| line.split('[').next().unwrap_or(line))
        .collect();
    equal(
        "descriptors",
        kinds,
        vec!["0 /dev/null", "1 /dev/null", "2 pipe:", "3 socket:"],
    )
}

fn files_of_the_host_are_out_of_reach() -> Outcome {
    let directory = tempfile::tempdir()?;
    let secret = directory.path().join("secret");
    fs::write(&secret, "of the hub")?;
    let mut spoke = Spoke::start(&Spec::default())?;
    let home = std::env::var("HOME").unwrap_or_else(|_| "/home".to_owned());
    let out_of_reach = [
        Path::new("/etc/shadow"),
        &secret,
        Path::new(&home),
        Path::new("/home"),
        Path::new("/var"),
        Path::new("/sys"),
        Path::new("/proc/sys/kernel/hostname"),
        Path::new("/proc/kallsyms"),
        Path::new("/proc/1/root/home"),
        Path::new("/dev/kmsg"),
        Path::new("/etc/ssl/private"),
    ];
    for path in out_of_reach {
        spoke.refused(&read(path))?;
    }
    for path in [
        "/new",
        "/usr/new",
        "/etc/passwd",
        "/sluice-spoke",
        "/proc/self/oom_score_adj",
        "/dev/new",
    ] {
        spoke.refused(&write(path))?;
    }
    spoke.allowed(&write("/tmp/own"))?;
    check(
        !Path::new("/tmp/own").exists(),
        "the spoke's /tmp is the host's",
    )?;
    spoke.allowed(&read("/usr"))?;
    Ok(())
}

fn mounts_have_the_rights_of_the_spec() -> Outcome {
    let directory = tempfile::tempdir()?;
    for name in ["read", "write"] {
        fs::create_dir(directory.path().join(name))?;
        fs::write(directory.path().join(name).join("file"), name)?;
        let script = directory.path().join(name).join("script");
        fs::copy("/bin/true", &script)?;
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    }
    let (source_read, source_write) = (
        directory.path().join("read"),
        directory.path().join("write"),
    );
    let spec = Spec {
        mounts: vec![
            mount(&source_read, "/data/read", Access::ReadOnly, false),
            mount(&source_read, "/data/run", Access::ReadOnly, true),
            mount(&source_write, "/data/write", Access::ReadWrite, false),
            mount(
                &source_read.join("file"),
                "/data/one",
                Access::ReadOnly,
                false,
            ),
            mount(&source_read, "/tmp/inner", Access::ReadOnly, false),
        ],
        workdir: "/data/write".into(),
        ..Spec::default()
    };
    let mut spoke = Spoke::start(&spec)?;
    for (path, content) in [
        ("/data/read/file", "read"),
        ("/data/write/file", "write"),
        ("/data/one", "read"),
        ("/tmp/inner/file", "read"),
        ("file", "write"),
    ] {
        equal(path, spoke.allowed(&read(path))?.as_str(), content)?;
    }
    for path in [
        "/data/read/file",
        "/data/read/new",
        "/data/run/new",
        "/data/one",
        "/tmp/inner/new",
        "/data/new",
    ] {
        spoke.refused(&write(path))?;
    }
    spoke.allowed(&write("/data/write/new"))?;
    equal(
        "written",
        fs::read_to_string(source_write.join("new"))?.as_str(),
        "written in the sandbox",
    )?;
    spoke.allowed(&run(&["/data/run/script"]))?;
    spoke.refused(&run(&["/data/read/script"]))?;
    spoke.refused(&run(&["/data/write/script"]))?;
    Ok(())
}

fn wrong_mounts_are_refused() -> Outcome {
    let directory = tempfile::tempdir()?;
    let here = directory.path();
    for (source, target, word) in [
        (Path::new("relative"), "/data", "plain absolute"),
        (here, "/data/../etc", "plain absolute"),
        (here, "/", "root"),
        (here, "/etc/cron.d", "/etc"),
        (here, "/proc/1", "/proc"),
        (Path::new("/proc"), "/data", "/proc"),
        (Path::new("/dev/mem"), "/data", "/dev"),
        (Path::new("/no/such/thing"), "/data", "/no/such/thing"),
        (here, "/usr/no-such-directory", "/usr/no-such-directory"),
    ] {
        let spec = Spec {
            mounts: vec![mount(source, target, Access::ReadOnly, false)],
            ..Spec::default()
        };
        match Spoke::start(&spec) {
            Ok(_) => return Err(format!("{} on {target} was accepted", source.display()).into()),
            Err(error) => check(
                error.to_string().contains(word),
                format!("no {word:?} in: {error}"),
            )?,
        }
    }
    // A link in a mount must not lead the next mount elsewhere.
    std::os::unix::fs::symlink("/usr", here.join("link"))?;
    let mounts = vec![
        mount(here, "/data", Access::ReadWrite, false),
        mount(here, "/data/link/share", Access::ReadOnly, false),
    ];
    check(
        Spoke::start(&Spec {
            mounts,
            ..Spec::default()
        })
        .is_err(),
        "a link was followed",
    )
}

fn only_listed_listeners_are_reachable() -> Outcome {
    let of_the_host = TcpListener::bind("127.0.0.1:0")?;
    let host_port = of_the_host.local_addr()?.port();
    let name = format!("sluice-test-{}", std::process::id());
    let _abstract = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
    let spec = Spec {
        listen: vec![8080, 80],
        ..Spec::default()
    };
    let mut spoke = Spoke::start(&spec)?;
    let listeners = spoke.sandboxed.take_listeners();
    equal(
        "ports",
        listeners.iter().map(|(port, _)| *port).collect::<Vec<_>>(),
        vec![8080, 80],
    )?;
    for (port, listener) in listeners {
        let listener = TcpListener::from(listener);
        let relay = std::thread::spawn(move || -> std::io::Result<()> {
            let (mut stream, _) = listener.accept()?;
            let mut heard = [0; 4];
            stream.read_exact(&mut heard)?;
            stream.write_all(b"pong")
        });
        equal(
            "relayed",
            spoke.allowed(&Attempt::Connect(port))?.as_str(),
            "pong",
        )?;
        relay.join().map_err(|_| "the relay panicked")??;
    }
    for port in [host_port, 8081] {
        let refusal = spoke.refused(&Attempt::Connect(port))?;
        check(
            refusal.contains("Permission denied"),
            format!("port {port}: {refusal}, so not refused by Landlock"),
        )?;
    }
    spoke.refused(&Attempt::Bind(9000))?;
    spoke.refused(&Attempt::Abstract(name))?;
    Ok(())
}

fn forbidden_calls_are_refused() -> Outcome {
    let flag = |flag: i32| u64::from(flag.unsigned_abs());
    let no = [0; 6];
    let clone = |namespace: i32| [flag(namespace | libc::SIGCHLD), 0, 0, 0, 0, 0];
    let socket = |family: i32, kind: i32| [flag(family), flag(kind), 0, 0, 0, 0];
    let shared = flag(libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    let mut spoke = Spoke::start(&Spec::default())?;
    for (what, number, arguments) in [
        ("ptrace", libc::SYS_ptrace, no),
        (
            "process_vm_readv",
            libc::SYS_process_vm_readv,
            [1, 0, 0, 0, 0, 0],
        ),
        ("mount", libc::SYS_mount, no),
        ("umount2", libc::SYS_umount2, no),
        ("fsopen", libc::SYS_fsopen, no),
        ("open_tree", libc::SYS_open_tree, no),
        ("pivot_root", libc::SYS_pivot_root, no),
        ("chroot", libc::SYS_chroot, no),
        (
            "unshare",
            libc::SYS_unshare,
            [flag(libc::CLONE_NEWUSER), 0, 0, 0, 0, 0],
        ),
        ("setns", libc::SYS_setns, no),
        ("bpf", libc::SYS_bpf, no),
        ("keyctl", libc::SYS_keyctl, no),
        ("perf_event_open", libc::SYS_perf_event_open, no),
        ("userfaultfd", libc::SYS_userfaultfd, no),
        ("kexec_load", libc::SYS_kexec_load, no),
        ("pidfd_getfd", libc::SYS_pidfd_getfd, no),
        ("memfd_create", libc::SYS_memfd_create, no),
        ("setuid", libc::SYS_setuid, no),
        ("seccomp", libc::SYS_seccomp, no),
        (
            "clone with a user namespace",
            libc::SYS_clone,
            clone(libc::CLONE_NEWUSER),
        ),
        (
            "clone with a net namespace",
            libc::SYS_clone,
            clone(libc::CLONE_NEWNET),
        ),
        (
            "netlink socket",
            libc::SYS_socket,
            socket(libc::AF_NETLINK, libc::SOCK_RAW),
        ),
        (
            "packet socket",
            libc::SYS_socket,
            socket(libc::AF_PACKET, libc::SOCK_RAW),
        ),
        (
            "raw socket",
            libc::SYS_socket,
            socket(libc::AF_INET, libc::SOCK_RAW),
        ),
        (
            "vsock socket",
            libc::SYS_socket,
            socket(libc::AF_VSOCK, libc::SOCK_STREAM),
        ),
        (
            "crypto socket",
            libc::SYS_socket,
            socket(libc::AF_ALG, libc::SOCK_SEQPACKET),
        ),
        (
            "typing into a terminal",
            libc::SYS_ioctl,
            [0, libc::TIOCSTI, 0, 0, 0, 0],
        ),
        (
            "disarming the death signal",
            libc::SYS_prctl,
            [flag(libc::PR_SET_PDEATHSIG), 0, 0, 0, 0, 0],
        ),
        (
            "anonymous shared memory",
            libc::SYS_mmap,
            [0, 4096, 3, shared, u64::MAX, 0],
        ),
    ] {
        let refusal = spoke.refused(&Attempt::Syscall(number, arguments))?;
        equal(what, refusal.as_str(), "EPERM")?;
    }
    for (what, number) in [
        ("clone3", libc::SYS_clone3),
        ("io_uring_setup", libc::SYS_io_uring_setup),
    ] {
        equal(
            what,
            spoke.refused(&Attempt::Syscall(number, no))?.as_str(),
            "ENOSYS",
        )?;
    }
    // The same calls with harmless arguments pass, so what was refused above were the arguments.
    spoke.allowed(&Attempt::Syscall(
        libc::SYS_socket,
        socket(libc::AF_INET, libc::SOCK_STREAM),
    ))?;
    spoke.allowed(&Attempt::Syscall(
        libc::SYS_prctl,
        [flag(libc::PR_GET_DUMPABLE), 0, 0, 0, 0, 0],
    ))?;
    let private = flag(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    spoke.allowed(&Attempt::Syscall(
        libc::SYS_mmap,
        [0, 4096, 3, private, u64::MAX, 0],
    ))?;
    Ok(())
}

fn processes_are_bounded() -> Outcome {
    let spec = Spec {
        limits: Limits {
            processes: 40,
            ..Limits::default()
        },
        ..Spec::default()
    };
    let mut spoke = Spoke::start(&spec)?;
    let count: u32 = spoke.allowed(&Attempt::ForkBomb(2000))?.parse()?;
    // For root's processes the bound is up to 300 above: those numbers the kernel keeps back after the first round.
    let most = if rustix::process::geteuid().is_root() {
        340
    } else {
        40
    };
    check((10..=most).contains(&count), format!("{count} children"))?;
    spoke.allowed(&Attempt::Identity)?;
    Ok(())
}

fn memory_is_bounded() -> Outcome {
    let spec = Spec {
        limits: Limits {
            memory_bytes: 128 << 20,
            ..Limits::default()
        },
        ..Spec::default()
    };
    let mut spoke = Spoke::start(&spec)?;
    let count: u64 = spoke.allowed(&Attempt::Memory(1024))?.parse()?;
    check((32..128).contains(&count), format!("{count} MiB of 128"))
}

fn files_are_bounded() -> Outcome {
    let directory = tempfile::tempdir()?;
    let spec = Spec {
        mounts: vec![mount(directory.path(), "/data", Access::ReadWrite, false)],
        limits: Limits {
            tmp_bytes: 4 << 20,
            file_bytes: 8 << 20,
            ..Limits::default()
        },
        ..Spec::default()
    };
    let mut spoke = Spoke::start(&spec)?;
    let fill = |path: &str| Attempt::Fill(path.to_owned(), 64);
    let in_tmp: u64 = spoke.allowed(&fill("/tmp/full"))?.parse()?;
    check(in_tmp <= 4, format!("{in_tmp} MiB in a /tmp of 4"))?;
    let in_file: u64 = spoke.allowed(&fill("/data/full"))?.parse()?;
    equal("MiB in a file of 8", in_file, 8)
}

fn host_settings_stay() -> Outcome {
    let settings = || -> std::io::Result<Vec<String>> {
        ["/proc/sys/kernel/pid_max", "/proc/sys/kernel/hostname"]
            .iter()
            .map(fs::read_to_string)
            .collect()
    };
    let before = settings()?;
    let _spoke = Spoke::start(&Spec::default())?;
    equal("settings", settings()?, before)
}

fn the_exit_code_is_forwarded() -> Outcome {
    let mut spoke = Spoke::start(&Spec::default())?;
    equal("still running", spoke.sandboxed.try_wait()?, None)?;
    spoke.send(&Attempt::Exit(7))?;
    equal("code", spoke.sandboxed.wait()?.code(), Some(7))
}

/// Starts a spoke with a daemon in it, found on the host by a mark; the mark is a number of seconds to sleep.
fn with_daemon(mark: &str) -> Outcome<Spoke> {
    let mut spoke = Spoke::start(&Spec::default())?;
    spoke.allowed(&Attempt::Daemon(mark.to_owned()))?;
    wait_for("the daemon", || alive(mark))?;
    Ok(spoke)
}

/// Whether a process with `mark` among its arguments runs on this machine.
fn alive(mark: &str) -> bool {
    let Ok(processes) = fs::read_dir("/proc") else {
        return false;
    };
    processes.flatten().any(|process| {
        let arguments = fs::read(process.path().join("cmdline")).unwrap_or_default();
        arguments
            .split(|byte| *byte == 0)
            .any(|argument| argument == mark.as_bytes())
    })
}

/// Waits for at most a second.
fn wait_for(what: &str, mut holds: impl FnMut() -> bool) -> Outcome {
    let deadline = Instant::now() + Duration::from_secs(1);
    while !holds() {
        if Instant::now() > deadline {
            return Err(format!("{what}: not within a second").into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// A mark that no other case and no other run uses.
fn mark(case: u32) -> String {
    format!("{}.{case}", 100_000 + std::process::id())
}

fn kill_takes_grandchildren_along() -> Outcome {
    let mark = mark(1);
    let mut spoke = with_daemon(&mark)?;
    spoke.sandboxed.kill()?;
    spoke.sandboxed.kill()?;
    let status = spoke.sandboxed.wait()?;
    check(!alive(&mark), "the grandchild outlived the wait")?;
    equal(
        "signal",
        std::os::unix::process::ExitStatusExt::signal(&status),
        Some(libc::SIGKILL),
    )?;
    spoke.sandboxed.kill()?;
    Ok(())
}

fn drop_leaves_nothing() -> Outcome {
    let mark = mark(2);
    let spoke = with_daemon(&mark)?;
    let pid = spoke.sandboxed.pid();
    drop(spoke);
    check(!alive(&mark), "the grandchild outlived the drop")?;
    check(
        !Path::new(&format!("/proc/{pid}")).exists(),
        "the waiting process was not reaped",
    )
}

fn the_end_of_the_spoke_ends_all() -> Outcome {
    let mark = mark(3);
    let mut spoke = with_daemon(&mark)?;
    spoke.send(&Attempt::Exit(0))?;
    let pidfd = spoke.sandboxed.try_clone_pidfd()?;
    let mut descriptors = [rustix::event::PollFd::new(
        &pidfd,
        rustix::event::PollFlags::IN,
    )];
    let second = rustix::event::Timespec {
        tv_sec: 1,
        tv_nsec: 0,
    };
    equal(
        "pidfd readable",
        rustix::event::poll(&mut descriptors, Some(&second))?,
        1,
    )?;
    check(!alive(&mark), "the grandchild outlived the spoke")?;
    equal("code", spoke.sandboxed.wait()?.code(), Some(0))
}

fn the_end_of_the_calling_thread_ends_nothing() -> Outcome {
    let started = std::thread::spawn(|| Spoke::start(&Spec::default())).join();
    let mut spoke = started.map_err(|_| "the thread panicked")??;
    std::thread::sleep(Duration::from_millis(50));
    spoke.allowed(&Attempt::Identity)?;
    Ok(())
}

/// Runs this program as a stand-in hub, possibly by way of another program.
fn stand_in(job: &Job, through: &[&str], program: &Path) -> Outcome<Command> {
    let mut words = through
        .iter()
        .map(ToString::to_string)
        .chain([program.display().to_string(), "hub".to_owned()]);
    let mut command = Command::new(words.next().ok_or("no program")?);
    command
        .args(words)
        .arg(serde_json::to_string(job)?)
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    Ok(command)
}

fn told(job: &Job) -> Outcome<Told> {
    let output = stand_in(job, &[], &std::env::current_exe()?)?.output()?;
    check(
        output.status.success(),
        String::from_utf8_lossy(&output.stderr),
    )?;
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn job(without: &[(i64, i32)], allow_degraded: &[Layer], attempts: Vec<Attempt>) -> Job {
    let allow_degraded = allow_degraded.iter().copied().collect();
    Job {
        without: without
            .iter()
            .map(|(call, mask)| (*call, u64::from(mask.unsigned_abs())))
            .collect(),
        spec: Spec {
            allow_degraded,
            ..Spec::default()
        },
        attempts,
        linger: false,
        probe: false,
    }
}

fn dies_with_the_hub() -> Outcome {
    let mark = mark(4);
    let attempts = vec![Attempt::Daemon(mark.clone())];
    let job = Job {
        linger: true,
        ..job(&[], &[], attempts)
    };
    let mut hub = stand_in(&job, &[], &std::env::current_exe()?)?.spawn()?;
    let mut line = String::new();
    BufReader::new(hub.stdout.take().ok_or("no output")?).read_line(&mut line)?;
    wait_for("the daemon", || alive(&mark))?;
    let told: Told = serde_json::from_str(&line)?;
    hub.kill()?;
    hub.wait()?;
    wait_for("the end of the grandchild", || !alive(&mark))?;
    for pid in told.pids {
        // Gone, or dead and waiting to be reaped by the machine's process 1.
        let gone = || match fs::read_to_string(format!("/proc/{pid}/stat")) {
            Ok(stat) => stat.contains(") Z ") || stat.contains(") X "),
            Err(_) => true,
        };
        wait_for("the end of the spoke", gone)?;
    }
    Ok(())
}

/// Ways to take single layers away, and the layer that then is named.
const WITHOUT: [(i64, i32, Layer); 8] = [
    (libc::SYS_unshare, libc::CLONE_NEWUSER, Layer::UserNamespace),
    (libc::SYS_unshare, libc::CLONE_NEWNS, Layer::MountNamespace),
    (libc::SYS_unshare, libc::CLONE_NEWPID, Layer::PidNamespace),
    (libc::SYS_unshare, libc::CLONE_NEWNET, Layer::NetNamespace),
    (libc::SYS_unshare, libc::CLONE_NEWIPC, Layer::IpcNamespace),
    (libc::SYS_unshare, libc::CLONE_NEWUTS, Layer::UtsNamespace),
    (
        libc::SYS_unshare,
        libc::CLONE_NEWCGROUP,
        Layer::CgroupNamespace,
    ),
    (libc::SYS_landlock_create_ruleset, 0, Layer::Landlock),
];

fn a_missing_layer_refuses_and_is_named() -> Outcome {
    for (call, mask, layer) in WITHOUT
        .into_iter()
        .chain([(libc::SYS_seccomp, 0, Layer::Seccomp)])
    {
        let mut command = stand_in(
            &job(&[(call, mask)], &[], vec![]),
            &[],
            &std::env::current_exe()?,
        )?;
        let output = command.output()?;
        let told: Told = serde_json::from_slice(&output.stdout)?;
        let error = told
            .error
            .ok_or_else(|| format!("started without {layer}"))?;
        check(
            error.contains(&format!("layer {layer} is not available")),
            format!("{layer} is not named in: {error}"),
        )?;
        check(
            error.contains(&format!("--allow-degraded {layer}")),
            format!("no way out in: {error}"),
        )?;
    }
    Ok(())
}

fn a_layer_can_be_given_up_by_name() -> Outcome {
    let landlock = [
        Layer::Landlock,
        Layer::LandlockNetwork,
        Layer::LandlockScope,
    ];
    for (call, mask, layer) in WITHOUT {
        let given_up: &[Layer] = match layer {
            Layer::Landlock => &landlock,
            // The bound on root's processes needs the pid namespace.
            Layer::PidNamespace => &[Layer::PidNamespace, Layer::ProcessLimit],
            // Only root can make the others without this one.
            Layer::UserNamespace if !rustix::process::geteuid().is_root() => continue,
            Layer::UserNamespace => &[Layer::UserNamespace],
            ref layer => std::slice::from_ref(layer),
        };
        let told = told(&job(&[(call, mask)], given_up, vec![Attempt::Identity]))?;
        equal("error", told.error, None)?;
        check(
            told.degraded.contains(&layer),
            format!("{layer} is not reported as given up"),
        )?;
        let all: BTreeSet<Layer> = told.degraded.union(&told.enforced).copied().collect();
        equal("all layers accounted for", all, BTreeSet::from(Layer::ALL))?;
        check(
            told.degraded.iter().all(|layer| given_up.contains(layer)),
            format!("{:?}", told.degraded),
        )?;
        check(
            told.answers.iter().all(Result::is_ok),
            format!("{:?}", told.answers),
        )?;
    }
    // What the kernel has is not given up, even when it may be.
    let told = told(&job(&[], &Layer::ALL, vec![]))?;
    equal("degraded", told.degraded, BTreeSet::new())
}

fn the_other_layers_hold_when_one_is_gone() -> Outcome {
    let directory = tempfile::tempdir()?;
    let secret = directory.path().join("secret");
    fs::write(&secret, "of the hub")?;
    let of_the_host = TcpListener::bind("127.0.0.1:0")?;
    let port = of_the_host.local_addr()?.port();
    let landlock = [
        Layer::Landlock,
        Layer::LandlockNetwork,
        Layer::LandlockScope,
    ];
    for (call, flag, layers, attempt) in [
        (
            libc::SYS_unshare,
            libc::CLONE_NEWNS,
            &[Layer::MountNamespace][..],
            read(&secret),
        ),
        (
            libc::SYS_unshare,
            libc::CLONE_NEWNET,
            &[Layer::NetNamespace],
            Attempt::Connect(port),
        ),
        (
            libc::SYS_landlock_create_ruleset,
            0,
            &landlock,
            read(&secret),
        ),
        (
            libc::SYS_landlock_create_ruleset,
            0,
            &landlock,
            Attempt::Connect(port),
        ),
    ] {
        let told = told(&job(&[(call, flag)], layers, vec![attempt.clone()]))?;
        equal("error", told.error, None)?;
        equal("given up", told.degraded, layers.iter().copied().collect())?;
        check(
            matches!(told.answers.as_slice(), [Err(_)]),
            format!("without {layers:?}: {attempt:?} {:?}", told.answers),
        )?;
    }
    Ok(())
}

fn works_for_an_ordinary_user() -> Outcome {
    if !rustix::process::geteuid().is_root() {
        // Every other case has just shown it.
        return Ok(());
    }
    let directory = tempfile::tempdir()?;
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755))?;
    let program = directory.path().join("spoke");
    fs::copy(std::env::current_exe()?, &program)?;
    let attempts = vec![
        Attempt::Identity,
        Attempt::Processes,
        Attempt::ForkBomb(2000),
        read("/etc/shadow"),
        read(directory.path()),
        Attempt::Syscall(libc::SYS_mount, [0; 6]),
    ];
    let mut job = job(&[], &[], attempts);
    job.spec.limits.processes = 40;
    job.spec.mounts = vec![mount(
        Path::new("/usr/share"),
        "/data",
        Access::ReadOnly,
        false,
    )];
    job.spec.listen = vec![80];
    let through = [
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
    ];
    let output = stand_in(&job, &through, &program)?
        .output()
        .map_err(|error| {
            format!("setpriv (package util-linux) is needed to test as another user: {error}")
        })?;
    check(
        output.status.success(),
        String::from_utf8_lossy(&output.stderr),
    )?;
    let told: Told = serde_json::from_slice(&output.stdout)?;
    equal("error", told.error, None)?;
    equal("layers", told.enforced, BTreeSet::from(Layer::ALL))?;
    let [identity, processes, bomb, refused @ ..] = told.answers.as_slice() else {
        return Err("too few answers".into());
    };
    equal(
        "identity",
        identity.clone(),
        Ok("1000:1000 spoke 1".to_owned()),
    )?;
    equal("processes", processes.clone(), Ok("1".to_owned()))?;
    let count: u32 = bomb.clone()?.parse()?;
    check(
        (10..=40).contains(&count),
        format!("{count} children of 40"),
    )?;
    equal(
        "refusals",
        refused.iter().filter(|answer| answer.is_err()).count(),
        3,
    )
}

fn probe_tells_what_is_there() -> Outcome {
    let statuses = sandbox::probe(&std::env::current_exe()?)?;
    equal(
        "layers",
        statuses
            .iter()
            .map(|status| status.layer)
            .collect::<Vec<_>>(),
        Layer::ALL.to_vec(),
    )?;
    for status in statuses {
        check(
            status.available.is_ok(),
            format!("{}: {:?}", status.layer, status.available),
        )?;
    }
    let job = Job {
        probe: true,
        ..job(&[(libc::SYS_unshare, libc::CLONE_NEWNET)], &[], vec![])
    };
    equal(
        "not available",
        told(&job)?.degraded,
        BTreeSet::from([Layer::NetNamespace]),
    )
}

fn a_wrong_program_is_reported() -> Outcome {
    let start = |program: &str| -> Outcome<SandboxError> {
        let (_ours, theirs) = UnixStream::pair()?;
        match sandbox::spawn(&Spec::default(), Path::new(program), OwnedFd::from(theirs)) {
            Ok(_) => Err(format!("{program} became a spoke").into()),
            Err(error) => Ok(error),
        }
    };
    let missing = start("/no/such/program")?;
    check(
        matches!(missing, SandboxError::Execute { .. }),
        missing.to_string(),
    )?;
    let silent = start("/bin/false")?;
    check(matches!(silent, SandboxError::Died(_)), silent.to_string())?;
    let spec = Spec {
        workdir: "/no/such/directory".into(),
        ..Spec::default()
    };
    let error = Spoke::start(&spec)
        .err()
        .ok_or("started nowhere")?
        .to_string();
    check(error.contains("/no/such/directory"), error)
}

fn usual_runtimes_run() -> Outcome {
    let mut spoke = Spoke::start(&Spec::default())?;
    equal(
        "sh",
        spoke
            .allowed(&run(&["/bin/sh", "-c", "echo $((6 * 7)) | cat"]))?
            .as_str(),
        "42",
    )?;
    let python = "import threading, subprocess, asyncio, json, ssl, tempfile, socket\n\
        t = threading.Thread(target=lambda: None); t.start(); t.join()\n\
        async def main():\n    p = await asyncio.create_subprocess_exec('/bin/echo', '42', stdout=-1)\n    \
        return (await p.communicate())[0].decode().strip()\n\
        tempfile.TemporaryFile().write(b'x')\nprint(asyncio.run(main()))";
    let node = "const {Worker} = require('worker_threads'); const {execFile} = require('child_process');\n\
        require('fs').writeFileSync('/tmp/node', 'x');\n\
        new Worker('1', {eval: true}).on('exit', () => execFile('/bin/echo', ['42'], (e, out) => console.log(out.trim())))";
    for (program, script) in [
        ("/usr/bin/python3", ["-c", python]),
        ("/usr/bin/node", ["-e", node]),
    ] {
        if Path::new(program).exists() {
            let [flag, script] = script;
            equal(
                program,
                spoke.allowed(&run(&[program, flag, script]))?.as_str(),
                "42",
            )?;
        } else {
            let _ = writeln!(
                std::io::stderr(),
                "NOT TESTED: {program} is not installed, so it was not run in the sandbox"
            );
        }
    }
    Ok(())
}
