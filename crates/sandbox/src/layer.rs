//! The layers of isolation, by name.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// One layer of isolation. All of them are asked for, always; [`crate::Spec::allow_degraded`] gives single ones up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layer {
    /// Own user and group ids: inside, 1000:1000 without any power over what is outside.
    UserNamespace,
    /// Own file tree: a fresh tmpfs root with read-only system directories and the spec's mounts, nothing else.
    MountNamespace,
    /// Own process tree: sees no other process, and dies as a whole with its process 1.
    PidNamespace,
    /// Own network stack: loopback only, and on it only the spec's listeners lead out.
    NetNamespace,
    /// Own System V and POSIX message queues and shared memory.
    IpcNamespace,
    /// Own host name.
    UtsNamespace,
    /// Own view of the control groups.
    CgroupNamespace,
    /// A bound on the number of processes that holds for root as well (`kernel.pid_max` of the own pid namespace, or
    /// `RLIMIT_NPROC` for an ordinary user).
    ProcessLimit,
    /// Bounds on memory, open files and file size per process, no core dumps.
    Rlimits,
    /// No capability in any set, not even in the bounding set.
    Capabilities,
    /// No gain of privileges by executing a file.
    NoNewPrivileges,
    /// Landlock on files: only the mounts, with the rights the spec gives.
    Landlock,
    /// Landlock on TCP: no bind, connect to the listeners' ports only (ABI 4). It is what holds in the host's network.
    LandlockNetwork,
    /// Landlock on signals and abstract Unix sockets: none to the outside (ABI 6).
    LandlockScope,
    /// Default-deny system call filter.
    Seccomp,
}

impl Layer {
    /// Every layer, outermost first.
    pub const ALL: [Self; 15] = [
        Self::UserNamespace,
        Self::MountNamespace,
        Self::PidNamespace,
        Self::NetNamespace,
        Self::IpcNamespace,
        Self::UtsNamespace,
        Self::CgroupNamespace,
        Self::ProcessLimit,
        Self::Rlimits,
        Self::Capabilities,
        Self::NoNewPrivileges,
        Self::Landlock,
        Self::LandlockNetwork,
        Self::LandlockScope,
        Self::Seccomp,
    ];

    /// The name used on the command line and in errors.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::UserNamespace => "user-namespace",
            Self::MountNamespace => "mount-namespace",
            Self::PidNamespace => "pid-namespace",
            Self::NetNamespace => "net-namespace",
            Self::IpcNamespace => "ipc-namespace",
            Self::UtsNamespace => "uts-namespace",
            Self::CgroupNamespace => "cgroup-namespace",
            Self::ProcessLimit => "process-limit",
            Self::Rlimits => "rlimits",
            Self::Capabilities => "capabilities",
            Self::NoNewPrivileges => "no-new-privileges",
            Self::Landlock => "landlock",
            Self::LandlockNetwork => "landlock-network",
            Self::LandlockScope => "landlock-scope",
            Self::Seccomp => "seccomp",
        }
    }

    /// What a spoke could do without this layer, for `sluice doctor` and in errors.
    #[must_use]
    pub const fn without_it(self) -> &'static str {
        match self {
            Self::UserNamespace => {
                "the spoke keeps the hub's user id; only root can make the other namespaces"
            }
            Self::MountNamespace => {
                "the spoke sees the host's file names; only Landlock keeps it from the contents"
            }
            Self::PidNamespace => {
                "the spoke sees the host's processes, and what it started may outlive it"
            }
            Self::NetNamespace => {
                "the spoke is on the host's network; only Landlock keeps it from connecting over TCP"
            }
            Self::IpcNamespace => "the spoke shares message queues with the host",
            Self::UtsNamespace => "the spoke sees the host's name",
            Self::CgroupNamespace => "the spoke sees the names of the host's control groups",
            Self::ProcessLimit => "the spoke can fill the host's process table",
            Self::Rlimits => "the spoke can take all memory and descriptors",
            Self::Capabilities => {
                "the spoke keeps power over its own namespaces, a large kernel attack surface"
            }
            Self::NoNewPrivileges => "set-user-id programs in mounts would work",
            Self::Landlock => "only the mount namespace separates the spoke from files",
            Self::LandlockNetwork => "only the net namespace separates the spoke from the network",
            Self::LandlockScope => {
                "only the pid and net namespaces keep signals and abstract sockets inside"
            }
            Self::Seccomp => "the spoke can call every system call, a large kernel attack surface",
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is no layer's.
#[derive(Debug, thiserror::Error)]
#[error("no sandbox layer is called {0:?}; `sluice doctor` lists the names")]
pub struct UnknownLayer(String);

impl FromStr for Layer {
    type Err = UnknownLayer;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|layer| layer.name() == name)
            .ok_or_else(|| UnknownLayer(name.to_owned()))
    }
}

/// What the init process took before it executed the spoke, in its own words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Enforced {
    /// Layers in force, each with what was verified (`"inode 4026532…"`, `"ABI 7"`, …).
    pub layers: BTreeMap<Layer, String>,
    /// Layers not in force because the kernel refused and the spec gave them up, each with the kernel's reason.
    pub degraded: BTreeMap<Layer, String>,
    /// Things that are missing without weakening the sandbox (for example no `/proc`).
    pub notes: Vec<String>,
}

/// The beginning of a note that gives the reason why the spoke has no Unix sockets.
pub(crate) const NO_SOCKETS: &str = "no Unix sockets";

impl Enforced {
    /// Why the spoke can make no Unix sockets of its own, if it cannot.
    pub fn no_sockets(&self) -> Option<&str> {
        let mut notes = self.notes.iter();
        notes.find_map(|note| note.strip_prefix(NO_SOCKETS)?.strip_prefix(": "))
    }

    /// The first layer that is neither in force nor given up; `None` when the report is all that was asked for.
    #[must_use]
    pub fn shortfall(&self, allow_degraded: &BTreeSet<Layer>) -> Option<Layer> {
        Layer::ALL
            .into_iter()
            .find(|layer| !self.layers.contains_key(layer) && !allow_degraded.contains(layer))
    }
}

/// One line of `sluice doctor`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerStatus {
    /// The layer that was tried.
    pub layer: Layer,
    /// Whether it can be had here, or the kernel's reason why not.
    pub available: Result<(), String>,
    /// What was verified, or what is given up without the layer.
    pub detail: String,
}
