//! Which configurations of working folders the user trusts: one file for each, in the user's state
//! folder, with the SHA-256 of the configuration and of every file that it names.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::files::Files;
use crate::hex::hex;
use crate::paths;

/// The version of the form below.
const VERSION: u32 = 1;

/// One trusted configuration, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Trusted {
    version: u32,
    /// With its folder resolved.
    pub(crate) configuration: PathBuf,
    /// When, in RFC 3339.
    pub(crate) since: String,
    /// SHA-256 in hexadecimal by path: the configuration and every file that it names.
    files: BTreeMap<PathBuf, String>,
}

/// How a configuration stands with the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Exactly this content is trusted in this place.
    Trusted,
    /// Other content was. These files are different, new, or no longer named.
    Changed(Vec<PathBuf>),
    /// It never was.
    Unknown,
}

/// The folder of trusted configurations.
#[derive(Debug)]
pub(crate) struct TrustStore(PathBuf);

impl TrustStore {
    /// In the user's state folder.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn of_user() -> Result<Self> {
        Ok(Self(paths::state()?.join("trust")))
    }

    /// How a configuration with these files stands.
    ///
    /// # Errors
    /// What is kept of it cannot be read, or others could have written it.
    pub(crate) fn standing(&self, configuration: &Path, files: &Files) -> Result<Standing> {
        Ok(match self.find(configuration)? {
            None => Standing::Unknown,
            Some(trusted) => compare(&trusted.files, &files.digests()),
        })
    }

    /// As [`TrustStore::standing`], from the configuration's own file alone.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn standing_of_root(&self, configuration: &Path, root: &Files) -> Result<Standing> {
        Ok(match self.find(configuration)? {
            None => Standing::Unknown,
            Some(mut trusted) => {
                // Nothing else has been read yet, and would count as no longer named.
                trusted.files.retain(|path, _| path == configuration);
                compare(&trusted.files, &root.digests())
            }
        })
    }

    /// Trusts a configuration with this content from now on.
    ///
    /// # Errors
    /// It cannot be kept: the folder cannot be written, or a path is not UTF-8.
    pub(crate) fn trust(&self, configuration: &Path, files: &Files) -> Result<()> {
        let trusted = Trusted {
            version: VERSION,
            configuration: configuration.to_owned(),
            since: jiff::Timestamp::now()
                .strftime("%Y-%m-%dT%H:%M:%SZ")
                .to_string(),
            files: files.digests(),
        };
        let text = serde_json::to_vec_pretty(&trusted)
            .context("a configuration is trusted by its path, and this one is not UTF-8")?;
        self.write(&self.entry(configuration), &text)
            .with_context(|| format!("cannot write to {}", self.0.display()))
    }

    /// Every trusted configuration, by path, each with how it stands now.
    ///
    /// # Errors
    /// The folder or one of its files cannot be read.
    pub(crate) fn all(&self) -> Result<Vec<(Trusted, Standing)>> {
        let entries = match fs::read_dir(&self.0) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", self.0.display()));
            }
        };
        let mut all = Vec::new();
        for entry in entries {
            let path = entry?.path();
            // Other files are being written, or were left by a crash.
            if path
                .extension()
                .is_some_and(|extension| extension == "json")
            {
                let trusted = read(&path)?;
                let standing = now(&trusted);
                all.push((trusted, standing));
            }
        }
        all.sort_by(|(a, _), (b, _)| a.configuration.cmp(&b.configuration));
        Ok(all)
    }

    /// Ends the trust in a configuration. Whether there was any.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub(crate) fn revoke(&self, configuration: &Path) -> Result<bool> {
        let entry = self.entry(configuration);
        match fs::remove_file(&entry) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error).with_context(|| format!("cannot remove {}", entry.display())),
        }
    }

    /// One file for each configuration: nothing has to be read, changed and written back, so two
    /// programs at once cannot lose each other's entry.
    fn entry(&self, configuration: &Path) -> PathBuf {
        let digest = Sha256::digest(configuration.as_os_str().as_encoded_bytes());
        self.0.join(format!("{}.json", hex(&digest)))
    }

    fn find(&self, configuration: &Path) -> Result<Option<Trusted>> {
        let entry = self.entry(configuration);
        if !entry.try_exists()? {
            return Ok(None);
        }
        let trusted = read(&entry)?;
        // The file's name is only a digest. What was trusted is what stands inside, wherever the file was copied from.
        Ok(Some(trusted).filter(|trusted| trusted.configuration == configuration))
    }

    /// Written beside and renamed: whoever reads sees the old content or the new one.
    fn write(&self, entry: &Path, text: &[u8]) -> io::Result<()> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.0)?;
        if !is_own(&fs::metadata(&self.0)?) {
            let reason = "others than you can write to it; run `chmod 700` on it if it is yours";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
        }
        // Made for the owner alone (0600).
        let mut file = tempfile::NamedTempFile::new_in(&self.0)?;
        file.write_all(text)?;
        file.as_file().sync_all()?;
        file.persist(entry).map_err(|error| error.error)?;
        // A rename outlives a crash only once its folder is written.
        File::open(&self.0)?.sync_all()
    }
}

fn read(entry: &Path) -> Result<Trusted> {
    let checked = || -> Result<Trusted> {
        // Of a link itself, which is then refused as no file, wherever it leads.
        let found = fs::symlink_metadata(entry)?;
        // Who can write to its folder could exchange the file between this check and the reading.
        let folder = entry.parent().unwrap_or(entry);
        if !found.is_file()
            || !is_own(&found)
            || !is_own(&fs::metadata(folder).context("its folder")?)
        {
            bail!("others than you could have written it");
        }
        let trusted: Trusted = serde_json::from_slice(&fs::read(entry)?)?;
        if trusted.version != VERSION {
            bail!("it is of version {}", trusted.version);
        }
        Ok(trusted)
    };
    checked().with_context(|| {
        format!(
            "what is trusted cannot be read from {}; remove it and run `sluice trust`",
            entry.display()
        )
    })
}

/// Whether it belongs to this user, and nobody else may write to it.
fn is_own(found: &fs::Metadata) -> bool {
    found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o022 == 0
}

fn compare(trusted: &BTreeMap<PathBuf, String>, found: &BTreeMap<PathBuf, String>) -> Standing {
    // Both ways: a file that is newly named was never trusted, and one that is no longer named was part of what was.
    let paths = trusted.keys().chain(found.keys());
    let differ = paths.filter(|path| trusted.get(*path) != found.get(*path));
    let mut changed: Vec<PathBuf> = differ.cloned().collect();
    changed.sort();
    changed.dedup();
    match changed.is_empty() {
        true => Standing::Trusted,
        false => Standing::Changed(changed),
    }
}

/// How it stands as far as its files tell. That it names another file now shows when it is loaded.
fn now(trusted: &Trusted) -> Standing {
    let files = Files::default();
    for path in trusted.files.keys() {
        // A file that is gone is one that changed.
        let _ = files.remember(path);
    }
    compare(&trusted.files, &files.digests())
}
