//! `cargo xtask mutants`: the mutants that cargo-mutants makes of the trusted core must be caught by its tests.
//!
//! `.cargo/mutants.toml` lists what is examined and what is left out, with the reasons.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{cargo, run};

/// The version that nightly jobs install; another one makes other mutants.
const CARGO_MUTANTS: &str = "27.1.0";
/// Where it is installed, so that no other version gets into the way.
const TOOLS: &str = "target/tools";
/// Where cargo-mutants writes its report.
const OUTPUT: &str = "target";
/// How it calls that report.
const REPORT: &str = "mutants.out";
/// Its lists of mutants that survived, and what is said of each.
const SURVIVORS: [(&str, &str); 2] = [("missed.txt", ""), ("timeout.txt", " (timeout)")];
/// Its arguments by which it says something and tests nothing, so that there is no report.
const TELLS: [&str; 6] = ["--help", "-h", "--version", "-V", "--list", "--list-files"];

/// Installs cargo-mutants where it is missing, and runs it with these arguments.
///
/// # Errors
/// A mutant survives the tests or makes them time out; the error lists all of them.
pub(crate) fn mutants(arguments: &[String]) -> Result<()> {
    let program = Path::new(TOOLS).join("bin/cargo-mutants");
    // Pinned, because another version makes other mutants, which `.cargo/mutants.toml` does not know.
    if !is_installed(&program) {
        let version = ["install", "--locked", "--version", CARGO_MUTANTS];
        run(cargo(version).args(["--root", TOOLS, "cargo-mutants"]))?;
    }
    tested(&program, arguments, Path::new(OUTPUT))
}

/// Runs cargo-mutants, and reads its report if it tests mutants.
fn tested(program: &Path, arguments: &[String], output: &Path) -> Result<()> {
    let report = output.join(REPORT);
    let only_tells = arguments.iter().any(|it| TELLS.contains(&it.as_str()));
    if !only_tells {
        forget(&report)?;
    }
    let mut command = Command::new(program);
    command.args(["mutants", "--workspace", "--no-shuffle", "--output"]);
    // The report names the survivors; the exit code only says that there are some.
    let ended = run(command.arg(output).args(arguments));
    let has_report = SURVIVORS.iter().all(|(file, _)| report.join(file).exists());
    if only_tells || (ended.is_err() && !has_report) {
        return ended;
    }
    let survivors = survivors(&report)?;
    if !survivors.is_empty() {
        bail!(
            "mutants that no test notices:\n  {}",
            survivors.join("\n  ")
        );
    }
    ended
}

/// Removes what an earlier run says of survivors: it must not pass for this one's if that ends before it writes its own. What
/// was caught stays, for `--iterate`.
fn forget(report: &Path) -> Result<()> {
    for (file, _) in SURVIVORS {
        let path = report.join(file);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot remove {}", path.display()));
            }
            _ => {}
        }
    }
    Ok(())
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
    for (file, note) in SURVIVORS {
        let path = report.join(file);
        let lines = fs::read_to_string(&path);
        let lines = lines.with_context(|| format!("cannot read {}", path.display()))?;
        survivors.extend(lines.lines().map(|line| format!("{line}{note}")));
    }
    Ok(survivors)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

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

    /// In the place of cargo-mutants a script, which writes a report if it is not asked for help.
    #[test]
    fn a_report_is_read_if_it_is_of_this_run() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("cargo-mutants");
        let script = "#!/bin/sh\n\
            for word in \"$@\"; do case $word in --help|--list) exit 0;; --wrong) exit 1;; esac; done\n\
            report=\"$(dirname \"$0\")/mutants.out\"\n\
            mkdir -p \"$report\" && echo 'a.rs:1:1: new' > \"$report/missed.txt\" && touch \"$report/timeout.txt\" && exit 2\n";
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        let told = |word: &str| {
            let arguments: Vec<String> = word.split_whitespace().map(str::to_owned).collect();
            tested(&program, &arguments, folder.path()).map_err(|error| format!("{error:#}"))
        };
        assert_eq!(told("--help"), Ok(()), "nothing was tested");
        let error = told("").unwrap_err();
        assert!(error.contains("a.rs:1:1: new"), "{error}");
        // The report of that run is there now.
        assert_eq!(told("--list --file a.rs"), Ok(()));
        let error = told("--wrong").unwrap_err();
        assert!(
            !error.contains("a.rs") && error.contains("--wrong"),
            "{error}"
        );
    }
}
