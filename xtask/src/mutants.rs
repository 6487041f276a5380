//! Mutation tests: broken rules must be caught.
//!
//! Two kinds. *Named* mutants break one rule each and say which; they are in
//! `crates/hub/tests/noninterference/mutants/list.rs`. *Source* mutants are what cargo-mutants makes
//! of every function; what it may leave alone is in `.cargo/mutants.toml`, with the reasons.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{cargo, run};

/// The version that nightly jobs install; another one makes other mutants.
const CARGO_MUTANTS: &str = "27.1.0";
/// Where it is installed, so that no other version gets into the way.
const TOOLS: &str = "target/tools";
/// Where cargo-mutants writes `mutants.out`.
const OUTPUT: &str = "target";

/// `cargo xtask mutants`: every named one; the tests try five of them.
pub(crate) fn named() -> Result<()> {
    run(cargo([
        "test",
        "--package",
        "hub",
        "--test",
        "noninterference",
        "mutants::",
        "--",
        "--nocapture",
    ])
    .env("SLUICE_MUTANTS", "all"))
}

/// `cargo xtask source-mutants`: of labels, redactor and monitor, and of the turn machine.
///
/// # Errors
/// One survives the tests, or makes them run for ever; the error names all of them.
pub(crate) fn source(arguments: &[String]) -> Result<()> {
    let program = Path::new(TOOLS).join("bin/cargo-mutants");
    // Pinned, because another version makes other mutants, which `.cargo/mutants.toml` does not know.
    if !is_installed(&program) {
        let version = ["install", "--locked", "--version", CARGO_MUTANTS];
        run(cargo(version).args(["--root", TOOLS, "cargo-mutants"]))?;
    }
    let mut command = Command::new(&program);
    command.args(["mutants", "--workspace", "--output", OUTPUT, "--no-shuffle"]);
    // The report names the survivors; the exit code only says that there are some.
    let ended = run(command.args(arguments));
    let survivors = survivors(&Path::new(OUTPUT).join("mutants.out"))?;
    if !survivors.is_empty() {
        bail!(
            "mutants that no test notices:\n  {}",
            survivors.join("\n  ")
        );
    }
    ended
}

fn is_installed(program: &Path) -> bool {
    let output = Command::new(program)
        .args(["mutants", "--version"])
        .output();
    output.is_ok_and(|output| {
        String::from_utf8_lossy(&output.stdout)
            .trim()
            .ends_with(CARGO_MUTANTS)
    })
}

/// What cargo-mutants reports: mutants that passed all tests, and those that they hung on.
fn survivors(report: &Path) -> Result<Vec<String>> {
    let mut survivors = Vec::new();
    for (file, note) in [("missed.txt", ""), ("timeout.txt", " (timeout)")] {
        let path = report.join(file);
        let lines = fs::read_to_string(&path);
        let lines = lines.with_context(|| format!("cannot read {}", path.display()))?;
        survivors.extend(lines.lines().map(|line| format!("{line}{note}")));
    }
    Ok(survivors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_missed_and_what_hung_survives() {
        let folder = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| fs::write(folder.path().join(file), text).unwrap();
        assert!(survivors(folder.path()).is_err(), "no report is no success");
        write("missed.txt", "a.rs:1:1: replace a -> bool with true\n");
        write("timeout.txt", "b.rs:2:2: replace < with ==\n");
        write("caught.txt", "c.rs:3:3: replace c with ()\n");
        let expected = [
            "a.rs:1:1: replace a -> bool with true",
            "b.rs:2:2: replace < with == (timeout)",
        ];
        assert_eq!(survivors(folder.path()).unwrap(), expected);
    }
}
