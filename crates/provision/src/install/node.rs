//! Programs of Node in packages of Python.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::foreign;
use super::requirement::is_of_registry;
use crate::Registry;

/// Most folders that are supplied with modules; who has more is no package that runs a program of Node.
const MOST: usize = 4;
/// How deep they are looked for: in a package, or in a folder of it.
const DEPTH: usize = 3;
/// Most files and folders that are looked at for that; a tree has 200,000 at most.
const MAX_LOOKED: usize = 200_000;
/// Most bytes of a description.
const MAX_DESCRIPTION: u64 = 64 << 10;

/// A folder with a program of Node and without its modules.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unsupplied {
    pub(super) folder: PathBuf,
    /// What it needs: packages of a registry with their versions, and nothing else.
    pub(super) dependencies: Map<String, Value>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Programs {
    /// Those that can be supplied.
    pub(super) unsupplied: Vec<Unsupplied>,
    /// Folders of those that cannot, each with a dependency for which.
    pub(super) refused: Vec<(PathBuf, String)>,
}

/// Folders with a program of Node and a description of what it needs, and without its modules.
pub(super) fn programs(site: &Path) -> Programs {
    let mut search = Search {
        left: MAX_LOOKED,
        found: Programs::default(),
    };
    // A program that ran meanwhile may have put a link there.
    if site.symlink_metadata().is_ok_and(|site| site.is_dir()) {
        search.look(site, DEPTH);
    }
    search.found
}

struct Search {
    /// How many files and folders may still be looked at.
    left: usize,
    /// The first ones by name.
    found: Programs,
}

impl Search {
    fn look(&mut self, folder: &Path, depth: usize) {
        let Ok(entries) = fs::read_dir(folder) else {
            return;
        };
        let mut program = false;
        for entry in entries.flatten() {
            let Some(left) = self.left.checked_sub(1) else {
                return;
            };
            self.left = left;
            let path = entry.path();
            // Of the entry itself: a link is no folder here, so that nothing is looked for outside of the tree.
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && depth > 0 => self.look(&path, depth - 1),
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
        let (folder, found) = (folder.to_owned(), &mut self.found);
        // Cut at once, so that descriptions without end take no room.
        match needed(&folder) {
            Some(Ok(dependencies)) => {
                found.unsupplied.push(Unsupplied {
                    folder,
                    dependencies,
                });
                found.unsupplied.sort_by(|a, b| a.folder.cmp(&b.folder));
                found.unsupplied.truncate(MOST);
            }
            Some(Err(name)) => {
                found.refused.push((folder, name));
                found.refused.sort();
                found.refused.truncate(MOST);
            }
            None => {}
        }
    }
}

/// The dependencies in a stranger's description; one that cannot be read has none. A description with one that is no
/// package of a registry is left alone, as where there is no npm: for such a one npm starts git, or reads a folder. Its
/// name is the error.
fn needed(folder: &Path) -> Option<Result<Map<String, Value>, String>> {
    let text = foreign::read(folder, Path::new("package.json"), MAX_DESCRIPTION).ok()?;
    let mut description: Value = serde_json::from_slice(&text).ok()?;
    let Value::Object(needed) = description.get_mut("dependencies")?.take() else {
        return None;
    };
    let of_registry = |name: &str, version: &str| {
        // `npm:NAME@VERSION` is a package under another name.
        let requirement = match version.strip_prefix("npm:") {
            Some(other) => other.to_owned(),
            None => format!("{name}@{version}"),
        };
        is_of_registry(name, Registry::Npm) && is_of_registry(&requirement, Registry::Npm)
    };
    let mut all = needed.iter();
    let other =
        all.find(|(name, version)| !version.as_str().is_some_and(|it| of_registry(name, it)));
    let refused = other.map(|(name, _)| name.clone());
    (!needed.is_empty()).then(|| refused.map_or(Ok(needed), Err))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

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
        // A link to a description elsewhere, one to a file without end, and a description that is longer than any.
        make("linked/js", &[("a.js", "")]);
        let elsewhere = folder.path().join("reader/javascript/package.json");
        symlink(elsewhere, folder.path().join("linked/js/package.json")).unwrap();
        make("endless/js", &[("a.js", "")]);
        symlink("/dev/zero", folder.path().join("endless/js/package.json")).unwrap();
        let long = format!("{needs}{}", " ".repeat(MAX_DESCRIPTION as usize));
        make("long/js", &[("a.js", ""), ("package.json", &long)]);
        let elsewhere = r#"{"dependencies": {"jsdom": "1", "tool": "git+https://host.test/x"}}"#;
        make("odd/js", &[("a.js", ""), ("package.json", elsewhere)]);
        let found = programs(folder.path());
        let folders = found.unsupplied.iter().map(|it| it.folder.as_path());
        let folders: Vec<&Path> = folders.collect();
        assert_eq!(folders, [folder.path().join("reader/javascript")]);
        let refused = (folder.path().join("odd/js"), "tool".to_owned());
        assert_eq!(found.refused, [refused]);
    }

    #[test]
    fn only_packages_of_a_registry_are_dependencies() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("package.json");
        let needed = |dependencies: Value| {
            fs::write(&file, json!({ "dependencies": dependencies }).to_string()).unwrap();
            super::needed(folder.path())
        };
        for version in ["^1.2.3", ">=1 <2 || 3.x", "*", "latest", "npm:@a/b@^1"] {
            assert!(
                needed(json!({ "@scope/x": version })).unwrap().is_ok(),
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
            assert_eq!(needed(all), Some(Err("x".to_owned())), "{version}");
        }
        for name in ["../x", "-x", ""] {
            let found = needed(json!({ name: "1" }));
            assert_eq!(found, Some(Err(name.to_owned())), "{name}");
        }
        assert_eq!(needed(json!({})), None);
    }
}
