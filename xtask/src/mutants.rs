//! Mutation tests: broken rules must be caught.
//!
//! The named mutants are in `crates/agent/tests/noninterference/mutants/list.rs`; each says which
//! rule it breaks. The wide net is `cargo-mutants`, which breaks every function it finds.

use std::env;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{cargo, run};

/// The version of `cargo-mutants` whose findings have been looked at.
const CARGO_MUTANTS: &str = "27.1.0";

/// What the wide net is cast over: the crate in which the theorem's rules are.
const FILES: [&str; 7] = [
    "crates/ifc/src/consult.rs",
    "crates/ifc/src/history.rs",
    "crates/ifc/src/label.rs",
    "crates/ifc/src/labeled.rs",
    "crates/ifc/src/monitor.rs",
    "crates/ifc/src/prompt.rs",
    "crates/ifc/src/redact.rs",
];

/// `cargo xtask mutants [--all]`: the named ones, and with `--all` every function's.
pub(crate) fn mutants(arguments: &[String]) -> Result<()> {
    let all = match arguments {
        [] => false,
        [all] if all == "--all" => true,
        _ => bail!("use `cargo xtask mutants` or `cargo xtask mutants --all`"),
    };
    named()?;
    if all { wide() } else { Ok(()) }
}

/// Every named mutant, each with the test that catches it.
fn named() -> Result<()> {
    run(cargo([
        "test",
        "--package",
        "agent",
        "--test",
        "noninterference",
        "mutants::",
        "--",
        "--nocapture",
    ])
    .env("SLUICE_MUTANTS", "all"))
}

/// `cargo-mutants` ends with an error if a mutant survives.
fn wide() -> Result<()> {
    let known = Command::new("cargo-mutants")
        .args(["mutants", "--version"])
        .output()
        .is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(CARGO_MUTANTS));
    if !known {
        run(cargo(["install", "--locked", "cargo-mutants", "--version"]).arg(CARGO_MUTANTS))?;
    }
    let out = env::current_dir().context("there is no current folder")?;
    let mut command = cargo(["mutants", "--package", "ifc", "--no-shuffle", "--output"]);
    command.arg(out.join("target"));
    for file in FILES {
        command.args(["--file", file]);
    }
    // Its scenarios and its properties; the compile-fail tests ask the compiler for a minute about
    // what no mutant of a function's body changes.
    command.args(["--", "--test", "it", "--", "--skip", "forgery::"]);
    run(&mut command)
}
