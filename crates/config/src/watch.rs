//! Records what the reader of a configuration asks for, for the JSON Schema.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// What a reader takes at a key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Takes {
    /// The key was looked at; another entry has its type.
    Any,
    /// Any value.
    Free,
    String,
    Boolean,
    /// From the least to the greatest.
    Integer(u64, u64),
    Integers(u64, u64),
    Signed,
    /// One of these words.
    Word(Vec<String>),
    Strings,
    /// A label by name, or several.
    Label,
    Table,
    /// An array of tables.
    Tables,
    /// Tables by names of the user's choice.
    NamedTables,
    /// Strings by names of the user's choice.
    NamedStrings,
    /// Arrays of strings by names of the user's choice.
    NamedLists,
    /// Values by names of the user's choice.
    Entries,
}

/// What each table takes, by its place: `sluice.toml.app.*.tools.*`.
#[derive(Debug, Default)]
pub(crate) struct Watch(RefCell<Tables>);

/// The keys of each kind of table, and what they take.
pub(crate) type Tables = BTreeMap<String, BTreeMap<&'static str, BTreeSet<Takes>>>;

impl Watch {
    pub(crate) fn into_tables(self) -> Tables {
        self.0.into_inner()
    }

    pub(crate) fn table(&self, place: &str) {
        self.0.borrow_mut().entry(place.to_owned()).or_default();
    }

    pub(crate) fn key(&self, place: &str, key: &'static str, takes: Takes) {
        let mut tables = self.0.borrow_mut();
        let keys = tables.entry(place.to_owned()).or_default();
        keys.entry(key).or_default().insert(takes);
    }
}

/// The place of the whole file.
pub(crate) const ROOT: &str = "sluice.toml";

/// The place of a table at a key. Tables that are alike have one place.
pub(crate) fn place(outer: &str, key: &str, takes: &Takes) -> String {
    match (key, takes) {
        ("audience", _) => "audience".to_owned(),
        ("other_tools", _) => format!("{outer}.tools.*"),
        ("labels", Takes::Tables) if outer != "sluice.toml.user" => "labels".to_owned(),
        (_, Takes::NamedTables) => format!("{outer}.{key}.*"),
        _ => format!("{outer}.{key}"),
    }
}
