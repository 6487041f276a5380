//! What a mount gives away. An app that may write a place decides what lies in it at the next start: the source of
//! another mount, a file of the configuration, a program of ours. So nothing of that may lie in a writable mount.

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
/// Most mounts of a configuration, beside those that are found for programs. Each is compared with every other one, by what
/// lies there.
const MAX_MOUNTS: usize = 512;
/// Sources that are the host itself, as processes, devices or settings of the kernel. The sandbox finds the same file
/// systems under other names too.
const OF_THE_KERNEL: [&str; 3] = ["/proc", "/sys", "/dev"];

/// A mount that gives too much.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountError {
    /// Where the mount is configured.
    pub place: Place,
    /// What is wrong: one line.
    pub message: String,
    /// What would be right.
    pub help: String,
}

impl fmt::Display for MountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.place, self.message, self.help)
    }
}

impl std::error::Error for MountError {}

impl Config {
    /// Checks the mounts of all apps together: none is the host itself, none lies below one that an app may write, and
    /// no app may write a file that this configuration was read from, or one of `kept`, which has what else must stay as
    /// it is (a name for messages, and a file or folder; it need not exist). Links on the way to them count as well.
    ///
    /// [`Config::load`] has done it without `kept`. What lies where can change, so it is to be done again before a start.
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
        let apps = self.apps.values();
        let mounts = apps.flat_map(|app| {
            let found = app.found.iter().flat_map(|start| &start.mounts);
            app.mounts
                .iter()
                .chain(found)
                .map(move |mount| (app, mount))
        });
        let mounts: Vec<_> = mounts
            .map(|(app, mount)| (app, mount, Way::to(&mount.source)))
            .collect();
        let mut errors = Vec::new();
        for (app, mount, way) in &mounts {
            errors.extend(of_the_kernel(mount));
            // Below, and not at the same place: who may write in a folder cannot put another in its stead, so two apps
            // may share one.
            let above = mounts
                .iter()
                .find(|(_, other, above)| other.write && way.passes_below(&above.end));
            if let Some((other, above, _)) = above {
                errors.push(lies_below(app, mount, other, above));
            }
            if mount.write {
                let held = kept.iter().filter(|(_, kept)| {
                    // Either the app could replace what is kept, or it would write inside of it.
                    let places = [&*mount.source, &*way.end];
                    places.iter().any(|place| kept.reaches(place)) || way.passes_below(&kept.end)
                });
                errors.extend(held.map(|(what, kept)| holds(app, mount, what, &kept.end)));
            }
        }
        if errors.is_empty() {
            Ok(())
        } else {
            Err(errors)
        }
    }
}

fn of_the_kernel(mount: &Mount) -> Option<MountError> {
    let source = &mount.source;
    let error = |message, help: &str| MountError {
        place: mount.place.clone(),
        message,
        help: help.to_owned(),
    };
    if source.parent().is_none() {
        let message = "the whole file tree cannot be mounted".to_owned();
        return Some(error(message, "name the folder that the app needs"));
    }
    let inside = OF_THE_KERNEL.iter().find(|path| source.starts_with(path))?;
    let message = format!(
        "'{}' cannot be mounted: {inside} is the host itself",
        source.display()
    );
    Some(error(message, "mount a copy of what the app needs"))
}

fn lies_below(app: &App, mount: &Mount, other: &App, above: &Mount) -> MountError {
    let (source, above) = (mount.source.display(), above.source.display());
    MountError {
        place: mount.place.clone(),
        message: format!(
            "the app '{}' gets '{source}', which lies below '{above}', and that the app '{}' may write",
            app.name, other.name
        ),
        help: "what lies there is what that app put there; mount a folder outside of it, or leave out 'write' there".to_owned(),
    }
}

fn holds(app: &App, mount: &Mount, what: &str, kept: &Path) -> MountError {
    let source = mount.source.display();
    MountError {
        place: mount.place.clone(),
        message: format!(
            "the app '{}' may write '{source}', where {what} is ('{}')",
            app.name,
            kept.display()
        ),
        help: "mount a folder that holds nothing but what the app works on, or leave out 'write'"
            .to_owned(),
    }
}

/// Every place on the way to a file or folder, over links: who may write one of them decides where the way ends.
struct Way {
    places: Vec<PathBuf>,
    /// Device and number of those that exist, so that a place is known again under another name.
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
                // After the links before it were followed, as the kernel reads it.
                here.pop();
                continue;
            }
            let next = here.join(&name);
            places.push(next.clone());
            match next.read_link() {
                // Past that the kernel gives up as well, and the name stands for itself.
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
                // Also what does not exist: it could be made, by whoever may write where it would lie.
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

/// Device and number of a place, not of what it links to.
fn identity(place: &Path) -> Option<(u64, u64)> {
    let metadata = place.symlink_metadata().ok()?;
    Some((metadata.dev(), metadata.ino()))
}
