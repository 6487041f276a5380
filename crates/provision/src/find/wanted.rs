//! What is asked, and what is answered.

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};

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
    /// Places of the host that apps may write. What lies there says nothing of what else is to be seen: else an app could
    /// have any folder shown at the next start.
    pub writable: &'a [PathBuf],
    /// Folders that are a part of the program, whatever it is.
    pub folders: &'a [PathBuf],
    /// The interpreter that has installed these, and stands in their `#!` lines.
    pub interpreter: Option<&'a Path>,
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
