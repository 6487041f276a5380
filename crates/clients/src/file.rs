//! One file: its content, and its replacement by another content in one step.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{Gid, Uid, fchown};

use crate::Problem;

/// Longest file. Claude Code's grows to some megabytes with its projects.
const MAX_BYTES: u64 = 64 << 20;
/// How long a lock of Claude Code counts that is not renewed. It is the default of the library that it uses.
const STALE: Duration = Duration::from_secs(10);
/// How long a lock is waited for.
const PATIENCE: Duration = Duration::from_secs(12);

/// A file as it was read.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The path, which may be a link.
    path: PathBuf,
    /// The file itself.
    pub target: PathBuf,
    /// Its content; `None` if there is no file.
    pub bytes: Option<Vec<u8>>,
    mode: u32,
    owner: Option<(u32, u32)>,
}

impl Snapshot {
    /// Reads a file, which may be absent.
    ///
    /// # Errors
    /// It is no regular file, a link to nothing, or cannot be read.
    pub fn read(path: &Path) -> Result<Self, Problem> {
        let absent = Self {
            path: path.to_owned(),
            target: path.to_owned(),
            bytes: None,
            mode: 0o600,
            owner: None,
        };
        let target = match path.canonicalize() {
            Ok(target) => target,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return match path.is_symlink() {
                    true => Err(Problem::new("it is a link to a file that is not there")),
                    false => Ok(absent),
                };
            }
            Err(error) => return Err(error.into()),
        };
        let found = fs::metadata(&target)?;
        if !found.is_file() || found.len() > MAX_BYTES {
            return Err(Problem::new("it is no regular file of at most 64 MiB"));
        }
        let mut bytes = Vec::new();
        File::open(&target)?
            .take(MAX_BYTES + 1)
            .read_to_end(&mut bytes)?;
        Ok(Self {
            target,
            bytes: Some(bytes),
            mode: found.mode() & 0o7777,
            owner: Some((found.uid(), found.gid())),
            ..absent
        })
    }

    /// Its text; `None` if there is no file.
    ///
    /// # Errors
    /// It is not UTF-8.
    pub fn text(&self) -> Result<Option<&str>, Problem> {
        let text = self.bytes.as_deref().map(str::from_utf8).transpose();
        text.map_err(|_| Problem::new("it is not UTF-8"))
    }

    /// Why it must not be written, before anything is prepared for that.
    pub(crate) fn check_writable(&self) -> Result<(), Problem> {
        // The superuser could write it all the same, and so could a rename.
        if self.bytes.is_some() && self.mode & 0o222 == 0 {
            return Err(Problem::new(
                "it is read-only; make it writable, or change it where it is made",
            ));
        }
        let found = fs::symlink_metadata(&self.target);
        if found.is_ok_and(|found| found.nlink() > 1) {
            return Err(Problem::new(
                "it has a second name (a hard link), which would keep the old content; remove one of them",
            ));
        }
        Ok(())
    }

    /// Puts a content in the place of the one that was read, or removes the file. The mode, the owner and a link to it stay.
    /// At every moment the file has the old content or the new one. `locks` says whether its program takes a lock to write
    /// it, as Claude Code does.
    ///
    /// # Errors
    /// The content is not the one that was read, or it cannot be written.
    pub(crate) fn replace(&self, new: Option<&[u8]>, locks: bool) -> Result<(), Problem> {
        self.check_writable()?;
        let _lock = locks.then(|| Lock::take(&self.path)).transpose()?;
        let folder = self.target.parent().unwrap_or(Path::new("/"));
        let Some(new) = new else {
            self.check_unchanged()?;
            fs::remove_file(&self.target)?;
            return Ok(File::open(folder)?.sync_all()?);
        };
        let name = self.target.file_name().unwrap_or_default();
        let name = format!(".{}.sluice-new", name.to_string_lossy());
        let temporary = Temporary::create(folder.join(name))?;
        let mut file = &temporary.file;
        file.write_all(new)?;
        if let Some((user, group)) = self.owner {
            let is_own = file.metadata()?;
            if (is_own.uid(), is_own.gid()) != (user, group) {
                let owner = (Uid::from_raw(user), Gid::from_raw(group));
                let moved = fchown(file, Some(owner.0), Some(owner.1));
                moved.map_err(|_| {
                    Problem::new("it belongs to another user; run this as that user")
                })?;
            }
        }
        // After the owner, whose change clears bits of the mode.
        file.set_permissions(Permissions::from_mode(self.mode))?;
        file.sync_all()?;
        self.check_unchanged()?;
        match self.bytes {
            Some(_) => fs::rename(&temporary.path, &self.target)?,
            // Unlike a rename, this does not replace a file that has been created meanwhile.
            None => fs::hard_link(&temporary.path, &self.target).map_err(|error| {
                match error.kind() {
                    ErrorKind::AlreadyExists => Problem::race(),
                    _ => error.into(),
                }
            })?,
        }
        Ok(File::open(folder)?.sync_all()?)
    }

    /// The time between this check and the rename is the one in which a change by a program without a lock would be lost.
    fn check_unchanged(&self) -> Result<(), Problem> {
        let now = Self::read(&self.path)?;
        match now.target == self.target && now.bytes == self.bytes {
            true => Ok(()),
            false => Err(Problem::race()),
        }
    }
}

/// A new file beside the one that it replaces. It is removed again unless it was renamed; one that a killed program has left
/// is replaced by the next one.
struct Temporary {
    path: PathBuf,
    file: File,
}

impl Temporary {
    fn create(path: PathBuf) -> Result<Self, Problem> {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        let mut options = OpenOptions::new();
        let file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        Ok(Self { path, file })
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Claude Code's lock on its file: a folder beside it, which it removes after each write.
struct Lock(PathBuf);

impl Lock {
    fn take(path: &Path) -> Result<Self, Problem> {
        let mut name = path.as_os_str().to_owned();
        name.push(".lock");
        let lock = PathBuf::from(name);
        let start = Instant::now();
        loop {
            match DirBuilder::new().mode(0o755).create(&lock) {
                Ok(()) => return Ok(Self(lock)),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error.into()),
            }
            let age = fs::metadata(&lock).and_then(|it| it.modified());
            let age = age
                .ok()
                .and_then(|at| at.elapsed().ok())
                .unwrap_or_default();
            if age > STALE {
                let _ = fs::remove_dir(&lock);
            } else if start.elapsed() > PATIENCE {
                return Err(Problem::race());
            }
            sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}
