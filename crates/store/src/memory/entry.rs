//! What is remembered.

use std::fmt;

use ifc::Label;

use super::MemoryError;
use crate::{Apps, BadName, EntryId, Identity, Name, Time};

/// Whose memory it is (SecGPT §4.1.3, §4.2.4). The hub's own, or that of apps' spokes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Namespace {
    /// The hub's.
    Hub,
    /// That of conversations with these apps together, at least one. An app that takes the name of
    /// another has another identity, and so another namespace.
    Apps(Apps),
    /// That of conversations of which an earlier program noted only the names of the apps, joined by
    /// `+`. Which apps they were is not known.
    Names(Name),
}

/// The hub's namespace.
const HUB: &str = "hub";

/// What the keys of apps' namespaces begin with, so that no app is the hub.
const APPS: &str = "apps:";

/// The same in earlier programs, which wrote names without identities.
const NAMES: &str = "app:";

/// Between the names of several apps.
const AND: &str = "+";

/// Between apps in a key. No name has control characters.
const LINE: &str = "\n";

impl Namespace {
    /// The names of its apps; none for the hub's.
    pub fn names(&self) -> Vec<&str> {
        match self {
            Self::Hub => Vec::new(),
            Self::Apps(apps) => apps.keys().map(Name::as_str).collect(),
            Self::Names(names) => names.as_str().split(AND).collect(),
        }
    }

    /// Whether everything in it was said in conversations with some of these apps and no other one. Identities
    /// count, since another app may have taken a name. Of [`Namespace::Names`] they are not known, so the
    /// answer is no.
    pub fn is_of(&self, apps: &Apps) -> bool {
        match self {
            Self::Apps(own) => own
                .iter()
                .all(|(name, identity)| apps.get(name) == Some(identity)),
            Self::Hub | Self::Names(_) => false,
        }
    }

    /// As it is stored.
    pub(crate) fn key(&self) -> String {
        match self {
            Self::Hub => HUB.to_owned(),
            Self::Apps(apps) => {
                let apps = apps.iter().map(|(name, own)| format!("{own} {name}"));
                let apps: Vec<String> = apps.collect();
                format!("{APPS}{}", apps.join(LINE))
            }
            Self::Names(names) => format!("{NAMES}{names}"),
        }
    }

    /// The namespace with that key.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn from_key(key: &str) -> Result<Self, BadName> {
        if let Some(apps) = key.strip_prefix(APPS) {
            let apps = apps.split(LINE).map(|app| {
                let (identity, name) = app.split_once(' ').ok_or(BadName)?;
                let identity = Identity::from_hex(identity).ok_or(BadName)?;
                Ok((Name::new(name)?, identity))
            });
            let apps = Self::Apps(apps.collect::<Result<_, _>>()?);
            // Written in another way it would be a second name for the same.
            return (apps.key() == key).then_some(apps).ok_or(BadName);
        }
        match key.strip_prefix(NAMES) {
            Some(names) => Name::new(names).map(Self::Names),
            None if key == HUB => Ok(Self::Hub),
            None => Err(BadName),
        }
    }
}

/// The names that the user knows: `hub`, or `calendar+mail`.
impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hub => f.write_str(HUB),
            apps => f.write_str(&apps.names().join(AND)),
        }
    }
}

/// Who said something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Speaker {
    /// The user.
    User,
    /// The system, or an app by way of it.
    System,
}

/// What a memory says. `Debug` shows kinds and sizes, not the text.
#[derive(Clone, PartialEq, Eq)]
pub enum Content {
    /// A turn of the interaction history.
    Interaction {
        /// Who said it.
        speaker: Speaker,
        /// What.
        text: String,
    },
    /// Summarised knowledge.
    Summary {
        /// The summary.
        text: String,
    },
    /// What is known of an entity ("Karin", "telephone", "0123").
    Fact {
        /// Of whom or what.
        entity: String,
        /// Which of its properties.
        attribute: String,
        /// The property's value.
        value: String,
    },
}

/// The kinds of [`Content`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// [`Content::Interaction`].
    Interaction,
    /// [`Content::Summary`].
    Summary,
    /// [`Content::Fact`].
    Fact,
}

impl Content {
    /// Its kind.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Interaction { .. } => Kind::Interaction,
            Self::Summary { .. } => Kind::Summary,
            Self::Fact { .. } => Kind::Fact,
        }
    }

    /// Its texts, in the order of its fields.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        let texts = match self {
            Self::Interaction { text, .. } | Self::Summary { text } => [text, "", ""],
            Self::Fact {
                entity,
                attribute,
                value,
            } => [entity.as_str(), attribute, value],
        };
        texts.into_iter()
    }

    fn bytes(&self) -> usize {
        self.texts().map(str::len).sum()
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of {} bytes", self.kind(), self.bytes())
    }
}

/// An entry to be added.
#[derive(Clone, PartialEq, Eq)]
pub struct Draft {
    /// A new id ([`EntryId::random`]).
    pub id: EntryId,
    /// What it says.
    pub content: Content,
    /// The label of everything in it, `origin` included: at least the join of its sources' labels.
    pub label: Label,
    /// The entries that it was derived from. They exist, in any namespace.
    pub sources: Vec<EntryId>,
    /// Where it comes from, for people: "mail from karin@example.com".
    pub origin: String,
    /// When it was made.
    pub time: Time,
}

impl Draft {
    /// Bytes of all its texts.
    pub(crate) fn bytes(&self) -> usize {
        self.content.bytes() + self.origin.len()
    }
}

impl fmt::Debug for Draft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, label, .. } = self;
        write!(f, "Draft({id}, {:?}, {label:?})", self.content)
    }
}

/// An entry as it is kept.
#[derive(Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its id.
    pub id: EntryId,
    /// Whose memory it is.
    pub namespace: Namespace,
    /// What it says.
    pub content: Content,
    /// The label of everything in it.
    pub label: Label,
    /// Names in its label that the lattice no longer has. If there are any, the label is ⊤.
    pub unknown: Vec<String>,
    /// The entries that it was derived from.
    pub sources: Vec<EntryId>,
    /// Where it comes from, for people.
    pub origin: String,
    /// When it was made.
    pub time: Time,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, label, .. } = self;
        write!(f, "Entry({id}, {:?}, {label:?})", self.content)
    }
}

/// Which entries [`Memory::list`](crate::Memory::list) gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// This kind only.
    pub kind: Option<Kind>,
    /// Older than this entry. One that the reader cannot see, or that is not there, is an error.
    pub before: Option<EntryId>,
    /// At most this many.
    pub most: usize,
}

impl Page {
    /// The newest entries of any kind.
    pub fn newest(most: usize) -> Self {
        Self {
            kind: None,
            before: None,
            most,
        }
    }
}

/// A result of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The entry.
    pub entry: Entry,
    /// How well it answers the query; above zero, comparable within one search only.
    pub score: f64,
}

/// Entries and everything that was derived from them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Family {
    /// Those that can be read, oldest first.
    pub entries: Vec<Entry>,
    /// The others.
    pub unreadable: Vec<EntryId>,
}

impl Family {
    /// How many they are.
    pub fn count(&self) -> usize {
        self.entries.len() + self.unreadable.len()
    }
}

/// What was forgotten.
#[derive(Debug)]
pub struct Forgotten {
    /// The entries and what was derived from them. Empty if they did not exist.
    pub family: Family,
    /// Why the back end's files still have the text, if they do: until
    /// [`Memory::erase`](crate::Memory::erase) succeeds, which is tried again when something else is
    /// forgotten and when the memory is opened.
    pub erased: Result<(), MemoryError>,
}

/// What was too old, or made room for what is new.
#[derive(Debug)]
pub struct Removed {
    /// How many entries there were, with what was derived from them.
    pub count: usize,
    /// As [`Forgotten::erased`].
    pub erased: Result<(), MemoryError>,
}

impl Removed {
    /// Nothing.
    pub fn none() -> Self {
        Self {
            count: 0,
            erased: Ok(()),
        }
    }

    /// What went in two steps, with the first reason why its text is still there.
    #[must_use]
    pub fn and(self, more: Self) -> Self {
        Self {
            count: self.count + more.count,
            erased: self.erased.and(more.erased),
        }
    }
}
