//! Entries and heads, as they are written and read.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use store::{AuditEntry, ChainId, Time};

use super::keys::{AuditKeys, hex, is_signed};

/// The version of the forms.
pub(super) const VERSION: u32 = 1;

/// What the first entry of a chain names as the one before it.
pub(super) const NONE: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// What is written down. No member has any content: texts and arguments are there as keyed digests alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Note {
    /// `decision`, `question`, `answer`, `grant`, `refusal`, `trust`, `result`, `connection`, `clearance`, `message`, `login`,
    /// `token`, `permission`, `reload`, `start`, `stop` or `continued`.
    pub kind: String,
    /// What became of it: `allow`, `ask`, `deny`, `done`, `failed`, the name of an answer …
    pub outcome: String,
    /// The rest: `who`, `front`, `tenant`, `conversation`, `app`, `tool`, `effect`, `rule`, `label` (names of taints), `content` (a
    /// digest), and what the kind has besides.
    pub about: Map<String, Value>,
}

impl Note {
    /// A note with these two members.
    pub fn new(kind: &str, outcome: &str) -> Self {
        Self {
            kind: kind.to_owned(),
            outcome: outcome.to_owned(),
            about: Map::new(),
        }
    }

    /// With a member more. One that has no value is left out.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        let value = value.into();
        if !value.is_null() {
            self.about.insert(name.to_owned(), value);
        }
        self
    }

    /// A member that is a text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.about.get(name).and_then(Value::as_str)
    }
}

/// An entry of a chain. Its text is one line of JSON; its digest is the SHA-256 of that text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The version of this form.
    pub version: u32,
    /// Its chain.
    pub chain: String,
    /// Its place in the chain, from 1.
    pub number: u64,
    /// When, in milliseconds since 1970-01-01 UTC.
    pub at: Time,
    /// What is written down.
    pub note: Note,
    /// In the first entry: where other chains ended then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<Link>,
    /// The digest of the entry before it.
    pub prev: String,
}

impl Entry {
    /// The entry that is stored, if it has the form of one.
    pub(super) fn read(stored: &AuditEntry) -> Option<Self> {
        serde_json::from_str(&stored.text).ok()
    }
}

/// The end of another chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Which chain.
    pub chain: String,
    /// The number of its last entry.
    pub number: u64,
    /// The digest of that entry.
    pub hash: String,
}

/// The end of a chain, signed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// The version of this form.
    pub version: u32,
    /// The store of the chain, as [`AuditLog::store`](store::AuditLog::store) names it. Older heads name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,
    /// The chain and its last entry.
    pub end: Link,
    /// The time of the first entry.
    pub opened: Time,
    /// The time of the last entry.
    pub at: Time,
    /// Whether the chain ends here. One that does not is still written, or its process died.
    pub closed: bool,
    /// Since when its entries are removed, because they were older than the log is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed: Option<Time>,
    /// Of a chain whose entries are removed: where other chains ended when it began.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<Link>,
    /// The public key.
    pub key: String,
    /// The signature of all the other members.
    pub signature: String,
}

impl Head {
    /// The head of a chain without entries.
    pub(super) fn begin(chain: ChainId, store: String, at: Time) -> Self {
        Self {
            version: VERSION,
            store: Some(store),
            end: Link {
                chain: chain.to_string(),
                number: 0,
                hash: NONE.to_owned(),
            },
            opened: at,
            at,
            closed: false,
            removed: None,
            after: Vec::new(),
            key: String::new(),
            signature: String::new(),
        }
    }

    /// The head with its signature.
    pub(super) fn signed(mut self, keys: &AuditKeys) -> Self {
        self.key = keys.public();
        self.signature = keys.sign(&self.statement());
        self
    }

    /// Whether its own key has signed it.
    pub(super) fn is_signed(&self) -> bool {
        is_signed(&self.key, &self.statement(), &self.signature)
    }

    /// What is signed: the head as JSON without its signature.
    fn statement(&self) -> String {
        let unsigned = Self {
            signature: String::new(),
            ..self.clone()
        };
        format!("sluice audit head\n{}", json(&unsigned))
    }

    /// The head of this text. It has one form: another text of the same members is none.
    pub fn read(text: &str) -> Option<Self> {
        let head: Self = serde_json::from_str(text).ok()?;
        (json(&head) == text).then_some(head)
    }
}

/// The digest of an entry's text.
pub(super) fn hash(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

/// One line of JSON. These types have no member that JSON could not write.
pub(super) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
