//! Finds the places of this machine that a command needs.
//!
//! The sandbox shows a spoke only the system's folders. The further places of a program are found by reading: `PATH`, links,
//! the interpreter of a `#!` line, the folder of a script's package, the libraries of a binary. Nothing is executed, and a
//! place that holds more than that is refused (`too_much`).

mod elf;
mod error;
mod finder;
mod named;
mod places;
mod python;
mod script;
mod too_much;
mod wanted;

use std::path::{Path, PathBuf};

pub use self::error::FindError;
pub use self::named::{is_diverted, named, named_path};
pub use self::wanted::{Found, Host, Needs, Purpose, Wanted};

use self::finder::{Finder, is_executable};
use self::places::{Hold, in_resolved_folder, resolved};
use self::script::Language;
use crate::files::beginning;

/// Bytes at a file's beginning that tell its kind; the kernel reads as many of a `#!` line.
const HEAD: u64 = 256;
/// A script's interpreter may be a script. The kernel allows few of them.
const MAX_INTERPRETERS: usize = 5;
/// Most links from a program's name to the program.
const MAX_LINKS: usize = 40;

/// Finds the places that a command needs beside those of every spoke.
pub fn find(host: &Host, wanted: &Wanted<'_>) -> Result<Needs, FindError> {
    let (program, arguments) = wanted.command.split_first().ok_or(FindError::Empty)?;
    let mut finder = Finder::new(host, wanted);
    for folder in wanted.folders {
        finder.places.cover(&resolved(folder)?, Purpose::Program)?;
    }
    let mut command = wanted.command.to_vec();
    let written = match program.contains('/') {
        true if finder.places.is_given(Path::new(program)) => PathBuf::from(program),
        true => std::path::absolute(program).unwrap_or_else(|_| PathBuf::from(program)),
        false => match finder.in_path(program) {
            Ok(path) => path,
            // It may be in a mount.
            Err(_) if !wanted.given.is_empty() => PathBuf::from(program),
            Err(error) => return Err(error),
        },
    };
    // By the name that the user wrote: `python` may be a link to a file of another name.
    let mut language = Language::of(&written);
    let own = !written.is_absolute() || finder.places.is_given(&written);
    if !own {
        let found = finder.program(&written)?;
        if let Some(first) = command.first_mut() {
            *first = found.to_string_lossy().into_owned();
        }
        language = Language::of(&found).or(language);
    }
    let script = language.and_then(|language| Some((language, language.script(arguments)?)));
    if let Some((language, at)) = script {
        let path = arguments.get(at).map(|script| wanted.folder.join(script));
        // Otherwise it may be the name of a task or a module.
        let path = path.filter(|path| path.is_file() && !finder.places.is_given(path));
        let path = path.filter(|path| finder.places.hold(path) != Hold::Way);
        if let Some(end) = path.map(|path| resolved(&path)).transpose()? {
            finder.package(&end, language)?;
            if let Some(argument) = command.get_mut(at + 1) {
                *argument = end.to_string_lossy().into_owned();
            }
        }
    }
    for name in wanted.programs {
        finder.by_name(name)?;
    }
    if wanted.data {
        let script = script.map(|(_, at)| at);
        finder.data(named::others(arguments, script).chain(wanted.env.values()))?;
    }
    for folder in wanted.given {
        finder.worktree(folder);
    }
    Ok(finder.finish(command))
}

impl Finder<'_> {
    /// The places of a program with this absolute path, which may lead over links. Returns the file to execute.
    pub(super) fn program(&mut self, written: &Path) -> Result<PathBuf, FindError> {
        self.interpreters += 1;
        if self.interpreters > MAX_INTERPRETERS {
            let (path, reason) = (written.to_owned(), "interpreters are nested too deep");
            return Err(FindError::NoProgram { path, reason });
        }
        self.places.believe(written)?;
        let mut file = in_resolved_folder(written)?;
        for _ in 0..MAX_LINKS {
            // Not in an installed package: its `version` or `pyvenv.cfg` could name any folder of the host.
            if !self.is_installed(&file) {
                if let Some(real) = self.behind_shim(&file)? {
                    self.places.believe(&real)?;
                    file = in_resolved_folder(&real)?;
                }
                let environment = python::environment_of(&file).map(Path::to_owned);
                if let Some(environment) = environment {
                    self.environment(&environment)?;
                    // Python finds its environment by the path that it was started with.
                    if Language::of(&file) == Some(Language::Python) {
                        return Ok(file);
                    }
                }
            }
            match file.read_link() {
                Ok(target) => file = in_resolved_folder(&file.with_file_name("").join(target))?,
                Err(_) => break,
            }
        }
        self.real_program(&file)?;
        Ok(file)
    }

    /// The places of a program with a path without links.
    fn real_program(&mut self, file: &Path) -> Result<(), FindError> {
        let head = beginning(file, HEAD).map_err(|error| FindError::unreadable(file, &error))?;
        let refuse = |reason| {
            Err(FindError::NoProgram {
                path: file.to_owned(),
                reason,
            })
        };
        if !is_executable(file) {
            return refuse("it is no file that may be executed; make it one with chmod +x");
        }
        if head.starts_with(b"\x7fELF") {
            return match Language::of(file) {
                Some(Language::Python) => self.interpreter(file),
                _ => {
                    self.places.cover(file, Purpose::Program)?;
                    self.libraries(file)
                }
            };
        }
        match script::shebang(&head) {
            Some(shebang) => self.script(file, &shebang),
            None => refuse("it is neither a binary nor a script with a #! line"),
        }
    }
}
