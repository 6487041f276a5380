//! Files that only the user can read or write, in a folder that is so too: secrets, logins, trust.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use rustix::fs::{FlockOperation, flock};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

const MAX_FILE: u64 = 4 << 20;
/// The form of the files.
const VERSION: u32 = 1;

/// A JSON file of the user's alone.
pub(crate) struct PrivateFile {
    folder: PathBuf,
    name: &'static str,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Contents<T> {
    version: u32,
    secrets: T,
}

impl PrivateFile {
    /// The file of this name in this folder. Neither needs to be there.
    pub(crate) fn new(folder: PathBuf, name: &'static str) -> Self {
        Self { folder, name }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.join(self.name)
    }

    /// Its content; the default if it is not there.
    pub(crate) fn read<T: DeserializeOwned + Default>(&self) -> Result<T> {
        let file = self.path();
        let read = || -> Result<T> {
            let found = match fs::symlink_metadata(&file) {
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(T::default()),
                found => found?,
            };
            check(&self.folder, &fs::symlink_metadata(&self.folder)?, 0o700)?;
            // The folder first: with access to it, others could replace the file between this check and the reading.
            check(&file, &found, 0o600)?;
            if !found.is_file() || found.len() > MAX_FILE {
                bail!("it is not a regular file, or longer than 4 MiB");
            }
            // The reason of the parser would quote the text.
            let contents: Contents<T> =
                serde_json::from_slice(&fs::read(&file)?).map_err(|_| anyhow!("it is damaged"))?;
            if contents.version != VERSION {
                bail!(
                    "its version is {}, and this program reads version 1",
                    contents.version
                );
            }
            Ok(contents.secrets)
        };
        read().with_context(|| format!("{} cannot be read", file.display()))
    }

    /// Reads, changes and writes under a lock, so that two programs at once lose nothing. The new content is renamed into
    /// place, so a reader sees the old or the new one.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut T)) -> Result<()>
    where
        T: Serialize + DeserializeOwned + Default,
    {
        let folder = self.open_folder()?;
        // The folder is locked, because a lock on the file would be lost when the file is replaced.
        flock(&folder, FlockOperation::LockExclusive)?;
        let mut secrets: T = self.read()?;
        change(&mut secrets);
        let contents = Contents {
            version: VERSION,
            secrets,
        };
        let text = serde_json::to_vec(&contents)?;
        // A longer file could not be read again.
        if text.len() as u64 > MAX_FILE {
            bail!(
                "{} would exceed 4 MiB; nothing was saved",
                self.path().display()
            );
        }
        // Its mode is 0600.
        let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
        file.write_all(&text)?;
        file.as_file().sync_all()?;
        file.persist(self.path()).map_err(|error| error.error)?;
        // The rename survives a crash once the folder is written.
        Ok(folder.sync_all()?)
    }

    /// Waits for a lock of this name. It is held until the returned file is dropped, and does not block changes.
    pub(crate) fn lock(&self, name: &str) -> Result<File> {
        self.open_folder()?;
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(self.folder.join(format!("{name}.lock")))?;
        flock(&file, FlockOperation::LockExclusive)?;
        Ok(file)
    }

    fn open_folder(&self) -> Result<File> {
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&self.folder)?;
        check(&self.folder, &fs::symlink_metadata(&self.folder)?, 0o700)?;
        Ok(File::open(&self.folder)?)
    }
}

fn check(path: &Path, found: &fs::Metadata, mode: u32) -> Result<()> {
    if found.is_symlink() {
        bail!(
            "{} is a link, so who can write its target is unknown; replace the link by its target",
            path.display()
        );
    }
    if found.uid() != rustix::process::geteuid().as_raw() || found.mode() & 0o077 != 0 {
        bail!(
            "other users have access to it; if it is yours, run `chmod {mode:o} {}`",
            path.display()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn file() -> (tempfile::TempDir, PrivateFile) {
        let folder = tempfile::tempdir().unwrap();
        let file = PrivateFile::new(folder.path().join("data/secrets"), "words.json");
        (folder, file)
    }

    fn add(file: &PrivateFile, word: &str) -> Result<()> {
        file.change(|all: &mut BTreeSet<String>| {
            all.insert(word.to_owned());
        })
    }

    fn words(file: &PrivateFile) -> Result<BTreeSet<String>> {
        file.read()
    }

    #[test]
    fn the_file_is_the_users_alone() {
        let (_folder, file) = file();
        add(&file, "abc-123").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&file.folder), mode(&file.path())), (0o700, 0o600));
        for path in [file.path(), file.folder.clone()] {
            let before = fs::metadata(&path).unwrap().permissions();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o744)).unwrap();
            assert!(words(&file).is_err(), "{}", path.display());
            assert!(add(&file, "def-456").is_err());
            fs::set_permissions(&path, before).unwrap();
        }
        assert_eq!(words(&file).unwrap().len(), 1);
    }

    /// `chmod` would act on the target of a link.
    #[test]
    fn a_link_is_refused_as_one() {
        let (_folder, file) = file();
        add(&file, "abc-123").unwrap();
        for path in [file.path(), file.folder.clone()] {
            let elsewhere = path.with_extension("moved");
            fs::rename(&path, &elsewhere).unwrap();
            std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
            let error = format!("{:#}", words(&file).unwrap_err());
            assert!(
                error.contains("is a link") && !error.contains("chmod"),
                "{error}"
            );
            fs::remove_file(&path).unwrap();
            fs::rename(&elsewhere, &path).unwrap();
        }
        assert_eq!(words(&file).unwrap().len(), 1);
    }

    #[test]
    fn two_programs_at_once_lose_nothing() {
        let (_folder, file) = file();
        std::thread::scope(|scope| {
            for name in 0..8 {
                let file = &file;
                scope.spawn(move || add(file, &format!("word-{name}")).unwrap());
            }
        });
        assert_eq!(words(&file).unwrap().len(), 8);
    }

    #[test]
    fn what_could_not_be_read_again_is_not_written() {
        let (_folder, file) = file();
        add(&file, "abc").unwrap();
        let long = "x".repeat(usize::try_from(MAX_FILE).unwrap());
        let error = add(&file, &long).unwrap_err().to_string();
        assert!(error.contains("would exceed 4 MiB"), "{error}");
        assert_eq!(words(&file).unwrap().len(), 1);
    }

    #[test]
    fn a_lock_is_held_by_one_at_a_time() {
        let (_folder, file) = file();
        let held = file.lock("a").unwrap();
        // Another one, and the content, are not in its way.
        drop(file.lock("b").unwrap());
        add(&file, "abc").unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| file.lock("a").unwrap());
            std::thread::sleep(std::time::Duration::from_millis(50));
            assert!(!waiting.is_finished());
            drop(held);
            waiting.join().unwrap();
        });
    }
}
