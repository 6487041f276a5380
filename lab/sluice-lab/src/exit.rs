//! How the program ends.

use std::process::ExitCode;

/// What a command came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Done,
    Failed,
    Interrupted,
}

impl Exit {
    /// 0 done, 1 error, 130 interrupted. (2 is a usage error, and clap's.)
    pub(crate) fn code(self) -> ExitCode {
        ExitCode::from(match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Interrupted => 130,
        })
    }
}

/// The work's result, or `None` after Ctrl-C.
#[cfg(feature = "bench")]
pub(crate) async fn interruptible<T>(work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        done = work => Some(done),
        _ = tokio::signal::ctrl_c() => None,
    }
}

/// Says what went wrong.
#[expect(
    clippy::print_stderr,
    reason = "the edge of the program is where errors are shown"
)]
pub(crate) fn failed(error: &anyhow::Error) -> ExitCode {
    eprintln!("sluice-lab: {error:#}");
    ExitCode::from(1)
}
