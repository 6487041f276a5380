//! Scripts: their interpreters and packages.

use std::path::{Path, PathBuf};

use super::error::FindError;
use super::finder::Finder;
use super::places::{in_resolved_folder, resolved};
use super::too_much;
use super::wanted::Purpose;
use crate::launcher::is_of;

/// Files that mark the root of a Python package.
const PYTHON_PROJECT: &str = "pyproject.toml setup.py setup.cfg requirements.txt uv.lock Pipfile";
/// How far above a script its package may begin.
const MAX_ABOVE: usize = 6;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    Python,
    /// Node, and programs that find modules as it does.
    Node,
    Other,
}

impl Language {
    /// By the name of an interpreter; `None` if it is not known as one.
    pub(super) fn of(program: &Path) -> Option<Self> {
        let name = program.file_name()?.to_str()?;
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        match stem {
            "python" | "pypy" => Some(Self::Python),
            "node" | "nodejs" | "bun" | "deno" | "tsx" => Some(Self::Node),
            "sh" | "bash" | "dash" | "zsh" | "ruby" | "perl" | "php" | "java" | "lua"
            | "Rscript" => Some(Self::Other),
            _ => None,
        }
    }

    /// The number of the argument that is the script.
    pub(super) fn script(self, arguments: &[String]) -> Option<usize> {
        let (takes_value, none_follows) = match self {
            Self::Python => ("-X -W", "-m -c -"),
            Self::Node => (
                "-r --require --import --loader --experimental-loader -C --conditions",
                "-e --eval -p --print -",
            ),
            Self::Other => ("-cp -classpath --class-path", "-c -e -s"),
        };
        let mut at = 0;
        while let Some(argument) = arguments.get(at) {
            match argument.as_str() {
                argument if is_of(none_follows, argument) => return None,
                argument if is_of(takes_value, argument) => at += 2,
                // `deno run`, `bun run`.
                "run" if self == Self::Node => at += 1,
                argument if argument.starts_with('-') => at += 1,
                _ => return Some(at),
            }
        }
        None
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shebang {
    pub(super) interpreter: PathBuf,
    /// The program that `env` is to look for.
    pub(super) by_env: Option<String>,
}

/// Reads `#!` at the beginning of a file.
pub(super) fn shebang(head: &[u8]) -> Option<Shebang> {
    let line = head.strip_prefix(b"#!")?;
    let line = line.split(|byte| *byte == b'\n').next()?;
    let line = std::str::from_utf8(line).ok()?.trim();
    let mut words = line.split_ascii_whitespace();
    let interpreter = PathBuf::from(words.next()?);
    let is_env = interpreter.file_name().is_some_and(|name| name == "env");
    let by_env = is_env.then(|| {
        words
            .find(|word| !word.starts_with('-') && !word.contains('='))
            .unwrap_or_default()
            .to_owned()
    });
    Some(Shebang {
        interpreter,
        by_env,
    })
}

impl Finder<'_> {
    /// The places of a script with a `#!` line.
    pub(super) fn script(&mut self, script: &Path, shebang: &Shebang) -> Result<(), FindError> {
        let named = |error| match error {
            FindError::Missing {
                path,
                named_by: None,
            } => FindError::Missing {
                path,
                named_by: Some(script.to_owned()),
            },
            error => error,
        };
        let name = match &shebang.by_env {
            Some(name) => Path::new(name),
            None => &shebang.interpreter,
        };
        // A package could otherwise name any program of the user's, and would see its places.
        if self.is_installed(script) {
            let refuse = |reason| {
                Err(FindError::NoProgram {
                    path: script.to_owned(),
                    reason,
                })
            };
            if Language::of(name).is_none() {
                return refuse("its #! line names no interpreter that is known");
            }
            let may_be_named = match &shebang.by_env {
                // `env` also takes a path.
                Some(name) => !name.contains('/'),
                None => self.may_name(&shebang.interpreter).map_err(named)?,
            };
            if !may_be_named {
                return refuse(
                    "its #! line names an interpreter outside of your PATH; add its folder to PATH, or install the app again",
                );
            }
        }
        let interpreter = match &shebang.by_env {
            Some(name) if !Path::new(name).is_absolute() => {
                let written = self.in_path(name)?;
                let run = self.program(&written).map_err(named)?;
                // The sandbox must find it under the same name.
                let folder = match run.parent().filter(|folder| folder.join(name).exists()) {
                    Some(folder) => folder.to_owned(),
                    None => {
                        self.places.provide(&written, &run, Purpose::Program)?;
                        written.parent().map(Path::to_owned).unwrap_or_default()
                    }
                };
                self.also_in_path(folder);
                run
            }
            _ => {
                let run = self.program(name).map_err(named)?;
                let end = resolved(name)?;
                let unit = self.unit_of(&end);
                self.places.provide(name, &unit, Purpose::Program)?;
                run
            }
        };
        self.package(
            script,
            Language::of(&interpreter).unwrap_or(Language::Other),
        )
    }

    /// Whether an installed script may name this interpreter: one of the system or of its own, the one that installed it, or
    /// the one in the user's `PATH`. Any other would be shown with its places, such as an environment with its packages.
    fn may_name(&self, interpreter: &Path) -> Result<bool, FindError> {
        let here = in_resolved_folder(interpreter)?;
        let is_same = |known: PathBuf| in_resolved_folder(&known).is_ok_and(|known| known == here);
        let meant = || {
            let name = interpreter.file_name()?.to_str()?;
            self.in_path(name).ok()
        };
        Ok(self.places.is_there(&here, Purpose::Program)
            || self.installed_by.is_some_and(|by| is_same(by.to_owned()))
            || meant().is_some_and(is_same))
    }

    /// The package of a resolved script, or the script alone.
    pub(super) fn package(&mut self, script: &Path, language: Language) -> Result<(), FindError> {
        match language {
            Language::Node => self.node_package(script),
            Language::Python => self.python_package(script),
            Language::Other if in_modules(script) => self.wrapper(script),
            Language::Other => self.places.cover(script, Purpose::Program),
        }
    }

    /// A script of a shell among Node's modules starts a program there, most likely by Node.
    fn wrapper(&mut self, script: &Path) -> Result<(), FindError> {
        self.node_package(script)?;
        self.by_name("node")
    }

    /// A program that is started by its name, if the user has it.
    pub(super) fn by_name(&mut self, name: &str) -> Result<(), FindError> {
        let Ok(program) = self.in_path(name) else {
            return Ok(());
        };
        let run = self.program(&program)?;
        if let Some(folder) = run.parent() {
            self.also_in_path(folder.to_owned());
        }
        Ok(())
    }

    /// Node looks for a module in `node_modules` of the script's folder and of all folders above it.
    fn node_package(&mut self, script: &Path) -> Result<(), FindError> {
        if self.places.is_there(script, Purpose::Program) {
            return Ok(());
        }
        // Inner ones are shown with it.
        let outermost = script
            .ancestors()
            .filter(|folder| folder.ends_with("node_modules"))
            .last();
        if let Some(modules) = outermost {
            let parent = modules.parent();
            let of_prefix = parent.is_some_and(|parent| parent.ends_with("lib"));
            // In a global installation each program has its own modules inside.
            let unit = match of_prefix {
                true => module(modules, script).unwrap_or_else(|| modules.to_owned()),
                false => modules.to_owned(),
            };
            return self.places.cover(&unit, Purpose::Program);
        }
        let Some(package) = self.folder_with(script, "package.json") else {
            return self.places.cover(script, Purpose::Program);
        };
        self.places.cover(&package, Purpose::Program)?;
        // The packages of a workspace share a folder above them.
        let above = package.ancestors().skip(1).take(MAX_ABOVE);
        let modules: Vec<PathBuf> = above
            .map(|folder| folder.join("node_modules"))
            .filter(|path| path.is_dir())
            .collect();
        for modules in modules {
            if self.is_fit(&modules) {
                self.places.cover(&modules, Purpose::Program)?;
            }
        }
        Ok(())
    }

    fn python_package(&mut self, script: &Path) -> Result<(), FindError> {
        if self.places.is_there(script, Purpose::Program) {
            return Ok(());
        }
        self.user_site(script)?;
        match self.folder_with(script, PYTHON_PROJECT) {
            Some(project) => self.places.cover(&project, Purpose::Program),
            None => self.places.cover(script, Purpose::Program),
        }
    }

    /// The nearest folder above a script with one of these files, unless it holds more than a package.
    fn folder_with(&self, script: &Path, files: &str) -> Option<PathBuf> {
        let folders = script.ancestors().skip(1).take(MAX_ABOVE);
        let mut fit = folders.take_while(|folder| self.is_fit(folder));
        let has_one = |folder: &&Path| files.split(' ').any(|file| folder.join(file).is_file());
        let found = fit.find(has_one);
        found.map(Path::to_owned)
    }

    pub(super) fn is_fit(&self, folder: &Path) -> bool {
        too_much::check(folder, self.host.home.as_deref(), false).is_ok()
    }
}

fn in_modules(script: &Path) -> bool {
    let mut names = script.components();
    names.any(|name| name.as_os_str() == "node_modules")
}

/// The folder of the module that a file below `modules` belongs to: `NAME`, or `@SCOPE/NAME`.
fn module(modules: &Path, file: &Path) -> Option<PathBuf> {
    let mut names = file.strip_prefix(modules).ok()?.components();
    let first = modules.join(names.next()?);
    let scoped = first.file_name()?.to_string_lossy().starts_with('@');
    Some(match scoped {
        true => first.join(names.next()?),
        false => first,
    })
}
