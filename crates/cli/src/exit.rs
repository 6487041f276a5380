//! How the program ends.

use std::process::ExitCode;

use hub::trace::escape_lines;
use hub::{Outcome, Stop};

use crate::terminal::ReaderGone;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Everything asked for was done.
    Done,
    /// Something failed, or the configuration is not trusted.
    Failed,
    /// Policy or the user refused a call, even if there was an answer.
    Refused,
    /// Ctrl-C.
    Interrupted,
    /// SIGTERM.
    Terminated,
}

impl Exit {
    /// 0 done, 1 error, 3 refused, 130 interrupted, 143 terminated. (2 is a usage error, and clap's.)
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Refused => 3,
            Self::Interrupted => 130,
            Self::Terminated => 143,
        }
    }

    pub(crate) fn code(self) -> ExitCode {
        ExitCode::from(self.number())
    }

    /// How a turn ended.
    pub(crate) fn of(outcome: &Outcome) -> Self {
        match &outcome.result {
            Err(Stop::Interrupted) => Self::Interrupted,
            // The failure ended the turn, not a refusal before it.
            Err(Stop::Model(_) | Stop::Spoke(_) | Stop::Timeout(_)) => Self::Failed,
            _ if outcome.refused > 0 => Self::Refused,
            Err(_) => Self::Failed,
            Ok(_) => Self::Done,
        }
    }
}

/// Prints an error.
#[expect(
    clippy::print_stderr,
    reason = "the edge of the program is where errors are shown"
)]
pub(crate) fn failed(error: &anyhow::Error) -> ExitCode {
    // A closed pipe is the reader's doing; only the exit code says that not everything was printed.
    let gone = error.chain().any(|cause| {
        let cause = cause.downcast_ref::<std::io::Error>();
        let inner = cause.and_then(std::io::Error::get_ref);
        inner.is_some_and(|inner| inner.is::<ReaderGone>())
    });
    if gone {
        return Exit::Failed.code();
    }
    // Errors quote foreign text.
    eprintln!("sluice: {}", escape_lines(&format!("{error:#}")));
    Exit::Failed.code()
}
