//! Which configurations of working folders the user trusts: a file in the user's state folder, with the SHA-256 of
//! each configuration and of every file that it names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::files::Files;
use crate::paths;
use crate::private_file::PrivateFile;

/// One trusted configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Trusted {
    /// When, in RFC 3339.
    pub(crate) since: String,
    /// SHA-256 in hexadecimal by path: the configuration and every file that it names.
    files: BTreeMap<PathBuf, String>,
}

/// By the path of the configuration, with its folder resolved.
type All = BTreeMap<PathBuf, Trusted>;

/// Whether a configuration is trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Exactly this content is trusted in this place.
    Trusted,
    /// Other content was. These files are different, new, or no longer named.
    Changed(Vec<PathBuf>),
    /// It never was.
    Unknown,
}

/// The trusted configurations.
pub(crate) struct TrustStore(PrivateFile);

impl TrustStore {
    /// In the user's state folder.
    pub(crate) fn of_user() -> Result<Self> {
        let folder = paths::state()?.join("trust");
        Ok(Self(PrivateFile::new(folder, "trusted.json")))
    }

    /// Whether a configuration with these files is trusted.
    ///
    /// # Errors
    /// The file cannot be read, or others could have written it.
    pub(crate) fn standing(&self, configuration: &Path, files: &Files) -> Result<Standing> {
        let trusted = self.read()?.remove(configuration);
        Ok(trusted.map_or(Standing::Unknown, |trusted| {
            compare(&trusted.files, &files.digests())
        }))
    }

    /// As [`TrustStore::standing`], from the configuration's own file alone.
    pub(crate) fn standing_of_root(&self, configuration: &Path, root: &Files) -> Result<Standing> {
        let trusted = self.read()?.remove(configuration);
        Ok(trusted.map_or(Standing::Unknown, |mut trusted| {
            // Nothing else has been read yet, and would count as no longer named.
            trusted.files.retain(|path, _| path == configuration);
            compare(&trusted.files, &root.digests())
        }))
    }

    /// Trusts a configuration with this content from now on.
    ///
    /// # Errors
    /// The file cannot be written, or a path is not UTF-8.
    pub(crate) fn trust(&self, configuration: &Path, files: &Files) -> Result<()> {
        let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ");
        let trusted = Trusted {
            since: now.to_string(),
            files: files.digests(),
        };
        let change = |all: &mut All| drop(all.insert(configuration.to_owned(), trusted));
        self.0.change(change).context("the trust cannot be saved")
    }

    /// Every trusted configuration, by path, with its standing now.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn all(&self) -> Result<Vec<(PathBuf, Trusted, Standing)>> {
        let all = self.read()?.into_iter();
        let all = all.map(|(path, trusted)| {
            let standing = now(&trusted);
            (path, trusted, standing)
        });
        Ok(all.collect())
    }

    /// Ends the trust in a configuration. False if there was none.
    pub(crate) fn revoke(&self, configuration: &Path) -> Result<bool> {
        let mut was_trusted = false;
        let change = |all: &mut All| was_trusted = all.remove(configuration).is_some();
        self.0.change(change)?;
        Ok(was_trusted)
    }

    fn read(&self) -> Result<All> {
        (self.0.read()).context("remove the file and run `sluice trust` again")
    }
}

fn compare(trusted: &BTreeMap<PathBuf, String>, found: &BTreeMap<PathBuf, String>) -> Standing {
    // Both ways: a newly named file was never trusted, and one that is no longer named was part of what was.
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

/// The standing as far as the known files tell. A newly named file shows when the configuration is loaded.
fn now(trusted: &Trusted) -> Standing {
    let files = Files::default();
    for path in trusted.files.keys() {
        // A file that is gone has changed.
        let _ = files.remember(path);
    }
    compare(&trusted.files, &files.digests())
}
