//! The sandbox from outside: one program that is test runner, stand-in for the hub, and spoke.
//!
//! It has its own `main` because it has to be executable as `sandbox-init` and `spoke`, like the real spoke binary.

#[path = "isolation/cases/mod.rs"]
mod cases;
#[path = "isolation/hub.rs"]
mod hub;
#[path = "isolation/spoke.rs"]
mod spoke;

use std::process::ExitCode;

/// What a test or a helper returns; the text says what was seen and what was expected.
type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some(sandbox::INIT_ARGUMENT) => sandbox::init_main(),
        Some(sandbox::SPOKE_ARGUMENT) => spoke::main(),
        Some("hub") => hub::main(arguments.collect()),
        _ => libtest_mimic::run(&libtest_mimic::Arguments::from_args(), cases::all()).exit_code(),
    }
}
