//! The system calls that a spoke may make with some arguments only.

use libc::c_long;

/// A call that is allowed with some arguments only.
pub(in crate::init) struct Conditional {
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "read by people, and by the test that asks for it")
    )]
    pub(in crate::init) why: &'static str,
    pub(in crate::init) call: c_long,
    /// Alternatives; all tests of one of them have to hold.
    pub(in crate::init) alternatives: &'static [&'static [Argument]],
}

/// A test of one argument, of which the lower 32 bits count.
pub(in crate::init) struct Argument {
    pub(in crate::init) index: u8,
    pub(in crate::init) test: Test,
}

pub(in crate::init) enum Test {
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

/// Alternatives of which each is one value of the argument with this number.
macro_rules! any_of {
    ($index:literal: $($name:ident)* $(; $own:ident)?) => {
        &[$(&[is($index, libc::$name as u64)],)* $(&[is($index, $own)])?]
    };
}

/// Options of sockets, by their levels.
macro_rules! options {
    ($($level:ident: $($name:ident)*;)*) => {
        &[$($(&[is(1, libc::$level as u64), is(2, libc::$name as u64)],)*)*]
    };
}

/// Calls with conditions.
pub(in crate::init) const CONDITIONAL: &[Conditional] = &[
    Conditional {
        why: "threads and processes, but no namespaces",
        call: libc::SYS_clone,
        alternatives: &[&[masked(0, NAMESPACES, 0)]],
    },
    Conditional {
        why: "TCP; a Unix socket would reach those of the host that lie in a mount, UDP and MPTCP pass Landlock's rules, and \
            raw, netlink, packet, vsock, alg and other sockets are parts of the kernel to attack",
        call: libc::SYS_socket,
        alternatives: &[
            &[is(0, INET), masked(1, SOCKET_TYPE, STREAM), is(2, 0)],
            &[is(0, INET), masked(1, SOCKET_TYPE, STREAM), is(2, TCP)],
            &[is(0, INET6), masked(1, SOCKET_TYPE, STREAM), is(2, 0)],
            &[is(0, INET6), masked(1, SOCKET_TYPE, STREAM), is(2, TCP)],
        ],
    },
    Conditional {
        why: "pairs of connected sockets, as runtimes use for children and signals; not of datagrams, each of which can name \
            another socket as where it goes",
        call: libc::SYS_socketpair,
        alternatives: &[
            &[is(0, UNIX), masked(1, SOCKET_TYPE, STREAM)],
            &[is(0, UNIX), masked(1, SOCKET_TYPE, SEQPACKET)],
        ],
    },
    Conditional {
        why: "sending, but not with an address to connect to on the way",
        call: libc::SYS_sendto,
        alternatives: &[&[masked(3, FAST_OPEN, 0)]],
    },
    Conditional {
        why: "as sendto: no address to connect to on the way",
        call: libc::SYS_sendmsg,
        alternatives: &[&[masked(2, FAST_OPEN, 0)]],
    },
    Conditional {
        why: "as sendto: no address to connect to on the way",
        call: libc::SYS_sendmmsg,
        alternatives: &[&[masked(3, FAST_OPEN, 0)]],
    },
    Conditional {
        why: "how a connection behaves; not how much memory of the kernel it takes (SO_SNDBUF, SO_RCVBUF), which no limit of a \
            process counts, no filter programs, and no connection past `connect` (TCP_FASTOPEN_CONNECT)",
        call: libc::SYS_setsockopt,
        alternatives: options! {
            SOL_SOCKET: SO_REUSEADDR SO_REUSEPORT SO_KEEPALIVE SO_LINGER SO_OOBINLINE SO_PASSCRED SO_RCVTIMEO
            SO_SNDTIMEO;
            IPPROTO_IP: IP_TOS;
            IPPROTO_IPV6: IPV6_V6ONLY IPV6_TCLASS;
            IPPROTO_TCP: TCP_NODELAY TCP_CORK TCP_QUICKACK TCP_KEEPIDLE TCP_KEEPINTVL TCP_KEEPCNT TCP_USER_TIMEOUT
            TCP_DEFER_ACCEPT;
        },
    },
    Conditional {
        why: "memory of a file, or private memory; anonymous shared memory is counted by no limit, and memory that grows \
            downwards counts as stack",
        call: libc::SYS_mmap,
        alternatives: &[
            &[masked(3, ANONYMOUS | GROWS_DOWN, 0)],
            &[masked(3, SHARED | GROWS_DOWN, 0)],
        ],
    },
    Conditional {
        why: "open files, and make them without set-user-id bits; an open that makes nothing has no mode",
        call: libc::SYS_openat,
        alternatives: &[&[masked(2, CREATES, 0)], &[plain_mode(3)]],
    },
    Conditional {
        why: "make directories without set-group-id bits",
        call: libc::SYS_mkdirat,
        alternatives: &[&[plain_mode(2)]],
    },
    Conditional {
        why: "change modes, but not to set-user-id ones",
        call: libc::SYS_fchmod,
        alternatives: &[&[plain_mode(1)]],
    },
    Conditional {
        why: "as fchmod: no set-user-id modes",
        call: libc::SYS_fchmodat,
        alternatives: &[&[plain_mode(2)]],
    },
    Conditional {
        why: "as fchmod: no set-user-id modes",
        call: libc::SYS_fchmodat2,
        alternatives: &[&[plain_mode(2)]],
    },
    Conditional {
        why: "questions about descriptors; no control of terminals (TIOCSTI types for the user) or devices",
        call: libc::SYS_ioctl,
        alternatives: any_of!(1:
            TCGETS TCGETS2 TIOCGWINSZ FIONREAD FIONBIO FIOCLEX FIONCLEX
        ),
    },
    Conditional {
        why: "flags, copies and locks of descriptors; no leases (a program that opens the file on the host would wait for the spoke), no \
            watches that nothing counts (F_NOTIFY), no larger pipes (which come out of what the user has on the whole machine), \
            no signals by the kernel",
        call: libc::SYS_fcntl,
        alternatives: any_of!(1:
            F_DUPFD F_DUPFD_CLOEXEC F_GETFD F_SETFD F_GETFL F_SETFL F_GETLK F_SETLK F_SETLKW F_OFD_GETLK F_OFD_SETLK
            F_OFD_SETLKW F_GETPIPE_SZ F_GET_SEALS; DUPLICATE_OF
        ),
    },
    Conditional {
        why: "names of threads and memory, and questions; the parent-death signal must stay as it is",
        call: libc::SYS_prctl,
        alternatives: any_of!(0:
            PR_SET_NAME PR_GET_NAME PR_SET_VMA PR_GET_DUMPABLE PR_SET_DUMPABLE PR_GET_SECCOMP PR_GET_NO_NEW_PRIVS
            PR_SET_NO_NEW_PRIVS PR_CAPBSET_READ
        ),
    },
];

/// What a spoke with names may do as well, by calls that stand above.
pub(in crate::init) const WITH_NAMES: &[Conditional] = &[
    Conditional {
        why: "UDP, by which programs ask for names: C libraries use nothing else, and one of them looks for its own addresses \
            so. Landlock has no rule for it, but there is no route to anywhere, and only the resolver listens",
        call: libc::SYS_socket,
        alternatives: &[
            &[is(0, INET), masked(1, SOCKET_TYPE, DATAGRAM), is(2, 0)],
            &[
                is(0, INET),
                masked(1, SOCKET_TYPE, DATAGRAM),
                is(2, UDP_PROTOCOL),
            ],
        ],
    },
    Conditional {
        why: "to hear that a port is closed; glibc asks for no names without it",
        call: libc::SYS_setsockopt,
        alternatives: options! { IPPROTO_IP: IP_RECVERR; },
    },
];

/// What a spoke may do as well where no socket of the host can be reached by a path, by calls that stand above. Abstract names
/// are those of the spoke's own network.
pub(in crate::init) const WITH_OWN_SOCKETS: &[Conditional] = &[
    Conditional {
        why: "Unix sockets, by which the processes of a program talk: Node's tsx, Python's forkserver, browsers",
        call: libc::SYS_socket,
        alternatives: &[
            &[is(0, UNIX), masked(1, SOCKET_TYPE, STREAM)],
            &[is(0, UNIX), masked(1, SOCKET_TYPE, DATAGRAM)],
            &[is(0, UNIX), masked(1, SOCKET_TYPE, SEQPACKET)],
        ],
    },
    Conditional {
        why: "pairs of datagram sockets, each of which can name another socket as where it goes",
        call: libc::SYS_socketpair,
        alternatives: &[&[is(0, UNIX), masked(1, SOCKET_TYPE, DATAGRAM)]],
    },
];

/// What a spoke may do as well that runs a program which the user works with, by calls that stand above.
pub(in crate::init) const WITH_PROGRAM: &[Conditional] = &[
    Conditional {
        why: "terminals: the one that was made for the program, and its own. Modes, sizes, foreground groups and pairs, but no \
            typing for the user (TIOCSTI), no other line discipline (TIOCSETD) and no console (TIOCLINUX)",
        call: libc::SYS_ioctl,
        alternatives: any_of!(1:
            TCSETS TCSETSW TCSETSF TCSETS2 TCSETSW2 TCSETSF2 TCSBRK TCSBRKP TCFLSH TCXONC TIOCSWINSZ TIOCGPGRP
            TIOCSPGRP TIOCGSID TIOCSCTTY TIOCNOTTY TIOCOUTQ TIOCGPTN TIOCSPTLCK TIOCGPTLCK TIOCGPTPEER TIOCPKT
        ),
    },
    Conditional {
        why: "children that end with their parent. Only process 1 could outlive the hub by it, and no program runs there",
        call: libc::SYS_prctl,
        alternatives: &[&[is(0, libc::PR_SET_PDEATHSIG as u64)]],
    },
    Conditional {
        why: "anonymous shared memory, by which programs talk to children; all of a program may have what the machine has",
        call: libc::SYS_mmap,
        alternatives: &[&[masked(3, GROWS_DOWN, 0)]],
    },
    Conditional {
        why: "named pipes, by which builds share their processors; Landlock lets them be made in /tmp",
        call: libc::SYS_mknodat,
        alternatives: &[&[masked(
            2,
            libc::S_IFMT as u64 | SET_ID,
            libc::S_IFIFO as u64,
        )]],
    },
];

/// The same in a network of its own.
pub(in crate::init) const WITH_PROGRAM_NETWORK: &[Conditional] = &[Conditional {
    why: "the list of interfaces (NETLINK_ROUTE), for which Node ends a program that cannot have it. There is loopback alone, and \
        to change anything takes a capability",
    call: libc::SYS_socket,
    alternatives: &[
        &[is(0, NETLINK), masked(1, SOCKET_TYPE, RAW), is(2, 0)],
        &[is(0, NETLINK), masked(1, SOCKET_TYPE, DATAGRAM), is(2, 0)],
    ],
}];

/// Older forms of the conditional calls above, which C libraries still use on this architecture.
#[cfg(target_arch = "x86_64")]
pub(in crate::init) const LEGACY_CONDITIONAL: &[Conditional] = &[
    Conditional {
        why: "as openat: files without set-user-id bits",
        call: libc::SYS_open,
        alternatives: &[&[masked(1, CREATES, 0)], &[plain_mode(2)]],
    },
    Conditional {
        why: "as openat, and it always makes a file",
        call: libc::SYS_creat,
        alternatives: &[&[plain_mode(1)]],
    },
    Conditional {
        why: "as mkdirat: directories without set-group-id bits",
        call: libc::SYS_mkdir,
        alternatives: &[&[plain_mode(1)]],
    },
    Conditional {
        why: "as fchmod: no set-user-id modes",
        call: libc::SYS_chmod,
        alternatives: &[&[plain_mode(1)]],
    },
];
/// This architecture never had the older calls.
#[cfg(not(target_arch = "x86_64"))]
pub(in crate::init) const LEGACY_CONDITIONAL: &[Conditional] = &[];

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
const SEQPACKET: u64 = libc::SOCK_SEQPACKET as u64;
const RAW: u64 = libc::SOCK_RAW as u64;
const NETLINK: u64 = libc::AF_NETLINK as u64;
const UNIX: u64 = libc::AF_UNIX as u64;
const INET: u64 = libc::AF_INET as u64;
const INET6: u64 = libc::AF_INET6 as u64;
const TCP: u64 = libc::IPPROTO_TCP as u64;
const UDP_PROTOCOL: u64 = libc::IPPROTO_UDP as u64;
const ANONYMOUS: u64 = libc::MAP_ANONYMOUS as u64;
const SHARED: u64 = libc::MAP_SHARED as u64;
const GROWS_DOWN: u64 = libc::MAP_GROWSDOWN as u64;
/// `F_DUPFD_QUERY`: whether two descriptors are of one open file.
const DUPLICATE_OF: u64 = 1027;
/// A message that opens its own connection, past Landlock's rule for `connect`.
const FAST_OPEN: u64 = libc::MSG_FASTOPEN as u64;
/// The bits of a mode with which a file runs as its owner or its group. In a writable mount such a file would stay on
/// the host, and run there as the user who started the hub.
const SET_ID: u64 = (libc::S_ISUID | libc::S_ISGID) as u64;
/// Flags with which `open` makes a file, and so looks at the mode. (`O_TMPFILE` without the bit of `O_DIRECTORY`.)
const CREATES: u64 = (libc::O_CREAT | (libc::O_TMPFILE & !libc::O_DIRECTORY)) as u64;

/// A mode without set-user-id and set-group-id bits.
const fn plain_mode(index: u8) -> Argument {
    masked(index, SET_ID, 0)
}
