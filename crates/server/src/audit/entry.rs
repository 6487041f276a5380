//! Entries and heads, as they are written and read.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use store::{ChainId, Time};

use super::keys::{AuditKeys, hex, is_signed};

/// The version of the forms.
pub(super) const VERSION: u32 = 1;

/// What the first entry of a chain names as the one before it.
pub(super) const NONE: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// What is written down. No member has any content: texts and arguments are there as digests alone.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Note {
    /// `decision`, `answer`, `grant`, `refusal`, `trust`, `result`, `connection`, `message`, `login`, `token`, `permission`,
    /// `reload`, `start`, `stop` or `continued`.
    pub kind: String,
    /// What became of it: `allow`, `ask`, `deny`, `done`, `failed`, the name of an answer …
    pub outcome: String,
    /// The user, the approver or the name of the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    /// `proxy`, `gateway`, `run`, `desk`, `approve` …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub front: Option<String>,
    /// The tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The conversation, as the front names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<String>,
    /// The app.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    /// The tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// `read`, `write` or `irreversible`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<String>,
    /// The rule that decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The label, by the names of its taints; empty is trusted and public.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<Vec<String>>,
    /// The keyed digest of the arguments or the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// What this kind has besides.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub what: Map<String, Value>,
}

impl Note {
    /// A note with these two members.
    pub fn new(kind: &str, outcome: &str) -> Self {
        Self {
            kind: kind.to_owned(),
            outcome: outcome.to_owned(),
            ..Self::default()
        }
    }

    /// By this user.
    #[must_use]
    pub fn by(mut self, who: Option<&str>) -> Self {
        self.who = who.map(str::to_owned);
        self
    }

    /// At this front.
    #[must_use]
    pub fn at(mut self, front: &str) -> Self {
        self.front = Some(front.to_owned());
        self
    }

    /// With a member more.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.what.insert(name.to_owned(), value.into());
        self
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

/// The digest of an entry's text.
pub(super) fn hash(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

/// The end of a chain, signed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// The version of this form.
    pub version: u32,
    /// The chain.
    pub chain: String,
    /// The number of its last entry.
    pub number: u64,
    /// The digest of that entry.
    pub hash: String,
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

    pub(super) fn link(&self) -> Option<(ChainId, Link)> {
        let link = Link {
            chain: self.chain.clone(),
            number: self.number,
            hash: self.hash.clone(),
        };
        Some((self.chain.parse().ok()?, link))
    }
}

/// One line of JSON. These types have no member that JSON could not write.
pub(super) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
