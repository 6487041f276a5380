//! Python: virtual environments, the real interpreter and its library.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use super::error::FindError;
use super::finder::Finder;
use super::places::{Hold, resolved};
use super::script::Language;
use super::wanted::Purpose;
use crate::files::text;

/// Most bytes of Python's settings files, which have a few lines.
const MAX_SETTINGS: u64 = 64 << 10;

/// The virtual environment of a file in its `bin`.
pub(super) fn environment_of(file: &Path) -> Option<&Path> {
    let prefix = prefix(file)?;
    prefix.join("pyvenv.cfg").is_file().then_some(prefix)
}

/// The folder above `bin`, for a file in that.
fn prefix(file: &Path) -> Option<&Path> {
    let bin = file.parent()?;
    bin.parent().filter(|_| bin.ends_with("bin"))
}

impl Finder<'_> {
    /// The program that a shim of pyenv would start, if the path is one.
    pub(super) fn behind_shim(&self, path: &Path) -> Result<Option<PathBuf>, FindError> {
        let folder = path.parent().filter(|folder| folder.ends_with("shims"));
        let Some((root, name)) = folder.and_then(Path::parent).zip(path.file_name()) else {
            return Ok(None);
        };
        let shim = || FindError::Shim(path.to_owned());
        let set = root.join("version");
        self.places.believe(&set)?;
        let versions = settings(&set).map_err(|_| shim())?;
        let found = versions.split_ascii_whitespace();
        let mut found =
            found.map(|version| root.join("versions").join(version).join("bin").join(name));
        found.find(|path| path.is_file()).map(Some).ok_or_else(shim)
    }

    /// A virtual environment: its folder, the interpreter that it stands for, and the folders that its packages name.
    pub(super) fn environment(&mut self, folder: &Path) -> Result<(), FindError> {
        if !self.environments.insert(folder.to_owned()) {
            return Ok(());
        }
        self.places.cover(folder, Purpose::Program)?;
        let file = folder.join("pyvenv.cfg");
        self.places.believe(&file)?;
        let settings = settings(&file)?;
        let python = |folder: &Path| {
            let files = ["python3", "python"].map(|name| folder.join(name));
            files.into_iter().find(|path| path.is_file())
        };
        // Its own interpreter, and the one in `home`, from which that takes its library.
        let mut lines = settings.lines().filter_map(|line| line.split_once('='));
        let home = lines.find(|(key, _)| key.trim() == "home");
        let home = home.and_then(|(_, home)| python(Path::new(home.trim())));
        for interpreter in python(&folder.join("bin")).into_iter().chain(home) {
            self.places.believe(&interpreter)?;
            let end = resolved(&interpreter)?;
            self.interpreter(&end)?;
            let unit = self.unit_of(&end);
            self.places.provide(&interpreter, &unit, Purpose::Program)?;
        }
        for site in site_packages(folder) {
            self.named_by_packages(&site)?;
        }
        Ok(())
    }

    /// A resolved interpreter: the file, Python's library, the libraries that it is linked with.
    pub(super) fn interpreter(&mut self, file: &Path) -> Result<(), FindError> {
        let name = file.file_name().unwrap_or_default();
        let prefix = file.parent().and_then(Path::parent);
        let library = prefix.map(|prefix| prefix.join("lib").join(name));
        match (prefix, library) {
            (Some(prefix), Some(library))
                if library.is_dir() && Language::of(file) == Some(Language::Python) =>
            {
                // An installation in a folder of its own is shown as a whole. One in `/usr` or `~/.local` shares that with
                // other programs, so only the file and the library are shown.
                if self.is_fit(prefix) {
                    self.places.cover(prefix, Purpose::Program)?;
                } else {
                    self.places.cover(file, Purpose::Program)?;
                    self.places.cover(&library, Purpose::Program)?;
                }
            }
            _ => self.places.cover(file, Purpose::Program)?,
        }
        self.libraries(file)
    }

    /// The part to show for an interpreter: its whole installation, or the file.
    pub(super) fn unit_of(&self, file: &Path) -> PathBuf {
        let prefix = file.parent().and_then(Path::parent);
        let shown =
            |prefix: &&Path| self.is_fit(prefix) && self.places.is_there(prefix, Purpose::Program);
        prefix.filter(shown).unwrap_or(file).to_owned()
    }

    /// The user's packages without an environment, for a script that came with them.
    pub(super) fn user_site(&mut self, script: &Path) -> Result<(), FindError> {
        let Some(base) = prefix(script) else {
            return Ok(());
        };
        for site in site_packages(base) {
            self.places.cover(&site, Purpose::Program)?;
            self.named_by_packages(&site)?;
            let base = base.to_string_lossy().into_owned();
            self.env.insert("PYTHONUSERBASE".to_owned(), base);
        }
        Ok(())
    }

    /// Folders that `*.pth` files add: packages in editable installations.
    fn named_by_packages(&mut self, site: &Path) -> Result<(), FindError> {
        let Ok(entries) = fs::read_dir(site) else {
            return Ok(());
        };
        let files = entries.flatten().map(|entry| entry.path());
        for file in files.filter(|path| path.extension() == Some(OsStr::new("pth"))) {
            // An app must not choose further places.
            if self.places.believe(&file).is_err() {
                continue;
            }
            let Ok(text) = settings(&file) else { continue };
            // Other lines are relative, so in the environment, or code.
            for line in text.lines().filter(|line| line.starts_with('/')) {
                let folder = Path::new(line.trim());
                if self.places.hold(folder) == Hold::Way {
                    continue;
                }
                if let Ok(end) = folder.canonicalize() {
                    self.places.provide(folder, &end, Purpose::Program)?;
                }
            }
        }
        Ok(())
    }
}

fn site_packages(prefix: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(prefix.join("lib")).into_iter().flatten();
    let versions = entries.flatten().map(|entry| entry.path()).filter(|path| {
        let name = path.file_name().map(OsStr::to_string_lossy);
        name.is_some_and(|name| name.starts_with("python"))
    });
    versions
        .map(|path| path.join("site-packages"))
        .filter(|path| path.is_dir())
        .collect()
}

fn settings(file: &Path) -> Result<String, FindError> {
    text(file, MAX_SETTINGS).map_err(|error| FindError::unreadable(file, &error))
}
