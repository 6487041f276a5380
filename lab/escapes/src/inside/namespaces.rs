//! Mounts, roots and namespaces.

use std::fs::{self, File};
use std::os::fd::AsRawFd;

use crate::attempt::{Attempts, Ground, escaped, held, nothing, read_only};
use crate::kernel::{Answer, address, call, flag, minus, of, open, path};

/// Each kind with the flag that makes one.
const KINDS: [(&str, i32); 8] = [
    ("user", libc::CLONE_NEWUSER),
    ("mnt", libc::CLONE_NEWNS),
    ("pid", libc::CLONE_NEWPID),
    ("net", libc::CLONE_NEWNET),
    ("ipc", libc::CLONE_NEWIPC),
    ("uts", libc::CLONE_NEWUTS),
    ("cgroup", libc::CLONE_NEWCGROUP),
    ("time", 0x80),
];

/// One call, by what the attacker knows.
type Step = fn(&Ground) -> Answer;

pub(super) fn add(attempts: &mut Attempts) {
    mounts(attempts);
    attempts.group(
        "namespaces",
        "the spoke stays in those that it was put into, and makes none",
    );
    for (kind, bit) in KINDS {
        attempts.add(format!("make a {kind} namespace (unshare)"), move |_| {
            nothing(call(libc::SYS_unshare, [flag(bit)]), "made")
        });
    }
    for (kind, bit) in KINDS {
        if kind == "time" {
            // The bit is part of the signal's number in this call.
            continue;
        }
        attempts.add(
            format!("make a {kind} namespace (clone)"),
            move |_| match call(libc::SYS_clone, [flag(bit | libc::SIGCHLD), 0, 0, 0, 0]) {
                Ok(0) => std::process::exit(0),
                other => nothing(other, "made"),
            },
        );
    }
    attempts.add("make namespaces past the filter's sight (clone3)", |_| {
        // `struct clone_args`: the flags come first, and 17 is SIGCHLD, the signal at the child's
        // end.
        let arguments: [u64; 8] = [
            u64::from((libc::CLONE_NEWUSER | libc::CLONE_NEWNS).cast_unsigned()),
            0,
            0,
            0,
            17,
            0,
            0,
            0,
        ];
        match call(libc::SYS_clone3, [address(&arguments), 64]) {
            Ok(0) => std::process::exit(0),
            other => nothing(other, "made"),
        }
    });
    for (kind, bit) in [
        ("mnt", libc::CLONE_NEWNS),
        ("net", libc::CLONE_NEWNET),
        ("pid", libc::CLONE_NEWPID),
    ] {
        attempts.add(
            format!("enter the host's {kind} namespace"),
            move |ground| {
                let entered = File::open(format!("/proc/{}/ns/{kind}", ground.hub))
                    .and_then(|file| call(libc::SYS_setns, [flag(file.as_raw_fd()), flag(bit)]));
                nothing(entered, "entered")
            },
        );
    }
    attempts.add("enter the namespaces of a process of the host", |ground| {
        let entered = open(libc::SYS_pidfd_open, [flag(ground.victim), 0]).and_then(|process| {
            call(
                libc::SYS_setns,
                [flag(process.as_raw_fd()), flag(libc::CLONE_NEWNET)],
            )
        });
        nothing(entered, "entered")
    });
    attempts.add("learn the host's name", |ground| {
        let name = rustix::system::uname();
        match name.nodename().to_string_lossy() == ground.host_name.as_str() {
            true => escaped(&ground.host_name),
            false => held(name.nodename().to_string_lossy()),
        }
    });
    attempts.add(
        "learn the names of the host's control groups",
        |_| match fs::read_to_string("/proc/self/cgroup") {
            Ok(groups) => {
                let named = groups.lines().filter(|line| !line.ends_with(":/"));
                let named: Vec<_> = named.collect();
                match named.is_empty() {
                    true => held("none has a name"),
                    false => escaped(named.join(" ")),
                }
            }
            Err(error) => held(error),
        },
    );
    attempts.add("read a message queue of the host", |ground| {
        match ground.queue {
            None => {
                crate::attempt::Observed::Absent("this machine has no message queues".to_owned())
            }
            Some(queue) => {
                let mut about = [0_u64; 32];
                nothing(
                    call(
                        libc::SYS_msgctl,
                        [
                            flag(queue),
                            flag(libc::IPC_STAT),
                            crate::kernel::address_mut(&mut about),
                        ],
                    ),
                    "it is seen",
                )
            }
        }
    });
    let renames: [(&str, i64); 2] = [
        ("change the host name", libc::SYS_sethostname),
        ("change the domain name", libc::SYS_setdomainname),
    ];
    for (name, number) in renames {
        attempts.add(name, move |_| {
            let name = *b"mine";
            nothing(call(number, [address(&name), 4]), "changed")
        });
    }
}

fn mounts(attempts: &mut Attempts) {
    attempts.group("mounts", "the tree stays as the sandbox made it");
    let here = || minus(libc::AT_FDCWD);
    let attempted: [(&str, Step); 7] = [
        ("mount a file system", |_| {
            let (kind, place) = (path("tmpfs"), path("/tmp"));
            call(libc::SYS_mount, [of(&kind), of(&place), of(&kind), 0, 0])
        }),
        ("bind a folder elsewhere", |_| {
            let (from, to) = (path(read_only()), path("/tmp"));
            call(
                libc::SYS_mount,
                [
                    of(&from),
                    of(&to),
                    0,
                    usize::try_from(libc::MS_BIND).unwrap_or(0),
                    0,
                ],
            )
        }),
        ("make a read-only mount writable", |_| {
            let (none, place) = (path("none"), path(read_only()));
            let flags = usize::try_from(libc::MS_REMOUNT | libc::MS_BIND).unwrap_or(0);
            call(libc::SYS_mount, [of(&none), of(&place), 0, flags, 0])
        }),
        ("let mounts spread to the host", |_| {
            let (none, place) = (path("none"), path("/"));
            call(
                libc::SYS_mount,
                [
                    of(&none),
                    of(&place),
                    0,
                    usize::try_from(libc::MS_SHARED).unwrap_or(0),
                    0,
                ],
            )
        }),
        ("unmount what covers something", |_| {
            let place = path(read_only());
            call(libc::SYS_umount2, [of(&place), flag(libc::MNT_DETACH)])
        }),
        ("mount proc of one's own", |_| {
            let (kind, place) = (path("proc"), path("/tmp"));
            call(libc::SYS_mount, [of(&kind), of(&place), of(&kind), 0, 0])
        }),
        ("pivot into another root", |_| {
            let place = path("/tmp");
            call(libc::SYS_pivot_root, [of(&place), of(&place)])
        }),
    ];
    for (name, code) in attempted {
        attempts.add(name, move |ground| nothing(code(ground), "done"));
    }
    attempts.add("clear the read-only flag of a mount", move |_| {
        // `struct mount_attr`: nothing to set, and MOUNT_ATTR_RDONLY to clear.
        let attributes = [0_u64, 1, 0, 0];
        let place = path(read_only());
        nothing(
            call(
                libc::SYS_mount_setattr,
                [here(), of(&place), 0, address(&attributes), 32],
            ),
            "cleared",
        )
    });
    attempts.add("clone a tree of mounts", move |_| {
        let place = path("/");
        // OPEN_TREE_CLONE.
        nothing(open(libc::SYS_open_tree, [here(), of(&place), 1]), "cloned")
    });
    attempts.add("move a mount", move |_| {
        let (from, to) = (path(read_only()), path("/tmp"));
        nothing(
            call(
                libc::SYS_move_mount,
                [here(), of(&from), here(), of(&to), 0],
            ),
            "moved",
        )
    });
    attempts.add("make a file system (fsopen)", |_| {
        let kind = path("tmpfs");
        nothing(open(libc::SYS_fsopen, [of(&kind), 0]), "made")
    });
    attempts.add("reconfigure a file system (fspick)", move |_| {
        let place = path("/tmp");
        nothing(open(libc::SYS_fspick, [here(), of(&place), 0]), "picked")
    });
    attempts.add("list the host's mounts (listmount)", |_| {
        // `struct mnt_id_req`: its size, and LSMT_ROOT for all mounts of the namespace.
        let request = [24_u64, u64::MAX, 0];
        let mut mounts = [0_u64; 16];
        nothing(
            call(
                458,
                [
                    address(&request),
                    crate::kernel::address_mut(&mut mounts),
                    16,
                    0,
                ],
            ),
            "listed",
        )
    });
    attempts.add("leave by a second root", |_| {
        let inner = path("/tmp");
        nothing(call(libc::SYS_chroot, [of(&inner)]), "the root was changed")
    });
}
