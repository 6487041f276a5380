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

/// Most bytes of a settings file of Python's; they have a few lines.
const MAX_SETTINGS: u64 = 64 << 10;

/// The virtual environment that a file of its `bin` belongs to.
pub(super) fn environment_of(file: &Path) -> Option<&Path> {
    let bin = file
        .parent()
        .filter(|folder| folder.file_name() == Some(OsStr::new("bin")))?;
    bin.parent()
        .filter(|folder| folder.join("pyvenv.cfg").is_file())
}

impl Finder<'_> {
    /// The program that a stand-in of pyenv would start, if the path is one.
    pub(super) fn behind_shim(&self, path: &Path) -> Result<Option<PathBuf>, FindError> {
        let folder = path
            .parent()
            .filter(|folder| folder.file_name() == Some(OsStr::new("shims")));
        let Some((root, name)) = folder.and_then(Path::parent).zip(path.file_name()) else {
            return Ok(None);
        };
        let shim = || FindError::Shim {
            path: path.to_owned(),
        };
        let set = root.join("version");
        self.places.believe(&set)?;
        let versions = settings(&set).map_err(|_| shim())?;
        let found = versions
            .split_ascii_whitespace()
            .map(|version| root.join("versions").join(version).join("bin").join(name));
        found
            .into_iter()
            .find(|path| path.is_file())
            .map(Some)
            .ok_or_else(shim)
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
        let bin = folder.join("bin");
        let own = ["python", "python3"]
            .map(|name| bin.join(name))
            .into_iter()
            .find(|path| path.symlink_metadata().is_ok());
        if let Some(own) = own {
            self.places.believe(&own)?;
            let end = resolved(&own)?;
            self.interpreter(&end)?;
            let unit = self.unit_of(&end);
            self.places.provide(&own, &unit, Purpose::Program)?;
        }
        // Where the interpreter looks for its library.
        let home = settings
            .lines()
            .filter_map(|line| line.split_once('='))
            .find(|(key, _)| key.trim() == "home");
        if let Some((_, home)) = home {
            let home = Path::new(home.trim());
            let interpreter = ["python3", "python"]
                .map(|name| home.join(name))
                .into_iter()
                .find(|path| path.is_file());
            if let Some(interpreter) = interpreter {
                self.places.believe(&interpreter)?;
                let end = resolved(&interpreter)?;
                self.interpreter(&end)?;
                let unit = self.unit_of(&end);
                self.places.provide(&interpreter, &unit, Purpose::Program)?;
            }
        }
        for site in site_packages(folder) {
            self.named_by_packages(&site)?;
        }
        Ok(())
    }

    /// An interpreter of Python, resolved: the file, its library, the libraries that it is linked with.
    pub(super) fn interpreter(&mut self, file: &Path) -> Result<(), FindError> {
        let name = file
            .file_name()
            .map(OsStr::to_os_string)
            .unwrap_or_default();
        let prefix = file.parent().and_then(Path::parent);
        let library = prefix.map(|prefix| prefix.join("lib").join(&name));
        match (prefix, library) {
            (Some(prefix), Some(library))
                if library.is_dir() && Language::of(file) == Some(Language::Python) =>
            {
                // An installation in a folder of its own is shown whole. One in `/usr` or `~/.local` shares that
                // with other programs, so only its file and its library are shown.
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

    /// The folder that shows an interpreter: all of its installation, or the file alone.
    pub(super) fn unit_of(&self, file: &Path) -> PathBuf {
        let prefix = file
            .parent()
            .and_then(Path::parent)
            .filter(|prefix| self.is_fit(prefix));
        prefix
            .filter(|prefix| self.places.is_there(prefix, Purpose::Program))
            .unwrap_or(file)
            .to_owned()
    }

    /// The packages that a user has installed without an environment, for a script that came with them.
    pub(super) fn user_site(&mut self, script: &Path) -> Result<(), FindError> {
        let base = script
            .parent()
            .filter(|folder| folder.file_name() == Some(OsStr::new("bin")))
            .and_then(Path::parent);
        let Some(base) = base else { return Ok(()) };
        for site in site_packages(base) {
            self.places.cover(&site, Purpose::Program)?;
            self.named_by_packages(&site)?;
            let base = base.to_string_lossy().into_owned();
            self.env.insert("PYTHONUSERBASE".to_owned(), base);
        }
        Ok(())
    }

    /// Folders that files named `*.pth` add: packages that are installed where they are worked on.
    fn named_by_packages(&mut self, site: &Path) -> Result<(), FindError> {
        let Ok(entries) = fs::read_dir(site) else {
            return Ok(());
        };
        let files = entries.flatten().map(|entry| entry.path());
        for file in files.filter(|path| path.extension() == Some(OsStr::new("pth"))) {
            // One that an app may write says nothing.
            if self.places.believe(&file).is_err() {
                continue;
            }
            let Ok(text) = settings(&file) else { continue };
            // Other lines are relative, and so in the environment, or begin with `import` and are code, which is not
            // run here.
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
    let entries = fs::read_dir(prefix.join("lib"))
        .into_iter()
        .flatten()
        .flatten();
    let versions = entries.map(|entry| entry.path()).filter(|path| {
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
