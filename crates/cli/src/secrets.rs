//! The user's secrets: values for headers, each for one server. A file that only the user can read.
//!
//! Not the desktop's keyring: its client needs a D-Bus stack of dozens of crates in the hub, there is none on a server, and
//! an unlocked keyring gives its secrets to every process of the user, as this file does. No spoke sees either.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, DirBuilder, File};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use names::Origin;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::paths;

/// Longest value: a token that carries claims has a few thousand bytes.
const MAX_VALUE: usize = 16 << 10;
/// Longest file.
const MAX_FILE: u64 = 4 << 20;
/// The form of the file.
const VERSION: u32 = 1;

/// A value that is never shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Value(String);

impl Value {
    /// A value that can stand in a header.
    ///
    /// # Errors
    /// It cannot; it is not quoted.
    pub(crate) fn new(text: String) -> Result<Self> {
        let visible = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        if text.trim().is_empty() || text.len() > MAX_VALUE || !visible {
            bail!(
                "a secret has between 1 and {MAX_VALUE} visible letters of ASCII, in one line; this one was not kept"
            );
        }
        Ok(Self(text))
    }

    /// The value, to be sent.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// A secret, and the server that it is for.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Secret {
    /// Scheme, host and port.
    pub(crate) origin: String,
    pub(crate) value: Value,
    /// When it was set.
    pub(crate) since: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Contents {
    version: u32,
    secrets: BTreeMap<String, Secret>,
}

/// The file.
pub(crate) struct Secrets(PathBuf);

impl Secrets {
    /// The user's.
    ///
    /// # Errors
    /// There is no home.
    pub(crate) fn of_user() -> Result<Self> {
        Ok(Self(folder()?))
    }

    /// All of them, by name.
    ///
    /// # Errors
    /// The file is damaged, or others than the user could read or have written it.
    pub(crate) fn all(&self) -> Result<BTreeMap<String, Secret>> {
        let file = self.file();
        let read = || -> Result<BTreeMap<String, Secret>> {
            let found = match fs::symlink_metadata(&file) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    return Ok(BTreeMap::new());
                }
                found => found?,
            };
            check(&self.0, &fs::symlink_metadata(&self.0)?, 0o700)?;
            check(&file, &found, 0o600)?;
            if !found.is_file() || found.len() > MAX_FILE {
                bail!("it is no file of secrets");
            }
            // The reason would quote the text.
            let contents: Contents = serde_json::from_slice(&fs::read(&file)?)
                .map_err(|_| anyhow::anyhow!("it is damaged"))?;
            if contents.version != VERSION {
                bail!("it is of version {}", contents.version);
            }
            Ok(contents.secrets)
        };
        read().with_context(|| format!("your secrets in {} cannot be read", file.display()))
    }

    /// Keeps a secret, in the place of one with the same name.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn set(&self, name: &str, origin: &Origin, value: Value) -> Result<()> {
        self.change(|all| {
            let secret = Secret {
                origin: origin.to_string(),
                value,
                since: jiff::Timestamp::now().strftime("%Y-%m-%d").to_string(),
            };
            all.insert(name.to_owned(), secret);
        })
    }

    /// Forgets a secret. Whether there was one.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn remove(&self, name: &str) -> Result<bool> {
        let mut removed = false;
        self.change(|all| removed = all.remove(name).is_some())?;
        Ok(removed)
    }

    /// The value of a secret for this server.
    ///
    /// # Errors
    /// There is none of this name, or it is for another server.
    pub(crate) fn value(&self, name: &str, origin: &Origin) -> Result<Value> {
        let remedy = format!("`sluice secret set {name} --for {origin}` sets it");
        let Some(secret) = self.all()?.remove(name) else {
            bail!("there is no secret '{name}'; {remedy}");
        };
        if secret.origin != origin.as_str() {
            bail!(
                "the secret '{name}' is for {} and is not sent to {origin}; {remedy} anew",
                secret.origin
            );
        }
        Ok(secret.value)
    }

    fn file(&self) -> PathBuf {
        self.0.join("secrets.json")
    }

    /// Reads, changes and writes under a lock, so that two programs at once lose nothing. Written beside and renamed:
    /// whoever reads sees the old content or the new one.
    fn change(&self, change: impl FnOnce(&mut BTreeMap<String, Secret>)) -> Result<()> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.0)?;
        check(&self.0, &fs::symlink_metadata(&self.0)?, 0o700)?;
        let folder = File::open(&self.0)?;
        flock(&folder, FlockOperation::LockExclusive)?;
        let mut secrets = self.all()?;
        change(&mut secrets);
        let contents = Contents {
            version: VERSION,
            secrets,
        };
        // Made for the owner alone (0600).
        let mut file = tempfile::NamedTempFile::new_in(&self.0)?;
        file.write_all(&serde_json::to_vec(&contents)?)?;
        file.as_file().sync_all()?;
        file.persist(self.file()).map_err(|error| error.error)?;
        Ok(folder.sync_all()?)
    }
}

/// The folder of the file, which no app may read.
///
/// # Errors
/// There is no home.
pub(crate) fn folder() -> Result<PathBuf> {
    Ok(paths::data()?.join("secrets"))
}

fn check(path: &Path, found: &fs::Metadata, mode: u32) -> Result<()> {
    if found.uid() != rustix::process::geteuid().as_raw() || found.mode() & 0o077 != 0 {
        bail!(
            "others than you have access to it; run `chmod {mode:o} {}` if it is yours",
            path.display()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn origin(text: &str) -> Origin {
        Origin::new(text).unwrap()
    }

    fn value(text: &str) -> Value {
        Value::new(text.to_owned()).unwrap()
    }

    fn store() -> (tempfile::TempDir, Secrets) {
        let folder = tempfile::tempdir().unwrap();
        let secrets = Secrets(folder.path().join("data/secrets"));
        (folder, secrets)
    }

    #[test]
    fn a_secret_is_for_one_server() {
        let (_folder, secrets) = store();
        let server = origin("https://api.example.org/mcp");
        secrets.set("github", &server, value("abc-123")).unwrap();
        let found = secrets.value("github", &server).unwrap();
        assert_eq!(found.reveal(), "abc-123");
        for other in [
            "https://example.org",
            "https://api.example.org:8443",
            "http://127.0.0.1",
        ] {
            let error = secrets.value("github", &origin(other)).unwrap_err();
            let error = error.to_string();
            assert!(error.contains("is not sent to") && !error.contains("abc"));
        }
        assert!(secrets.value("gitlab", &server).is_err());
        assert!(secrets.remove("github").unwrap());
        assert!(!secrets.remove("github").unwrap());
        assert!(secrets.value("github", &server).is_err());
    }

    #[test]
    fn the_file_is_the_users_alone() {
        let (_folder, secrets) = store();
        let server = origin("https://api.example.org");
        secrets.set("a", &server, value("abc-123")).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&secrets.0), mode(&secrets.file())), (0o700, 0o600));
        for path in [secrets.file(), secrets.0.clone()] {
            let before = fs::metadata(&path).unwrap().permissions();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o744)).unwrap();
            assert!(secrets.all().is_err(), "{}", path.display());
            assert!(secrets.set("b", &server, value("def-456")).is_err());
            fs::set_permissions(&path, before).unwrap();
        }
        assert_eq!(secrets.all().unwrap().len(), 1);
    }

    #[test]
    fn no_value_is_shown() {
        let (_folder, secrets) = store();
        secrets
            .set("a", &origin("https://api.example.org"), value("abc-123"))
            .unwrap();
        assert!(!format!("{:?}", secrets.all().unwrap()).contains("abc"));
        fs::write(secrets.file(), "{\"abc-123\": 1").unwrap();
        let error = format!("{:#}", secrets.all().unwrap_err());
        assert!(
            error.contains("damaged") && !error.contains("abc"),
            "{error}"
        );
        for wrong in ["", "  ", "a\nb", "ü", &"x".repeat(MAX_VALUE + 1)] {
            let error = Value::new(wrong.to_owned()).unwrap_err().to_string();
            assert!(error.starts_with("a secret has between"), "{error}");
        }
    }

    #[test]
    fn two_programs_at_once_lose_nothing() {
        let (_folder, secrets) = store();
        let server = origin("https://api.example.org");
        std::thread::scope(|scope| {
            for name in 0..8 {
                let (secrets, server) = (&secrets, &server);
                scope.spawn(move || {
                    secrets
                        .set(&format!("s{name}"), server, value("abc-123"))
                        .unwrap();
                });
            }
        });
        assert_eq!(secrets.all().unwrap().len(), 8);
    }
}
