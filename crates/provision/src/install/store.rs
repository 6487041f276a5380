//! The store of installed apps: a folder for each, with its files and its record.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::tree::{self, TreeError};
use crate::Registry;

const RECORD: &str = "record.json";
/// Longest record. One with hundreds of tools has some ten thousand bytes.
const MAX_RECORD: u64 = 1 << 20;
const MAX_NAME: usize = 64;

/// The record of an installed app.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The app's name.
    pub app: String,
    /// Its registry.
    pub registry: Registry,
    /// The requested package.
    pub requirement: String,
    /// Further requested packages.
    pub with: Vec<String>,
    /// The requested version of Python, if it was named.
    #[serde(default)]
    pub python: Option<String>,
    /// The requested program, if it was named.
    pub program: Option<String>,
    /// The version, by the package itself.
    pub version: String,
    /// The hash of the tree, and the name of its folder.
    pub sha256: String,
    /// The program, relative to the tree.
    pub entry: PathBuf,
    /// The interpreter of the package manager, which is in the `#!` lines that it wrote.
    #[serde(default)]
    pub interpreter: Option<PathBuf>,
    /// Programs of the user that parts of it start by name.
    #[serde(default)]
    pub programs: Vec<String>,
    /// Whether programs of the packages ran during the installation.
    pub scripts: bool,
    /// The tools at its first start or last review, each with a digest of its parameters.
    pub tools: Option<BTreeMap<String, String>>,
    /// Whether the user has reviewed them.
    #[serde(default)]
    pub reviewed: bool,
    /// The names that it tried to reach then without permission.
    #[serde(default)]
    pub tried: Vec<String>,
}

/// Why the store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file cannot be used.
    #[error("the store of apps: {path}: {source}", path = path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A record cannot be read.
    #[error(
        "the record of the app '{app}' cannot be read: {reason}; `sluice app remove {app}`, and add it again"
    )]
    Record {
        /// Whose.
        app: String,
        /// Why.
        reason: String,
    },
    /// The installed files are not those that were installed.
    #[error(
        "the files of the app '{0}' are not those that were installed; `sluice app remove {0}`, and add it again"
    )]
    Changed(String),
    /// Not a name of an app.
    #[error("'{0}' is no name for an app: at most 64 letters, digits, '-' and '_'")]
    Name(String),
    /// The tree.
    #[error("the app '{app}': {source}")]
    Tree {
        /// The app.
        app: String,
        /// What is wrong with it.
        source: TreeError,
    },
}

/// The folder of installed apps.
#[derive(Debug, Clone)]
pub struct Store {
    folder: PathBuf,
}

impl Store {
    /// The store in this folder, which need not exist.
    pub fn new(folder: PathBuf) -> Self {
        // The path of a mount must have no links.
        let folder = folder.canonicalize().unwrap_or(folder);
        Self { folder }
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// All installed apps, by name.
    pub fn all(&self) -> Result<Vec<Record>, StoreError> {
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(io_error(&self.folder))?,
        };
        let mut names: Vec<String> = entries
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort();
        let records = names
            .iter()
            .filter(|name| checked(name).is_ok())
            .map(|name| self.get(name));
        records.filter_map(Result::transpose).collect()
    }

    /// An installed app.
    pub fn get(&self, app: &str) -> Result<Option<Record>, StoreError> {
        let path = self.of(app)?.join(RECORD);
        let bad = |reason: String| StoreError::Record {
            app: app.to_owned(),
            reason,
        };
        let length = match path.metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            metadata => metadata.map_err(io_error(&path))?.len(),
        };
        if length > MAX_RECORD {
            return Err(bad("it is too long".to_owned()));
        }
        let text = fs::read(&path).map_err(io_error(&path))?;
        let record: Record =
            serde_json::from_slice(&text).map_err(|error| bad(error.to_string()))?;
        // Both become parts of paths.
        let hash = &record.sha256;
        let is_hash = hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_name = |part| matches!(part, std::path::Component::Normal(_));
        let inside = record.entry.components().all(is_name);
        match record.app == app && is_hash && inside {
            true => Ok(Some(record)),
            false => Err(bad("it is not this app's".to_owned())),
        }
    }

    /// Saves the record of an app in place of an earlier one.
    pub fn put(&self, record: &Record) -> Result<(), StoreError> {
        let folder = self.of(&record.app)?;
        let path = folder.join(RECORD);
        let failed = io_error(&path);
        let text = serde_json::to_vec_pretty(record).map_err(|error| failed(error.into()))?;
        // Written beside it and renamed, so that a crash leaves no half record.
        let mut file = tempfile::NamedTempFile::new_in(&folder).map_err(&failed)?;
        file.write_all(&text).map_err(&failed)?;
        // Before it gets the name, which a crash could otherwise leave on an empty file.
        file.as_file().sync_all().map_err(&failed)?;
        file.persist(&path).map_err(|error| failed(error.error))?;
        Ok(())
    }

    /// Removes an app with all its trees. Returns whether there was one.
    pub fn remove(&self, app: &str) -> Result<bool, StoreError> {
        let folder = self.of(app)?;
        if folder.symlink_metadata().is_err() {
            return Ok(false);
        }
        discard(&folder).map_err(io_error(&folder))?;
        Ok(true)
    }

    /// Removes the trees of an app that its record does not name.
    pub fn tidy(&self, record: &Record) -> Result<(), StoreError> {
        let folder = self.of(&record.app)?;
        let failed = io_error(&folder);
        for entry in fs::read_dir(&folder).map_err(&failed)?.flatten() {
            let name = entry.file_name();
            if name != RECORD && name != *record.sha256 {
                discard(&entry.path()).map_err(&failed)?;
            }
        }
        Ok(())
    }

    /// The folder with an app's files.
    pub fn tree(&self, record: &Record) -> Result<PathBuf, StoreError> {
        Ok(self.of(&record.app)?.join(&record.sha256))
    }

    /// Checks that the files of an app are the installed ones.
    ///
    /// # Errors
    /// They are not, or cannot be read.
    pub fn verify(&self, record: &Record) -> Result<PathBuf, StoreError> {
        let tree = self.tree(record)?;
        let app = record.app.clone();
        // This finds accidents and programs outside of any spoke. A program that can also write the record could hide a
        // change; no app can write either.
        match tree::digest(&tree) {
            Ok(digest) if digest == record.sha256 => Ok(tree),
            Ok(_) => Err(StoreError::Changed(app)),
            Err(source) => Err(StoreError::Tree { app, source }),
        }
    }

    /// A new folder for building an app.
    pub(super) fn staging(&self, app: &str) -> Result<Staging, StoreError> {
        let folder = self.of(app)?;
        let failed = io_error(&folder);
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder.create(&folder).map_err(&failed)?;
        // Resolved again: the folder may not have existed when the store was opened.
        let folder = folder.canonicalize().map_err(&failed)?;
        let made = tempfile::Builder::new()
            // No hash begins so: `tidy` removes what a crash leaves.
            .prefix(".new-")
            .tempdir_in(&folder)
            .map_err(&failed)?;
        let staging = Staging {
            tree: made.path().join("tree"),
            app: folder,
            made,
        };
        fs::create_dir(&staging.tree).map_err(io_error(&staging.tree))?;
        Ok(staging)
    }

    /// The folder of an app. Its name becomes a part of a path.
    fn of(&self, app: &str) -> Result<PathBuf, StoreError> {
        checked(app)?;
        Ok(self.folder.join(app))
    }
}

/// A folder in which an app is installed before it gets its place.
#[derive(Debug)]
pub(super) struct Staging {
    pub(super) tree: PathBuf,
    app: PathBuf,
    made: tempfile::TempDir,
}

impl Staging {
    /// A new empty folder beside the tree, in the same file system.
    pub(super) fn fresh(&self) -> Result<tempfile::TempDir, StoreError> {
        let fresh = tempfile::Builder::new().tempdir_in(self.made.path());
        fresh.map_err(io_error(self.made.path()))
    }

    /// Seals the tree and moves it to its place. Returns its hash.
    pub(super) fn keep(self) -> Result<String, TreeError> {
        let hash = tree::seal(&self.tree)?;
        let place = self.app.join(&hash);
        // A tree of the same hash is the same tree.
        if !place.exists() {
            // A folder that may not be written cannot be moved either.
            let failed = |source| TreeError::Io {
                path: place.clone(),
                source,
            };
            fs::set_permissions(&self.tree, fs::Permissions::from_mode(0o755)).map_err(failed)?;
            fs::rename(&self.tree, &place).map_err(failed)?;
            fs::set_permissions(&place, fs::Permissions::from_mode(0o555)).map_err(failed)?;
        }
        Ok(hash)
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // An installation may leave folders without rights. What cannot be removed now is removed with the app.
        let _ = tree::unseal(self.made.path());
    }
}

fn checked(name: &str) -> Result<(), StoreError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    match !name.is_empty() && name.len() <= MAX_NAME && name.chars().all(allowed) {
        true => Ok(()),
        false => Err(StoreError::Name(name.to_owned())),
    }
}

fn io_error(path: &Path) -> impl Fn(io::Error) -> StoreError + use<> {
    let path = path.to_owned();
    move |source| StoreError::Io {
        path: path.clone(),
        source,
    }
}

fn discard(place: &Path) -> io::Result<()> {
    if !place.symlink_metadata()?.is_dir() {
        return fs::remove_file(place);
    }
    // Files in a sealed folder cannot be removed.
    tree::unseal(place).map_err(io::Error::other)?;
    fs::remove_dir_all(place)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A build that was refused for what it made may leave its folder behind.
    #[test]
    fn what_is_refused_can_be_removed() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path().to_owned());
        let left = folder.path().join("notes/.new-abc/tree");
        let deep: PathBuf = left.join(["d"; 100].join("/"));
        fs::create_dir_all(&deep).unwrap();
        symlink("/", left.join("out")).unwrap();
        assert!(tree::seal(&left).is_err());
        assert!(store.remove("notes").unwrap());
        assert!(!folder.path().join("notes").exists());
    }
}
