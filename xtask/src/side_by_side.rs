//! The tests, several programs at a time: many of them wait for sandboxes, apps and time limits, and
//! one after the other they leave processors idle.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// Programs that take longest: started first, they do not stand at the end alone.
const LONG: [&str; 11] = [
    "real_servers",
    // It installs AgentDojo where that is not there yet.
    "closed_loop",
    "llm/llm",
    "escapes",
    "noninterference",
    "leakage",
    "attention/attention",
    "recorded",
    "session",
    "e2e",
    "cli/apps",
];

/// A program of tests that cargo built.
#[derive(Debug, PartialEq)]
struct TestProgram {
    /// The target's name, with its package's folder before it.
    name: String,
    path: PathBuf,
    /// The package's folder: cargo runs tests there.
    folder: PathBuf,
}

/// Runs every test of the workspace with these variables, and shows what each program printed when it
/// has ended.
///
/// # Errors
/// It does not build, or tests fail: all run nevertheless, and the error names the programs.
pub(crate) fn run_all(variables: &[(&str, &str)]) -> Result<()> {
    let build = ["test", "--workspace", "--no-run", "--message-format=json"];
    let built = super::cargo(build)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    if !built.status.success() {
        bail!("the tests do not build");
    }
    let mut programs = programs(&String::from_utf8_lossy(&built.stdout))?;
    programs.sort_by_key(|program| {
        let mut long = LONG.iter();
        long.position(|name| program.name.ends_with(name))
            .unwrap_or(LONG.len())
    });
    let mut failed = Vec::new();
    let count = programs.len();
    let waiting = Mutex::new(VecDeque::from(programs));
    // Each has as many threads as there are processors, and the longest mostly wait for time limits of apps and sandboxes:
    // of two programs on two processors, a quarter of the time nobody worked.
    let workers = thread::available_parallelism().map_or(2, usize::from) + 1;
    let (ended, results) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..workers {
            let (ended, waiting) = (ended.clone(), &waiting);
            scope.spawn(move || {
                while let Some(program) = next(waiting) {
                    let started = Instant::now();
                    let output = program.run(variables);
                    if ended.send((program, output, started.elapsed())).is_err() {
                        return;
                    }
                }
            });
        }
        // The loop below ends when the last sender is gone.
        drop(ended);
        for (at, (program, output, took)) in results.into_iter().enumerate() {
            let passed = show(&program.name, &output, took, (at + 1, count));
            if !passed {
                failed.push(program.name);
            }
        }
    });
    if failed.is_empty() {
        return Ok(());
    }
    bail!("tests fail in {}", failed.join(", "))
}

fn next(waiting: &Mutex<VecDeque<TestProgram>>) -> Option<TestProgram> {
    // A thread that holds it does nothing that can panic.
    waiting.lock().ok()?.pop_front()
}

/// Prints what a program printed; whether all of its tests passed.
fn show(name: &str, output: &Result<Output>, took: Duration, (at, count): (usize, usize)) -> bool {
    let seconds = took.as_secs_f64();
    let heading =
        |ending: &str| eprintln!("\nxtask: {at} of {count}: {name}, {ending}, {seconds:.0} s");
    match output {
        Ok(output) => {
            heading(&output.status.to_string());
            eprint!("{}", String::from_utf8_lossy(&output.stdout));
            eprint!("{}", String::from_utf8_lossy(&output.stderr));
            output.status.success()
        }
        Err(error) => {
            heading(&format!("{error:#}"));
            false
        }
    }
}

impl TestProgram {
    fn run(&self, variables: &[(&str, &str)]) -> Result<Output> {
        Command::new(&self.path)
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder)
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("cannot run {}", self.path.display()))
    }
}

/// The programs of tests among what cargo says that it built, a JSON object a line.
fn programs(messages: &str) -> Result<Vec<TestProgram>> {
    let mut programs = Vec::new();
    for line in messages.lines().filter(|line| line.starts_with('{')) {
        let message: Value = serde_json::from_str(line).context("cargo's messages")?;
        let text = |pointer: &str| message.pointer(pointer).and_then(Value::as_str);
        let is_test = message.pointer("/profile/test") == Some(&Value::Bool(true));
        let (Some(path), true) = (text("/executable"), is_test) else {
            continue;
        };
        let folder = text("/manifest_path").map(Path::new).and_then(Path::parent);
        let folder = folder.context("cargo names a program of no package")?;
        let target = text("/target/name").context("cargo names a program without a target")?;
        let package = folder.file_name().unwrap_or_default().to_string_lossy();
        programs.push(TestProgram {
            name: format!("{package}/{target}"),
            path: PathBuf::from(path),
            folder: folder.to_owned(),
        });
    }
    if programs.is_empty() {
        bail!("cargo built no tests");
    }
    Ok(programs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_programs_of_tests_are_taken() {
        let messages = r#"{"reason":"compiler-artifact","manifest_path":"/s/crates/hub/Cargo.toml","target":{"name":"turn"},"profile":{"test":true},"executable":"/t/turn-1"}
{"reason":"compiler-artifact","manifest_path":"/s/crates/hub/Cargo.toml","target":{"name":"hub"},"profile":{"test":false},"executable":null}
{"reason":"compiler-artifact","manifest_path":"/s/crates/cli/Cargo.toml","target":{"name":"sluice"},"profile":{"test":false},"executable":"/t/sluice"}
{"reason":"build-finished","success":true}"#;
        let turn = TestProgram {
            name: "hub/turn".to_owned(),
            path: PathBuf::from("/t/turn-1"),
            folder: PathBuf::from("/s/crates/hub"),
        };
        assert_eq!(programs(messages).unwrap(), [turn]);
        assert!(programs("").is_err(), "no tests at all are no success");
    }

    /// A program without tests takes as long to build as one with many, so a target that has none says so, and then may
    /// have none: they would never run.
    #[test]
    fn targets_that_are_not_tested_have_no_tests() {
        let metadata = ["metadata", "--no-deps", "--offline", "--format-version=1"];
        let output = crate::cargo(metadata).output().unwrap();
        let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
        let list = |value: &Value, name: &str| value[name].as_array().unwrap().clone();
        let packages = list(&metadata, "packages");
        let targets = packages.iter().flat_map(|package| list(package, "targets"));
        let mut files = Vec::new();
        for target in targets.filter(|target| target["test"] == false) {
            let root = Path::new(target["src_path"].as_str().unwrap());
            match target["kind"][0].as_str().unwrap() {
                "lib" => sources(root.parent().unwrap(), &mut files),
                "bin" => files.push(root.to_owned()),
                _ => {}
            }
        }
        assert!(files.len() > 10, "{files:?}");
        for file in files {
            let text = std::fs::read_to_string(&file).unwrap();
            let tested = ["cfg(test)", "#[test]", "::test]", "proptest!"];
            let found = tested.iter().find(|mark| text.contains(**mark));
            assert_eq!(found, None, "{} is never tested", file.display());
        }
    }

    fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => sources(&path, files),
                false if path.extension().is_some_and(|it| it == "rs") => files.push(path),
                false => {}
            }
        }
    }

    #[test]
    fn a_program_that_fails_or_does_not_start_is_no_success() {
        let program = |path: &str| TestProgram {
            name: path.to_owned(),
            path: PathBuf::from(path),
            folder: PathBuf::from("/"),
        };
        for (path, passes) in [("/bin/true", true), ("/bin/false", false), ("/none", false)] {
            let output = program(path).run(&[]);
            assert_eq!(
                show(path, &output, Duration::ZERO, (1, 1)),
                passes,
                "{path}"
            );
        }
    }
}
