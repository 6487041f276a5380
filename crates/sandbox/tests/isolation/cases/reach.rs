//! What a spoke can reach, and what not.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;

use sandbox::{Access, Layer, Spec};

use super::common::{check, equal, mount, read, run, write};
use crate::Outcome;
use crate::hub::Spoke;
use crate::spoke::Attempt;

pub(super) fn every_layer_is_in_force() -> Outcome {
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

pub(super) fn nothing_is_inherited() -> Outcome {
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

pub(super) fn files_of_the_host_are_out_of_reach() -> Outcome {
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
    // Settings of the host, with keys among them as in `/etc`.
    for settings in ["/usr/etc", "/usr/local/etc"] {
        if fs::canonicalize(settings).is_ok_and(|real| real == Path::new(settings)) {
            let device = |path| run(&["/usr/bin/stat", "--format=%d", path]);
            let (covered, around) = (
                spoke.allowed(&device(settings))?,
                spoke.allowed(&device("/usr"))?,
            );
            check(covered != around, format!("{settings} is the host's"))?;
            equal(
                settings,
                spoke.allowed(&run(&["/bin/ls", "-A", settings]))?.as_str(),
                "",
            )?;
            spoke.refused(&write(format!("{settings}/new")))?;
        }
    }
    Ok(())
}

pub(super) fn proc_tells_what_the_spoke_may_use() -> Outcome {
    let mut spoke = Spoke::start(&Spec::default())?;
    let processors = std::thread::available_parallelism()?.get();
    let cpuinfo = spoke.allowed(&read("/proc/cpuinfo"))?;
    equal(
        "processors",
        cpuinfo.matches("processor\t:").count(),
        processors,
    )?;
    let host = fs::read_to_string("/proc/cpuinfo")?;
    let model = host.lines().find(|line| line.starts_with("model name"));
    if let Some(model) = model {
        check(!cpuinfo.contains(model), "the host's model is shown")?;
    }
    // Debian's Chromium looks for an instruction here before it starts.
    let flags = host.lines().find(|line| line.starts_with("flags"));
    check(
        flags.is_none_or(|flags| cpuinfo.contains(flags)),
        "no flags are shown",
    )?;
    let memory = spoke.allowed(&read("/proc/meminfo"))?;
    let limit = Spec::default().limits.memory_bytes / 1024;
    check(memory.contains(&format!("MemTotal: {limit} kB")), memory)?;
    // Everything else of the machine is covered, with the entries of modules too.
    let mut spared = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let stands_in = ["cpuinfo", "stat", "meminfo", "uptime", "loadavg"];
        let of_process = name.bytes().all(|it| it.is_ascii_digit());
        if entry.file_type()?.is_symlink() || of_process || stands_in.contains(&&*name) {
            continue;
        }
        let path = format!("/proc/{name}");
        match entry.file_type()?.is_dir() {
            true => {
                let inside = spoke.allowed(&run(&["/bin/ls", "-A", &path]))?;
                spared.extend((!inside.is_empty()).then_some(path));
            }
            false => spared.extend(spoke.allowed(&read(&path)).ok()),
        }
    }
    equal("spared", spared, Vec::new())?;
    for path in ["/proc/cpuinfo", "/proc/version", "/proc/sys/new"] {
        spoke.refused(&write(path))?;
    }
    let change = run(&["/bin/chmod", "777", "/proc/version"]);
    spoke.refused(&change)?;
    if Path::new("/usr/bin/node").exists() {
        let count = ["/usr/bin/node", "-e", "console.log(os.cpus().length)"];
        equal("node", spoke.allowed(&run(&count))?, processors.to_string())?;
    }
    Ok(())
}

pub(super) fn mounts_have_the_rights_of_the_spec() -> Outcome {
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

pub(super) fn wrong_mounts_are_refused() -> Outcome {
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

pub(super) fn only_listed_listeners_are_reachable() -> Outcome {
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
        // As on any machine where nothing listens, so that a program which waits for its own server tries again.
        let refusal = spoke.refused(&Attempt::Connect(port))?;
        check(
            refusal.contains("Connection refused"),
            format!("port {port}: {refusal}"),
        )?;
    }
    spoke.refused(&Attempt::Abstract(name))?;
    Ok(())
}

pub(super) fn a_spoke_listens_for_itself_alone() -> Outcome {
    let spec = Spec {
        listen: vec![8080],
        names: vec![8443],
        ..Spec::default()
    };
    let mut spoke = Spoke::start(&spec)?;
    for port in [0, 9222] {
        equal("served", &*spoke.allowed(&Attempt::Serve(port))?, "ping")?;
    }
    // The hub's own, and those of the system.
    for port in [8080, 8443, 80] {
        spoke.refused(&Attempt::Serve(port))?;
    }
    Ok(())
}

pub(super) fn names_lead_to_the_hub() -> Outcome {
    let spec = Spec {
        listen: vec![8080],
        names: vec![443, 80],
        ..Spec::default()
    };
    let mut spoke = Spoke::start(&spec)?;
    let names = spoke.sandboxed.take_names().ok_or("no names")?;
    let ports: Vec<_> = names.listeners.iter().map(|(port, _)| *port).collect();
    equal("ports", ports, vec![443, 80])?;
    for (port, listener) in &names.listeners {
        // Whatever the machine's own is: one that paces on loopback costs more than the rest of a large transfer.
        let control = rustix::net::sockopt::tcp_congestion(listener)?;
        equal(
            &format!("congestion control on {port}"),
            control.as_str(),
            "reno",
        )?;
    }
    let enforced = spoke.sandboxed.enforced();
    let network = enforced.layers.get(&Layer::NetNamespace);
    check(
        network.is_some_and(|network| network.contains("25.18.0.0/15")),
        format!("{network:?}"),
    )?;
    equal(
        "resolv.conf",
        spoke.allowed(&read("/etc/resolv.conf"))?.lines().next(),
        Some("nameserver 127.0.0.1"),
    )?;
    // The kernel's own account: the one route beside that of loopback.
    let routes = spoke.allowed(&read("/proc/self/net/fib_trie"))?;
    check(
        routes.contains("25.18.0.0"),
        format!("no route in {routes}"),
    )?;
    equal(
        "ways out",
        spoke
            .allowed(&read("/proc/self/net/route"))?
            .lines()
            .count(),
        1,
    )?;
    let queries = std::net::UdpSocket::from(names.queries);
    let address = queries.local_addr()?;
    equal("resolver", address.to_string().as_str(), "127.0.0.1:53")?;
    Ok(())
}

pub(super) fn names_need_a_network_of_their_own() -> Outcome {
    let spec = |listen: &[u16], given_up: &[Layer]| Spec {
        listen: listen.to_vec(),
        names: vec![443],
        allow_degraded: given_up.iter().copied().collect(),
        ..Spec::default()
    };
    for spec in [spec(&[], &[Layer::NetNamespace]), spec(&[443], &[])] {
        match Spoke::start(&spec) {
            Ok(_) => return Err(format!("{spec:?} was taken").into()),
            Err(error) => check(
                error.to_string().contains("port") || error.to_string().contains("network"),
                error.to_string(),
            )?,
        }
    }
    // Without names there is no UDP.
    let mut spoke = Spoke::start(&Spec::default())?;
    let datagram = [libc::AF_INET, libc::SOCK_DGRAM, 0].map(|it| u64::from(it.unsigned_abs()));
    let [family, kind, protocol] = datagram;
    let socket = Attempt::Syscall(libc::SYS_socket, [family, kind, protocol, 0, 0, 0]);
    spoke.refused(&socket)?;
    Ok(())
}

pub(super) fn forbidden_calls_are_refused() -> Outcome {
    let flag = |flag: i32| u64::from(flag.unsigned_abs());
    let no = [0; 6];
    let clone = |namespace: i32| [flag(namespace | libc::SIGCHLD), 0, 0, 0, 0, 0];
    let socket = |family: i32, kind: i32| [flag(family), flag(kind), 0, 0, 0, 0];
    let tcp = |protocol: i32| {
        let [family, kind, ..] = socket(libc::AF_INET, libc::SOCK_STREAM);
        [family, kind, flag(protocol), 0, 0, 0]
    };
    let option = |name: i32| [u64::MAX, flag(libc::SOL_SOCKET), flag(name), 0, 0, 0];
    let fast_open = flag(libc::MSG_FASTOPEN);
    let shared = flag(libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    let private = flag(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
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
            "UDP socket",
            libc::SYS_socket,
            socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC),
        ),
        (
            "UDP socket over IPv6",
            libc::SYS_socket,
            socket(libc::AF_INET6, libc::SOCK_DGRAM),
        ),
        (
            "MPTCP socket, which Landlock's TCP rules pass",
            libc::SYS_socket,
            tcp(libc::IPPROTO_MPTCP),
        ),
        ("SCTP socket", libc::SYS_socket, tcp(libc::IPPROTO_SCTP)),
        (
            "connecting while sending",
            libc::SYS_sendto,
            [u64::MAX, 0, 0, fast_open, 0, 0],
        ),
        (
            "connecting while sending a message",
            libc::SYS_sendmsg,
            [u64::MAX, 0, fast_open, 0, 0, 0],
        ),
        (
            "connecting while sending messages",
            libc::SYS_sendmmsg,
            [u64::MAX, 0, 0, fast_open, 0, 0],
        ),
        (
            "larger sending buffers",
            libc::SYS_setsockopt,
            option(libc::SO_SNDBUF),
        ),
        (
            "larger receiving buffers",
            libc::SYS_setsockopt,
            option(libc::SO_RCVBUF),
        ),
        (
            "filter programs for sockets",
            libc::SYS_setsockopt,
            option(libc::SO_ATTACH_FILTER),
        ),
        (
            "memory that grows downwards",
            libc::SYS_mmap,
            [0, 4096, 3, private | flag(libc::MAP_GROWSDOWN), u64::MAX, 0],
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
    for kind in [libc::SOCK_STREAM, libc::SOCK_SEQPACKET] {
        // A null for the descriptors: EFAULT, so the filter let it pass.
        let pair = Attempt::Syscall(libc::SYS_socketpair, socket(libc::AF_UNIX, kind));
        let refusal = spoke.refused(&pair)?;
        equal("a pair", refusal, format!("errno {}", libc::EFAULT))?;
    }
    spoke.allowed(&Attempt::Syscall(
        libc::SYS_prctl,
        [flag(libc::PR_GET_DUMPABLE), 0, 0, 0, 0, 0],
    ))?;
    spoke.allowed(&Attempt::Syscall(
        libc::SYS_mmap,
        [0, 4096, 3, private, u64::MAX, 0],
    ))?;
    Ok(())
}

pub(super) fn host_settings_stay() -> Outcome {
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
