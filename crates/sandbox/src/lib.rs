//! Default-deny process isolation for spokes.
//!
//! A spoke is executed clean, never forked out of the hub's memory, in two stages:
//!
//! 1. [`spawn`] (hub side) executes the spoke binary with the single argument `sandbox-init`, an empty environment
//!    and four descriptors: 0 the control socket, 1 `/dev/null`, 2 a pipe for stderr, and the spoke's channel, which
//!    travels over the control socket together with the [`Spec`].
//! 2. [`init_main`] (child side) takes every layer of [`Layer`], proves to the hub what it took ([`Enforced`]), and
//!    executes the same binary again as `spoke`, which then is process 1 of its own pid namespace.
//!
//! A layer that the kernel does not offer refuses the start with an error that names it, unless
//! [`Spec::allow_degraded`] gives it up by name. The hub does not believe "started": it refuses a spoke whose report
//! is less than what was asked for.
//!
//! Linux only. No thread of the caller has to outlive a spoke: spokes are children of a thread of this crate that lives
//! as long as the process, because the kernel's parent-death signal is tied to the *thread* that forked.

mod channel;
mod container;
mod control;
mod control_group;
mod error;
mod handle;
mod init;
mod layer;
mod mounted;
mod quota;
mod remedy;
mod spawn;
mod spec;
mod streams;
mod sys;

pub use channel::inherited_channel;
pub use container::{Container, Engine};
pub use control_group::WholeSpoke;
pub use error::SandboxError;
pub use handle::{NameSockets, Sandboxed};
pub use init::{INIT_ARGUMENT, SPOKE_ARGUMENT, init_main};
pub use layer::{Enforced, Layer, LayerStatus, UnknownLayer};
pub use quota::Overrun;
pub use spawn::{probe, spawn, spawn_program, whole_spoke};
pub use spec::{Access, Limits, Mount, Quota, Spec};
pub use streams::Streams;
pub use sys::landlock_abi;

/// Names of the limits and defaults, each with its reason.
pub mod defaults {
    pub use crate::init::{ETC, SYSTEM};
    pub use crate::spec::{
        ADDRESS_SPACE_BYTES, FILE_BYTES, MAX_ENVIRONMENT, MAX_LISTENERS, MAX_MOUNTS,
        MAX_SPEC_BYTES, MEMORY_BYTES, NAMES_NETWORK, OPEN_FILES, PROCESSES, PROGRAM_OPEN_FILES,
        PROGRAM_PROCESSES, PROGRAM_TMP_FILES, PROGRAM_WATCHES, RESOLVER_PORT, START_TIMEOUT,
        TMP_BYTES, TMP_FILES, UNCOUNTED_OPEN_FILES, WATCHERS, WATCHES,
    };
}
