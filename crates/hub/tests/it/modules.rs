//! The modules of the crates that decide use each other one way: none uses another that uses it in turn, by whatever
//! way around. So each can be read after what it uses, and a folder's `mod.rs` last. So do those of every other crate.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests fail by panicking"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The names that lead to a module or to something in one, from the crate's root.
type Names = Vec<String>;

#[test]
fn modules_of_hub_use_each_other_one_way() {
    assert_eq!(circles(&sources("hub")), [""; 0]);
}

#[test]
fn modules_of_ifc_use_each_other_one_way() {
    assert_eq!(circles(&sources("ifc")), [""; 0]);
}

#[test]
fn modules_of_what_surrounds_the_hub_use_each_other_one_way() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut names = vec!["../xtask".to_owned()];
    for folder in ["", "../lab/", "../apps/"] {
        for entry in fs::read_dir(crates.join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if crates.join(folder).join(&name).join("src").exists() {
                names.push(format!("{folder}{name}"));
            }
        }
    }
    assert!(names.len() > 25, "{names:?}");
    for name in names {
        assert_eq!(circles(&sources(&name)), [""; 0], "{name}");
    }
}

#[test]
fn a_circle_is_found() {
    let check = |files: &[(&str, &str)], expected: &[&str]| {
        let files = files.iter();
        let files = files.map(|(name, text)| (names(name), (*text).to_owned()));
        assert_eq!(circles(&files.collect()), expected);
    };
    let (a, b) = (("a", "pub struct A;"), ("b", "use crate::A;"));
    check(&[("", "pub use a::A;"), a, b], &[]);
    // Through what the root shows of another module, and through a path without `use`.
    let uses = ("a", "pub struct A(crate::b::B);");
    check(&[("", "pub use a::A;"), uses, b], &["a b"]);
    let within = [("a", "mod c;\nuse c::C;"), ("a::c", "use super::{D, E};")];
    check(&within, &["a a::c"]);
    // A module that shows what its parts have, and uses nothing of theirs.
    check(&[("a", "mod c;\npub(crate) use c::C;"), within[1]], &[]);
    // By the name of a module that was brought in.
    let by_name = ("c", "use crate::a;\nfn f() { a::b::g(); }");
    let back = ("a::b", "use crate::c::f;");
    check(&[("a", "pub(crate) mod b;"), back, by_name], &["a::b c"]);
    // To be seen by somebody is not to use him.
    let seen = ("a::b", "pub(in crate::a) struct B;");
    check(&[("a", "mod b;\nuse b::B;"), seen], &[]);
}

/// The text of each module of a crate, without its tests.
fn sources(name: &str) -> BTreeMap<Names, String> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = BTreeMap::new();
    collect(&crates.join(name).join("src"), &[], &mut found);
    assert!(!found.is_empty(), "{name} has no modules");
    found
}

fn collect(folder: &Path, at: &[String], found: &mut BTreeMap<Names, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let mut module = at.to_vec();
        match path.file_stem().unwrap().to_str().unwrap() {
            "lib" | "mod" => {}
            name => module.push(name.to_owned()),
        }
        if path.is_dir() {
            collect(&path, &module, found);
        } else {
            let text = fs::read_to_string(&path).unwrap();
            let text = text.split("#[cfg(test)]").next().unwrap();
            let text = text.replace("#[cfg(doc)]\nuse", "// ");
            let lines = text.lines().map(|line| line.split("//").next().unwrap());
            found.insert(module, lines.collect::<Vec<_>>().join("\n"));
        }
    }
}

/// The modules that use each other in circles, each circle as one line.
fn circles(modules: &BTreeMap<Names, String>) -> Vec<String> {
    let mut shown = BTreeMap::new();
    let mut used = BTreeMap::new();
    for (module, text) in modules {
        let (mut uses, mut rest) = (Vec::new(), String::new());
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let Some((is_shown, tree)) = begins_use(line) else {
                rest.push_str(&without_visibility(line));
                rest.push('\n');
                continue;
            };
            let mut tree = tree.to_owned();
            while !tree.contains(';') {
                tree.push_str(lines.next().unwrap());
            }
            let mut flat = Vec::new();
            flatten(tree.trim_end_matches(';'), &[], &mut flat);
            uses.extend(flat.into_iter().map(|path| (path, is_shown)));
        }
        let is_part = |c: char| !(c.is_alphanumeric() || c == '_' || c == ':');
        for path in rest.split(is_part).filter(|path| path.contains("::")) {
            // A name alone is no path: a module that is declared is not used yet.
            uses.push((names(path), false));
        }
        let brought: BTreeMap<String, Names> = uses
            .iter()
            .filter_map(|(path, _)| from_root(modules, module, path))
            .map(|path| path.into_iter().filter(|name| name != "self").collect())
            .filter_map(|path: Names| Some((path.last()?.clone(), path)))
            .collect();
        for (path, is_shown) in uses {
            let through = || Some([brought.get(path.first()?)?, &path[1..]].concat());
            let Some(path) = from_root(modules, module, &path).or_else(through) else {
                continue;
            };
            match is_shown {
                true => {
                    let name = [module.as_slice(), &path[path.len() - 1..]].concat();
                    shown.insert(name, path);
                }
                false => used.entry(module).or_insert_with(Vec::new).push(path),
            }
        }
    }
    let used: BTreeMap<&Names, BTreeSet<Names>> = used
        .into_iter()
        .map(|(module, paths)| {
            let homes = paths.into_iter().map(|path| home(modules, &shown, path));
            (module, homes.filter(|home| home != module).collect())
        })
        .collect();
    let reach = |from: &Names| {
        let mut reached: BTreeSet<&Names> = BTreeSet::new();
        let mut next: Vec<&Names> = used.get(from).into_iter().flatten().collect();
        while let Some(module) = next.pop() {
            if reached.insert(module) {
                next.extend(used.get(module).into_iter().flatten());
            }
        }
        reached
    };
    let all: BTreeMap<&Names, BTreeSet<&Names>> =
        modules.keys().map(|from| (from, reach(from))).collect();
    let mut found = BTreeSet::new();
    for (from, reached) in &all {
        let circle = reached
            .iter()
            .filter(|to| all.get(**to).is_some_and(|back| back.contains(from)));
        let circle: Vec<String> = circle.map(|module| module.join("::")).collect();
        if !circle.is_empty() {
            found.insert(circle.join(" "));
        }
    }
    found.into_iter().collect()
}

/// What a line says that begins a `use`, and whether it shows that to others.
fn begins_use(line: &str) -> Option<(bool, &str)> {
    let line = line.trim_start();
    let (visibility, tree) = line.split_once("use ")?;
    let is_shown = visibility.starts_with("pub");
    let begins = visibility.is_empty() || is_shown && !visibility.contains([';', '{', '"']);
    // Prose has no paths.
    (begins && tree.contains("::")).then_some((is_shown, tree))
}

/// A line without the module that may see what it declares.
fn without_visibility(line: &str) -> String {
    let Some((before, after)) = line.split_once("pub(in ") else {
        return line.to_owned();
    };
    let (_, after) = after.split_once(')').unwrap();
    format!("{before}{after}")
}

/// The names of a path.
fn names(path: &str) -> Names {
    let names = path.split("::").map(str::trim);
    names
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

/// The paths of a tree of `use`.
fn flatten(tree: &str, before: &[String], found: &mut Vec<Names>) {
    let (head, rest) = tree.split_once('{').unwrap_or((tree, ""));
    let head = head.split(" as ").next().unwrap();
    let path = [before, &names(head)].concat();
    if rest.is_empty() {
        found.push(path);
        return;
    }
    let rest = rest.trim_end().strip_suffix('}').unwrap();
    let (mut depth, mut begin) = (0, 0);
    for (at, c) in rest.char_indices().chain([(rest.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                let part = rest[begin..at].trim();
                if !part.is_empty() {
                    flatten(part, &path, found);
                }
                begin = at + 1;
            }
            _ => {}
        }
    }
}

/// A path as it is from the root; `None` if it leads out of the crate, or nowhere.
fn from_root(
    modules: &BTreeMap<Names, String>,
    module: &[String],
    path: &[String],
) -> Option<Names> {
    let mut at = module.to_vec();
    let mut rest = path;
    match rest.first()?.as_str() {
        "crate" => {
            at.clear();
            rest = &rest[1..];
        }
        "self" => rest = &rest[1..],
        "super" => {
            while rest.first().is_some_and(|name| name == "super") {
                at.pop()?;
                rest = &rest[1..];
            }
        }
        name => {
            let child = [at.as_slice(), &[name.to_owned()]].concat();
            modules.get(&child)?;
        }
    }
    let whole = [at.as_slice(), rest].concat();
    (!rest.is_empty()).then_some(whole)
}

/// The module that has what a path leads to, whoever shows it.
fn home(modules: &BTreeMap<Names, String>, shown: &BTreeMap<Names, Names>, path: Names) -> Names {
    let mut path: Names = path.into_iter().filter(|name| name != "self").collect();
    loop {
        let is_module = |count: &usize| *count == 0 || modules.contains_key(&path[..*count]);
        let known = (0..=path.len()).take_while(is_module).last().unwrap_or(0);
        match path.get(..known + 1).and_then(|name| shown.get(name)) {
            Some(of) => path = [of.as_slice(), &path[known + 1..]].concat(),
            None => return path[..known].to_vec(),
        }
    }
}
