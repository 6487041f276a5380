//! Programs of Node in packages of Python.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::requirement::is_of_registry;
use crate::Registry;

/// Most folders that are supplied with modules; who has more is no package that runs a program of Node.
const MOST: usize = 4;
/// How deep they are looked for: in a package, or in a folder of it.
const DEPTH: usize = 3;
/// Most bytes of a description.
const MAX_DESCRIPTION: u64 = 64 << 10;

/// A folder with a program of Node and without its modules.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unsupplied {
    pub(super) folder: PathBuf,
    /// What it needs: packages of a registry with their versions, and nothing else.
    pub(super) dependencies: Map<String, Value>,
}

/// Folders with a program of Node and a description of what it needs, and without its modules.
pub(super) fn unsupplied(site: &Path) -> Vec<Unsupplied> {
    let mut found = Vec::new();
    // A program that ran meanwhile may have put a link there.
    if !site.symlink_metadata().is_ok_and(|site| site.is_dir()) {
        return found;
    }
    look(site, DEPTH, &mut found);
    found.sort_by(|a, b| a.folder.cmp(&b.folder));
    found.truncate(MOST);
    found
}

fn look(folder: &Path, depth: usize, found: &mut Vec<Unsupplied>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    let mut program = false;
    for entry in entries.flatten() {
        let path = entry.path();
        // Of the entry itself: a link is no folder here, so that nothing is looked for outside of the tree.
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && depth > 0 => look(&path, depth - 1, found),
            Ok(kind) => {
                program |= kind.is_file() && path.extension().is_some_and(|end| end == "js");
            }
            Err(_) => {}
        }
    }
    // Not `exists`, which says no of a link that leads nowhere.
    let supplied = || folder.join("node_modules").symlink_metadata().is_ok();
    if !program || supplied() {
        return;
    }
    if let Some(dependencies) = needed(&folder.join("package.json")) {
        found.push(Unsupplied {
            folder: folder.to_owned(),
            dependencies,
        });
    }
}

/// The dependencies in a stranger's description; one that cannot be read has none. A description with one that is no
/// package of a registry is left alone, as where there is no npm: for such a one npm starts git, or reads a folder.
fn needed(file: &Path) -> Option<Map<String, Value>> {
    let small = fs::metadata(file).is_ok_and(|file| file.len() <= MAX_DESCRIPTION);
    let text = small.then(|| fs::read_to_string(file))?.ok()?;
    let mut description: Value = serde_json::from_str(&text).ok()?;
    let Value::Object(needed) = description.get_mut("dependencies")?.take() else {
        return None;
    };
    let of_registry = |(name, version): (&String, &Value)| {
        let version = version.as_str()?;
        // `npm:NAME@VERSION` is a package under another name.
        let requirement = match version.strip_prefix("npm:") {
            Some(other) => other.to_owned(),
            None => format!("{name}@{version}"),
        };
        let known = is_of_registry(name, Registry::Npm);
        (known && is_of_registry(&requirement, Registry::Npm)).then_some(())
    };
    let all = needed.iter().all(|entry| of_registry(entry).is_some());
    (all && !needed.is_empty()).then_some(needed)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_program_of_node_without_its_modules_is_found_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let make = |name: &str, files: &[(&str, &str)]| {
            let folder = folder.path().join(name);
            fs::create_dir_all(&folder).unwrap();
            for (file, text) in files {
                fs::write(folder.join(file), text).unwrap();
            }
        };
        let needs = r#"{"dependencies": {"jsdom": "1"}}"#;
        make(
            "reader/javascript",
            &[("read.js", ""), ("package.json", needs)],
        );
        make(
            "built/static",
            &[("index.html", ""), ("package.json", needs)],
        );
        make("alone/js", &[("a.js", ""), ("package.json", "{}")]);
        make("supplied/js", &[("a.js", ""), ("package.json", needs)]);
        make("supplied/js/node_modules/jsdom", &[]);
        make("spoilt/js", &[("a.js", ""), ("package.json", "{")]);
        make("a/b/c/d/e", &[("a.js", ""), ("package.json", needs)]);
        let found = unsupplied(folder.path());
        let folders: Vec<&Path> = found.iter().map(|it| it.folder.as_path()).collect();
        assert_eq!(folders, [folder.path().join("reader/javascript")]);
    }

    #[test]
    fn only_packages_of_a_registry_are_dependencies() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("package.json");
        let needed = |dependencies: Value| {
            fs::write(&file, json!({ "dependencies": dependencies }).to_string()).unwrap();
            super::needed(&file)
        };
        for version in ["^1.2.3", ">=1 <2 || 3.x", "*", "latest", "npm:@a/b@^1"] {
            assert!(
                needed(json!({ "@scope/x": version })).is_some(),
                "{version}"
            );
        }
        for version in [
            "git+file:///build/x",
            "git@host.test:x/y",
            "user/repository",
            "https://host.test/x.tgz",
            "file:../x",
            "../x",
            "npm:../x",
        ] {
            let all = json!({ "good": "1", "x": version });
            assert_eq!(needed(all), None, "{version}");
        }
        for name in ["../x", "-x", ""] {
            assert_eq!(needed(json!({ name: "1" })), None, "{name}");
        }
    }
}
