//! Checks that a file and its folder belong to this user, and that no other user has access.

use std::fs::{self, DirBuilder, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::error::{DatabaseError, DatabaseFault};

/// Permission bits of the group and of others.
const OTHERS: u32 = 0o077;

/// Suffixes of the files that SQLite puts beside a file.
const BESIDE: [&str; 3] = ["-wal", "-shm", "-journal"];

/// Creates the folder and the file if they are missing, checks both, and returns the path without symbolic links.
pub(super) fn prepare(path: &Path) -> Result<PathBuf, DatabaseError> {
    let Some((name, folder)) = path.file_name().zip(path.parent()) else {
        let remedy = "name a file in a folder";
        return Err(refused(path, "this names no file", remedy));
    };
    let folder = match folder.as_os_str().is_empty() {
        true => Path::new("."),
        false => folder,
    };
    let created = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    created.map_err(|error| io_error(folder, error))?;
    check_folder(folder)?;
    // The real path: SQLite is told to follow no links.
    let folder = fs::canonicalize(folder).map_err(|error| io_error(folder, error))?;
    let path = folder.join(name);
    // SQLite would create it with the umask's rights for others.
    let created = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path);
    match created {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(io_error(&path, error)),
    }
    check_file(&path)?;
    // These hold the same texts.
    for suffix in BESIDE {
        let mut beside = path.clone().into_os_string();
        beside.push(suffix);
        match check_file(Path::new(&beside)) {
            Err(DatabaseError {
                fault: DatabaseFault::Io(error),
                ..
            }) if error.kind() == io::ErrorKind::NotFound => {}
            checked => checked?,
        }
    }
    Ok(path)
}

fn check_folder(folder: &Path) -> Result<(), DatabaseError> {
    let metadata = fs::symlink_metadata(folder).map_err(|error| io_error(folder, error))?;
    if !metadata.is_dir() {
        let remedy = "name the folder itself, not a link to it";
        return Err(refused(folder, "the folder is a link or no folder", remedy));
    }
    check_owner(folder, &metadata, 0o700)
}

fn check_file(path: &Path) -> Result<(), DatabaseError> {
    // Does not follow a link.
    let metadata = fs::symlink_metadata(path).map_err(|error| io_error(path, error))?;
    if !metadata.is_file() {
        let remedy = "remove it, or choose another path";
        return Err(refused(path, "it is a link or no plain file", remedy));
    }
    // SQLite names the log after the file: under two names a file would have two logs.
    if metadata.nlink() > 1 {
        let remedy = "remove its other names (find -samefile shows them)";
        return Err(refused(path, "the file has a second name", remedy));
    }
    check_owner(path, &metadata, 0o600)
}

fn check_owner(path: &Path, metadata: &Metadata, mode: u32) -> Result<(), DatabaseError> {
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        let remedy = "choose a folder of your own";
        return Err(refused(path, "it belongs to another user", remedy));
    }
    if metadata.mode() & OTHERS != 0 {
        let remedy = format!("run `chmod {mode:o} {}`", path.display());
        return Err(refused(path, "other users have access to it", remedy));
    }
    Ok(())
}

fn refused(path: &Path, reason: &'static str, remedy: impl Into<String>) -> DatabaseError {
    DatabaseFault::Unsafe(reason, remedy.into()).of(path)
}

fn io_error(path: &Path, error: io::Error) -> DatabaseError {
    DatabaseFault::Io(error).of(path)
}
