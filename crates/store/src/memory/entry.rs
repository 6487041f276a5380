//! What is remembered.

use std::fmt;

use ifc::Label;

use super::MemoryError;
use crate::{BadName, EntryId, Name, Time};

/// Whose memory it is (SecGPT §4.1.3, §4.2.4). The hub's own, or that of an app's spoke.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Namespace {
    /// The hub's.
    Hub,
    /// An app's, by its name in the configuration.
    App(Name),
}

/// What the name of an app's namespace begins with, so that no app is the hub.
const APP: &str = "app:";

impl Namespace {
    /// As it is stored and shown: `hub`, or `app:NAME`.
    pub fn key(&self) -> String {
        match self {
            Self::Hub => "hub".to_owned(),
            Self::App(name) => format!("{APP}{name}"),
        }
    }

    /// The namespace with that key.
    ///
    /// # Errors
    /// There is none.
    pub fn from_key(key: &str) -> Result<Self, BadName> {
        match key.strip_prefix(APP) {
            Some(name) => Name::new(name).map(Self::App),
            None if key == "hub" => Ok(Self::Hub),
            None => Err(BadName),
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

/// What was forgotten.
#[derive(Debug)]
pub struct Forgotten {
    /// The entries and what was derived from them, oldest first. Empty if they did not exist.
    pub entries: Vec<Entry>,
    /// Entries that were forgotten too and could not be read.
    pub unreadable: Vec<EntryId>,
    /// Why the back end's files still have the text, if they do: until
    /// [`Memory::erase`](crate::Memory::erase) succeeds, which is tried again when something else is
    /// forgotten and when the memory is opened.
    pub erased: Result<(), MemoryError>,
}

/// What was too old.
#[derive(Debug)]
pub struct Expired {
    /// How many entries there were, with what was derived from them.
    pub count: usize,
    /// As [`Forgotten::erased`].
    pub erased: Result<(), MemoryError>,
}
