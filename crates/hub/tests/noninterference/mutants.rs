//! Mutants: the rules that the theorem rests on, broken one at a time. Each must be caught.
//!
//! A mutant is the source of `ifc` and `hub` with one text replaced, which must stand there
//! exactly once, so that a mutant that has gone stale is an error. Five of them are tried by
//! default; `SLUICE_MUTANTS=all` tries every one (half an hour), and other words those whose names
//! have them.

mod list;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use list::{MUTANTS, Mutant, Tests};

/// Pairs of worlds per mutant.
const WORLDS: &str = "300";

/// Pairs of worlds where there is no mutant: only that it can pass.
const UNHARMED: &str = "20";

/// A mutant may make the machine run in circles. The tests themselves take seconds.
const PATIENCE: Duration = Duration::from_secs(120);

#[test]
fn every_mutant_is_caught() {
    let words = std::env::var("SLUICE_MUTANTS").ok();
    let all = words.as_deref() == Some("all");
    let chosen: Vec<&Mutant> = MUTANTS
        .iter()
        .filter(|mutant| match &words {
            None => mutant.quick,
            Some(words) => all || mutant.name.contains(&**words),
        })
        .collect();
    assert!(!chosen.is_empty(), "no mutant is named so: {words:?}");
    let bench = Bench::new("caught");
    // The tests catch nothing where nothing is wrong.
    let mut unharmed = vec![Tests::Worlds];
    if all {
        unharmed.extend([Tests::Turn, Tests::Messages, Tests::Ifc("")]);
    }
    for tests in unharmed {
        let found = bench.catch(None, tests);
        assert_eq!(found, Ok(None), "without a mutant");
    }
    // One target folder, so one at a time.
    let not_caught = chosen.into_iter().filter(|mutant| !bench.judge(mutant));
    let not_caught: Vec<&str> = not_caught.map(|mutant| mutant.name).collect();
    assert_eq!(not_caught, [""; 0], "these mutants live, or do not compile");
}

#[test]
fn every_mutant_has_a_place() {
    let bench = Bench::new("place");
    for mutant in MUTANTS {
        let found = bench.source(mutant.file).matches(mutant.from).count();
        assert_eq!(
            found, 1,
            "{}: its text stands {found} times in {}",
            mutant.name, mutant.file
        );
    }
    assert_eq!(MUTANTS.iter().filter(|mutant| mutant.quick).count(), 5);
    let counted = format!("in {} named ways", MUTANTS.len());
    assert!(
        include_str!("../../../../ARCHITECTURE.md").contains(&counted),
        "ARCHITECTURE.md does not say {counted}"
    );
}

/// Where mutants are made.
struct Bench {
    /// The folder `crates`.
    crates: PathBuf,
    directory: PathBuf,
}

impl Bench {
    /// Tests of one process run side by side, so each has its own folder.
    fn new(test: &str) -> Self {
        let name = format!("mutants-{test}-{}", std::process::id());
        let own = Path::new(env!("CARGO_MANIFEST_DIR"));
        Self {
            crates: own.parent().unwrap().to_owned(),
            directory: Path::new(env!("CARGO_TARGET_TMPDIR")).join(name),
        }
    }

    fn source(&self, file: &str) -> String {
        fs::read_to_string(self.crates.join(file)).unwrap()
    }

    /// Whether the mutant is caught. One that does not compile is not.
    fn judge(&self, mutant: &Mutant) -> bool {
        let begin = Instant::now();
        let found = self.catch(Some(mutant), mutant.caught_by);
        let (name, seconds) = (mutant.name, begin.elapsed().as_secs_f32());
        match &found {
            Ok(Some(how)) => println!("caught   {name:30} {seconds:5.1} s  {how}"),
            Ok(None) => println!("SURVIVES {name:30} {seconds:5.1} s  {}", mutant.why),
            Err(error) => println!("STALE    {name:30} {seconds:5.1} s  {error}"),
        }
        matches!(found, Ok(Some(_)))
    }

    /// The test that fails, if one does. The mutant is built in a workspace of its own, of the two
    /// crates that mutants are made of.
    ///
    /// # Errors
    /// It does not compile: what the compiler says.
    fn catch(&self, mutant: Option<&Mutant>, tests: Tests) -> Result<Option<String>, String> {
        let root = self.crates.parent().unwrap();
        let folder = self.directory.join("workspace");
        for package in ["ifc", "hub"] {
            self.copy(package, &folder.join("crates"), mutant);
        }
        let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
        let alone = manifest.lines().map(|line| match line {
            line if line.starts_with("members = ") => r#"members = ["crates/ifc", "crates/hub"]"#,
            line if line.starts_with("default-members = ") => "",
            line => line,
        });
        let alone: Vec<&str> = alone.collect();
        fs::write(folder.join("Cargo.toml"), alone.join("\n")).unwrap();
        fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock")).unwrap();
        let (package, target) = match tests {
            Tests::Worlds => ("hub", "noninterference"),
            Tests::Turn => ("hub", "turn"),
            Tests::Messages => ("hub", "messages"),
            Tests::Ifc(_) => ("ifc", "it"),
        };
        let cargo = || {
            let mut cargo = Command::new(env!("CARGO"));
            cargo.current_dir(&folder).args(["test", "--offline"]);
            cargo.args(["--package", package, "--test", target]);
            cargo.env("CARGO_TARGET_DIR", self.directory.join("target"));
            cargo.env("CARGO_PROFILE_DEV_DEBUG", "0");
            // They differ by a line each.
            cargo.env("CARGO_INCREMENTAL", "1");
            cargo
        };
        let output = cargo().arg("--no-run").output().unwrap();
        if !output.status.success() {
            return Err(text(&output));
        }
        let mut run = cargo();
        if let Tests::Ifc(filter) = tests {
            // Those two ask the compiler, for a minute, about what no mutant here changes.
            run.args(["--", filter, "--skip", "forgery::", "--skip", "purity::"]);
        }
        let worlds = if mutant.is_some() { WORLDS } else { UNHARMED };
        Ok(failed(run, worlds))
    }

    /// Copies a folder, with the mutant in its place.
    fn copy(&self, from: &str, to: &Path, mutant: Option<&Mutant>) {
        fs::create_dir_all(to.join(from)).unwrap();
        for entry in fs::read_dir(self.crates.join(from)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let path = format!("{from}/{name}");
            if self.crates.join(&path).is_dir() {
                self.copy(&path, to, mutant);
                continue;
            }
            let source = self.source(&path);
            let source = match mutant.filter(|mutant| mutant.file == path) {
                Some(mutant) => source.replacen(mutant.from, mutant.to, 1),
                // No mutants of mutants.
                None if path.ends_with("noninterference/main.rs") => {
                    source.replace("mod mutants;\n", "")
                }
                None => source,
            };
            // An unchanged file is not compiled again.
            let target = to.join(&path);
            if fs::read_to_string(&target).ok().as_ref() != Some(&source) {
                fs::write(target, source).unwrap();
            }
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // What is left over is only a folder of build outputs.
        drop(fs::remove_dir_all(&self.directory));
    }
}

/// Runs tests; says which one failed first, or that they did not end.
fn failed(mut command: Command, worlds: &str) -> Option<String> {
    command
        .env("SLUICE_WORLDS", worlds)
        .env("SLUICE_MUTANT", "1");
    command
        .env_remove("SLUICE_WORLD")
        .env_remove("SLUICE_MUTANTS");
    // Failures of property tests are not kept: they are of a mutant.
    command
        .env("PROPTEST_FAILURE_PERSISTENCE", "off")
        .env("RUST_BACKTRACE", "0");
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let pipe = BufReader::new(child.stdout.take().unwrap());
    let (said, lines) = mpsc::channel();
    // It ends when the child does.
    std::thread::spawn(move || {
        pipe.lines()
            .map_while(Result::ok)
            .all(|line| said.send(line).is_ok())
    });
    let end = Instant::now() + PATIENCE;
    let mut ran = 0;
    let found = loop {
        match lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(line) => match line
                .strip_prefix("test ")
                .and_then(|line| line.split_once(" ... "))
            {
                Some((name, "FAILED")) => break Some(name.to_owned()),
                Some((_, "ok")) => ran += 1,
                _ => {}
            },
            Err(RecvTimeoutError::Timeout) => break Some("runs in circles".to_owned()),
            Err(RecvTimeoutError::Disconnected) => break None,
        }
    };
    if found.is_some() {
        // It may have ended by itself.
        drop(child.kill());
    }
    let status = child.wait().unwrap();
    if found.is_none() {
        assert!(
            status.success() && ran > 0,
            "{ran} tests passed, and it ended with {status}"
        );
    }
    found
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
