//! The system calls that a spoke may make, and why. Everything that is not here is refused.
//!
//! The measure is what a Rust program on tokio, CPython and Node need to run an ordinary server. Left out with intent:
//! `ptrace`, `process_vm_*`, `pidfd_getfd`, `kcmp` (other processes' memory and descriptors); `mount` and its family,
//! `chroot`, `pivot_root`, `unshare`, `setns` (other trees and namespaces); `bpf`, `perf_event_open`, `userfaultfd`,
//! `io_uring_*`, `keyctl`, `vmsplice` (large or often exploited parts of the kernel); `memfd_create`, anonymous shared
//! memory and System V memory (memory that no limit counts, and, for the first, code past `noexec`); `set*id`, `capset`,
//! `seccomp` (nothing to change); `personality` (weakens address randomisation); clocks, modules, swap, reboot, quota.

use libc::c_long;

/// Calls that are allowed with any arguments, by what they are for.
pub(super) struct Group {
    /// What needs them.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "read by people, and by the test that asks for it")
    )]
    pub(super) why: &'static str,
    pub(super) calls: &'static [c_long],
}

/// A call that is allowed with some arguments only.
pub(super) struct Conditional {
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "read by people, and by the test that asks for it")
    )]
    pub(super) why: &'static str,
    pub(super) call: c_long,
    /// Alternatives; all tests of one of them have to hold.
    pub(super) alternatives: &'static [&'static [Argument]],
}

/// A test of one argument, of which the lower 32 bits count.
pub(super) struct Argument {
    pub(super) index: u8,
    pub(super) test: Test,
}

pub(super) enum Test {
    /// The argument is this value.
    Is(u64),
    /// Under the mask (first) the argument is this value (second).
    Masked(u64, u64),
}

const fn is(index: u8, value: u64) -> Argument {
    Argument {
        index,
        test: Test::Is(value),
    }
}

const fn masked(index: u8, mask: u64, value: u64) -> Argument {
    Argument {
        index,
        test: Test::Masked(mask, value),
    }
}

/// Namespaces that `clone` could make. (`CLONE_NEWTIME` is none of them: its bit is part of the signal number here.)
const NAMESPACES: u64 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u64;
/// The part of a socket's type that is not flags.
const SOCKET_TYPE: u64 = 0xf;
const STREAM: u64 = libc::SOCK_STREAM as u64;
const DATAGRAM: u64 = libc::SOCK_DGRAM as u64;
const UNIX: u64 = libc::AF_UNIX as u64;
const INET: u64 = libc::AF_INET as u64;
const INET6: u64 = libc::AF_INET6 as u64;
const ANONYMOUS: u64 = libc::MAP_ANONYMOUS as u64;
const SHARED: u64 = libc::MAP_SHARED as u64;

/// Calls with conditions.
pub(super) const CONDITIONAL: &[Conditional] = &[
    Conditional {
        why: "threads and processes, but no namespaces",
        call: libc::SYS_clone,
        alternatives: &[&[masked(0, NAMESPACES, 0)]],
    },
    Conditional {
        why: "Unix and internet sockets; no raw ones, and no netlink, packet, vsock, alg or other family",
        call: libc::SYS_socket,
        alternatives: &[
            &[is(0, UNIX)],
            &[is(0, INET), masked(1, SOCKET_TYPE, STREAM)],
            &[is(0, INET), masked(1, SOCKET_TYPE, DATAGRAM)],
            &[is(0, INET6), masked(1, SOCKET_TYPE, STREAM)],
            &[is(0, INET6), masked(1, SOCKET_TYPE, DATAGRAM)],
        ],
    },
    Conditional {
        why: "pairs of connected sockets, as runtimes use for children and signals",
        call: libc::SYS_socketpair,
        alternatives: &[&[is(0, UNIX)]],
    },
    Conditional {
        why: "memory of a file, or private memory; anonymous shared memory is counted by no limit",
        call: libc::SYS_mmap,
        alternatives: &[&[masked(3, ANONYMOUS, 0)], &[masked(3, SHARED, 0)]],
    },
    Conditional {
        why: "questions about descriptors; no control of terminals (TIOCSTI types for the user) or devices",
        call: libc::SYS_ioctl,
        alternatives: &[
            &[is(1, libc::TCGETS)],
            &[is(1, libc::TCGETS2)],
            &[is(1, libc::TIOCGWINSZ)],
            &[is(1, libc::FIONREAD)],
            &[is(1, libc::FIONBIO)],
            &[is(1, libc::FIOCLEX)],
            &[is(1, libc::FIONCLEX)],
        ],
    },
    Conditional {
        why: "names of threads and memory, and questions; the parent-death signal must stay as it is",
        call: libc::SYS_prctl,
        alternatives: &[
            &[is(0, libc::PR_SET_NAME as u64)],
            &[is(0, libc::PR_GET_NAME as u64)],
            &[is(0, libc::PR_SET_VMA as u64)],
            &[is(0, libc::PR_GET_DUMPABLE as u64)],
            &[is(0, libc::PR_SET_DUMPABLE as u64)],
            &[is(0, libc::PR_GET_SECCOMP as u64)],
            &[is(0, libc::PR_GET_NO_NEW_PRIVS as u64)],
            &[is(0, libc::PR_SET_NO_NEW_PRIVS as u64)],
            &[is(0, libc::PR_CAPBSET_READ as u64)],
        ],
    },
];

/// Calls whose callers know what to do when the kernel is too old for them, and that the filter answers as such a kernel.
pub(super) const UNSUPPORTED: &[(c_long, &str)] = &[
    (
        libc::SYS_clone3,
        "its flags lie behind a pointer, where no filter sees them; libc falls back to clone",
    ),
    (
        libc::SYS_io_uring_setup,
        "libuv and tokio fall back to epoll and threads",
    ),
    (
        libc::SYS_memfd_secret,
        "no limit counts it; callers fall back to ordinary memory",
    ),
];

/// Calls without conditions, on every architecture.
pub(super) const GROUPS: &[Group] = &[
    Group {
        why: "start programs, end, and learn about ends",
        calls: &[
            libc::SYS_execve,
            libc::SYS_exit,
            libc::SYS_exit_group,
            libc::SYS_wait4,
            libc::SYS_waitid,
            libc::SYS_set_tid_address,
            libc::SYS_restart_syscall,
            libc::SYS_rseq,
            libc::SYS_set_robust_list,
            libc::SYS_getpid,
            libc::SYS_getppid,
            libc::SYS_gettid,
            libc::SYS_getpgid,
            libc::SYS_setpgid,
            libc::SYS_getsid,
            libc::SYS_setsid,
            libc::SYS_pidfd_open,
            libc::SYS_pidfd_send_signal,
        ],
    },
    Group {
        why: "who am I; there is one user and one group, and nothing to change to",
        calls: &[
            libc::SYS_getuid,
            libc::SYS_geteuid,
            libc::SYS_getgid,
            libc::SYS_getegid,
            libc::SYS_getresuid,
            libc::SYS_getresgid,
            libc::SYS_getgroups,
            libc::SYS_capget,
        ],
    },
    Group {
        why: "signals, within the pid namespace",
        calls: &[
            libc::SYS_rt_sigaction,
            libc::SYS_rt_sigprocmask,
            libc::SYS_rt_sigreturn,
            libc::SYS_rt_sigpending,
            libc::SYS_rt_sigsuspend,
            libc::SYS_rt_sigtimedwait,
            libc::SYS_rt_sigqueueinfo,
            libc::SYS_rt_tgsigqueueinfo,
            libc::SYS_sigaltstack,
            libc::SYS_kill,
            libc::SYS_tkill,
            libc::SYS_tgkill,
            libc::SYS_signalfd4,
        ],
    },
    Group {
        why: "memory; making it executable is what a just-in-time compiler does",
        calls: &[
            libc::SYS_brk,
            libc::SYS_munmap,
            libc::SYS_mremap,
            libc::SYS_mprotect,
            libc::SYS_madvise,
            libc::SYS_mincore,
            libc::SYS_msync,
            libc::SYS_mlock,
            libc::SYS_mlock2,
            libc::SYS_munlock,
            libc::SYS_membarrier,
            libc::SYS_pkey_alloc,
            libc::SYS_pkey_free,
            libc::SYS_pkey_mprotect,
            libc::SYS_mseal,
        ],
    },
    Group {
        why: "locks between threads, and their scheduling",
        calls: &[
            libc::SYS_futex,
            libc::SYS_futex_waitv,
            libc::SYS_sched_yield,
            libc::SYS_sched_getaffinity,
            libc::SYS_sched_setaffinity,
            libc::SYS_sched_getparam,
            libc::SYS_sched_getscheduler,
            libc::SYS_sched_get_priority_max,
            libc::SYS_sched_get_priority_min,
            libc::SYS_getpriority,
            libc::SYS_setpriority,
            libc::SYS_getcpu,
        ],
    },
    Group {
        why: "clocks and timers; none of them sets the time",
        calls: &[
            libc::SYS_clock_gettime,
            libc::SYS_clock_getres,
            libc::SYS_clock_nanosleep,
            libc::SYS_nanosleep,
            libc::SYS_gettimeofday,
            libc::SYS_timer_create,
            libc::SYS_timer_settime,
            libc::SYS_timer_gettime,
            libc::SYS_timer_getoverrun,
            libc::SYS_timer_delete,
            libc::SYS_timerfd_create,
            libc::SYS_timerfd_settime,
            libc::SYS_timerfd_gettime,
            libc::SYS_setitimer,
            libc::SYS_getitimer,
            libc::SYS_times,
        ],
    },
    Group {
        why: "waiting for events",
        calls: &[
            libc::SYS_epoll_create1,
            libc::SYS_epoll_ctl,
            libc::SYS_epoll_pwait,
            libc::SYS_epoll_pwait2,
            libc::SYS_ppoll,
            libc::SYS_pselect6,
            libc::SYS_eventfd2,
            libc::SYS_inotify_init1,
            libc::SYS_inotify_add_watch,
            libc::SYS_inotify_rm_watch,
        ],
    },
    Group {
        why: "reading and writing what is open",
        calls: &[
            libc::SYS_read,
            libc::SYS_write,
            libc::SYS_readv,
            libc::SYS_writev,
            libc::SYS_pread64,
            libc::SYS_pwrite64,
            libc::SYS_preadv,
            libc::SYS_pwritev,
            libc::SYS_preadv2,
            libc::SYS_pwritev2,
            libc::SYS_lseek,
            libc::SYS_sendfile,
            libc::SYS_splice,
            libc::SYS_tee,
            libc::SYS_copy_file_range,
            libc::SYS_ftruncate,
            libc::SYS_fallocate,
            libc::SYS_fsync,
            libc::SYS_fdatasync,
            libc::SYS_sync_file_range,
            libc::SYS_fadvise64,
            libc::SYS_readahead,
            libc::SYS_flock,
        ],
    },
    Group {
        why: "descriptors and pipes",
        calls: &[
            libc::SYS_close,
            libc::SYS_close_range,
            libc::SYS_dup,
            libc::SYS_dup3,
            libc::SYS_fcntl,
            libc::SYS_pipe2,
        ],
    },
    Group {
        why: "files by name; the mount namespace and Landlock decide which",
        calls: &[
            libc::SYS_openat,
            libc::SYS_openat2,
            libc::SYS_newfstatat,
            libc::SYS_fstat,
            libc::SYS_statx,
            libc::SYS_statfs,
            libc::SYS_fstatfs,
            libc::SYS_faccessat,
            libc::SYS_faccessat2,
            libc::SYS_readlinkat,
            libc::SYS_getdents64,
            libc::SYS_getcwd,
            libc::SYS_chdir,
            libc::SYS_fchdir,
            libc::SYS_umask,
            libc::SYS_mkdirat,
            libc::SYS_unlinkat,
            libc::SYS_renameat,
            libc::SYS_renameat2,
            libc::SYS_linkat,
            libc::SYS_symlinkat,
            libc::SYS_truncate,
            libc::SYS_fchmod,
            libc::SYS_fchmodat,
            libc::SYS_fchmodat2,
            libc::SYS_fchown,
            libc::SYS_fchownat,
            libc::SYS_utimensat,
            libc::SYS_getxattr,
            libc::SYS_lgetxattr,
            libc::SYS_fgetxattr,
            libc::SYS_listxattr,
            libc::SYS_llistxattr,
            libc::SYS_flistxattr,
        ],
    },
    Group {
        why: "sockets; the network namespace has no way out but the spec's listeners",
        calls: &[
            libc::SYS_connect,
            libc::SYS_bind,
            libc::SYS_listen,
            libc::SYS_accept,
            libc::SYS_accept4,
            libc::SYS_getsockname,
            libc::SYS_getpeername,
            libc::SYS_setsockopt,
            libc::SYS_getsockopt,
            libc::SYS_sendto,
            libc::SYS_sendmsg,
            libc::SYS_sendmmsg,
            libc::SYS_recvfrom,
            libc::SYS_recvmsg,
            libc::SYS_recvmmsg,
            libc::SYS_shutdown,
        ],
    },
    Group {
        why: "limits (which can only be lowered), randomness, and facts about the machine",
        calls: &[
            libc::SYS_prlimit64,
            libc::SYS_getrlimit,
            libc::SYS_setrlimit,
            libc::SYS_getrusage,
            libc::SYS_getrandom,
            libc::SYS_uname,
            libc::SYS_sysinfo,
        ],
    },
];

/// Older calls that libc still uses on this architecture, each the twin of one above.
#[cfg(target_arch = "x86_64")]
pub(super) const LEGACY: &[Group] = &[
    Group {
        why: "set the thread pointer when a program starts",
        calls: &[libc::SYS_arch_prctl],
    },
    Group {
        why: "older forms of calls above, in use by C libraries and by programs that call them directly",
        calls: &[
            libc::SYS_fork,
            libc::SYS_vfork,
            libc::SYS_getpgrp,
            libc::SYS_pause,
            libc::SYS_alarm,
            libc::SYS_time,
            libc::SYS_epoll_create,
            libc::SYS_epoll_wait,
            libc::SYS_poll,
            libc::SYS_select,
            libc::SYS_eventfd,
            libc::SYS_signalfd,
            libc::SYS_inotify_init,
            libc::SYS_dup2,
            libc::SYS_pipe,
            libc::SYS_open,
            libc::SYS_creat,
            libc::SYS_stat,
            libc::SYS_lstat,
            libc::SYS_access,
            libc::SYS_readlink,
            libc::SYS_getdents,
            libc::SYS_mkdir,
            libc::SYS_rmdir,
            libc::SYS_unlink,
            libc::SYS_rename,
            libc::SYS_link,
            libc::SYS_symlink,
            libc::SYS_chmod,
            libc::SYS_chown,
            libc::SYS_lchown,
            libc::SYS_utime,
            libc::SYS_utimes,
            libc::SYS_futimesat,
        ],
    },
];
/// This architecture never had the older calls.
#[cfg(not(target_arch = "x86_64"))]
pub(super) const LEGACY: &[Group] = &[];
