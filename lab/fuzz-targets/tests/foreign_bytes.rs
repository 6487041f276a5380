//! Runs every target on many inputs, each target in a process of its own: mutations of its corpus, the same ones for a seed.
//!
//! `SLUICE_FUZZ_INPUTS` is how many, `SLUICE_FUZZ_SEED` which; `SLUICE_FUZZ_FILE` is one input instead of them. They are
//! not guided by coverage: that takes a nightly compiler and `cargo fuzz`, for which the folder `fuzz` has the same targets.

mod mutate;

use std::error::Error;
use std::fs::{self, File};
use std::hint::black_box;
use std::io::{BufRead, BufReader, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;
use std::{env, thread};

use fuzz_targets::TARGETS;
use libtest_mimic::{Arguments, Failed, Trial};
use rustix::process::{Resource, Rlimit, setrlimit};

use mutate::Mutator;

/// The target of a child process.
const CHILD: &str = "SLUICE_FUZZ_TARGET";
const INPUTS: &str = "SLUICE_FUZZ_INPUTS";
const SEED: &str = "SLUICE_FUZZ_SEED";
const FILE: &str = "SLUICE_FUZZ_FILE";
/// Inputs of a target where nobody says how many.
const DEFAULT_INPUTS: u64 = 1_000;
/// Inputs after which a child says that it goes on.
const STEP: u64 = 100;
/// Inputs after which that is shown.
const SHOWN: u64 = 50_000;
/// How long so many inputs may take: they take milliseconds, so a child that is silent for longer hangs.
const PATIENCE: Duration = Duration::from_secs(120);
/// Address space of a child: some times what the largest target holds.
const MAX_MEMORY: u64 = 4 << 30;

fn main() -> ExitCode {
    if let Ok(target) = env::var(CHILD) {
        child(&target);
        return ExitCode::SUCCESS;
    }
    let targets = TARGETS
        .iter()
        .map(|(name, _)| Trial::test(*name, || Ok(parent(name, PATIENCE)?)));
    let faults = FAULTS.iter().map(|(fault, said)| {
        Trial::test(format!("a_target_that_{fault}_fails"), || {
            is_reported(fault, said)
        })
    });
    libtest_mimic::run(&Arguments::from_args(), targets.chain(faults).collect()).exit_code()
}

fn number(variable: &str, default: u64) -> u64 {
    match env::var(variable) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{variable} must be a number, and is '{text}'")),
        Err(_) => default,
    }
}

/// Where a child keeps the input that it is at, so that an abort does not lose it.
fn current(target: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fuzz-{target}"))
}

/// Runs a target in a process of its own.
fn parent(target: &str, patience: Duration) -> Result<(), Box<dyn Error>> {
    let mut child = Command::new(env::current_exe()?)
        .env(CHILD, target)
        .stdout(Stdio::piped())
        .spawn()?;
    let output = child.stdout.take().ok_or("the child has no output")?;
    let (said, progress) = mpsc::channel();
    let reader = thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            let _ = said.send(line);
        }
    });
    let hangs = loop {
        match progress.recv_timeout(patience) {
            Ok(line) => {
                if line
                    .parse()
                    .is_ok_and(|count: u64| count.is_multiple_of(SHOWN))
                {
                    eprintln!("{target}: {line} inputs");
                }
            }
            Err(RecvTimeoutError::Disconnected) => break false,
            Err(RecvTimeoutError::Timeout) => break true,
        }
    };
    if hangs {
        child.kill()?;
    }
    let status = child.wait()?;
    let _ = reader.join();
    if status.success() {
        return Ok(());
    }
    let seed = number(SEED, 0);
    let kept = current(target).with_extension(format!("failed-{seed}"));
    fs::rename(current(target), &kept)?;
    let what = if hangs {
        "hangs".to_owned()
    } else {
        format!("ended with {status}")
    };
    Err(format!(
        "{target} {what}, seed {seed}; again with\n{FILE}={} cargo test --workspace --test foreign_bytes -- --exact {target}",
        kept.display()
    )
    .into())
}

/// What a child does that is no target, and what is said of it: the driver must notice each.
const FAULTS: [(&str, &str); 6] = [
    ("panics", "ended with exit status"),
    ("aborts", "ended with signal: 6"),
    ("overflows", "ended with signal: 6"),
    ("allocates", "ended with signal: 6"),
    ("hangs", "hangs"),
    ("rejects", "ended with exit status"),
];
/// How long a fault may be silent: the one that hangs is so for ever, and the others end long before.
const PATIENCE_WITH_FAULTS: Duration = Duration::from_secs(20);
/// How long the fault that hangs may be silent.
const PATIENCE_WITH_HANG: Duration = Duration::from_secs(5);

/// Whether a fault is the failure of its own target, with its input kept.
fn is_reported(fault: &str, said: &str) -> Result<(), Failed> {
    let patience = match fault {
        "hangs" => PATIENCE_WITH_HANG,
        _ => PATIENCE_WITH_FAULTS,
    };
    let Err(error) = parent(fault, patience) else {
        return Err(format!("nobody noticed that it {fault}").into());
    };
    let error = error.to_string();
    if !error.starts_with(&format!("{fault} {said}")) {
        return Err(format!("it {fault}, and is said to be: {error}").into());
    }
    let kept = current(fault).with_extension(format!("failed-{}", number(SEED, 0)));
    let input = fs::read(&kept)?;
    fs::remove_file(kept)?;
    match input == fault.as_bytes() {
        true => Ok(()),
        false => Err("its input was not kept".into()),
    }
}

/// A target for the faults: its input says which.
fn fail(fault: &[u8]) -> bool {
    fn deep(count: u64) -> u64 {
        match black_box(count) {
            u64::MAX => 0,
            count => deep(count + 1) + 1,
        }
    }
    match fault {
        b"panics" => panic!("as it should"),
        b"aborts" => std::process::abort(),
        b"overflows" => drop(black_box(deep(0))),
        b"allocates" => drop(black_box(vec![1_u8; MAX_MEMORY as usize])),
        b"hangs" => loop {
            thread::park();
        },
        _ => return false,
    }
    true
}

/// Runs a target on its inputs, or on one.
fn child(target: &str) {
    let limit = Some(MAX_MEMORY);
    setrlimit(
        Resource::As,
        Rlimit {
            current: limit,
            maximum: limit,
        },
    )
    .expect("memory is limited");
    let mut kept = File::create(current(target)).expect("the folder of tests can be written");
    let mut keep = |bytes: &[u8]| {
        kept.rewind()
            .and_then(|()| kept.set_len(0))
            .and_then(|()| kept.write_all(bytes))
    };
    if let Some(file) = env::var_os(FILE) {
        let bytes = fs::read(file).expect("the file of the input can be read");
        keep(&bytes).expect("the input is kept");
        fuzz_targets::run(target, &bytes);
        return;
    }
    let is_fault = FAULTS.iter().any(|(fault, _)| *fault == target);
    let corpus = match is_fault {
        true => vec![target.as_bytes().to_vec()],
        false => corpus(target),
    };
    let mut accepted = 0_usize;
    for bytes in &corpus {
        keep(bytes).expect("the input is kept");
        accepted += usize::from(match is_fault {
            true => fail(bytes),
            false => fuzz_targets::run(target, bytes),
        });
    }
    // Mutations of what is rejected are rejected as well: nothing would be asserted of what is read.
    assert!(accepted > 0, "{target} accepts nothing of its corpus");
    let inputs = number(INPUTS, DEFAULT_INPUTS);
    let mut mutator = Mutator::new(corpus, number(SEED, 0));
    for count in 1..=inputs {
        let bytes = mutator.next_input();
        keep(&bytes).expect("the input is kept");
        fuzz_targets::run(target, &bytes);
        if count.is_multiple_of(STEP) {
            println!("{count}");
        }
    }
}

/// What lies in the repository for a target, in the order of names.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(target);
    let mut files: Vec<PathBuf> = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("the corpus can be read").path())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{target} has no corpus");
    files
        .iter()
        .map(|file| fs::read(file).expect("the corpus can be read"))
        .collect()
}
