//! Sandboxes with a layer less, so that the suite is known to bite.
//!
//! The layer is taken away by a filter on the process that starts the spoke: its kernel then refuses what the layer is
//! made by. The sandbox refuses to start there, unless the layer is given up by its name.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use sandbox::Layer::{
    self, Capabilities, CgroupNamespace, IpcNamespace, Landlock, LandlockNetwork, LandlockScope,
    MountNamespace, NetNamespace, NoNewPrivileges, PidNamespace, ProcessLimit, Rlimits, Seccomp,
    UserNamespace, UtsNamespace,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};

use crate::job::{Job, Outcome, Who};
use crate::kernel::{address, call, flag};
use crate::{Error, Observed};

/// A sandbox with less.
#[derive(Debug)]
pub struct Weaker {
    /// What is taken away, by the name of its layer.
    pub name: &'static str,
    /// All that has to be given up.
    pub layers: &'static [Layer],
    /// Calls that the kernel shall not have.
    missing: &'static [Missing],
    /// A sandbox that still has the layer of the name, but not the others: there the attempts below fail. `None` where
    /// nothing else had to go.
    pub companion: Option<&'static str>,
    /// Whether only root can run a spoke so.
    pub for_root: bool,
    /// Who makes them.
    who: Who,
    /// These attempts succeed in it, and do not in the companion or the whole sandbox. Nothing else is tried in it, since
    /// that could harm the host.
    pub lets_through: &'static [&'static str],
}

/// A call that the kernel shall not have, with the arguments for which it has not.
#[derive(Debug)]
struct Missing(libc::c_long, &'static [Test]);

#[derive(Debug)]
enum Test {
    /// The argument has this bit.
    Has(u8, u64),
    /// The argument is this value.
    Is(u8, u64),
    /// The argument is not this value.
    Not(u8, u64),
}

const fn unshare(namespace: &'static [Test]) -> Missing {
    Missing(libc::SYS_unshare, namespace)
}

const LANDLOCK: [Layer; 3] = [Landlock, LandlockNetwork, LandlockScope];
const NO_LANDLOCK: Missing = Missing(libc::SYS_landlock_create_ruleset, &[]);
/// 2 is LANDLOCK_RULE_NET_PORT: rules on paths are still there.
const NO_LANDLOCK_NETWORK: Missing = Missing(libc::SYS_landlock_add_rule, &[Test::Is(1, 2)]);
const NO_SECCOMP: Missing = Missing(libc::SYS_seccomp, &[]);
const NO_USER: Missing = unshare(&[Test::Has(0, libc::CLONE_NEWUSER as u64)]);
const NO_MOUNT: Missing = unshare(&[Test::Has(0, libc::CLONE_NEWNS as u64)]);
const NO_PID: Missing = unshare(&[Test::Has(0, libc::CLONE_NEWPID as u64)]);
const NO_NET: Missing = unshare(&[Test::Has(0, libc::CLONE_NEWNET as u64)]);
const NO_IPC: Missing = unshare(&[Test::Has(0, libc::CLONE_NEWIPC as u64)]);
/// Limits of everything but processes. A call whose new limit is null only reads one, and is left.
const NO_LIMITS: Missing = Missing(
    libc::SYS_prlimit64,
    &[Test::Not(1, libc::RLIMIT_NPROC as u64), Test::Not(2, 0)],
);
const NO_PROCESS_LIMIT: Missing = Missing(
    libc::SYS_prlimit64,
    &[Test::Is(1, libc::RLIMIT_NPROC as u64), Test::Not(2, 0)],
);
const NO_BOUNDING: Missing = Missing(
    libc::SYS_prctl,
    &[Test::Is(0, libc::PR_CAPBSET_DROP as u64)],
);
const NO_PROMISE: Missing = Missing(
    libc::SYS_prctl,
    &[Test::Is(0, libc::PR_SET_NO_NEW_PRIVS as u64)],
);
const SET_ID: &[&str] = &["run a set-user-id program in a mount for programs"];

/// A sandbox without one layer, which needs nothing else to go.
const fn without(
    name: &'static str,
    layers: &'static [Layer],
    missing: &'static [Missing],
    lets_through: &'static [&'static str],
) -> Weaker {
    Weaker {
        name,
        layers,
        missing,
        companion: None,
        for_root: false,
        who: Who::Spoke,
        lets_through,
    }
}

/// Every weaker sandbox. Each layer is missing in one of them.
pub const fn all() -> &'static [Weaker] {
    ALL
}

const ALL: &[Weaker] = &[
    without(
        "seccomp",
        &[Seccomp],
        &[NO_SECCOMP],
        &[
            "a file without a name (memfd)",
            "make a user namespace (unshare)",
            "a socket of AF_NETLINK",
            "a socket of UDP",
            "trace a child",
            "read a child's memory",
            "take a descriptor of a child",
            "release memory of a dying child",
            "leave a set-user-id file by chmod",
            "connect to the host's socket in a mount",
            "connect to the host's socket in a writable mount",
            "send a datagram to the host's socket in a mount for programs",
            "connect one of a pair to the host's socket",
            "hold the host's writers back by a lease",
            "shared pages of nothing",
            "set larger buffers for sending",
            "set another protocol on top",
            "set keys for connections",
            "register with a ring",
            "a key by asking the host's helper",
            "events of a whole file system (fanotify)",
            "quotas",
            "a quota for oneself",
            "install a filter of one's own",
            "change the speculation controls",
            "type into the terminal",
            "paste into the console",
            "take a terminal",
        ],
    ),
    without(
        "landlock",
        &LANDLOCK,
        &[NO_LANDLOCK],
        &[
            "write to the zero device",
            "bind one of a pair to a name in a writable mount",
        ],
    ),
    without(
        "landlock and seccomp",
        &[Landlock, LandlockNetwork, LandlockScope, Seccomp],
        &[NO_LANDLOCK, NO_SECCOMP],
        &["leave a socket in a writable mount"],
    ),
    Weaker {
        for_root: true,
        ..without("user-namespace", &[UserNamespace], &[NO_USER], &["be root"])
    },
    without(
        "mount-namespace",
        &[MountNamespace],
        &[NO_MOUNT],
        &["see that the hub's secret is there"],
    ),
    without(
        "pid-namespace",
        // The bound on root's processes is one of the namespace.
        &[PidNamespace, ProcessLimit],
        &[NO_PID],
        &[
            "see whether a process of the host is there",
            "learn the session of a process of the host",
        ],
    ),
    without(
        "net-namespace",
        &[NetNamespace],
        &[NO_NET],
        &[
            "connect to the host by a permitted port of another address",
            "find what the host listens on",
        ],
    ),
    Weaker {
        companion: Some("net-namespace"),
        ..without(
            "landlock-network",
            &[NetNamespace, LandlockNetwork],
            &[NO_NET, NO_LANDLOCK_NETWORK],
            &["have a way to a public address", "take a port of the host"],
        )
    },
    Weaker {
        companion: Some("net-namespace"),
        ..without(
            "net-namespace and seccomp",
            &[NetNamespace, Seccomp],
            &[NO_NET, NO_SECCOMP],
            &["listen on the host without a port"],
        )
    },
    Weaker {
        who: Who::Programs,
        companion: Some("net-namespace"),
        ..without(
            "net-namespace, landlock and seccomp",
            &[
                NetNamespace,
                Landlock,
                LandlockNetwork,
                LandlockScope,
                Seccomp,
            ],
            &[NO_NET, NO_LANDLOCK, NO_SECCOMP],
            &[
                "connect to an abstract name of the host",
                "send a datagram to an abstract name of the host",
                "connect to another spoke's port",
                "connect to another spoke's abstract name",
            ],
        )
    },
    Weaker {
        who: Who::Programs,
        companion: Some("mount-namespace"),
        ..without(
            "mount-namespace and seccomp",
            &[MountNamespace, Seccomp],
            &[NO_MOUNT, NO_SECCOMP],
            &[
                "connect to the host's socket in a folder of programs by a stream",
                "connect to the host's socket in a folder of programs by packets",
                "connect to a later socket in a folder of programs by a stream",
                "send a message to the host's socket in a folder of programs",
                "send a descriptor to a later socket in a folder of programs",
                "connect there by a descriptor of its folder",
                "connect to the host's socket where it is on the host",
            ],
        )
    },
    Weaker {
        companion: Some("seccomp"),
        ..without(
            "ipc-namespace",
            &[IpcNamespace, Seccomp],
            &[NO_IPC, NO_SECCOMP],
            &["read a message queue of the host"],
        )
    },
    without(
        "uts-namespace",
        &[UtsNamespace],
        &[unshare(&[Test::Has(0, libc::CLONE_NEWUTS as u64)])],
        &["learn the host's name"],
    ),
    without(
        "cgroup-namespace",
        &[CgroupNamespace],
        &[unshare(&[Test::Has(0, libc::CLONE_NEWCGROUP as u64)])],
        &["learn the names of the host's control groups"],
    ),
    Weaker {
        for_root: true,
        companion: Some("rlimits"),
        ..without(
            "process-limit",
            &[PidNamespace, ProcessLimit, Rlimits],
            &[NO_PID, NO_PROCESS_LIMIT, NO_LIMITS],
            &["processes without end"],
        )
    },
    without(
        "rlimits",
        &[Rlimits],
        &[NO_LIMITS],
        &[
            "private pages",
            "descriptors without end",
            "a file beyond the limit of files",
        ],
    ),
    without(
        "capabilities",
        &[Capabilities],
        &[NO_BOUNDING],
        &["have a capability in the bounding set"],
    ),
    Weaker {
        companion: Some("pid-namespace"),
        ..without(
            "landlock-scope",
            &[
                PidNamespace,
                ProcessLimit,
                Landlock,
                LandlockNetwork,
                LandlockScope,
            ],
            &[NO_PID, NO_LANDLOCK],
            &["signal a process of the host by kill"],
        )
    },
    Weaker {
        for_root: true,
        ..without(
            "set-id companions",
            &[
                UserNamespace,
                MountNamespace,
                Landlock,
                LandlockNetwork,
                LandlockScope,
                Seccomp,
            ],
            &[NO_USER, NO_MOUNT, NO_LANDLOCK, NO_SECCOMP],
            &["swap a folder for another mount's"],
        )
    },
    Weaker {
        for_root: true,
        companion: Some("set-id companions"),
        ..without(
            "no-new-privileges",
            &[
                UserNamespace,
                MountNamespace,
                Landlock,
                LandlockNetwork,
                LandlockScope,
                Seccomp,
                NoNewPrivileges,
            ],
            &[NO_USER, NO_MOUNT, NO_LANDLOCK, NO_SECCOMP, NO_PROMISE],
            SET_ID,
        )
    },
];

/// Whether every attempt that a weaker sandbox is to let through gets through, and does not where that layer is in force.
/// Returns what is not so, in words.
pub fn bites(
    weaker: &Weaker,
    run: impl Fn(&Job) -> Result<Outcome, Error>,
    spoke: &Path,
) -> Result<Vec<String>, Error> {
    let Weaker {
        name,
        companion,
        who,
        lets_through,
        ..
    } = *weaker;
    compare(who, lets_through, run, spoke, (name, companion))
}

/// Which of these attempts do not succeed without something, or do so with it, in words. Both are weaker ones by their names, or
/// the product's.
pub(crate) fn compare(
    who: Who,
    lets_through: &[&str],
    run: impl Fn(&Job) -> Result<Outcome, Error>,
    spoke: &Path,
    (name, companion): (&str, Option<&str>),
) -> Result<Vec<String>, Error> {
    let named = |name: Option<&str>| {
        run(&Job {
            who,
            weaker: name.map(str::to_owned),
            spoke: spoke.to_owned(),
            only: lets_through.iter().map(ToString::to_string).collect(),
        })
    };
    // Whoever names none gets all, which could harm the host.
    if lets_through.is_empty() {
        return Ok(Vec::new());
    }
    let (without, with) = (named(Some(name))?, named(companion)?);
    let mut wrong = Vec::new();
    for attempt in lets_through {
        let of = |outcome: &Outcome| {
            let row = outcome.rows.iter().find(|row| row.attempt == *attempt);
            row.map(|row| row.observed.clone())
        };
        match (of(&without), of(&with)) {
            (Some(Observed::Escaped(_)), Some(Observed::Held(_))) => {}
            // The host has nothing of the kind.
            (Some(Observed::Absent(_)), _) => {}
            (without, with) => wrong.push(format!(
                "{attempt}: {without:?} without {name}, {with:?} with it"
            )),
        }
    }
    Ok(wrong)
}

/// Takes calls away from this process and all that it starts, for good.
pub(crate) fn take_away(weaker: &Weaker) -> Result<(), Error> {
    let mut rules = BTreeMap::<i64, Vec<SeccompRule>>::new();
    for Missing(number, tests) in weaker.missing {
        let conditions = tests.iter().map(|test| {
            let (index, operator, value) = match *test {
                Test::Has(index, bit) => (index, SeccompCmpOp::MaskedEq(bit), bit),
                Test::Is(index, value) => (index, SeccompCmpOp::Eq, value),
                Test::Not(index, value) => (index, SeccompCmpOp::Ne, value),
            };
            SeccompCondition::new(index, SeccompCmpArgLen::Qword, operator, value)
        });
        let conditions: Vec<_> = conditions.collect::<Result<_, _>>()?;
        let of_call = rules.entry(*number).or_default();
        // A call without a rule is refused with any arguments.
        if !conditions.is_empty() {
            of_call.push(SeccompRule::new(conditions)?);
        }
    }
    // The error of a kernel that was built without the call.
    let missing = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
    let arch = std::env::consts::ARCH.try_into()?;
    let filter: BpfProgram =
        SeccompFilter::new(rules, SeccompAction::Allow, missing, arch)?.try_into()?;
    Ok(install(&filter)?)
}

/// Not by the library, which would promise for this process and all below that no privileges are gained: that is a layer
/// of its own, and one of those that are taken away. Root needs no such promise.
fn install(filter: &BpfProgram) -> io::Result<()> {
    const FILTER: usize = 1;
    let program = [filter.len(), address(filter.as_slice())];
    let install = || call(libc::SYS_seccomp, [FILTER, 0, address(&program)]);
    install()
        // Without CAP_SYS_ADMIN the kernel takes a filter only from a process that has promised to gain no privileges.
        .or_else(|_| {
            call(
                libc::SYS_prctl,
                [flag(libc::PR_SET_NO_NEW_PRIVS), 1, 0, 0, 0],
            )?;
            install()
        })
        .map(drop)
}
