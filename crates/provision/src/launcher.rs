//! Commands that fetch what they run: `npx`, `uvx`, `pipx run`.

use serde::{Deserialize, Serialize};

/// Where a package comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Registry {
    /// Packages of Node.
    Npm,
    /// Packages of Python.
    PyPi,
}

/// What a launcher would fetch and run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    /// Where from.
    pub registry: Registry,
    /// The package, with the version that is asked for, as the registry's own client takes it.
    pub requirement: String,
    /// Further packages that are to be there.
    pub with: Vec<String>,
    /// The program of the package, where it is named.
    pub program: Option<String>,
    /// Arguments of the program.
    pub arguments: Vec<String>,
}

/// What a command would fetch, if it is a launcher's.
#[must_use]
pub fn launcher(command: &[String]) -> Option<Package> {
    let (program, rest) = command.split_first()?;
    let name = program.rsplit('/').next().unwrap_or(program);
    let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
    match (name, rest.as_slice()) {
        ("npx" | "bunx", rest) => npm(rest),
        ("npm", ["exec" | "x", rest @ ..]) | ("pnpm" | "yarn", ["dlx", rest @ ..]) => npm(rest),
        ("uvx", rest) | ("uv", ["tool", "run", rest @ ..]) | ("pipx", ["run", rest @ ..]) => {
            python(rest)
        }
        _ => None,
    }
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn npm(rest: &[&str]) -> Option<Package> {
    let mut packages = Vec::new();
    let mut rest = rest;
    loop {
        rest = match rest {
            ["-p" | "--package", package, after @ ..] => {
                packages.push((*package).to_owned());
                after
            }
            ["--", after @ ..] => {
                rest = after;
                break;
            }
            // A line for a shell: what it needs cannot be known.
            ["-c" | "--call", ..] => return None,
            [option, after @ ..] if option.starts_with('-') => {
                packages.extend(option.strip_prefix("--package=").map(str::to_owned));
                after
            }
            _ => break,
        };
    }
    let (first, arguments) = rest.split_first()?;
    let (requirement, program) = match packages.is_empty() {
        true => ((*first).to_owned(), None),
        false => (packages.remove(0), Some((*first).to_owned())),
    };
    Some(Package {
        registry: Registry::Npm,
        requirement,
        with: packages,
        program,
        arguments: owned(arguments),
    })
}

fn python(rest: &[&str]) -> Option<Package> {
    let (mut from, mut with) = (None, Vec::new());
    let mut rest = rest;
    loop {
        rest = match rest {
            ["--from" | "--spec", package, after @ ..] => {
                from = Some((*package).to_owned());
                after
            }
            ["--with", package, after @ ..] => {
                with.push((*package).to_owned());
                after
            }
            ["-p" | "--python", _, after @ ..] => after,
            ["--", after @ ..] => {
                rest = after;
                break;
            }
            // Another registry, or a folder of sources: not what the user's own settings name.
            [
                "--index" | "--index-url" | "-i" | "--default-index" | "--extra-index-url"
                | "--with-editable" | "--pip-args",
                ..,
            ] => return None,
            [option, after @ ..] if option.starts_with('-') => {
                let named = ["--from=", "--spec="]
                    .iter()
                    .find_map(|key| option.strip_prefix(key));
                from = named.map(str::to_owned).or(from);
                with.extend(option.strip_prefix("--with=").map(str::to_owned));
                after
            }
            _ => break,
        };
    }
    let (first, arguments) = rest.split_first()?;
    let (name, version) = match first.split_once('@') {
        Some((name, "latest")) => (name, None),
        Some((name, version)) => (name, Some(version)),
        None => (*first, None),
    };
    let (requirement, program) = match (from, version) {
        (Some(from), _) => (from, Some(name.to_owned())),
        (None, Some(version)) => (format!("{name}=={version}"), Some(name.to_owned())),
        (None, None) => (name.to_owned(), Some(name.to_owned())),
    };
    Some(Package {
        registry: Registry::PyPi,
        requirement,
        with,
        program,
        arguments: owned(arguments),
    })
}
