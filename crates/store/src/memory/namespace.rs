//! Namespaces of memories.

use std::fmt;

use crate::{Apps, BadName, Identity, Name};

/// A namespace of memories (SecGPT §4.1.3, §4.2.4): the hub's, or that of apps' spokes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Namespace {
    /// The hub's.
    Hub,
    /// That of conversations with these apps together, at least one. Identities count: another app of the same name has
    /// another namespace.
    Apps(Apps),
}

const HUB: &str = "hub";

/// Prefix of the keys of apps' namespaces, so that no app is the hub.
const APPS: &str = "apps:";

/// Between apps in a key. No name has control characters.
const LINE: &str = "\n";

impl Namespace {
    /// The names of its apps; none for the hub's.
    pub fn names(&self) -> Vec<&str> {
        match self {
            Self::Hub => Vec::new(),
            Self::Apps(apps) => apps.keys().map(Name::as_str).collect(),
        }
    }

    /// Whether it is of some of these apps and no others, by their identities.
    pub fn is_of(&self, apps: &Apps) -> bool {
        match self {
            Self::Apps(own) => {
                (own.iter()).all(|(name, identity)| apps.get(name) == Some(identity))
            }
            Self::Hub => false,
        }
    }

    pub(crate) fn key(&self) -> String {
        match self {
            Self::Hub => HUB.to_owned(),
            Self::Apps(apps) => {
                let apps = apps.iter().map(|(name, own)| format!("{own} {name}"));
                format!("{APPS}{}", apps.collect::<Vec<_>>().join(LINE))
            }
        }
    }

    /// The namespace with that key.
    pub(crate) fn from_key(key: &str) -> Result<Self, BadName> {
        if key == HUB {
            return Ok(Self::Hub);
        }
        let apps = key.strip_prefix(APPS).ok_or(BadName)?.split(LINE);
        let apps = apps.map(|app| {
            let (identity, name) = app.split_once(' ').ok_or(BadName)?;
            let identity = Identity::from_hex(identity).ok_or(BadName)?;
            Ok((Name::new(name)?, identity))
        });
        let apps = Self::Apps(apps.collect::<Result<_, _>>()?);
        // Another order or spelling would be a second key of the same namespace.
        (apps.key() == key).then_some(apps).ok_or(BadName)
    }
}

/// The names that the user knows: `hub`, or `calendar+mail`.
impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hub => f.write_str(HUB),
            Self::Apps(_) => f.write_str(&self.names().join("+")),
        }
    }
}
