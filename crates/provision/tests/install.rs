//! Installing, with programs that stand in for a package manager.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use provision::{Host, Installer, Package, Registry, Store};

/// More than any step takes here.
const PATIENCE: Duration = Duration::from_secs(60);

/// A folder with a stand-in for npm: it knows a registry and a file of settings, and does nothing else.
fn machine() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("bin")).unwrap();
    let npm = folder.path().join("bin/npm");
    let settings = folder.path().join("npmrc");
    let script = format!(
        "#!/bin/sh\ncase $1 in\n  config) echo registry=https://registry.example.test/; echo userconfig={} ;;\n  \
         *) echo nothing is installed >&2; exit 1 ;;\nesac\n",
        settings.display()
    );
    fs::write(&npm, script).unwrap();
    fs::set_permissions(&npm, fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

/// Why nothing is installed there.
fn refusal(folder: &Path, with: Vec<String>) -> String {
    let host = Host {
        path: vec![folder.join("bin")],
        home: Some(folder.to_owned()),
        system: sandbox::defaults::SYSTEM
            .iter()
            .map(PathBuf::from)
            .collect(),
    };
    let installer = Installer {
        host: &host,
        store: &Store::new(folder.join("store")),
        program: Path::new(env!("CARGO_BIN_EXE_build-under-test")),
        scripts: false,
    };
    let package = Package {
        registry: Registry::Npm,
        requirement: "server".to_owned(),
        with,
        python: None,
        program: None,
        arguments: Vec::new(),
    };
    installer.install("app", &package).unwrap_err().to_string()
}

#[test]
fn a_build_that_ends_before_it_has_its_order_says_why() {
    let folder = machine();
    // As long as no order may be, so that the build spoke ends while it is written.
    let with = (0..100_000).map(|at| format!("package{at}")).collect();
    let refusal = refusal(folder.path(), with);
    assert!(
        refusal.contains("it said: sluice-build: EOF while parsing"),
        "{refusal}"
    );
}

#[test]
fn settings_that_are_a_pipe_are_not_waited_for() {
    let folder = machine();
    let pipe = folder.path().join("npmrc");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let (done, outcome) = mpsc::channel();
    std::thread::spawn(move || {
        let refusal = refusal(folder.path(), Vec::new());
        done.send(refusal).unwrap();
    });
    let refusal = outcome.recv_timeout(PATIENCE);
    assert_eq!(refusal.as_deref(), Ok("the package manager failed"));
}
