//! Every use of a trusted constructor outside this crate is in `tcb-callers.txt`, so that a review sees a new one.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const LIST: &str = "tcb-callers.txt";

/// Readers are not constructors: what they reveal keeps its label elsewhere.
const READER: &str = "reveal_tcb";

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        match path.extension() {
            _ if path.is_dir() => sources(&path, found),
            Some(extension) if extension == "rs" => found.push(path),
            _ => {}
        }
    }
}

/// The trusted constructors that a source names, with how often. Comments, tests and definitions do not count.
fn named(source: &str) -> BTreeMap<&str, usize> {
    let code = source.split("#[cfg(test)]\nmod tests {").next();
    let lines = code.unwrap_or_default().lines();
    let mut named = BTreeMap::new();
    for line in lines.map(|line| line.split("//").next().unwrap_or_default()) {
        let mut before = "";
        for word in line.split(|c: char| !c.is_alphanumeric() && c != '_') {
            if word.ends_with("_tcb") && word != READER && before != "fn" {
                *named.entry(word).or_default() += 1;
            }
            before = word;
        }
    }
    named
}

#[test]
fn trusted_constructors_are_used_where_the_list_says() {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = own.join("../..").canonicalize().unwrap();
    let mut files = Vec::new();
    for group in ["crates", "apps"] {
        for entry in fs::read_dir(root.join(group)).unwrap() {
            let package = entry.unwrap().path();
            if !package.ends_with("crates/ifc") {
                sources(&package.join("src"), &mut files);
            }
        }
    }
    files.sort();
    let mut list = String::from(
        "# Uses of trusted constructors outside `ifc`: file, constructor, count. `UPDATE_TCB=1 cargo test -p ifc` writes it.\n",
    );
    for file in &files {
        let source = fs::read_to_string(file).unwrap();
        let name = file.strip_prefix(&root).unwrap().display();
        for (constructor, count) in named(&source) {
            list.push_str(&format!("{name} {constructor} {count}\n"));
        }
    }
    let path = own.join(LIST);
    if std::env::var_os("UPDATE_TCB").is_some() {
        fs::write(&path, &list).unwrap();
    }
    let known = fs::read_to_string(&path).unwrap_or_default();
    let new: Vec<&str> = list
        .lines()
        .filter(|line| !known.lines().any(|it| it == *line))
        .collect();
    let gone: Vec<&str> = known
        .lines()
        .filter(|line| !list.lines().any(|it| it == *line))
        .collect();
    assert!(
        new.is_empty() && gone.is_empty(),
        "{LIST} is not up to date; not in it: {new:#?}; only in it: {gone:#?}"
    );
}
