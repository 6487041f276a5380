//! The places of the host to show in the sandbox, each under the names by which programs open it.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use super::error::FindError;
use super::too_much;
use super::wanted::{Found, Host, Purpose};

/// Most links on the way to a file; the kernel follows as many.
const MAX_LINKS: usize = 40;
/// Most places for one command. A sandbox has room for 64 mounts, and the user's own come first.
const MAX_PLACES: usize = 40;

pub(super) struct Places<'h> {
    host: &'h Host,
    /// The targets of the user's own mounts.
    given: &'h [PathBuf],
    /// The places that apps may write, by device and inode: a place may have several names.
    writable: BTreeSet<(u64, u64)>,
    found: Vec<Found>,
}

/// How apps control a path, by the places that they may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hold {
    /// Not at all.
    None,
    /// They may have written its content.
    Content,
    /// A link of theirs decides where it leads.
    Way,
}

impl<'h> Places<'h> {
    pub(super) fn new(host: &'h Host, given: &'h [PathBuf], writable: &[PathBuf]) -> Self {
        Self {
            host,
            given,
            writable: writable.iter().filter_map(|it| identity(it)).collect(),
            found: Vec::new(),
        }
    }

    /// The results, outer places first.
    pub(super) fn finish(mut self) -> Vec<Found> {
        self.found.sort_by(|a, b| a.target.cmp(&b.target));
        self.found
    }

    /// Whether a mount of the user's covers this place.
    pub(super) fn is_given(&self, path: &Path) -> bool {
        self.given.iter().any(|target| path.starts_with(target))
    }

    /// Whether the sandbox has this place of the host already.
    pub(super) fn is_there(&self, path: &Path, purpose: Purpose) -> bool {
        let fits = |found: &Found| {
            path.starts_with(&found.target)
                && (found.purpose == purpose || purpose == Purpose::Data)
        };
        self.host.system.iter().any(|place| path.starts_with(place))
            || self.is_given(path)
            || self.found.iter().any(fits)
    }

    /// How apps control an absolute path, with all that it leads over.
    pub(super) fn hold(&self, path: &Path) -> Hold {
        let mut way = Way::along(path);
        // The places of theirs on the way.
        let mut theirs: Vec<PathBuf> = Vec::new();
        while let Some(next) = way.next() {
            match next.read_link() {
                Ok(target) => {
                    if theirs.iter().any(|place| way.here.starts_with(place))
                        || !way.follow(&target)
                    {
                        return Hold::Way;
                    }
                }
                Err(_) => {
                    if identity(&next).is_some_and(|next| self.writable.contains(&next)) {
                        theirs.push(next.clone());
                    }
                    way.here = next;
                }
            }
        }
        match theirs.iter().any(|place| way.here.starts_with(place)) {
            true => Hold::Content,
            false => Hold::None,
        }
    }

    /// Refuses a file that decides which further places are shown, if apps control it.
    pub(super) fn believe(&self, file: &Path) -> Result<(), FindError> {
        match self.hold(file) {
            Hold::None => Ok(()),
            Hold::Content | Hold::Way => Err(FindError::Writable(file.to_owned())),
        }
    }

    /// Shows a place under its own name. It must be resolved.
    pub(super) fn cover(&mut self, place: &Path, purpose: Purpose) -> Result<(), FindError> {
        if self.is_there(place, purpose) {
            return Ok(());
        }
        self.push(place, place, purpose)
    }

    /// Makes `written` lead in the sandbox to where it leads here. `unit` is the part to show: the file, or a folder above it.
    pub(super) fn provide(
        &mut self,
        written: &Path,
        unit: &Path,
        purpose: Purpose,
    ) -> Result<(), FindError> {
        self.cover(unit, purpose)?;
        // Each round replaces one link.
        for _ in 0..MAX_LINKS {
            let Some(broken) = self.first_link_missing(written, purpose) else {
                return Ok(());
            };
            let end = resolved(&broken)?;
            let target = renamed(&broken, &end, unit);
            match target {
                Some(target) => self.push(unit, &target, purpose)?,
                None => self.push(&end, &broken, purpose)?,
            }
        }
        Err(FindError::TooMany(MAX_PLACES))
    }

    fn push(&mut self, source: &Path, target: &Path, purpose: Purpose) -> Result<(), FindError> {
        // Checked here, since every place passes through.
        too_much::check(source, self.host.home.as_deref(), purpose == Purpose::Data)?;
        // Places inside of it are shown with it.
        self.found.retain(|found| {
            !(found.target.starts_with(target)
                && found.purpose == purpose
                && found.source.strip_prefix(source).ok() == found.target.strip_prefix(target).ok())
        });
        // A stranger's package or environment can name any number of places.
        if self.found.len() >= MAX_PLACES {
            return Err(FindError::TooMany(MAX_PLACES));
        }
        self.found.push(Found {
            source: source.to_owned(),
            target: target.to_owned(),
            purpose,
        });
        Ok(())
    }

    /// Follows a path as the sandbox would. Returns the first link that the sandbox lacks, with the rest of the path.
    fn first_link_missing(&self, path: &Path, purpose: Purpose) -> Option<PathBuf> {
        let mut way = Way::along(path);
        while let Some(next) = way.next() {
            let Ok(target) = next.read_link() else {
                way.here = next;
                continue;
            };
            // The kernel would give up, too.
            if way.links >= MAX_LINKS {
                return None;
            }
            let rest = way.rest.iter();
            let whole = rest.fold(next.clone(), |path, name| path.join(name));
            if let Some(shown) = self.shown_over(&next, &whole) {
                // A mount replaces the link, and the way goes on inside of it.
                let inside = whole.strip_prefix(&shown.target).unwrap_or(Path::new(""));
                way.rest = names(inside).collect();
                way.here.clone_from(&shown.source);
                way.links += 1;
                continue;
            }
            if !self.is_there(&next, purpose) {
                return Some(whole);
            }
            way.follow(&target);
        }
        None
    }

    /// The mount at or below a link that a way leads into.
    fn shown_over(&self, link: &Path, way: &Path) -> Option<&Found> {
        let over =
            |found: &&Found| found.target.starts_with(link) && way.starts_with(&found.target);
        self.found.iter().find(over)
    }
}

/// A way through the file system, name by name, as the kernel resolves it.
struct Way {
    /// The part that is resolved, without links.
    here: PathBuf,
    rest: VecDeque<OsString>,
    links: usize,
}

impl Way {
    fn along(path: &Path) -> Self {
        Self {
            here: PathBuf::from("/"),
            rest: names(path).collect(),
            links: 0,
        }
    }

    /// The next place, which may be a link.
    fn next(&mut self) -> Option<PathBuf> {
        while let Some(name) = self.rest.pop_front() {
            if name != ".." {
                return Some(self.here.join(name));
            }
            self.here.pop();
        }
        None
    }

    /// Follows a link. False if the kernel would have given up.
    fn follow(&mut self, target: &Path) -> bool {
        self.links += 1;
        if target.is_absolute() {
            self.here = PathBuf::from("/");
        }
        for name in names(target).collect::<Vec<_>>().into_iter().rev() {
            self.rest.push_front(name);
        }
        self.links <= MAX_LINKS
    }
}

/// The name under which the whole unit must be shown, so that `written` leads to `end` in it.
fn renamed(written: &Path, end: &Path, unit: &Path) -> Option<PathBuf> {
    let inside = end.parent()?.strip_prefix(unit).ok()?;
    let mut folder = written.parent()?;
    for _ in inside.components() {
        folder = folder.parent()?;
    }
    let same = folder != unit && folder.canonicalize().is_ok_and(|folder| folder == unit);
    same.then(|| folder.to_owned())
}

/// A path without links in it.
pub(super) fn resolved(path: &Path) -> Result<PathBuf, FindError> {
    path.canonicalize().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => FindError::Missing {
            path: path.to_owned(),
            named_by: None,
        },
        _ => FindError::Unreadable {
            path: path.to_owned(),
            reason: error.to_string(),
        },
    })
}

/// The path with its folder resolved, and the last name as it is.
pub(super) fn in_resolved_folder(path: &Path) -> Result<PathBuf, FindError> {
    let missing = || FindError::Missing {
        path: path.to_owned(),
        named_by: None,
    };
    let (folder, name) = path.parent().zip(path.file_name()).ok_or_else(missing)?;
    let folder = folder.canonicalize().map_err(|_| missing())?;
    let file = folder.join(name);
    file.symlink_metadata().map_err(|_| missing())?;
    Ok(file)
}

/// Device and inode of the place that a path leads to.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let metadata = path.metadata().ok()?;
    Some((metadata.dev(), metadata.ino()))
}

fn names(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        _ => None,
    })
}
