//! What `sluice --version` says of the build: the target, and the commit where it is known.
//!
//! A package is built with `SLUICE_COMMIT`. `cargo install` in a clone asks git. A debug build does neither, since the
//! program would be built again after every commit.

use std::env;
use std::path::Path;
use std::process::Command;

/// Changes with every commit and checkout.
const HEAD: &str = "../../.git/logs/HEAD";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=SLUICE_COMMIT");
    let is_release = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let given = env::var("SLUICE_COMMIT").ok();
    let commit = given.or_else(|| {
        let asks = is_release && Path::new(HEAD).exists();
        asks.then(|| {
            println!("cargo::rerun-if-changed={HEAD}");
            commit()
        })?
    });
    let target = env::var("TARGET").unwrap_or_default();
    println!("cargo::rustc-env=SLUICE_TARGET={target}");
    println!(
        "cargo::rustc-env=SLUICE_BUILD={}",
        commit.as_deref().unwrap_or("unknown")
    );
}

/// The commit of the working tree, with `-dirty` where files differ from it.
fn commit() -> Option<String> {
    let describe = [
        "describe",
        "--always",
        "--dirty",
        "--abbrev=12",
        "--exclude=*",
    ];
    let output = Command::new("git").args(describe).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}
