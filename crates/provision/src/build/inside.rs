//! The program inside of the build spoke, which runs one command.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, ExitCode, Stdio};

use super::{Order, SCRATCH, TREE};

/// Longest order: a command and an environment.
const MAX_ORDER: u64 = 256 << 10;

/// The whole program `sluice-build`, which is started by Sluice only: first to build the sandbox, then inside it.
pub fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let outcome = match arguments.as_slice() {
        [stage] if stage == OsStr::new(sandbox::INIT_ARGUMENT) => sandbox::init_main(),
        [stage] if stage == OsStr::new(sandbox::SPOKE_ARGUMENT) => run(),
        _ => Err(io::Error::other(
            "it is started by sluice and takes no other arguments",
        )),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            // The exit code reports the failure too.
            let _ = writeln!(io::stderr(), "sluice-build: {error}");
            ExitCode::FAILURE
        }
    }
}

/// As process 1 of the sandbox: when this ends, everything in it ends.
fn run() -> io::Result<ExitCode> {
    let channel = UnixStream::from(sandbox::inherited_channel()?);
    let mut text = Vec::new();
    // A longer order is cut here and fails to parse.
    channel.take(MAX_ORDER).read_to_end(&mut text)?;
    let order: Order = serde_json::from_slice(&text)?;
    let (program, arguments) = order
        .command
        .split_first()
        .ok_or_else(|| io::Error::other("there is nothing to run"))?;
    let stderr = io::stderr().as_fd().try_clone_to_owned()?;
    let status = Command::new(program)
        .args(arguments)
        .env_clear()
        .envs(order.env)
        .env("HOME", SCRATCH)
        .env("TMPDIR", SCRATCH)
        .current_dir(TREE)
        .stdin(Stdio::null())
        // The hub reads stderr; stdout is `/dev/null` here.
        .stdout(stderr)
        .status()?;
    Ok(match status.success() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}
