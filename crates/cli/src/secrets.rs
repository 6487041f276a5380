//! The user's secrets: values for headers, each for one server. A file that only the user can read.
//!
//! Not the desktop's keyring: its client needs dozens of crates, servers have none, and an unlocked keyring gives its
//! secrets to every process of the user, as this file does. No spoke sees either.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use anyhow::{Result, bail};
use names::Origin;
use serde::{Deserialize, Serialize};

use crate::paths;
use crate::private_file::PrivateFile;

/// Longest value: a token that carries claims has a few thousand bytes.
const MAX_VALUE: usize = 16 << 10;

/// A value that is never shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Value(String);

impl Value {
    /// A value that can be in a header. An error does not quote it.
    pub(crate) fn new(text: String) -> Result<Self> {
        // A line break would begin another header.
        let visible = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        if text.trim().is_empty() || text.len() > MAX_VALUE || !visible {
            bail!(
                "a secret is one line of 1 to {MAX_VALUE} visible ASCII characters; nothing was saved"
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

/// The file.
pub(crate) struct Secrets(PrivateFile);

impl Secrets {
    /// The user's.
    pub(crate) fn of_user() -> Result<Self> {
        Ok(Self(PrivateFile::new(folder()?, "secrets.json")))
    }

    /// All of them, by name.
    pub(crate) fn all(&self) -> Result<BTreeMap<String, Secret>> {
        self.0.read()
    }

    /// Saves a secret, in place of one with the same name.
    pub(crate) fn set(&self, name: &str, origin: &Origin, value: Value) -> Result<()> {
        self.0.change(|all: &mut BTreeMap<_, _>| {
            let secret = Secret {
                origin: origin.to_string(),
                value,
                since: jiff::Timestamp::now().strftime("%Y-%m-%d").to_string(),
            };
            all.insert(name.to_owned(), secret);
        })
    }

    /// Deletes a secret. Whether there was one.
    pub(crate) fn remove(&self, name: &str) -> Result<bool> {
        let mut removed = false;
        let change = |all: &mut BTreeMap<String, Secret>| removed = all.remove(name).is_some();
        self.0.change(change)?;
        Ok(removed)
    }

    /// The value of a secret for this server. A secret for another server is an error.
    pub(crate) fn value(&self, name: &str, origin: &Origin) -> Result<Value> {
        let remedy = format!("set it with `sluice secret set {name} --for {origin}`");
        let Some(secret) = self.all()?.remove(name) else {
            bail!("there is no secret '{name}'; {remedy}");
        };
        if secret.origin != origin.as_str() {
            bail!(
                "the secret '{name}' is for {} and is not sent to {origin}; {remedy}",
                secret.origin
            );
        }
        Ok(secret.value)
    }
}

/// The folder of secrets and logins, which no app may read.
pub(crate) fn folder() -> Result<PathBuf> {
    Ok(paths::data()?.join("secrets"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn origin(text: &str) -> Origin {
        Origin::new(text).unwrap()
    }

    fn value(text: &str) -> Value {
        Value::new(text.to_owned()).unwrap()
    }

    fn store() -> (tempfile::TempDir, Secrets) {
        let folder = tempfile::tempdir().unwrap();
        let folder_of_secrets = folder.path().join("data/secrets");
        let secrets = Secrets(PrivateFile::new(folder_of_secrets, "secrets.json"));
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
    fn no_value_is_shown() {
        let (_folder, secrets) = store();
        secrets
            .set("a", &origin("https://api.example.org"), value("abc-123"))
            .unwrap();
        assert!(!format!("{:?}", secrets.all().unwrap()).contains("abc"));
        fs::write(secrets.0.path(), "{\"abc-123\": 1").unwrap();
        let error = format!("{:#}", secrets.all().unwrap_err());
        assert!(
            error.contains("damaged") && !error.contains("abc"),
            "{error}"
        );
        for wrong in ["", "  ", "a\nb", "ü", &"x".repeat(MAX_VALUE + 1)] {
            let error = Value::new(wrong.to_owned()).unwrap_err().to_string();
            assert!(error.starts_with("a secret is one line"), "{error}");
        }
    }
}
