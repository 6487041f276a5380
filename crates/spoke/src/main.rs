//! `sluice-spoke`: started by the hub, never by hand.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    match arguments.as_slice() {
        [stage] if stage.as_os_str() == OsStr::new(sandbox::INIT_ARGUMENT) => sandbox::init_main(),
        [stage] if stage.as_os_str() == OsStr::new(sandbox::SPOKE_ARGUMENT) => {
            match sandbox::inherited_channel() {
                Ok(channel) => spoke::run(channel),
                Err(error) => usage(&error.to_string()),
            }
        }
        _ => usage("sluice-spoke is started by sluice and takes no other arguments"),
    }
}

fn usage(problem: &str) -> ExitCode {
    // Nobody to tell when this fails; the exit code says it too.
    let _ = writeln!(std::io::stderr(), "sluice-spoke: {problem}");
    ExitCode::from(spoke::exit::USAGE)
}
