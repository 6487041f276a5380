//! `cargo xtask mutants`: the mutants that cargo-mutants makes of the trusted core must be caught by its tests.
//!
//! `.cargo/mutants.toml` lists what is examined and what is left out, with the reasons.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::{cargo, run};

/// The version that nightly jobs install; another one makes other mutants, which `.cargo/mutants.toml` does not know.
const CARGO_MUTANTS: &str = "27.1.0";
/// Where it is installed, so that no other version is used.
const TOOLS: &str = "target/tools";

/// Installs cargo-mutants where it is missing, and runs it with these arguments.
///
/// # Errors
/// A mutant survives the tests or makes them time out; cargo-mutants names it and ends with exit code 2 or 3.
pub(crate) fn mutants(arguments: &[String]) -> Result<()> {
    let program = Path::new(TOOLS).join("bin/cargo-mutants");
    if !is_installed(&program) {
        let version = ["install", "--locked", "--version", CARGO_MUTANTS];
        run(cargo(version).args(["--root", TOOLS, "cargo-mutants"]))?;
    }
    let mut command = Command::new(&program);
    command.args([
        "mutants",
        "--workspace",
        "--no-shuffle",
        "--output",
        "target",
    ]);
    run(command.args(arguments)).context("mutants survived, or the tests do not pass without one")
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
