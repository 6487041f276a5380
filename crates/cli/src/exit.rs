//! How the program ends.

use std::process::ExitCode;

use hub::trace::{Text, escape};
use hub::{Outcome, Stop};

use crate::question::{Lines, inset, shortened};
use crate::terminal::{ReaderGone, columns, say};
use crate::unwritten;

/// Lines of an app's last words that are shown, which are the last ones.
const SAID: usize = 12;
/// Columns of a line that is shown: it may quote an app, which could fill the screen with it.
const LONGEST: usize = 800;

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
    /// A guarded agent ended with this code.
    Program(u8),
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
            Self::Program(code) => code,
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

/// The lines of an error, all but the first indented. The last words of an app, such as a traceback, have lines of their own.
pub(crate) fn shown(error: &anyhow::Error) -> String {
    let text = format!("{error:#}");
    let short = |text: &str| {
        let lines = text.split('\n').map(|line| shortened(line, LONGEST));
        inset(&lines.collect::<Vec<_>>().join("\n"))
    };
    let Some((ours, said)) = text.split_once("; it last said: ") else {
        return short(&text) + "\n";
    };
    let said: Vec<&str> = said.split("\\n").filter(|it| !it.is_empty()).collect();
    let mut lines = Lines::new(columns());
    let last = said.iter().skip(said.len().saturating_sub(SAID));
    lines.said_by("app> ", last.map(|line| shortened(&escape(line), LONGEST)));
    let mut shown = format!("{}; it last said:\n{}", short(ours), lines.finish());
    let service = Text::refused(&text).filter(|it| unwritten::port(it).is_some());
    // A first start has named it.
    if let Some(service) = service.filter(|it| !ours.contains(it.as_str())) {
        let line = format!("connect = [\"{}\"]", service.as_str());
        shown += &format!(
            "To allow the connection, have {line} among the app's lines of `sluice.toml`\n"
        );
    }
    shown
}

/// Prints an error.
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
    say(&format!("sluice: {}", shown(error)));
    Exit::Failed.code()
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn a_traceback_has_lines_behind_a_name() {
        let said: Vec<String> = (1..=40).map(|it| format!("line {it}")).collect();
        let error = anyhow!(
            "the app failed: it ended; it last said: {}\u{1b}[2J",
            said.join("\\n")
        );
        let text = shown(&error.context("x did not start"));
        let mut lines = text.lines();
        assert_eq!(
            lines.next(),
            Some("x did not start: the app failed: it ended; it last said:")
        );
        assert_eq!(lines.next(), Some("| app> line 29"));
        assert_eq!(lines.last(), Some("| app> line 40\\u{1b}[2J"));
        assert_eq!(shown(&anyhow!("one")), "one\n");
    }

    #[test]
    fn a_line_break_in_an_error_begins_no_line() {
        let error = anyhow!("there is no '/x\nsluice: FORGED'; correct the path");
        assert_eq!(
            shown(&error),
            "there is no '/x\n  sluice: FORGED'; correct the path\n"
        );
        let error = anyhow!("it said {}; it last said: a", "x".repeat(64 << 10));
        assert!(shown(&error).len() < 2 * LONGEST);
    }
}
