//! The system calls that a spoke may make, and why. Everything that is not here is refused.
//!
//! The measure is what a Rust program on tokio, CPython and Node need to run an ordinary server. Left out with intent:
//! `ptrace`, `process_vm_*`, `pidfd_getfd`, `kcmp` (other processes' memory and descriptors); `mount` and its family,
//! `chroot`, `pivot_root`, `unshare`, `setns` (other trees and namespaces); `bpf`, `perf_event_open`, `userfaultfd`,
//! `io_uring_*`, `keyctl`, `vmsplice` (large or often exploited parts of the kernel); `memfd_create`, anonymous shared
//! memory and System V memory (memory that no limit counts, and, for the first, code past `noexec`); `listen` (nobody is to
//! connect to a spoke); `set*id`, `capset`,
//! `seccomp` (nothing to change); `personality` (weakens address randomisation); clocks, modules, swap, reboot, quota.

mod conditional;

use libc::c_long;

pub(super) use conditional::{
    Argument, CONDITIONAL, Conditional, LEGACY_CONDITIONAL, Test, WITH_NAMES,
};

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
        libc::SYS_openat2,
        "the mode of a new file lies behind a pointer, where no filter sees it; callers fall back to openat",
    ),
    (
        libc::SYS_memfd_secret,
        "no limit counts it; callers fall back to ordinary memory",
    ),
];

/// Calls that are allowed where the number of watchers is bounded.
pub(super) const WATCHERS: &[Group] = &[Group {
    why: "servers that watch files for changes",
    calls: &[
        libc::SYS_inotify_init1,
        libc::SYS_inotify_add_watch,
        libc::SYS_inotify_rm_watch,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_inotify_init,
    ],
}];

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
            libc::SYS_pipe2,
        ],
    },
    Group {
        why: "files by name; the mount namespace and Landlock decide which",
        calls: &[
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
            libc::SYS_unlinkat,
            libc::SYS_renameat,
            libc::SYS_renameat2,
            libc::SYS_linkat,
            libc::SYS_symlinkat,
            libc::SYS_truncate,
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
        why: "sockets; the network namespace has no way out but the spec's listeners. None listens: Landlock refuses a port by \
            name, and a socket without one would get one by listening",
        calls: &[
            libc::SYS_connect,
            libc::SYS_bind,
            libc::SYS_getsockname,
            libc::SYS_getpeername,
            libc::SYS_getsockopt,
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
            libc::SYS_dup2,
            libc::SYS_pipe,
            libc::SYS_stat,
            libc::SYS_lstat,
            libc::SYS_access,
            libc::SYS_readlink,
            libc::SYS_getdents,
            libc::SYS_rmdir,
            libc::SYS_unlink,
            libc::SYS_rename,
            libc::SYS_link,
            libc::SYS_symlink,
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
