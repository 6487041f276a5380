//! How long it takes until a program runs in a sandbox: this crate beside bubblewrap and a bare process, in one run,
//! round-robin so that a noisy machine is noisy to all. `cargo bench -p sandbox`.
//!
//! Each start is measured from the call to the first byte that the started program writes. The program is this one
//! (`spoke`), the same for all three; bubblewrap gets the same namespaces and binds, but no Landlock, no system call
//! filter, no listeners and no report.

use std::io::{self, Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use sandbox::Spec;

/// Starts of each kind: enough for a 95th percentile.
const ROUNDS: usize = 200;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some(sandbox::INIT_ARGUMENT) => sandbox::init_main(),
        Some(sandbox::SPOKE_ARGUMENT) => {
            // SAFETY: nothing else in this process owns descriptor 3, the channel.
            #[expect(unsafe_code, reason = "the channel is known by its number")]
            let mut channel = unsafe { UnixStream::from_raw_fd(3) };
            exit(channel.write_all(b"!"))
        }
        Some("bare") => exit(io::stdout().write_all(b"!")),
        _ => exit(compare()),
    }
}

fn exit(outcome: io::Result<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "start: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A name and a way to start.
type Candidate<'a> = (&'a str, Box<dyn Fn() -> io::Result<Duration> + 'a>);

fn compare() -> io::Result<()> {
    let program = std::env::current_exe()?;
    let mut candidates: Vec<Candidate<'_>> = vec![
        ("bare process", Box::new(|| bare(Command::new(&program)))),
        ("sandbox", Box::new(|| sandboxed(&program))),
    ];
    if Command::new("bwrap")
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_ok()
    {
        candidates.push(("bubblewrap", Box::new(|| bare(bubblewrap(&program)))));
    } else {
        writeln!(
            io::stderr(),
            "bwrap is not installed, so there is nothing to compare with"
        )?;
    }
    let mut times = vec![Vec::with_capacity(ROUNDS); candidates.len()];
    for _ in 0..ROUNDS {
        for ((_, start), times) in candidates.iter().zip(&mut times) {
            times.push(start()?);
        }
    }
    let mut out = io::stdout();
    let mut medians = Vec::new();
    writeln!(
        out,
        "{:14}{:>9}{:>9}{:>9}   (ms, {ROUNDS} starts)",
        "", "min", "median", "p95"
    )?;
    for ((name, _), times) in candidates.iter().zip(&mut times) {
        times.sort();
        let at = |share: usize| {
            let index = (times.len() - 1) * share / 100;
            times.get(index).copied().unwrap_or_default().as_secs_f64() * 1e3
        };
        writeln!(out, "{name:14}{:>9.2}{:>9.2}{:>9.2}", at(0), at(50), at(95))?;
        medians.push(at(50));
    }
    if let [_, sandbox, bubblewrap] = medians.as_slice() {
        let times = sandbox / bubblewrap;
        writeln!(
            out,
            "a sandbox takes {times:.2} times as long as bubblewrap (aim: at most 1.5)"
        )?;
    }
    Ok(())
}

fn sandboxed(program: &Path) -> io::Result<Duration> {
    let began = Instant::now();
    let (mut ours, theirs) = UnixStream::pair()?;
    let spoke = sandbox::spawn(&Spec::default(), program, OwnedFd::from(theirs))
        .map_err(io::Error::other)?;
    ours.read_exact(&mut [0])?;
    let took = began.elapsed();
    drop(spoke);
    Ok(took)
}

fn bare(mut command: Command) -> io::Result<Duration> {
    let began = Instant::now();
    let mut child = command
        .arg("bare")
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut stdout = child
        .stdout
        .take()
        .ok_or_else(|| io::Error::other("no output"))?;
    stdout.read_exact(&mut [0])?;
    let took = began.elapsed();
    child.wait()?;
    Ok(took)
}

fn bubblewrap(program: &Path) -> Command {
    let mut command = Command::new("/usr/bin/bwrap");
    command.args([
        "--unshare-all",
        "--unshare-user",
        "--uid",
        "1000",
        "--gid",
        "1000",
    ]);
    command.args([
        "--hostname",
        "spoke",
        "--die-with-parent",
        "--new-session",
        "--as-pid-1",
        "--cap-drop",
        "ALL",
    ]);
    for directory in [
        "/usr",
        "/bin",
        "/sbin",
        "/lib",
        "/lib32",
        "/lib64",
        "/etc/ssl/certs",
        "/etc/ld.so.cache",
    ] {
        command.args(["--ro-bind-try", directory, directory]);
    }
    command.args(["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]);
    command
        .arg("--ro-bind")
        .arg(program)
        .arg("/sluice-spoke")
        .arg("/sluice-spoke");
    command
}
