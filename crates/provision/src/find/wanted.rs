//! The inputs and results of [`find`](super::find).

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};

use sandbox::defaults;

/// This machine.
#[derive(Debug, Clone)]
pub struct Host {
    /// The folders of `PATH`.
    pub path: Vec<PathBuf>,
    /// The user's home, resolved.
    pub home: Option<PathBuf>,
    /// The places that every spoke sees.
    pub system: Vec<PathBuf>,
}

impl Host {
    /// This process's own machine and user.
    pub fn of_user() -> Self {
        let path = env::var_os("PATH").unwrap_or_default();
        let home = env::var_os("HOME").map(PathBuf::from);
        let shown = defaults::SYSTEM.iter().chain(&defaults::ETC);
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
    /// Its environment.
    pub env: &'a BTreeMap<String, String>,
    /// The targets of the user's own mounts. Places there are not looked for.
    pub given: &'a [PathBuf],
    /// Places of the host that apps may write. Files there do not decide which further places are shown.
    pub writable: &'a [PathBuf],
    /// Folders that are a part of the program.
    pub folders: &'a [PathBuf],
    /// The interpreter that installed these, and is in their `#!` lines.
    pub interpreter: Option<&'a Path>,
    /// Programs of the user that parts of it start by name. Those that are not found are left out.
    pub programs: &'a [String],
    /// The start of relative paths of scripts.
    pub folder: &'a Path,
    /// Whether files and folders that arguments and variables name are shown too, as data.
    pub data: bool,
}

impl<'a> Wanted<'a> {
    /// No command, with this environment, on a machine where apps may write these places.
    pub(super) fn nothing(env: &'a BTreeMap<String, String>, writable: &'a [PathBuf]) -> Self {
        Self {
            command: &[],
            env,
            given: &[],
            writable,
            folders: &[],
            interpreter: None,
            programs: &[],
            folder: Path::new("/"),
            data: true,
        }
    }
}

/// The needs of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs {
    /// The command with the program's real path.
    pub command: Vec<String>,
    /// Variables to set.
    pub env: BTreeMap<String, String>,
    /// The places to show, read-only.
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

/// The purpose of a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A part of the program, which may be executed.
    Program,
    /// An argument or a variable names it.
    Data,
}
