//! Programs of Node in packages of Python.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Most folders that are supplied with modules; who has more is no package that runs a program of Node.
const MOST: usize = 4;
/// How deep they are looked for: in a package, or in a folder of it.
const DEPTH: usize = 3;
/// Most bytes of a description.
const MAX_DESCRIPTION: u64 = 64 << 10;

/// Folders with a program of Node and a description of what it needs, and without its modules.
pub(super) fn unsupplied(site: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    look(site, DEPTH, &mut found);
    found.sort();
    found.truncate(MOST);
    found
}

fn look(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) {
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
    if program
        && needs_modules(&folder.join("package.json"))
        && !folder.join("node_modules").exists()
    {
        found.push(folder.to_owned());
    }
}

/// What a stranger's description says; one that cannot be read says nothing.
fn needs_modules(file: &Path) -> bool {
    let small = fs::metadata(file).is_ok_and(|file| file.len() <= MAX_DESCRIPTION);
    let text = small.then(|| fs::read_to_string(file)).and_then(Result::ok);
    let description: Option<Value> = text.and_then(|text| serde_json::from_str(&text).ok());
    let needed = description.as_ref().and_then(|it| it.get("dependencies"));
    needed
        .and_then(Value::as_object)
        .is_some_and(|needed| !needed.is_empty())
}

#[cfg(test)]
mod tests {
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
        assert_eq!(found, [folder.path().join("reader/javascript")]);
    }
}
