//! Finding what a command needs on this machine.
//!
//! The sandbox shows a spoke the system's folders and nothing else of the host. What a program needs beyond them is
//! found by reading: where `PATH` has it, whither links lead, which interpreter a `#!` line names, which folder holds the
//! script's package, which libraries a binary names. Nothing is executed, and nothing is shown that holds more than that
//! (`too_much`).

mod elf;
mod error;
mod places;
mod python;
mod script;
mod too_much;

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

pub use self::error::FindError;

use self::error::WantedBy;
use self::places::{Places, resolved};
use self::script::Language;

/// Bytes of a file's beginning that say what it is; the kernel reads as many of a `#!` line.
const HEAD: u64 = 256;
/// A script's interpreter may be a script. The kernel allows few of them.
const MAX_INTERPRETERS: usize = 5;
/// Most links from a program's name to the program.
const MAX_LINKS: usize = 40;

/// What is known of this machine.
#[derive(Debug, Clone)]
pub struct Host {
    /// Where programs are looked for.
    pub path: Vec<PathBuf>,
    /// The user's home, resolved.
    pub home: Option<PathBuf>,
    /// What a spoke sees anyway.
    pub system: Vec<PathBuf>,
}

impl Host {
    /// This process's own machine and user.
    #[must_use]
    pub fn of_user() -> Self {
        let path = env::var_os("PATH").unwrap_or_default();
        let home = env::var_os("HOME").map(PathBuf::from);
        let shown = sandbox::defaults::SYSTEM
            .iter()
            .chain(&sandbox::defaults::ETC);
        Self {
            path: env::split_paths(&path).collect(),
            home: home.map(|home| home.canonicalize().unwrap_or(home)),
            system: shown.map(PathBuf::from).collect(),
        }
    }
}

/// A command that is to run in a spoke.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// Program and arguments.
    pub command: &'a [String],
    /// Its environment, as far as it is known.
    pub env: &'a BTreeMap<String, String>,
    /// Where in the sandbox the user's own mounts are. What is there is not looked for.
    pub given: &'a [PathBuf],
    /// Folders that are a part of the program, whatever it is.
    pub folders: &'a [PathBuf],
    /// Where relative paths of scripts start.
    pub folder: &'a Path,
    /// Whether files and folders that arguments and variables name are needed too, as data.
    pub data: bool,
}

/// What a command needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs {
    /// The command as it is to be run: with the program's real place.
    pub command: Vec<String>,
    /// Variables to add, in the place of those of the same name.
    pub env: BTreeMap<String, String>,
    /// What has to be seen, read-only.
    pub found: Vec<Found>,
}

/// A place of the host that a command needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// On the host, without a link in it.
    pub source: PathBuf,
    /// In the sandbox.
    pub target: PathBuf,
    /// What it is for.
    pub purpose: Purpose,
}

/// What a place is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A part of the program, which may be executed.
    Program,
    /// An argument or a variable names it.
    Data,
}

/// Finds what a command needs beside what every spoke sees.
///
/// # Errors
/// [`FindError`]: something is missing, or it would take more than a program.
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
            // It may be in a mount of the user's.
            Err(_) if !wanted.given.is_empty() => PathBuf::from(program),
            Err(error) => return Err(error),
        },
    };
    let mut language = Language::of(&written);
    let own = !written.is_absolute() || finder.places.is_given(&written);
    if !own {
        let found = finder.program(&written)?;
        if let Some(first) = command.first_mut() {
            *first = found.run.to_string_lossy().into_owned();
        }
        language = Language::of(&found.run).or(language);
    }
    let script = language.and_then(|language| Some((language, language.script(arguments)?)));
    if let Some((language, at)) = script {
        let path = arguments.get(at).map(|script| wanted.folder.join(script));
        // What is no file may be the name of a task or a module.
        let path = path.filter(|path| path.is_file() && !finder.places.is_given(path));
        if let Some(end) = path.map(|path| resolved(&path)).transpose()? {
            finder.package(&end, language)?;
            if let Some(argument) = command.get_mut(at + 1) {
                *argument = end.to_string_lossy().into_owned();
            }
        }
    }
    if wanted.data {
        let script = script.map(|(_, at)| at);
        let others = arguments
            .iter()
            .enumerate()
            .filter(|(at, _)| Some(*at) != script);
        finder.data(
            others
                .map(|(_, argument)| argument)
                .chain(wanted.env.values()),
        )?;
    }
    Ok(finder.finish(command))
}

/// A program that was found.
struct Program {
    /// What to execute, in the sandbox as here.
    run: PathBuf,
}

struct Finder<'a> {
    host: &'a Host,
    path: Vec<PathBuf>,
    own_path: Option<&'a String>,
    library_path: Vec<PathBuf>,
    places: Places<'a>,
    /// Folders in which programs are found by name, beside the usual ones.
    also_in_path: Vec<PathBuf>,
    env: BTreeMap<String, String>,
    environments: BTreeSet<PathBuf>,
    interpreters: usize,
}

impl<'a> Finder<'a> {
    fn new(host: &'a Host, wanted: &Wanted<'a>) -> Self {
        let folders = |name: &str| {
            let value = wanted.env.get(name);
            value.map(|value| env::split_paths(value).collect::<Vec<_>>())
        };
        Self {
            host,
            path: folders("PATH").unwrap_or_else(|| host.path.clone()),
            own_path: wanted.env.get("PATH"),
            library_path: folders("LD_LIBRARY_PATH").unwrap_or_default(),
            places: Places::new(host, wanted.given),
            also_in_path: Vec::new(),
            env: BTreeMap::new(),
            environments: BTreeSet::new(),
            interpreters: 0,
        }
    }

    fn finish(mut self, command: Vec<String>) -> Needs {
        if !self.also_in_path.is_empty() {
            let usual = self.own_path.map_or(USUAL_PATH, String::as_str);
            let more = self
                .also_in_path
                .iter()
                .map(|folder| folder.to_string_lossy());
            let path: Vec<_> = more.chain([usual.into()]).collect();
            self.env.insert("PATH".to_owned(), path.join(":"));
        }
        Needs {
            command,
            env: self.env,
            found: self.places.finish(),
        }
    }

    /// The file that a bare name means.
    fn in_path(&self, program: &str) -> Result<PathBuf, FindError> {
        let absolute = self.path.iter().filter(|folder| folder.is_absolute());
        let mut files = absolute.map(|folder| folder.join(program));
        files.find(|file| is_executable(file)).ok_or_else(|| {
            let path: Vec<_> = self
                .path
                .iter()
                .map(|folder| folder.to_string_lossy())
                .collect();
            FindError::NotInPath {
                program: program.to_owned(),
                path: path.join(":"),
            }
        })
    }

    fn also_in_path(&mut self, folder: PathBuf) {
        let usual = USUAL_PATH
            .split(':')
            .any(|usual| folder == Path::new(usual));
        if !usual && !self.also_in_path.contains(&folder) {
            self.also_in_path.push(folder);
        }
    }

    /// What a program needs, by an absolute path that may lead over links.
    fn program(&mut self, written: &Path) -> Result<Program, FindError> {
        self.interpreters += 1;
        if self.interpreters > MAX_INTERPRETERS {
            let (path, reason) = (written.to_owned(), "interpreters are nested too deep");
            return Err(FindError::NoProgram { path, reason });
        }
        let mut file = in_resolved_folder(written)?;
        for _ in 0..MAX_LINKS {
            if let Some(real) = python::behind_shim(&file)? {
                file = in_resolved_folder(&real)?;
            }
            let environment = python::environment_of(&file).map(Path::to_owned);
            if let Some(environment) = environment {
                self.environment(&environment)?;
                // An environment is found by the name that its interpreter was started with.
                if Language::of(&file) == Some(Language::Python) {
                    return Ok(Program { run: file });
                }
            }
            match file.read_link() {
                Ok(target) => file = in_resolved_folder(&file.with_file_name("").join(target))?,
                Err(_) => break,
            }
        }
        self.real_program(&file)?;
        Ok(Program { run: file })
    }

    /// What a program needs, by a path without links.
    fn real_program(&mut self, file: &Path) -> Result<(), FindError> {
        let head = head(file)?;
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

    /// Places that arguments and variables name.
    fn data<'t>(&mut self, texts: impl Iterator<Item = &'t String>) -> Result<(), FindError> {
        for text in texts {
            let value = text.split_once('=').filter(|(key, _)| key.starts_with('-'));
            let path = Path::new(value.map_or(text.as_str(), |(_, value)| value));
            if !path.is_absolute() || self.places.is_there(path, Purpose::Data) {
                continue;
            }
            // A path that is not there yet is the app's to make, if it may.
            if let Ok(end) = path.canonicalize() {
                self.places.provide(path, &end, Purpose::Data)?;
            }
        }
        Ok(())
    }
}

/// Where programs are looked for in a spoke.
const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The path with its folder resolved, and the last name as it is.
fn in_resolved_folder(path: &Path) -> Result<PathBuf, FindError> {
    let missing = || FindError::Missing {
        path: path.to_owned(),
        wanted_by: WantedBy(None),
    };
    let (folder, name) = path.parent().zip(path.file_name()).ok_or_else(missing)?;
    let folder = folder.canonicalize().map_err(|_| missing())?;
    let file = folder.join(name);
    file.symlink_metadata().map_err(|_| missing())?;
    Ok(file)
}

fn is_executable(file: &Path) -> bool {
    file.metadata()
        .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

fn head(file: &Path) -> Result<Vec<u8>, FindError> {
    let mut head = Vec::new();
    let read = File::open(file).and_then(|file| file.take(HEAD).read_to_end(&mut head));
    match read {
        Ok(_) => Ok(head),
        Err(error) => Err(FindError::Unreadable {
            path: file.to_owned(),
            reason: error.to_string(),
        }),
    }
}
