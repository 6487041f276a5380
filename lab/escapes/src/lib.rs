//! The escape suite: attempts to get out of a spoke, and what each of them saw.
//!
//! One program, `hostile`, is all parties. As `spoke` it is what the sandbox executes in place of the real spoke (a spoke
//! process that was taken over); as `app` it is an MCP server below the real one; as `hub` it starts either, after it has
//! put things on the host that a spoke must not reach, and afterwards looks at them: files, listeners, a process. What is
//! tried against the hub itself, by names and by frames, has the product's hub at the other end (`escapes-hub`).
//!
//! That the suite bites is shown by taking single layers away: not by the sandbox, which has no switch for that, but by a
//! kernel that refuses to give them (a filter on the hub, as a container's profile is one), while the specification gives
//! the layer up by its name, which is what a user could do. See [`weaker`], and for the hub's own checks [`weaker_hub`].

mod app;
mod attempt;
mod by_name;
mod error;
mod frames;
mod hub;
mod inside;
mod job;
mod kernel;
mod neighbour;
mod product;
mod report;
mod spoke;
pub mod weaker;
pub mod weaker_hub;
mod world;

use std::io::Write;
use std::process::ExitCode;

pub use attempt::Observed;
use attempt::Setting;
pub use error::Error;
pub use hub::{run, run_as_ordinary_user};
pub use job::{Hub, Job, Outcome, Who};
pub use report::{Kind, Row, count, table};

/// The names of all attempts that this one makes.
pub fn attempts(who: Who) -> Vec<String> {
    let of = |setting| {
        let attempts = inside::attempts().into_iter();
        let attempts = attempts.filter(move |it| it.setting == setting);
        attempts.map(|it| it.name).collect()
    };
    match who {
        Who::Spoke | Who::App => of(Setting::Folders),
        Who::NamedApp => of(Setting::Name),
        Who::Programs => of(Setting::Programs),
        Who::Frames => {
            let attempts = frames::attempts().into_iter();
            attempts.map(|it| it.name.to_owned()).collect()
        }
    }
}

/// The program `hostile`, by its arguments.
pub fn main(arguments: &[String]) -> ExitCode {
    let words: Vec<_> = arguments.iter().map(String::as_str).collect();
    ended(match words.as_slice() {
        [sandbox::INIT_ARGUMENT] => sandbox::init_main(),
        [sandbox::SPOKE_ARGUMENT] => spoke::main(),
        ["app"] => app::main(),
        ["hub", job] => hub::main(job),
        _ => Err("hostile is started by the escape suite: spoke, app, or hub JOB".into()),
    })
}

/// The program `escapes-hub`, by its arguments.
pub fn product_main(arguments: &[String]) -> ExitCode {
    let words: Vec<_> = arguments.iter().map(String::as_str).collect();
    ended(match words.as_slice() {
        ["hub", job] => product::main(job),
        _ => Err("escapes-hub is started by the escape suite: hub JOB".into()),
    })
}

fn ended(done: Result<(), Error>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}
