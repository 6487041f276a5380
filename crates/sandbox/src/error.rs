//! What can go wrong. Every variant means: no spoke is running.

use std::io;
use std::path::PathBuf;

use crate::Layer;

/// Why no sandboxed spoke was started. Everything that had been started is gone when this is returned.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The specification itself is wrong.
    #[error("sandbox specification refused: {0}")]
    Spec(String),
    /// A folder is over its size already.
    #[error("{0}")]
    Full(String),
    /// The spoke binary could not be executed.
    #[error("cannot execute {program}: {source}; check the path of the spoke binary and its permissions", program = program.display())]
    Execute {
        /// What should have been executed.
        program: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The kernel does not offer a layer, and the specification does not give it up.
    #[error(
        "sandbox layer {layer} is not available: {reason}; enable it, or give it up with --allow-degraded {layer} ({})",
        layer.without_it()
    )]
    LayerMissing {
        /// The layer.
        layer: Layer,
        /// The kernel's reason.
        reason: String,
    },
    /// The init process reported less than was asked for.
    #[error(
        "the sandbox reports no {0} and the specification did not give it up; check that hub and spoke binary are of one version"
    )]
    Unenforced(Layer),
    /// The init process could not build the sandbox, for a reason that is no layer's.
    #[error("cannot build the sandbox: {0}")]
    Init(String),
    /// The init process ended without a word.
    #[error("the sandbox ended before the spoke started ({0}); its stderr may say more")]
    Died(String),
    /// The init process did not answer in time.
    #[error("the sandbox was not ready within {0} s; the machine may be overloaded, try again")]
    Timeout(u64),
    /// The hub's side of the control socket failed.
    #[error("control socket of the sandbox: {0}")]
    Control(String),
    /// A system call on the hub's side failed.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The system's reason.
        source: io::Error,
    },
}

impl SandboxError {
    pub(crate) fn system(what: &'static str) -> impl Fn(rustix::io::Errno) -> Self {
        move |errno| Self::System {
            what,
            source: errno.into(),
        }
    }
}
