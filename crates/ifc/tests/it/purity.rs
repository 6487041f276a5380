//! The core is pure: no dependencies, no I/O, no clock, no unsafe; it builds where none of them are.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Parts of `std` that reach outside the program.
const IMPURE: [&str; 8] = ["fs", "net", "env", "process", "thread", "time", "io", "os"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn sources() -> Vec<(PathBuf, String)> {
    let mut directories = vec![root().join("src")];
    let mut sources = Vec::new();
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else {
                let text = std::fs::read_to_string(&path).unwrap();
                sources.push((path, text));
            }
        }
    }
    assert!(sources.len() > 5, "the sources were not found");
    sources
}

/// Code without comments and blanks, so that no layout hides a path.
fn code(source: &str) -> String {
    let lines = source
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default());
    lines.flat_map(str::split_whitespace).collect()
}

fn impure(source: &str) -> Option<String> {
    let code = code(source);
    // A brace after `std::` could hide anything; one path per `use` keeps this test simple.
    let banned = IMPURE.map(|module| format!("std::{module}"));
    let other = [
        "std::{",
        "std::*",
        "usestdas",
        "externcrate",
        "unsafe{",
        "include!",
        "asm!",
    ];
    let banned = banned.iter().map(String::as_str).chain(other);
    let found = banned.filter(|word| {
        code.match_indices(word).any(|(at, _)| {
            let next = code[at + word.len()..].chars().next();
            !word.ends_with(char::is_alphanumeric)
                || next.is_none_or(|c| !c.is_alphanumeric() && c != '_')
                || word.starts_with("use")
                || word.starts_with("extern")
        })
    });
    found.map(String::from).next()
}

#[test]
fn the_test_sees_what_is_impure() {
    for source in [
        "use std::fs;",
        "use std::fs::File;",
        "use std :: \n fs;",
        "std::process::exit(0)",
        "use std::{fmt, fs};",
        "let now = std::time::Instant::now();",
        "use std as s;",
        "extern crate libc;",
    ] {
        assert!(impure(source).is_some(), "{source}");
    }
    for source in [
        "use std::fmt;",
        "// std::fs",
        "std::iter::once(1)",
        "std::option::Option",
    ] {
        assert_eq!(impure(source), None, "{source}");
    }
}

#[test]
fn the_sources_reach_for_nothing_outside() {
    for (path, source) in sources() {
        assert_eq!(impure(&source), None, "{}", path.display());
    }
}

#[test]
fn unsafe_code_is_forbidden() {
    let library = std::fs::read_to_string(root().join("src/lib.rs")).unwrap();
    assert!(
        library
            .lines()
            .any(|line| line == "#![forbid(unsafe_code)]")
    );
}

#[test]
fn there_are_no_dependencies() {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let mut section = "";
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            section = line;
            assert!(
                !section.contains("build-dependencies") && !section.contains("[target"),
                "{section}"
            );
            assert!(!section.starts_with("[dependencies."), "{section}");
        } else if section == "[dependencies]" {
            assert!(
                line.is_empty() || line.starts_with('#'),
                "a dependency: {line}"
            );
        }
    }
    assert!(!root().join("build.rs").exists());
}

/// No operating system at all: what compiles here does no I/O that works.
#[test]
fn it_builds_for_webassembly() {
    const TARGET: &str = "wasm32-unknown-unknown";
    let rustc = std::env::var_os("RUSTC").unwrap_or("rustc".into());
    let libraries = Command::new(&rustc)
        .args(["--print", "target-libdir", "--target", TARGET])
        .output()
        .unwrap();
    let libraries = String::from_utf8_lossy(&libraries.stdout).trim().to_owned();
    let installed = std::fs::read_dir(&libraries).is_ok_and(|mut files| files.next().is_some());
    if !installed {
        eprintln!("SKIPPED: {TARGET} is not installed; run 'rustup target add {TARGET}'");
        return;
    }
    let output = Command::new(rustc)
        .args(["--edition=2024", "--crate-type=rlib", "--crate-name=ifc"])
        .args(["--emit=metadata", "--target", TARGET, "-o"])
        .arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join("libifc-wasm.rmeta"))
        .arg(root().join("src/lib.rs"))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
