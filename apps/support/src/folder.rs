//! A folder of text files that no name leads out of and no link is followed from.
//!
//! Every file is opened relative to the folder's own descriptor, by one name without a slash, and never through a
//! symbolic link: what another program puts into the folder while the app runs cannot point the app elsewhere.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{self, AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;

/// Longest file name, in bytes: most file systems end at 255.
pub const MAX_NAME_BYTES: usize = 200;
/// Most names for the file that a text is written to before it gets its own. More exist only after as many crashes.
const MAX_ASIDE: u32 = 100;

/// A folder that was opened once.
#[derive(Debug)]
pub struct Folder {
    directory: OwnedFd,
}

/// The names of files, sorted.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Those that can be read.
    pub files: Vec<String>,
    /// How many have the extension and are no readable file: links, folders, names that are no text.
    pub skipped: usize,
}

/// A file's text and the time of its last change.
#[derive(Debug, PartialEq, Eq)]
pub struct Content {
    /// The whole file.
    pub text: String,
    /// In seconds since 1970.
    pub modified: i64,
}

/// Why a file could not be used. The messages never repeat a name or a text.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// No name of a file in this folder.
    #[error("this is not the name of a file in the folder")]
    BadName,
    /// No such file.
    #[error("there is no such file")]
    NotFound,
    /// A new file has the name of an old one.
    #[error("a file of this name exists")]
    Exists,
    /// A link, a folder, a pipe.
    #[error("this is not a plain file: links are not followed")]
    NotAFile,
    /// Longer than its limit.
    #[error("the file would have, or has, more than {0} bytes")]
    TooLarge(usize),
    /// Not UTF-8.
    #[error("the file is not UTF-8 text")]
    NotText,
    /// More files than are looked at.
    #[error("the folder has more than {0} files: move some elsewhere")]
    TooMany(usize),
    /// The file system reported an error.
    #[error("the folder could not be {action}: {kind}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// What the system said.
        kind: io::ErrorKind,
    },
}

impl FolderError {
    fn new(action: &'static str) -> impl Fn(Errno) -> FolderError {
        move |error| match error {
            Errno::NOENT => FolderError::NotFound,
            Errno::EXIST => FolderError::Exists,
            Errno::LOOP => FolderError::NotAFile,
            other => FolderError::Io {
                action,
                kind: other.kind(),
            },
        }
    }

    fn io(action: &'static str) -> impl Fn(io::Error) -> FolderError {
        move |error| FolderError::Io {
            action,
            kind: error.kind(),
        }
    }
}

impl Folder {
    /// Opens a folder.
    ///
    /// # Errors
    /// It does not exist, or is no folder.
    pub fn open(path: &Path) -> io::Result<Folder> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = fs::openat(CWD, path, flags, Mode::empty())?;
        Ok(Folder { directory })
    }

    /// The files whose name ends with `extension` (with its dot), at most `max`. Hidden files are none.
    ///
    /// # Errors
    /// More files than `max`, or the file system.
    pub fn names(&self, extension: &str, max: usize) -> Result<Names, FolderError> {
        let listed = FolderError::new("listed");
        let mut names = Names::default();
        for entry in Dir::read_from(&self.directory).map_err(&listed)? {
            let entry = entry.map_err(&listed)?;
            let name = entry.file_name();
            if name.to_bytes().starts_with(b".") || !name.to_bytes().ends_with(extension.as_bytes())
            {
                continue;
            }
            // Not every file system says in a listing what an entry is.
            let kind = match entry.file_type() {
                FileType::Unknown => fs::statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW)
                    .map_or(FileType::Unknown, |stat| {
                        FileType::from_raw_mode(stat.st_mode)
                    }),
                known => known,
            };
            match name.to_str() {
                Ok(name) if kind == FileType::RegularFile && is_file_name(name) => {
                    names.files.push(name.to_owned());
                }
                _ => names.skipped += 1,
            }
            if names.files.len() + names.skipped > max {
                return Err(FolderError::TooMany(max));
            }
        }
        names.files.sort_unstable();
        Ok(names)
    }

    /// A whole file of at most `max` bytes.
    ///
    /// # Errors
    /// A bad name, no such file, not a plain one, too long, no text, or the file system.
    pub fn read(&self, name: &str, max: usize) -> Result<Content, FolderError> {
        let read = FolderError::new("read");
        // Without NONBLOCK, opening a pipe would wait for its writer.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file =
            fs::openat(&self.directory, checked(name)?, flags, Mode::empty()).map_err(&read)?;
        let stat = fs::fstat(&file).map_err(&read)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(FolderError::NotAFile);
        }
        // One byte more than allowed tells a file that is too long from one that just fits, also while it grows.
        let limit = u64::try_from(max).unwrap_or(u64::MAX).saturating_add(1);
        let mut bytes = Vec::new();
        File::from(file)
            .take(limit)
            .read_to_end(&mut bytes)
            .map_err(FolderError::io("read"))?;
        if bytes.len() > max {
            return Err(FolderError::TooLarge(max));
        }
        Ok(Content {
            text: String::from_utf8(bytes).map_err(|_| FolderError::NotText)?,
            modified: stat.st_mtime,
        })
    }

    /// Writes a file that must not exist yet.
    ///
    /// # Errors
    /// A bad name, a file of this name, a text longer than `max`, or the file system.
    pub fn create(&self, name: &str, text: &str, max: usize) -> Result<(), FolderError> {
        self.write(checked(name)?, text, max, RenameFlags::NOREPLACE, None)
    }

    /// Puts another text into a file that exists, all of it or nothing.
    ///
    /// # Errors
    /// A bad name, no such file, not a plain one, a text longer than `max`, or the file system.
    pub fn replace(&self, name: &str, text: &str, max: usize) -> Result<(), FolderError> {
        let old = self.stat(checked(name)?)?;
        self.write(name, text, max, RenameFlags::empty(), Some(&old))
    }

    /// Deletes a file for good.
    ///
    /// # Errors
    /// A bad name, no such file, not a plain one, or the file system.
    pub fn delete(&self, name: &str) -> Result<(), FolderError> {
        // `unlinkat` would delete a link or a pipe as readily as a file.
        self.stat(checked(name)?)?;
        fs::unlinkat(&self.directory, name, AtFlags::empty()).map_err(FolderError::new("changed"))
    }

    /// What the system says of a plain file.
    fn stat(&self, name: &str) -> Result<Stat, FolderError> {
        let stat = fs::statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(FolderError::new("read"))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(stat),
            _ => Err(FolderError::NotAFile),
        }
    }

    /// Writes a hidden file aside and renames it, so that no reader and no crash ever sees half of a text. It has the
    /// permissions of the `old` file, and without one is the user's alone.
    fn write(
        &self,
        name: &str,
        text: &str,
        max: usize,
        flags: RenameFlags,
        old: Option<&Stat>,
    ) -> Result<(), FolderError> {
        if text.len() > max {
            return Err(FolderError::TooLarge(max));
        }
        let (aside, file) = self.aside()?;
        let permitted = old.map_or(Ok(()), |old| permit(&file, old));
        let result = permitted.and_then(|()| fill(file, text)).and_then(|()| {
            fs::renameat_with(&self.directory, &aside, &self.directory, name, flags)
                .map_err(FolderError::new("changed"))
        });
        if result.is_err() {
            // The first error is the one to tell; what stays behind is hidden and never read.
            let _ = fs::unlinkat(&self.directory, &aside, AtFlags::empty());
        }
        result?;
        // The name reaches the disk with its folder.
        fs::fsync(&self.directory).map_err(FolderError::new("changed"))
    }

    /// A new hidden file, which is the user's alone. Names that a crash left behind are passed over.
    fn aside(&self) -> Result<(String, File), FolderError> {
        let mode = Mode::RUSR | Mode::WUSR;
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        for n in 0..MAX_ASIDE {
            let name = format!(".write-{n}.tmp");
            match fs::openat(&self.directory, &name, flags, mode) {
                Ok(file) => return Ok((name, File::from(file))),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(FolderError::new("changed")(error)),
            }
        }
        Err(FolderError::Exists)
    }
}

/// Whether `name` is one component of a path and not hidden.
pub fn is_file_name(name: &str) -> bool {
    (1..=MAX_NAME_BYTES).contains(&name.len())
        && !name.starts_with('.')
        && !name.contains('/')
        && !name.chars().any(char::is_control)
}

fn checked(name: &str) -> Result<&str, FolderError> {
    is_file_name(name)
        .then_some(name)
        .ok_or(FolderError::BadName)
}

/// Gives a file the permissions of another one. They are set and not asked for when it is made, where the umask would
/// take some away.
fn permit(file: &File, old: &Stat) -> Result<(), FolderError> {
    let changed = FolderError::new("changed");
    let mut mode = old.st_mode & 0o777;
    // The new file may have another group, to which the old one's rights were never given: its members were others.
    if fs::fstat(file).map_err(&changed)?.st_gid != old.st_gid {
        mode = (mode & 0o707) | ((mode & 0o007) << 3);
    }
    fs::fchmod(file, Mode::from_raw_mode(mode)).map_err(&changed)
}

fn fill(mut file: File, text: &str) -> Result<(), FolderError> {
    file.write_all(text.as_bytes())
        .and_then(|()| file.sync_all())
        .map_err(FolderError::io("changed"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn folder() -> (tempfile::TempDir, Folder) {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("in")).unwrap();
        std::fs::write(home.path().join("secret.md"), "outside").unwrap();
        let folder = Folder::open(&home.path().join("in")).unwrap();
        (home, folder)
    }

    #[test]
    fn files_are_created_replaced_and_deleted() {
        let (home, folder) = folder();
        folder.create("a.md", "one", 10).unwrap();
        assert!(matches!(
            folder.create("a.md", "two", 10),
            Err(FolderError::Exists)
        ));
        assert_eq!(folder.read("a.md", 10).unwrap().text, "one");
        let path = home.path().join("in/a.md");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        folder.replace("a.md", "three", 10).unwrap();
        assert_eq!(folder.read("a.md", 10).unwrap().text, "three");
        assert_eq!(
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o640
        );
        assert!(matches!(
            folder.replace("b.md", "x", 10),
            Err(FolderError::NotFound)
        ));
        folder.delete("a.md").unwrap();
        assert!(matches!(
            folder.read("a.md", 10),
            Err(FolderError::NotFound)
        ));
        assert_eq!(
            std::fs::read_dir(home.path().join("in")).unwrap().count(),
            0
        );
    }

    #[test]
    fn a_new_text_has_the_permissions_of_the_old_one() {
        let (home, folder) = folder();
        let path = home.path().join("in/a.md");
        folder.create("a.md", "one", 10).unwrap();
        let mode = || std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode(), 0o600);
        // The second and the third have rights that the usual umask (022) takes away.
        for kept in [0o600, 0o664, 0o666, 0o640, 0o604] {
            std::fs::set_permissions(&path, PermissionsExt::from_mode(kept)).unwrap();
            folder.replace("a.md", "two", 10).unwrap();
            assert_eq!(mode(), kept, "{kept:o}");
        }
        // Where the text gets into another group, which only root can bring about here, that group has the rights that
        // it had among the others.
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o664)).unwrap();
        if std::os::unix::fs::chown(&path, None, Some(12_345)).is_ok() {
            folder.replace("a.md", "three", 10).unwrap();
            assert_eq!(mode(), 0o644);
        }
    }

    #[test]
    fn no_name_leads_out() {
        let (home, folder) = folder();
        let absolute = home.path().join("secret.md");
        for name in [
            "../secret.md",
            "..",
            ".",
            "",
            "/",
            "a/b",
            ".a",
            "a\0",
            "a\nb",
            absolute.to_str().unwrap(),
            &"a".repeat(201),
        ] {
            assert!(
                matches!(folder.read(name, 10), Err(FolderError::BadName)),
                "{name:?}"
            );
            assert!(
                matches!(folder.create(name, "", 10), Err(FolderError::BadName)),
                "{name:?}"
            );
            assert!(
                matches!(folder.replace(name, "", 10), Err(FolderError::BadName)),
                "{name:?}"
            );
            assert!(
                matches!(folder.delete(name), Err(FolderError::BadName)),
                "{name:?}"
            );
        }
        assert_eq!(std::fs::read_to_string(absolute).unwrap(), "outside");
    }

    #[test]
    fn links_folders_and_pipes_are_no_files() {
        let (home, folder) = folder();
        let inside = home.path().join("in");
        symlink(home.path().join("secret.md"), inside.join("link.md")).unwrap();
        symlink(home.path(), inside.join("up.md")).unwrap();
        std::fs::create_dir(inside.join("folder.md")).unwrap();
        fs::mkfifoat(CWD, inside.join("pipe.md"), Mode::from_raw_mode(0o600)).unwrap();
        for name in ["link.md", "up.md", "folder.md", "pipe.md"] {
            assert!(
                matches!(folder.read(name, 10), Err(FolderError::NotAFile)),
                "{name}"
            );
            assert!(
                matches!(folder.replace(name, "x", 10), Err(FolderError::NotAFile)),
                "{name}"
            );
            assert!(
                matches!(folder.create(name, "x", 10), Err(FolderError::Exists)),
                "{name}"
            );
            assert!(
                matches!(folder.delete(name), Err(FolderError::NotAFile)),
                "{name}"
            );
        }
        std::fs::write(inside.join("plain.md"), "x").unwrap();
        let names = folder.names(".md", 10).unwrap();
        assert_eq!(
            (names.files, names.skipped),
            (vec!["plain.md".to_owned()], 4)
        );
        assert_eq!(
            std::fs::read_to_string(home.path().join("secret.md")).unwrap(),
            "outside"
        );
    }

    #[test]
    fn sizes_and_counts_are_bounded() {
        let (home, folder) = folder();
        let inside = home.path().join("in");
        std::fs::write(inside.join("long.md"), "12345678901").unwrap();
        std::fs::write(inside.join("bytes.md"), [0xff]).unwrap();
        assert!(matches!(
            folder.read("long.md", 10),
            Err(FolderError::TooLarge(10))
        ));
        assert!(matches!(
            folder.read("bytes.md", 10),
            Err(FolderError::NotText)
        ));
        assert!(matches!(
            folder.replace("long.md", "12345678901", 10),
            Err(FolderError::TooLarge(10))
        ));
        assert!(matches!(
            folder.names(".md", 1),
            Err(FolderError::TooMany(1))
        ));
        // Left by a crash: not listed, not in the way.
        std::fs::write(inside.join(".write-0.tmp"), "half").unwrap();
        folder.create("new.md", "x", 10).unwrap();
        assert_eq!(
            folder.names(".md", 10).unwrap().files,
            ["bytes.md", "long.md", "new.md"]
        );
    }
}
