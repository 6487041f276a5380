//! Commands that fetch what they run: `npx`, `uvx`, `pipx run`.

use crate::install::{Registry, is_of_registry, npm_name, pip_name};

/// The package that a launcher would fetch and run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    /// Its registry.
    pub registry: Registry,
    /// The package with its version, as the registry's own client takes it.
    pub requirement: String,
    /// Further packages to install.
    pub with: Vec<String>,
    /// The version of Python, if it is named.
    pub python: Option<String>,
    /// The program of the package, if it is named.
    pub program: Option<String>,
    /// Arguments of the program.
    pub arguments: Vec<String>,
}

impl Package {
    /// Its exact name in its registry, if it is the only package and its program has the same name: no address, folder,
    /// alias or further package brings other code. Names of PyPI are in their normal form.
    #[must_use]
    pub fn name(&self) -> Option<String> {
        let name = match self.registry {
            Registry::Npm => npm_name(&self.requirement).to_owned(),
            Registry::PyPi => normal(pip_name(&self.requirement)),
        };
        let program = self.program.as_deref().unwrap_or(&name);
        let is_its = match self.registry {
            // `npx -p @scope/name name` starts the program of that name.
            Registry::Npm => program == name || name.rsplit('/').next() == Some(program),
            Registry::PyPi => normal(pip_name(program)) == name,
        };
        let is_plain = is_of_registry(&self.requirement, self.registry);
        (is_plain && is_its && self.with.is_empty()).then_some(name)
    }
}

/// A name as PyPI compares it (PEP 503).
fn normal(name: &str) -> String {
    let parts = name.split(['-', '_', '.']).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("-").to_ascii_lowercase()
}

/// A launcher has an option or a variable that may change what it fetches: Sluice could install another package.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{}' may change what {launcher} fetches; leave it out{or}, and name other registries in the settings of {manager}",
    given.escape_debug()
)]
pub struct Unknown {
    /// The launcher.
    pub launcher: &'static str,
    /// The option or variable, without its value, which may be a secret.
    pub given: String,
    /// Another remedy, where there is one.
    or: &'static str,
    /// The package manager with the settings of registries.
    manager: &'static str,
}

/// The options of a launcher, as lists of words. An option in no list is refused: its value could be taken for the package, or
/// it could name a registry in which a stranger has a package of the same name.
#[derive(Clone, Copy)]
struct Launcher {
    name: &'static str,
    registry: Registry,
    /// Options that name the package with the program. npm takes several; the later ones are further packages.
    from: &'static str,
    /// Options that name a further package.
    with: &'static str,
    /// Options that name a version of Python.
    python: &'static str,
    /// Options without a value that do not change what is fetched.
    flags: &'static str,
    /// Options with a value that do not change what is fetched.
    settings: &'static str,
    /// Variables, in lower case, that name other registries or settings. Other variables may be for the program.
    variables: &'static str,
    /// Whether options may also follow the package, up to a `--`.
    anywhere: bool,
}

const NPX: Launcher = Launcher {
    name: "npx",
    registry: Registry::Npm,
    from: "-p --package",
    with: "",
    python: "",
    // Whether scripts run is the user's choice in Sluice. `--bun` is bunx's choice of the interpreter.
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
/// `-p` is also `--parseable` there.
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
    python: "-p --python",
    flags: "-q --quiet -v --verbose -n --no-cache --no-progress --isolated --refresh --reinstall -U --upgrade --native-tls \
            --managed-python --no-managed-python --no-python-downloads",
    settings: "--python-preference --cache-dir --color --link-mode",
    variables: "uv_index uv_default_index uv_index_url uv_extra_index_url uv_find_links uv_config_file pip_index_url \
                pip_extra_index_url pip_find_links pip_config_file",
    anywhere: false,
};
const PIPX: Launcher = Launcher {
    name: "pipx run",
    from: "--spec",
    with: "--with",
    python: "--python",
    flags: "-q --quiet -v --verbose --no-cache --fetch-missing-python",
    settings: "",
    ..UVX
};

#[derive(Default)]
struct Said<'w> {
    from: Vec<&'w str>,
    with: Vec<&'w str>,
    python: Vec<&'w str>,
    /// The package or program, and the program's arguments.
    words: Vec<&'w str>,
}

/// The package that a command would fetch, if it is a launcher's. `variables` are the names of its variables.
///
/// # Errors
/// An option or a variable may change what is fetched.
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
    // `NAME=TEXT` is a variable as well.
    let mut names = variables
        .into_iter()
        .map(|it| it.split('=').next().unwrap_or(it));
    if let Some(name) = names.find(|name| launcher.heeds(name)) {
        return Err(launcher.unknown(name));
    }
    let said = launcher.read(words)?;
    Ok(match launcher.registry {
        Registry::Npm => npm(said),
        Registry::PyPi => python(said),
    })
}

impl Launcher {
    /// Whether it reads a registry from a variable of this name.
    fn heeds(&self, variable: &str) -> bool {
        let name = variable.to_ascii_lowercase();
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

    /// Reads an option, with the next word if that is its value.
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
            () if is_of(self.python, option) => &mut said.python,
            () if is_of(self.settings, option) => &mut ignored,
            () => return Err(self.unknown(option)),
        };
        // A word with a dash is the next option to some launchers, and the value to others: refused.
        let value = value.or_else(|| rest.next().filter(|word| !word.starts_with('-')));
        values.push(value.ok_or_else(|| self.unknown(option))?);
        Ok(())
    }
}

/// Whether a word is in a list of words.
pub(crate) fn is_of(list: &str, word: &str) -> bool {
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
        python: None,
        program,
        arguments: owned(arguments),
    })
}

fn python(said: Said<'_>) -> Option<Package> {
    let (first, arguments) = said.words.split_first()?;
    // `@` also stands in addresses, which are refused later, by their own words.
    let is_plain =
        |(name, version): &(&str, &str)| !format!("{name}{version}").contains([':', '/', ' ']);
    let parts = |word: &str| match word.split_once('@').filter(is_plain) {
        Some((name, "latest")) => (name.to_owned(), name.to_owned()),
        Some((name, version)) => (name.to_owned(), format!("{name}=={version}")),
        None => (word.to_owned(), word.to_owned()),
    };
    let (name, own) = parts(first);
    Some(Package {
        registry: Registry::PyPi,
        requirement: said.from.last().map_or(own, |from| parts(from).1),
        with: owned(&said.with),
        python: said.python.last().map(|it| (*it).to_owned()),
        program: Some(name),
        arguments: owned(arguments),
    })
}
