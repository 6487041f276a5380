//! The system calls that a spoke may make, and why. Everything that is not here is refused.
//!
//! The measure is what a Rust program on tokio, CPython and Node need to run an ordinary server. Left out with intent:
//! `ptrace`, `process_vm_*`, `pidfd_getfd`, `kcmp` (other processes' memory and descriptors); `mount` and its family,
//! `chroot`, `pivot_root`, `unshare`, `setns` (other trees and namespaces); `bpf`, `perf_event_open`, `userfaultfd`,
//! `io_uring_*`, `keyctl`, `vmsplice` (large or often exploited parts of the kernel); `memfd_create`, anonymous shared
//! memory and System V memory (memory that no limit counts, and, for the first, code past `noexec`); `setuid`,
//! `seccomp` (nothing to change); `personality` (weakens address randomisation); clocks, modules, swap, reboot, quota.

mod conditional;

use libc::c_long;

pub(super) use conditional::{
    Argument, CONDITIONAL, Conditional, LEGACY_CONDITIONAL, Test, WITH_NAMES, WITH_OWN_SOCKETS,
    WITH_PROGRAM, WITH_PROGRAM_NETWORK,
};

/// A list of calls, several to a line.
macro_rules! calls {
    ($($name:ident)*) => { &[$(libc::$name),*] };
}
#[cfg(test)]
pub(super) use calls;

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

const NO_ATTRIBUTES: &str =
    "an attribute would stay on the host in a writable mount; cp -a then sets modes alone";

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
    (libc::SYS_setxattr, NO_ATTRIBUTES),
    (libc::SYS_lsetxattr, NO_ATTRIBUTES),
    (libc::SYS_fsetxattr, NO_ATTRIBUTES),
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

/// Calls that are allowed in a network of the spoke's own.
pub(super) const LISTENING: &[Group] = &[Group {
    why: "servers that a program starts for itself. Only the spoke is in its network, the hub has its ports already, and a \
        port below 1024 takes a capability. In the host's network a spoke would be reached, and would take its ports",
    calls: &[libc::SYS_listen, libc::SYS_accept, libc::SYS_accept4],
}];

/// Calls without conditions, on every architecture.
pub(super) const GROUPS: &[Group] = &[
    Group {
        why: "start programs, end, and learn about ends",
        calls: calls! {
            SYS_execve SYS_exit SYS_exit_group SYS_wait4 SYS_waitid SYS_set_tid_address SYS_restart_syscall SYS_rseq
            SYS_set_robust_list SYS_getpid SYS_getppid SYS_gettid SYS_getpgid SYS_setpgid SYS_getsid SYS_setsid
            SYS_pidfd_open SYS_pidfd_send_signal
        },
    },
    Group {
        why: "who am I; there is one user and one group, and nothing to change to: make sets both to what they are. Every set \
            of capabilities is empty, so a browser's helpers can only give up what they do not have",
        calls: calls! {
            SYS_getuid SYS_geteuid SYS_getgid SYS_getegid SYS_getresuid SYS_getresgid SYS_getgroups SYS_capget SYS_capset
            SYS_setresuid SYS_setresgid
        },
    },
    Group {
        why: "signals, within the pid namespace",
        calls: calls! {
            SYS_rt_sigaction SYS_rt_sigprocmask SYS_rt_sigreturn SYS_rt_sigpending SYS_rt_sigsuspend
            SYS_rt_sigtimedwait SYS_rt_sigqueueinfo SYS_rt_tgsigqueueinfo SYS_sigaltstack SYS_kill SYS_tkill
            SYS_tgkill SYS_signalfd4
        },
    },
    Group {
        why: "memory; making it executable is what a just-in-time compiler does",
        calls: calls! {
            SYS_brk SYS_munmap SYS_mremap SYS_mprotect SYS_madvise SYS_mincore SYS_msync SYS_mlock SYS_mlock2
            SYS_munlock SYS_membarrier SYS_pkey_alloc SYS_pkey_free SYS_pkey_mprotect SYS_mseal
        },
    },
    Group {
        why: "locks between threads, and their scheduling",
        calls: calls! {
            SYS_futex SYS_futex_waitv SYS_sched_yield SYS_sched_getaffinity SYS_sched_setaffinity SYS_sched_getparam
            SYS_sched_getscheduler SYS_sched_get_priority_max SYS_sched_get_priority_min SYS_getpriority
            SYS_setpriority SYS_getcpu
        },
    },
    Group {
        why: "clocks and timers; none of them sets the time",
        calls: calls! {
            SYS_clock_gettime SYS_clock_getres SYS_clock_nanosleep SYS_nanosleep SYS_gettimeofday SYS_timer_create
            SYS_timer_settime SYS_timer_gettime SYS_timer_getoverrun SYS_timer_delete SYS_timerfd_create
            SYS_timerfd_settime SYS_timerfd_gettime SYS_setitimer SYS_getitimer SYS_times
        },
    },
    Group {
        why: "waiting for events",
        calls: calls! {
            SYS_epoll_create1 SYS_epoll_ctl SYS_epoll_pwait SYS_epoll_pwait2 SYS_ppoll SYS_pselect6 SYS_eventfd2
        },
    },
    Group {
        why: "reading and writing what is open",
        calls: calls! {
            SYS_read SYS_write SYS_readv SYS_writev SYS_pread64 SYS_pwrite64 SYS_preadv SYS_pwritev SYS_preadv2
            SYS_pwritev2 SYS_lseek SYS_sendfile SYS_splice SYS_tee SYS_copy_file_range SYS_ftruncate SYS_fallocate
            SYS_fsync SYS_fdatasync SYS_sync_file_range SYS_fadvise64 SYS_readahead SYS_flock
        },
    },
    Group {
        why: "descriptors and pipes",
        calls: calls! {
            SYS_close SYS_close_range SYS_dup SYS_dup3 SYS_pipe2
        },
    },
    Group {
        why: "files by name; the mount namespace and Landlock decide which",
        calls: calls! {
            SYS_newfstatat SYS_fstat SYS_statx SYS_statfs SYS_fstatfs SYS_faccessat SYS_faccessat2 SYS_readlinkat
            SYS_getdents64 SYS_getcwd SYS_chdir SYS_fchdir SYS_umask SYS_unlinkat SYS_renameat SYS_renameat2
            SYS_linkat SYS_symlinkat SYS_truncate SYS_fchown SYS_fchownat SYS_utimensat SYS_getxattr SYS_lgetxattr
            SYS_fgetxattr SYS_listxattr SYS_llistxattr SYS_flistxattr
        },
    },
    Group {
        why: "sockets; the network namespace has no way out but the spec's listeners, and in the host's network Landlock \
            refuses every other port",
        calls: calls! {
            SYS_connect SYS_bind SYS_getsockname SYS_getpeername SYS_getsockopt SYS_recvfrom SYS_recvmsg SYS_recvmmsg
            SYS_shutdown
        },
    },
    Group {
        why: "limits (which can only be lowered), randomness, and facts about the machine",
        calls: calls! {
            SYS_prlimit64 SYS_getrlimit SYS_setrlimit SYS_getrusage SYS_getrandom SYS_uname SYS_sysinfo
        },
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
        calls: calls! {
            SYS_fork SYS_vfork SYS_getpgrp SYS_pause SYS_alarm SYS_time SYS_epoll_create SYS_epoll_wait SYS_poll
            SYS_select SYS_eventfd SYS_signalfd SYS_dup2 SYS_pipe SYS_stat SYS_lstat SYS_access SYS_readlink
            SYS_getdents SYS_rmdir SYS_unlink SYS_rename SYS_link SYS_symlink SYS_chown SYS_lchown SYS_utime
            SYS_utimes SYS_futimesat
        },
    },
];
/// This architecture never had the older calls.
#[cfg(not(target_arch = "x86_64"))]
pub(super) const LEGACY: &[Group] = &[];
