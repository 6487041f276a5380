//! The state of a search for one command.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::error::FindError;
use super::places::Places;
use super::wanted::{Host, Needs, Wanted};

/// The `PATH` of a spoke.
const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

pub(super) struct Finder<'a> {
    pub(super) host: &'a Host,
    installed: &'a [PathBuf],
    pub(super) installed_by: Option<&'a Path>,
    pub(super) path: Vec<PathBuf>,
    pub(super) own_path: Option<&'a String>,
    pub(super) library_path: Vec<PathBuf>,
    pub(super) places: Places<'a>,
    /// Folders for `PATH`, beside the usual ones.
    pub(super) also_in_path: Vec<PathBuf>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) environments: BTreeSet<PathBuf>,
    pub(super) interpreters: usize,
}

impl<'a> Finder<'a> {
    pub(super) fn new(host: &'a Host, wanted: &Wanted<'a>) -> Self {
        let folders = |name: &str| {
            let value = wanted.env.get(name);
            value.map(|value| env::split_paths(value).collect::<Vec<_>>())
        };
        Self {
            host,
            installed: wanted.folders,
            installed_by: wanted.interpreter,
            path: folders("PATH").unwrap_or_else(|| host.path.clone()),
            own_path: wanted.env.get("PATH"),
            library_path: folders("LD_LIBRARY_PATH").unwrap_or_default(),
            places: Places::new(host, wanted.given, wanted.writable),
            also_in_path: Vec::new(),
            env: BTreeMap::new(),
            environments: BTreeSet::new(),
            interpreters: 0,
        }
    }

    pub(super) fn finish(mut self, command: Vec<String>) -> Needs {
        // A program that was found by name may start others by name.
        if !self.also_in_path.is_empty() {
            let usual = self.own_path.map_or(USUAL_PATH, String::as_str);
            let more = self.also_in_path.iter();
            let more = more.map(|folder| folder.to_string_lossy());
            let path: Vec<_> = more.chain([usual.into()]).collect();
            self.env.insert("PATH".to_owned(), path.join(":"));
        }
        Needs {
            command,
            env: self.env,
            found: self.places.finish(),
        }
    }

    /// Whether a file belongs to an installed package, which wrote it.
    pub(super) fn is_installed(&self, file: &Path) -> bool {
        self.installed.iter().any(|tree| file.starts_with(tree))
    }

    /// The program of this name in `PATH`.
    pub(super) fn in_path(&self, program: &str) -> Result<PathBuf, FindError> {
        // Not from a relative folder, and not for a name with a folder, which would be a path.
        let is_name = !program.contains('/');
        let absolute = self.path.iter().filter(|folder| folder.is_absolute());
        let mut files = absolute.map(|folder| folder.join(program));
        let found = files.find(|file| is_name && is_executable(file));
        found.ok_or_else(|| {
            let path = self.path.iter().map(|folder| folder.to_string_lossy());
            let path: Vec<_> = path.collect();
            FindError::NotInPath {
                program: program.to_owned(),
                path: path.join(":"),
            }
        })
    }

    pub(super) fn also_in_path(&mut self, folder: PathBuf) {
        let mut usual = USUAL_PATH.split(':');
        let usual = usual.any(|usual| folder == Path::new(usual));
        if !usual && !self.also_in_path.contains(&folder) {
            self.also_in_path.push(folder);
        }
    }
}

pub(super) fn is_executable(file: &Path) -> bool {
    file.metadata()
        .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}
