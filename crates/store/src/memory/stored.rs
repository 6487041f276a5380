//! An entry as it is written, whatever the back end.

use std::collections::{BTreeMap, BTreeSet};

use ifc::Label;
use serde::{Deserialize, Serialize};

use super::{Content, Draft, Entry, MemoryError, Namespace, Speaker};
use crate::names::{Names, ReadLabel};
use crate::{EntryId, Time};

/// An entry's fields without its id, its namespace and its sources, which back ends keep apart.
#[derive(Serialize, Deserialize)]
pub(super) struct Stored {
    pub(super) kind: String,
    /// JSON array of the names of its label.
    pub(super) label: String,
    /// Of a fact.
    pub(super) entity: Option<String>,
    /// Of a fact.
    pub(super) attribute: Option<String>,
    /// The text, or a fact's value.
    pub(super) text: String,
    pub(super) origin: String,
    pub(super) time: i64,
}

const USER: &str = "user";
const SYSTEM: &str = "system";
const SUMMARY: &str = "summary";
const FACT: &str = "fact";

impl Stored {
    /// New entries as they are to be written, in their order. `written` looks up the label of an entry that is there, as it
    /// is written; it is asked once for each. What a draft may name as its source is not checked here.
    pub(super) fn all<E>(
        drafts: &[Draft],
        names: &Names,
        mut written: impl FnMut(EntryId) -> Result<Option<String>, E>,
    ) -> Result<Vec<Self>, E> {
        let mut known: BTreeMap<EntryId, Vec<String>> = BTreeMap::new();
        let mut all = Vec::with_capacity(drafts.len());
        for draft in drafts {
            let mut of_sources = BTreeSet::new();
            for source in &draft.sources {
                if !known.contains_key(source) {
                    let label = written(*source)?;
                    // A label that cannot be read has no names. It is ⊤, which `contains` demands of what is
                    // derived from it.
                    let label = label.and_then(|label| serde_json::from_str(&label).ok());
                    known.insert(*source, label.unwrap_or_default());
                }
                of_sources.extend(known.get(source).into_iter().flatten().cloned());
            }
            let label = names.derived_names(&draft.label, of_sources);
            all.push(Self::new(draft, &label));
            known.insert(draft.id, label);
        }
        Ok(all)
    }

    fn new(draft: &Draft, label: &[String]) -> Self {
        let (kind, entity, attribute, text) = match draft.content.clone() {
            Content::Interaction { speaker, text } => match speaker {
                Speaker::User => (USER, None, None, text),
                Speaker::System => (SYSTEM, None, None, text),
            },
            Content::Summary { text } => (SUMMARY, None, None, text),
            Content::Fact {
                entity,
                attribute,
                value,
            } => (FACT, Some(entity), Some(attribute), value),
        };
        Self {
            kind: kind.to_owned(),
            label: serde_json::Value::from(label).to_string(),
            entity,
            attribute,
            text,
            origin: draft.origin.clone(),
            time: draft.time.millis(),
        }
    }

    /// What can be searched for; `None` if it is no entry ([`Stored::entry`]).
    pub(super) fn texts(&self) -> Option<[&str; 3]> {
        let of_fact = (self.entity.as_deref(), self.attribute.as_deref());
        match (self.kind.as_str(), of_fact) {
            (USER | SYSTEM | SUMMARY, (None, None)) => Some(["", "", &self.text]),
            (FACT, (Some(entity), Some(attribute))) => Some([entity, attribute, &self.text]),
            _ => None,
        }
    }

    pub(super) fn entry(
        self,
        id: EntryId,
        namespace: &Namespace,
        sources: Vec<EntryId>,
        names: &Names,
    ) -> Result<Entry, MemoryError> {
        let unreadable = |reason: String| MemoryError::Unreadable { id, reason };
        let text = self.text;
        let content = match (self.kind.as_str(), self.entity, self.attribute) {
            (USER, None, None) => Content::Interaction {
                speaker: Speaker::User,
                text,
            },
            (SYSTEM, None, None) => Content::Interaction {
                speaker: Speaker::System,
                text,
            },
            (SUMMARY, None, None) => Content::Summary { text },
            (FACT, Some(entity), Some(attribute)) => Content::Fact {
                entity,
                attribute,
                value: text,
            },
            _ => return Err(unreadable(format!("its kind is {:?}", self.kind))),
        };
        let read = label(&self.label, names);
        Ok(Entry {
            id,
            namespace: namespace.clone(),
            content,
            label: read.label,
            unknown: read.unknown,
            sources,
            origin: self.origin,
            time: Time::from_millis(self.time),
        })
    }
}

/// The label that is written so: ⊤ if it cannot be read.
pub(super) fn label(written: &str, names: &Names) -> ReadLabel {
    match serde_json::from_str::<Vec<String>>(written) {
        Ok(read) => names.label(&read),
        Err(_) => ReadLabel {
            label: Label::top(),
            unknown: vec![written.to_owned()],
        },
    }
}
