//! The escape suite: attempts to get out of a spoke, and what each of them saw.
//!
//! One program, `hostile`, is all parties. As `spoke` it is what the sandbox executes in place of the real spoke (a spoke
//! process that was taken over); as `app` it is an MCP server below the real one; as `hub` it starts either, after it has
//! put things on the host that a spoke must not reach, and afterwards looks at them: files, listeners, a process.
//!
//! That the suite bites is shown by taking single layers away: not by the sandbox, which has no switch for that, but by a
//! kernel that refuses to give them (a filter on the hub, as a container's profile is one), while the specification gives
//! the layer up by its name, which is what a user could do. See [`weaker`].

mod app;
mod attempt;
mod hub;
mod inside;
mod kernel;
mod report;
mod spoke;
pub mod weaker;
mod world;

use std::io::Write;
use std::process::ExitCode;

pub use attempt::{Attempt, Observed};
pub use hub::{Hub, Job, Outcome, Who, run, run_as_ordinary_user};
pub use inside::attempts;
pub use report::{Row, table};

/// The program `hostile`, by its arguments.
#[must_use]
pub fn main(arguments: Vec<String>) -> ExitCode {
    let words: Vec<_> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        [sandbox::INIT_ARGUMENT] => sandbox::init_main(),
        [sandbox::SPOKE_ARGUMENT] => spoke::main(),
        ["app"] => app::main(),
        ["hub", job] => hub::main(job),
        _ => Err("hostile is started by the escape suite: spoke, app, or hub JOB".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "hostile: {error}");
            ExitCode::FAILURE
        }
    }
}

/// An error of the suite itself.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
