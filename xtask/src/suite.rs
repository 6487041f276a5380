//! The tests: `cargo xtask test`, `ci` and `nightly`.

use std::env;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;

use crate::failures::Failures;
use crate::phases::Phases;
use crate::{
    MODELS, agents, cargo, fresh, is_root, lab, mutants, output, packages, run, setup, size,
};

/// The packages whose tests are all of the laboratory. `.config/nextest.toml` names them too.
const LAB_PACKAGES: [&str; 3] = ["agentdojo", "attention", "sluice-model"];
/// The module of laboratory tests in the other packages.
const LAB_MODULE: &str = "lab::";

/// Changes below these folders can change what a laboratory test shows.
const LAB_SOURCES: [&str; 9] = [
    "lab/agentdojo/",
    "lab/attention/",
    "lab/models/",
    "crates/screen/src/",
    "crates/screen/tests/it/attention/",
    "crates/screen/tests/it/lab.rs",
    "crates/saliency/",
    "crates/model/",
    "crates/model-files/",
];

/// Variables without which tests that lack a model or AgentDojo pass with a line that says so.
const REQUIRED: [(&str, &str); 2] = [
    ("SLUICE_REQUIRE_MODELS", "1"),
    ("SLUICE_REQUIRE_AGENTDOJO", "1"),
];

/// Which tests run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Profile {
    /// All but the laboratory's.
    Default,
    /// The laboratory's: they need models, train networks or run AgentDojo's harness.
    Lab,
}

impl Profile {
    /// What cargo builds. `sluice-model` takes minutes and a C++ compiler, and training a minute of matrices; no test of the
    /// default profile needs them, or attention in `sluice`.
    fn packages(self) -> &'static [&'static str] {
        match self {
            Self::Default => &[
                "--workspace",
                "--exclude",
                "sluice-model",
                "--exclude",
                "attention",
            ],
            Self::Lab => &[
                "--workspace",
                "--features",
                "sluice/attention,sluice-lab/training",
            ],
        }
    }

    /// Builds the programs of the tests and the binaries that these start.
    fn build(self) -> Vec<&'static str> {
        let packages = self.packages();
        ["test", "--no-run"]
            .iter()
            .chain(packages)
            .copied()
            .collect()
    }
}

/// Sets up and runs the tests: all but the laboratory's, with `lab` the laboratory's alone. Other arguments select tests as
/// `cargo nextest run` does, or `cargo test` where nextest is missing.
///
/// # Errors
/// The set-up fails, or tests do: all run nevertheless.
pub(crate) fn test(arguments: &[String], phases: &mut Phases) -> Result<()> {
    let mut arguments = arguments.to_vec();
    let profile = match arguments.first().map(String::as_str) {
        Some("lab") => {
            arguments.remove(0);
            Profile::Lab
        }
        _ => Profile::Default,
    };
    let models: &[_] = match profile {
        Profile::Default => &[],
        Profile::Lab => &MODELS,
    };
    setup(models, &profile.build(), phases)?;
    phases.time("packages of the tests", packages::ensure_for_tests)?;
    let threads = thread::available_parallelism()?.to_string();
    let mut tests = match has_nextest() {
        true => with_nextest(profile),
        false => with_cargo(profile, &arguments),
    };
    if profile == Profile::Lab {
        tests.envs(REQUIRED);
        // The number candle chooses anyway; unset, it reads the control groups before every product of matrices, and
        // training small networks takes nearly twice as long.
        tests.env("RAYON_NUM_THREADS", threads);
    }
    phases.time("tests", || run(tests.args(&arguments)))?;
    if profile == Profile::Default && arguments.is_empty() {
        phases.time("examples in the documentation", || {
            run(cargo(["test", "--doc"]).args(Profile::Default.packages()))
        })?;
        eprintln!("{NOT_RUN}");
    }
    Ok(())
}

const NOT_RUN: &str = "
xtask: NOT RUN: tests with models, training and AgentDojo (`cargo xtask test lab`),
                servers from registries (`cargo xtask servers`), agents (`cargo xtask agents`),
                10,000 worlds, 1,000 kills, fuzzing and mutants (`cargo xtask nightly`)";

fn has_nextest() -> bool {
    let mut nextest = cargo(["nextest", "--version"]);
    nextest.stdout(Stdio::null()).stderr(Stdio::null());
    nextest.status().is_ok_and(|status| status.success())
}

fn with_nextest(profile: Profile) -> Command {
    let name = match profile {
        Profile::Default => "default",
        Profile::Lab => "lab",
    };
    let mut tests = cargo(["nextest", "run", "--profile", name]);
    tests.args(profile.packages());
    tests
}

/// The same where nextest is missing: the programs run one after the other, and the laboratory's tests with all others.
/// `--tests` leaves out the examples in the documentation.
fn with_cargo(profile: Profile, arguments: &[String]) -> Command {
    eprintln!("xtask: cargo-nextest is not installed; `cargo test` takes longer");
    let mut tests = cargo(["test", "--no-fail-fast"]);
    tests.args(profile.packages());
    if arguments.is_empty() {
        tests.arg("--tests");
    }
    if profile == Profile::Default && arguments.is_empty() {
        for package in LAB_PACKAGES {
            if !profile.packages().contains(&package) {
                tests.args(["--exclude", package]);
            }
        }
        tests.args(["--", "--skip", LAB_MODULE]);
    }
    tests
}

/// The tests that fetch from registries what they have not fetched before: some 400 MB, and 1 GB for those that the suite
/// leaves out.
pub(crate) fn servers(arguments: &[String], phases: &mut Phases) -> Result<()> {
    setup(&[], &Profile::Default.build(), phases)?;
    phases.time("packages of the tests", packages::ensure_for_servers)?;
    phases.time("real servers", || {
        // One after the other: those that the suite leaves out fetch descriptions of packages anew.
        for which in ["", "--ignored"] {
            let mut tests = cargo(["test", "--workspace", "--test", "real_servers", "--"]);
            tests.args(which.split_whitespace()).args(arguments);
            run(tests.env("SLUICE_REAL_SERVERS", "1"))?;
        }
        Ok(())
    })
}

/// What must hold before a change lands.
pub(crate) fn ci(phases: &mut Phases) -> Result<()> {
    packages::ensure()?;
    run(&mut cargo(["fmt", "--all", "--check"]))?;
    size()?;
    let with_lab = lab_changed();
    // Without the laboratory's tests nothing else needs `sluice-model`, whose C++ takes minutes to build.
    let packages = match with_lab {
        true => packages::ensure_for_model().map(|()| Profile::Lab.packages())?,
        false => Profile::Default.packages(),
    };
    let lint = ["--all-targets", "--", "-D", "warnings"];
    phases.time("lints", || run(cargo(["clippy"]).args(packages).args(lint)))?;
    phases.time("documentation", || {
        let mut document = cargo(["doc", "--no-deps"]);
        document.args(packages).env("RUSTDOCFLAGS", "-D warnings");
        run(&mut document)
    })?;
    test(&[], phases)?;
    if with_lab {
        test(&["lab".to_owned()], phases)?;
    }
    // A few iterations: that the benchmarks still measure what they say. They print no verdict.
    // Of the same packages as the tests, because others would be built with other features again.
    let mut benches = cargo(["test"]);
    benches.args(Profile::Default.packages());
    for bench in ["monitor", "label", "decide", "search", "permissions"] {
        benches.args(["--bench", bench]);
    }
    phases.time("benchmarks", || run(&mut benches))
}

/// Whether the tests of the laboratory may come out otherwise than on `origin/main`, or on the commit before where HEAD is
/// there already. True where git cannot tell.
fn lab_changed() -> bool {
    let changed = || {
        let head = output("git", &["rev-parse", "HEAD"])?;
        let mut base = output("git", &["merge-base", "HEAD", "origin/main"])?;
        if base == head {
            base = output("git", &["rev-parse", "HEAD~"])?;
        }
        output("git", &["diff", "--name-only", &base])
    };
    match changed() {
        Ok(files) => is_of_lab(&files),
        Err(error) => {
            eprintln!(
                "xtask: the laboratory's tests run, since git does not say what changed: {error:#}"
            );
            true
        }
    }
}

fn is_of_lab(files: &str) -> bool {
    let mut files = files.lines();
    files.any(|file| LAB_SOURCES.iter().any(|source| file.starts_with(source)))
}

/// What takes too long for every change. Each part runs whatever came of the others.
pub(crate) fn nightly(phases: &mut Phases) -> Result<()> {
    let mut failures = Failures::default();
    let mut part = |phases: &mut Phases, name: &str, work: &dyn Fn() -> Result<()>| {
        failures.note(name, phases.time(name, work));
    };
    let tests = |package: &str, target: &str, filter: &str| {
        let mut tests = cargo(["test", "--package"]);
        tests.args([package, "--test", target, filter]);
        tests
    };
    // As users build it: other packages of the workspace turn on features that it must not need.
    part(phases, "the product alone", &|| {
        run(&mut cargo(["check", "--package", "sluice"]))
    });
    part(phases, "10,000 pairs of worlds", &|| {
        run(tests("hub", "it", "noninterference::").env("SLUICE_WORLDS", "10000"))
    });
    part(phases, "1,000 kills of a memory's writer", &|| {
        run(tests("store", "it", "kill").env("SLUICE_KILLS", "1000"))
    });
    part(phases, "1,000 kills of services under load", &|| {
        run(tests("sluice", "it", "serve::replicas").env("SLUICE_KILLS", "1000"))
    });
    part(phases, "10,000 schedules of two replicas", &|| {
        run(tests("server", "replica", "schedules").env("SLUICE_SCHEDULES", "10000"))
    });
    part(phases, "60 minutes of a service", &|| {
        run(cargo(["build", "--bins"]).args(Profile::Default.packages()))?;
        run(lab()?.args(["bench", "serve", "--minutes", "60"]))
    });
    part(phases, "10,000 starts and stops of a spoke", &|| {
        run(cargo(["build", "--bins"]).args(Profile::Default.packages()))?;
        let lab = ["run", "--package", "sluice-lab", "--", "bench", "spokes"];
        run(cargo(lab).args(["--count", "200", "--starts", "10000"]))
    });
    part(phases, "AgentDojo, a part", &|| {
        for which in ["loop", "replay"] {
            run(lab()?.args(["bench", "agentdojo", which, "--quick"]))?;
        }
        Ok(())
    });
    part(phases, "200,000 inputs of each fuzz target", &fuzz);
    part(phases, "mutants", &|| mutants::mutants(&[]));
    failures.note("laboratory", test(&["lab".to_owned()], phases));
    failures.note("servers", servers(&[], phases));
    for arguments in [&[][..], &["sdks".to_owned()]] {
        failures.note("agents", agents::agents(arguments, phases));
    }
    if is_root() {
        failures.note("fresh", fresh::fresh(&[], phases));
    } else {
        eprintln!("xtask: `cargo xtask fresh` is left out: it needs root");
    }
    failures.result()
}

/// Every fuzz target, with other inputs each day, unless the seed is given.
fn fuzz() -> Result<()> {
    const SEED: &str = "SLUICE_FUZZ_SEED";
    let day = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() / 86_400;
    let seed = env::var(SEED).unwrap_or_else(|_| day.to_string());
    eprintln!("xtask: {SEED}={seed}");
    let mut targets = cargo(["test", "--workspace", "--test", "foreign_bytes"]);
    run(targets.envs([(SEED, &*seed), ("SLUICE_FUZZ_INPUTS", "200000")]))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use serde_json::Value;

    use super::*;

    #[test]
    fn both_runners_leave_out_the_same_tests() {
        let config = include_str!("../../.config/nextest.toml");
        let packages = LAB_PACKAGES.map(|package| format!("package({package})"));
        let lab = format!("{} + test(/(^|::){LAB_MODULE}/)", packages.join(" + "));
        for filter in [lab.clone(), format!("not ({lab})")] {
            assert!(
                config.contains(&format!("default-filter = \"{filter}\"\n")),
                "{filter}"
            );
        }
        let command = format!("{:?}", with_cargo(Profile::Default, &[]));
        for word in LAB_PACKAGES.into_iter().chain([LAB_MODULE]) {
            assert!(command.contains(word), "{command}");
        }
    }

    #[test]
    fn changes_of_the_product_alone_need_no_laboratory() {
        assert!(is_of_lab("README.md\ncrates/screen/src/lib.rs\n"));
        assert!(!is_of_lab("README.md\ncrates/hub/src/lib.rs\n"));
    }

    /// A program without tests takes as long to build as one with many, so a target that has none says so, and then may
    /// have none: they would never run.
    #[test]
    fn targets_that_are_not_tested_have_no_tests() {
        let metadata = ["metadata", "--no-deps", "--offline", "--format-version=1"];
        let output = cargo(metadata).output().unwrap();
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
            let text = fs::read_to_string(&file).unwrap();
            let tested = ["cfg(test)", "#[test]", "::test]", "proptest!"];
            let found = tested.iter().find(|mark| text.contains(**mark));
            assert_eq!(found, None, "{} is never tested", file.display());
        }
    }

    fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => sources(&path, files),
                false if path.extension().is_some_and(|it| it == "rs") => files.push(path),
                false => {}
            }
        }
    }
}
