//! Which configurations of working folders the user trusts: a file in the user's state folder, with the SHA-256 of each
//! configuration and of every file that it names.

use std::collections::{BTreeMap, BTreeSet};
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
    /// This content is trusted in this place.
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
            // The other files have not been read yet.
            trusted.files.retain(|path, _| path == configuration);
            compare(&trusted.files, &root.digests())
        }))
    }

    /// Trusts a configuration with this content.
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
    pub(crate) fn all(&self) -> Result<Vec<(PathBuf, Trusted, Standing)>> {
        let with_standing = |(path, trusted): (PathBuf, Trusted)| {
            let standing = now(&trusted);
            (path, trusted, standing)
        };
        Ok(self.read()?.into_iter().map(with_standing).collect())
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
    // Both ways: a new file was never trusted, and a file that is no longer named was trusted with the others.
    let paths: BTreeSet<&PathBuf> = trusted.keys().chain(found.keys()).collect();
    let differ = paths
        .into_iter()
        .filter(|path| trusted.get(*path) != found.get(*path));
    let changed: Vec<PathBuf> = differ.cloned().collect();
    match changed.is_empty() {
        true => Standing::Trusted,
        false => Standing::Changed(changed),
    }
}

/// The standing by the files that were trusted. A newly named file is found when the configuration is loaded.
fn now(trusted: &Trusted) -> Standing {
    let files = Files::default();
    for path in trusted.files.keys() {
        // A file that is gone has changed.
        let _ = files.remember(path);
    }
    compare(&trusted.files, &files.digests())
}
