//! Mounts, roots and namespaces.

use std::fs::{self, File};
use std::os::fd::AsRawFd;

use libc::{CLONE_NEWNET, MNT_DETACH, MS_BIND, MS_REMOUNT, MS_SHARED, SIGCHLD};

use super::call::Arg::{PidFd, Queue, Words};
use super::call::{CWD, Process, calls};
use crate::attempt::{Attempts, escaped, held, nothing};
use crate::kernel::{address, address_mut, call, flag};

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

/// `struct clone_args`: the flags of a user and a mount namespace come first, and 17 is SIGCHLD, the signal at the child's end.
const CLONE_ARGUMENTS: [u64; 8] = [0x1002_0000, 0, 0, 0, 17, 0, 0, 0];

pub(super) fn add(attempts: &mut Attempts) {
    attempts.group("mounts", "the tree stays as the sandbox made it");
    calls!(attempts.call;
        "mount a file system": SYS_mount("tmpfs", "/tmp", "tmpfs", 0, 0);
        "bind a folder elsewhere": SYS_mount("{ro}", "/tmp", 0, MS_BIND, 0);
        "make a read-only mount writable": SYS_mount("none", "{ro}", 0, MS_REMOUNT | MS_BIND, 0);
        "let mounts spread to the host": SYS_mount("none", "/", 0, MS_SHARED, 0);
        "unmount what covers something": SYS_umount2("{ro}", MNT_DETACH);
        "mount proc of one's own": SYS_mount("proc", "/tmp", "proc", 0, 0);
        "pivot into another root": SYS_pivot_root("/tmp", "/tmp");
        // `struct mount_attr`: nothing to set, and MOUNT_ATTR_RDONLY to clear.
        "clear the read-only flag of a mount": SYS_mount_setattr(CWD, "{ro}", 0, Words(&[0, 1, 0, 0]), 32);
        // OPEN_TREE_CLONE.
        "clone a tree of mounts": SYS_open_tree(CWD, "/", 1);
        "move a mount": SYS_move_mount(CWD, "{ro}", CWD, "/tmp", 0);
        "make a file system (fsopen)": SYS_fsopen("tmpfs", 0);
        "reconfigure a file system (fspick)": SYS_fspick(CWD, "/tmp", 0);
        "leave by a second root": SYS_chroot("/tmp");
    );
    attempts.refused("list the host's mounts (listmount)", |_| {
        // `struct mnt_id_req`: its size, and LSMT_ROOT for all mounts of the namespace. `libc` has no number for the call.
        let (request, mut mounts) = ([24_u64, u64::MAX, 0], [0_u64; 16]);
        call(458, [address(&request), address_mut(&mut mounts), 16, 0])
    });
    attempts.group(
        "namespaces",
        "the spoke stays in those that it was put into, and makes none",
    );
    for (kind, bit) in KINDS {
        attempts.refused(format!("make a {kind} namespace (unshare)"), move |_| {
            call(libc::SYS_unshare, [flag(bit)])
        });
    }
    // Of a time namespace the bit is part of the signal's number in this call.
    for (kind, bit) in KINDS.into_iter().filter(|(kind, _)| *kind != "time") {
        attempts.add(
            format!("make a {kind} namespace (clone)"),
            move |_| match call(libc::SYS_clone, [flag(bit | SIGCHLD), 0, 0, 0, 0]) {
                Ok(0) => std::process::exit(0),
                other => nothing(other, "made"),
            },
        );
    }
    for (kind, bit) in KINDS
        .into_iter()
        .filter(|(kind, _)| ["mnt", "net", "pid"].contains(kind))
    {
        attempts.refused(
            format!("enter the host's {kind} namespace"),
            move |ground| {
                File::open(format!("/proc/{}/ns/{kind}", ground.hub))
                    .and_then(|file| call(libc::SYS_setns, [flag(file.as_raw_fd()), flag(bit)]))
            },
        );
    }
    calls!(attempts.call;
        "make namespaces past the filter's sight (clone3)": SYS_clone3(&CLONE_ARGUMENTS, 64);
        "enter the namespaces of a process of the host": SYS_setns(PidFd(Process::Victim), CLONE_NEWNET);
        "read a message queue of the host": SYS_msgctl(Queue, libc::IPC_STAT, Words(&[0; 32]));
        "change the host name": SYS_sethostname(b"mine", 4);
        "change the domain name": SYS_setdomainname(b"mine", 4);
    );
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
                match named.collect::<Vec<_>>() {
                    named if named.is_empty() => held("none has a name"),
                    named => escaped(named.join(" ")),
                }
            }
            Err(error) => held(error),
        },
    );
}
