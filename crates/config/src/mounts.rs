//! Checks of mounts. An app decides what is in a folder that it may write. So no source of another mount, file of the
//! configuration or program of ours may be in a writable mount.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsString;
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use policy::Place;

use crate::app::{App, Mount};
use crate::config::Config;

/// Most links on the way to a file; the kernel follows as many.
const MAX_LINKS: usize = 40;
/// Most mounts of a configuration, without those found for programs. Each is compared with every other one.
const MAX_MOUNTS: usize = 512;
/// Sources that show the host itself: processes, devices and settings of the kernel. The sandbox also refuses these file
/// systems under other names.
const OF_THE_KERNEL: [&str; 3] = ["/proc", "/sys", "/dev"];

/// A mount that gives too much.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountError {
    /// Where the mount is configured.
    pub place: Place,
    /// What is wrong: one line.
    pub message: String,
    /// How to correct it.
    pub help: String,
}

impl fmt::Display for MountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.place, self.message, self.help)
    }
}

impl std::error::Error for MountError {}

impl Config {
    /// Checks the mounts of all apps together: none shows the host itself, none is inside of one that an app may write, and
    /// no app may write a file of this configuration, or one of `kept` (a name for messages, and a file or folder, which
    /// need not exist). Links on the way to them are followed.
    ///
    /// [`Config::load`] checks without `kept`. The file system can change, so check again before a start.
    ///
    /// # Errors
    /// Every mount that gives too much.
    pub fn check_mounts(&self, kept: &[(&str, PathBuf)]) -> Result<(), Vec<MountError>> {
        let mut own = self.apps.values().flat_map(|app| &app.mounts);
        if let Some(mount) = own.nth(MAX_MOUNTS) {
            return Err(vec![MountError {
                place: mount.place.clone(),
                message: format!("there are more than {MAX_MOUNTS} mounts"),
                help: "mount a folder that holds several of them".to_owned(),
            }]);
        }
        let weights = self.screener.weights.iter();
        let own = self.files.iter().map(|file| ("the configuration", file));
        let own = own.chain(weights.map(|file| ("the screener's weights", file)));
        let kept = own.chain(kept.iter().map(|(what, path)| (*what, path)));
        let kept: Vec<_> = kept.map(|(what, path)| (what, Way::to(path))).collect();
        let mounts = self.apps.values().flat_map(|app| {
            let found = app.found.iter().flat_map(|start| &start.mounts);
            let all = app.mounts.iter().chain(found);
            all.map(move |mount| (app, mount, Way::to(&mount.source)))
        });
        let mounts: Vec<_> = mounts.collect();
        let mut errors = Vec::new();
        for (app, mount, way) in &mounts {
            errors.extend(of_the_kernel(mount));
            // Not at the same place: an app cannot replace the folder itself, so two apps may share one.
            let mut writable = mounts.iter().filter(|(_, other, _)| other.write);
            let above = writable.find(|(_, _, above)| way.passes_below(&above.end));
            if let Some((other, above, _)) = above {
                errors.push(lies_below(app, mount, other, above));
            }
            if mount.write {
                let held = kept.iter().filter(|(_, kept)| {
                    // The app could replace the kept file, or write inside of the kept folder.
                    let places = [&*mount.source, &*way.end];
                    places.iter().any(|place| kept.reaches(place)) || way.passes_below(&kept.end)
                });
                errors.extend(held.map(|(what, kept)| holds(app, mount, what, &kept.end)));
            }
        }
        match errors.is_empty() {
            true => Ok(()),
            false => Err(errors),
        }
    }
}

impl MountError {
    fn new(mount: &Mount, message: String, help: &str) -> Self {
        Self {
            place: mount.place.clone(),
            message,
            help: help.to_owned(),
        }
    }
}

fn of_the_kernel(mount: &Mount) -> Option<MountError> {
    let source = &mount.source;
    if source.parent().is_none() {
        let message = "the whole file tree cannot be mounted".to_owned();
        return Some(MountError::new(
            mount,
            message,
            "name the folder that the app needs",
        ));
    }
    let inside = OF_THE_KERNEL.iter().find(|path| source.starts_with(path))?;
    let message = format!(
        "'{}' cannot be mounted: {inside} is the host itself",
        source.display()
    );
    Some(MountError::new(
        mount,
        message,
        "mount a copy of what the app needs",
    ))
}

fn lies_below(app: &App, mount: &Mount, other: &App, above: &Mount) -> MountError {
    let (source, above) = (mount.source.display(), above.source.display());
    let message = format!(
        "the app '{}' gets '{source}', which is inside of '{above}', and the app '{}' may write that",
        app.name, other.name
    );
    let help = "mount a folder outside of it, or leave out 'write' there";
    MountError::new(mount, message, help)
}

fn holds(app: &App, mount: &Mount, what: &str, kept: &Path) -> MountError {
    let message = format!(
        "the app '{}' may write '{}', where {what} is ('{}')",
        app.name,
        mount.source.display(),
        kept.display()
    );
    let help = "mount a folder with only the app's own files, or leave out 'write'";
    MountError::new(mount, message, help)
}

/// Every place on the way to a file or folder, over links. An app that may write one of them decides where the way ends.
struct Way {
    places: Vec<PathBuf>,
    /// Device and inode of those that exist: a place may have several names.
    identities: BTreeSet<(u64, u64)>,
    end: PathBuf,
}

impl Way {
    fn to(path: &Path) -> Self {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let mut rest: VecDeque<OsString> = names(&path).collect();
        let mut here = PathBuf::from("/");
        let mut places = vec![here.clone()];
        let mut links = 0;
        while let Some(name) = rest.pop_front() {
            if name == ".." {
                // The links before it were followed, as the kernel does.
                here.pop();
                continue;
            }
            let next = here.join(&name);
            places.push(next.clone());
            match next.read_link() {
                // The kernel gives up after as many links.
                Ok(target) if links < MAX_LINKS => {
                    links += 1;
                    if target.is_absolute() {
                        here = PathBuf::from("/");
                    }
                    // Before what is left of the way.
                    for name in names(&target).collect::<Vec<_>>().into_iter().rev() {
                        rest.push_front(name);
                    }
                }
                // Also a place that does not exist: an app may be able to create it.
                _ => here = next,
            }
        }
        Self {
            identities: places.iter().filter_map(|place| identity(place)).collect(),
            places,
            end: here,
        }
    }

    /// Whether `folder` is on the way, or where it ends.
    fn reaches(&self, folder: &Path) -> bool {
        self.places.iter().any(|place| place.starts_with(folder))
            || identity(folder).is_some_and(|folder| self.identities.contains(&folder))
    }

    /// Whether `folder` is on the way, and the way goes on.
    fn passes_below(&self, folder: &Path) -> bool {
        let ends_there = self.end == folder
            || identity(folder).is_some_and(|folder| identity(&self.end) == Some(folder));
        self.reaches(folder) && !ends_there
    }
}

fn names(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

/// Device and inode of a place itself, not of a link's target.
fn identity(place: &Path) -> Option<(u64, u64)> {
    let metadata = place.symlink_metadata().ok()?;
    Some((metadata.dev(), metadata.ino()))
}
