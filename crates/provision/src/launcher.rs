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

/// A launcher is given an option or a variable that may change what it fetches, so that another package would be installed
/// than it runs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{launcher} is given '{}', and what it fetches with that is not known; leave it out{or}, and name other registries in \
     the settings of {manager}",
    given.escape_debug()
)]
pub struct Unknown {
    /// The launcher.
    pub launcher: &'static str,
    /// The option or variable, without its value, which may be a secret.
    pub given: String,
    /// Another remedy, where there is one.
    or: &'static str,
    /// Whose settings name the registries.
    manager: &'static str,
}

/// How the command of a launcher is read: its options, by lists of words. One that stands in no list is not passed over. It
/// may have a value, which would be taken for the package, or name another registry than the user's settings do, where a
/// stranger can have a package of the same name.
#[derive(Clone, Copy)]
struct Launcher {
    name: &'static str,
    registry: Registry,
    /// Name the package that has the program. npm takes several, all but the first of them further packages.
    from: &'static str,
    /// Name a further package.
    with: &'static str,
    /// Have no value, and with each of them the same is fetched as without.
    flags: &'static str,
    /// Have a value, and the same is true of them.
    settings: &'static str,
    /// Variables, in small letters, that name other registries or other settings. Of variables only these, since the others
    /// may be for the program.
    variables: &'static str,
    /// Whether its options may stand behind the package too, up to a `--` that is not the program's.
    anywhere: bool,
}

const NPX: Launcher = Launcher {
    name: "npx",
    registry: Registry::Npm,
    from: "-p --package",
    with: "",
    // Scripts (`--ignore-scripts`) run where the user says so to Sluice, and nowhere else. `--bun` is bunx's, and says by
    // what the program is interpreted.
    flags: "-y --yes -q --quiet -s --silent -d -dd -ddd --verbose --prefer-online --prefer-offline --ignore-scripts \
            --ignore-existing --no-audit --no-fund --no-progress --no-update-notifier --bun",
    settings: "--loglevel --cache",
    variables: "npm_config_registry npm_config_userconfig npm_config_globalconfig npm_config_package npm_config_call",
    anywhere: false,
};
const BUNX: Launcher = Launcher {
    name: "bunx",
    ..NPX
};
const YARN: Launcher = Launcher {
    name: "yarn dlx",
    ..NPX
};
const PNPM: Launcher = Launcher {
    name: "pnpm dlx",
    from: "--package",
    ..NPX
};
/// `-p` is another option there too (`--parseable`).
const NPM_EXEC: Launcher = Launcher {
    name: "npm exec",
    anywhere: true,
    ..PNPM
};
const UVX: Launcher = Launcher {
    name: "uvx",
    registry: Registry::PyPi,
    from: "--from",
    with: "-w --with",
    flags: "-q --quiet -v --verbose -n --no-cache --no-progress --isolated --refresh --reinstall -U --upgrade --native-tls \
            --managed-python --no-managed-python --no-python-downloads",
    // Python is the one that the user has.
    settings: "-p --python --python-preference --cache-dir --color --link-mode",
    variables: "uv_index uv_default_index uv_index_url uv_extra_index_url uv_find_links uv_config_file pip_index_url \
                pip_extra_index_url pip_find_links pip_config_file",
    anywhere: false,
};
const PIPX: Launcher = Launcher {
    name: "pipx run",
    from: "--spec",
    with: "--with",
    flags: "-q --quiet -v --verbose --no-cache --fetch-missing-python",
    settings: "--python",
    ..UVX
};

/// What the words of a launcher's command say.
#[derive(Default)]
struct Said<'w> {
    from: Vec<&'w str>,
    with: Vec<&'w str>,
    /// The package or program, and the program's arguments.
    words: Vec<&'w str>,
}

/// What a command would fetch with variables of these names, if it is a launcher's that names a package.
///
/// # Errors
/// It is, with an option or a variable that may change what is fetched.
pub fn launcher<'v>(
    command: &[String],
    variables: impl IntoIterator<Item = &'v String>,
) -> Result<Option<Package>, Unknown> {
    let Some((program, rest)) = command.split_first() else {
        return Ok(None);
    };
    let name = program.rsplit('/').next().unwrap_or(program);
    let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
    let (launcher, words) = match (name, rest.as_slice()) {
        ("npx", words) => (NPX, words),
        ("bunx", words) => (BUNX, words),
        ("yarn", ["dlx", words @ ..]) => (YARN, words),
        ("pnpm", ["dlx", words @ ..]) => (PNPM, words),
        ("npm", ["exec" | "x", words @ ..]) => (NPM_EXEC, words),
        ("uvx", words) | ("uv", ["tool", "run", words @ ..]) => (UVX, words),
        ("pipx", ["run", words @ ..]) => (PIPX, words),
        _ => return Ok(None),
    };
    if let Some(name) = variables.into_iter().find(|name| launcher.heeds(name)) {
        return Err(launcher.unknown(name));
    }
    let said = launcher.read(words)?;
    Ok(match launcher.registry {
        Registry::Npm => npm(said),
        Registry::PyPi => python(said),
    })
}

impl Launcher {
    /// Whether it takes a variable of this name for the name of a registry.
    fn heeds(&self, variable: &str) -> bool {
        let name = variable.to_ascii_lowercase();
        // Of a scope.
        let of_scope = self.registry == Registry::Npm && name.starts_with("npm_config_@");
        of_scope || is_of(self.variables, &name)
    }

    fn unknown(&self, given: &str) -> Unknown {
        Unknown {
            launcher: self.name,
            given: given.to_owned(),
            or: match self.anywhere && given.starts_with('-') {
                true => ", or put it behind -- if it is the program's",
                false => "",
            },
            manager: match self.registry {
                Registry::Npm => "npm",
                Registry::PyPi => "pip",
            },
        }
    }

    fn read<'w>(&self, words: &[&'w str]) -> Result<Said<'w>, Unknown> {
        let mut said = Said::default();
        let mut words = words.iter().copied();
        while let Some(word) = words.next() {
            if word == "--" {
                said.words.extend(words.by_ref());
            } else if !word.starts_with('-') {
                said.words.push(word);
                if !self.anywhere {
                    said.words.extend(words.by_ref());
                }
            } else {
                self.option(word, &mut words, &mut said)?;
            }
        }
        Ok(said)
    }

    /// Reads an option, with the next word where that is its value.
    fn option<'w>(
        &self,
        word: &'w str,
        rest: &mut impl Iterator<Item = &'w str>,
        said: &mut Said<'w>,
    ) -> Result<(), Unknown> {
        let (option, value) = match word.split_once('=') {
            Some((option, value)) => (option, Some(value)),
            None => (word, None),
        };
        if value.is_none() && is_of(self.flags, option) {
            return Ok(());
        }
        let mut ignored = Vec::new();
        let values = match () {
            () if is_of(self.from, option) => &mut said.from,
            () if is_of(self.with, option) => &mut said.with,
            () if is_of(self.settings, option) => &mut ignored,
            () => return Err(self.unknown(option)),
        };
        // A word with a dash is the next option to some launchers, and the value to others.
        let value = value.or_else(|| rest.next().filter(|word| !word.starts_with('-')));
        values.push(value.ok_or_else(|| self.unknown(option))?);
        Ok(())
    }
}

fn is_of(list: &str, word: &str) -> bool {
    list.split_ascii_whitespace().any(|known| known == word)
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn npm(said: Said<'_>) -> Option<Package> {
    let (first, arguments) = said.words.split_first()?;
    let (requirement, with, program) = match said.from.split_first() {
        Some((from, with)) => (from, with, Some((*first).to_owned())),
        None => (first, &[][..], None),
    };
    Some(Package {
        registry: Registry::Npm,
        requirement: (*requirement).to_owned(),
        with: owned(with),
        program,
        arguments: owned(arguments),
    })
}

fn python(said: Said<'_>) -> Option<Package> {
    let (first, arguments) = said.words.split_first()?;
    let (name, version) = match first.split_once('@') {
        Some((name, "latest")) => (name, None),
        Some((name, version)) => (name, Some(version)),
        None => (*first, None),
    };
    let requirement = match (said.from.last(), version) {
        (Some(from), _) => (*from).to_owned(),
        (None, Some(version)) => format!("{name}=={version}"),
        (None, None) => name.to_owned(),
    };
    Some(Package {
        registry: Registry::PyPi,
        requirement,
        with: owned(&said.with),
        program: Some(name.to_owned()),
        arguments: owned(arguments),
    })
}
