//! `cargo xtask size`: lines of Rust per crate, compared with `budget.toml`.
//!
//! Lines are counted as rustfmt leaves them. Tests are files in `tests`, `benches` and `examples`, files that end in
//! `tests.rs`, the crate `test-support`, and everything behind `#[cfg(test)]`; all other lines are source.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Folders of crates, and the name of their sum.
const GROUPS: [(&str, &str); 3] = [
    ("crates", "product"),
    ("apps", "product"),
    ("lab", "laboratory"),
];
/// Crates that are neither product nor laboratory.
const TOOLS: [&str; 2] = ["xtask", "fuzz"];
/// The lines of source that each crate and each group may have.
const BUDGET: &str = "budget.toml";

/// The lines of a file, a crate or a group.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Lines {
    /// Code, comments and blank lines.
    source: usize,
    code: usize,
    comments: usize,
    tests: usize,
}

/// Lines by table and name in `budget.toml`, such as `crates/hub`, `tools/xtask` and `total/product`.
type Sizes = BTreeMap<String, Lines>;

/// Prints the table.
///
/// # Errors
/// A crate or a group has more lines of source than its budget, or has no budget.
pub(crate) fn size(root: &Path) -> Result<()> {
    let sizes = measure(root)?;
    print(&table(&sizes));
    let budget = fs::read_to_string(root.join(BUDGET)).context(BUDGET)?;
    let faults = faults(&sizes, &budget.parse().context(BUDGET)?);
    if !faults.is_empty() {
        bail!("{BUDGET} does not fit:\n  {}", faults.join("\n  "));
    }
    Ok(())
}

fn measure(root: &Path) -> Result<Sizes> {
    let mut sizes = Sizes::new();
    for (group, total) in GROUPS {
        for entry in fs::read_dir(root.join(group)).with_context(|| group.to_owned())? {
            let folder = entry?.path();
            if !folder.join("Cargo.toml").exists() {
                continue;
            }
            let lines = crate_lines(&folder)?;
            let name = folder.file_name().unwrap_or_default().to_string_lossy();
            sizes.insert(format!("{group}/{name}"), lines);
            let sum = sizes.entry(format!("total/{total}")).or_default();
            sum.source += lines.source;
            sum.code += lines.code;
            sum.comments += lines.comments;
            sum.tests += lines.tests;
        }
    }
    for tool in TOOLS {
        sizes.insert(format!("tools/{tool}"), crate_lines(&root.join(tool))?);
    }
    Ok(sizes)
}

/// Sizes above their budget or without one, and budgets of crates that do not exist.
fn faults(sizes: &Sizes, budget: &toml::Table) -> Vec<String> {
    let mut faults = Vec::new();
    for (name, Lines { source, .. }) in sizes {
        let (group, member) = name.split_once('/').unwrap_or_default();
        let allowed = budget.get(group).and_then(|group| group.get(member));
        match allowed.and_then(toml::Value::as_integer) {
            None => faults.push(format!("{name} has {source} lines and no budget")),
            Some(allowed) if i64::try_from(*source).is_ok_and(|source| source <= allowed) => {}
            Some(allowed) => faults.push(format!("{name} has {source} lines, budget {allowed}")),
        }
    }
    for (group, members) in budget {
        for (member, _) in members.as_table().into_iter().flatten() {
            let name = format!("{group}/{member}");
            if !sizes.contains_key(&name) {
                faults.push(format!("{name} has a budget and does not exist"));
            }
        }
    }
    faults
}

fn table(sizes: &Sizes) -> String {
    let heading = ["", "source", "code", "comments", "tests"].map(str::to_owned);
    let rows = sizes.iter().map(|(name, lines)| {
        let columns = [lines.source, lines.code, lines.comments, lines.tests];
        let [source, code, comments, tests] = columns.map(|count| count.to_string());
        [name.clone(), source, code, comments, tests]
    });
    let rows = std::iter::once(heading).chain(rows);
    rows.map(|[name, source, code, comments, tests]| {
        format!("{name:<22}{source:>8}{code:>8}{comments:>10}{tests:>8}\n")
    })
    .collect()
}

#[expect(clippy::print_stdout, reason = "the result of the command")]
fn print(text: &str) {
    println!("{}", text.trim_end());
}

fn crate_lines(folder: &Path) -> Result<Lines> {
    let mut files = Vec::new();
    rust_files(folder, &mut files)?;
    let mut counted = Vec::new();
    // Modules behind `#[cfg(test)]`, as paths without `.rs`.
    let mut test_modules = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let (lines, modules) = count(&text);
        let is_root = ["lib", "main", "mod"]
            .iter()
            .any(|stem| file.ends_with(format!("{stem}.rs")));
        let children = if is_root {
            file.with_file_name("")
        } else {
            file.with_extension("")
        };
        test_modules.extend(modules.iter().map(|module| children.join(module)));
        counted.push((file, lines));
    }
    let mut sum = Lines::default();
    for (file, lines) in counted {
        let inner = file.strip_prefix(folder)?;
        let in_tests = folder.ends_with("test-support")
            || inner
                .iter()
                .any(|part| part == "tests" || part == "benches" || part == "examples");
        let module = file.with_extension("");
        let is_test = in_tests
            || inner.to_string_lossy().ends_with("tests.rs")
            || test_modules.iter().any(|test| module.starts_with(test));
        sum.tests += lines.tests;
        if is_test {
            sum.tests += lines.source;
            continue;
        }
        sum.source += lines.source;
        sum.code += lines.code;
        sum.comments += lines.comments;
    }
    Ok(sum)
}

fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() && !path.ends_with("target") {
            rust_files(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// The lines of a file, and the modules in files of their own that it declares behind `#[cfg(test)]`.
fn count(text: &str) -> (Lines, Vec<&str>) {
    let mut lines = Lines::default();
    let mut modules = Vec::new();
    let mut rest = text.lines();
    while let Some(line) = rest.next() {
        let trimmed = line.trim();
        if trimmed.starts_with("#[cfg(test)]") {
            let indent = line.len() - line.trim_start().len();
            lines.tests += 1;
            // As rustfmt writes it, the item ends where a line at its own indentation closes it.
            for line in rest.by_ref() {
                lines.tests += 1;
                let own = line.len() - line.trim_start().len() == indent;
                let code = line.trim();
                if let Some(module) = code
                    .strip_suffix(';')
                    .and_then(|code| code.split_once("mod "))
                {
                    modules.push(module.1);
                }
                if own && !code.starts_with('#') && code.ends_with([';', '}', ',']) {
                    break;
                }
            }
            continue;
        }
        lines.source += 1;
        match trimmed {
            "" => {}
            comment if comment.starts_with("//") => lines.comments += 1,
            _ => lines.code += 1,
        }
    }
    (lines, modules)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_behind_cfg_test_counts_as_tests() {
        let text = "//! Comment.\n\nuse a::b;\n#[cfg(test)]\nuse a::{\n    b,\n};\n#[cfg(test)]\nmod samples;\n\n\
            fn one() {}\n\n#[cfg(test)]\n#[path = \"x.rs\"]\nmod tests {\n    // Test.\n\n    fn two() {}\n}\n";
        let (lines, modules) = count(text);
        let expected = Lines {
            source: 6,
            code: 2,
            comments: 1,
            tests: 13,
        };
        assert_eq!((lines, modules), (expected, vec!["samples"]));
    }

    #[test]
    fn files_of_tests_count_as_tests() {
        let folder = tempfile::tempdir().unwrap();
        for file in [
            "src/lib.rs",
            "src/a.rs",
            "src/a/samples.rs",
            "src/a/samples/b.rs",
            "src/a/tests.rs",
            "tests/it/main.rs",
        ] {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let text = if file == "src/a.rs" {
                "fn a() {}\n#[cfg(test)]\nmod samples;\n"
            } else {
                "fn b() {}\n"
            };
            fs::write(path, text).unwrap();
        }
        let expected = Lines {
            source: 2,
            code: 2,
            comments: 0,
            tests: 6,
        };
        assert_eq!(crate_lines(folder.path()).unwrap(), expected);
    }

    #[test]
    fn each_size_needs_a_sufficient_budget() {
        let lines = Lines {
            source: 10,
            ..Lines::default()
        };
        let sizes = Sizes::from([
            ("crates/hub".to_owned(), lines),
            ("tools/xtask".to_owned(), lines),
        ]);
        let check = |budget: &str| faults(&sizes, &budget.parse().unwrap());
        assert_eq!(check("crates.hub = 10\ntools.xtask = 11"), [""; 0]);
        let expected = [
            "crates/hub has 10 lines, budget 9",
            "tools/xtask has 10 lines and no budget",
            "lab/old has a budget and does not exist",
        ];
        assert_eq!(check("crates.hub = 9\nlab.old = 1"), expected);
    }
}
