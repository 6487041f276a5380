//! Changes to the text of a configuration file. Each one is a cut or an insertion at places that a parser has found, so
//! every other byte stays. (`toml_edit` and most writers would normalise line ends.) The result is parsed again and
//! compared with what was meant: a form of the file that an edit does not understand is an error, never a wrong file.

mod json;
mod span;
mod toml;
mod yaml;

use serde_json::{Map, Value};

pub(crate) use self::span::{Piece, at, table};
use crate::Problem;

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// JSON without comments and trailing commas. A client of such a file may discard it if it has one.
    StrictJson,
    /// JSON in which both are allowed.
    Json,
    /// TOML.
    Toml,
    /// YAML, in block form.
    Yaml,
}

/// A change of one table or object of a file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Change {
    /// The keys that lead to it.
    pub place: Vec<String>,
    /// The entries to remove, none of which is written.
    pub take: Vec<String>,
    /// The entries to write, in the place of those with the same names.
    pub put: Vec<(String, Value)>,
}

/// The text of a file after changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edited {
    /// The text.
    pub text: String,
    /// For each change the entries that are no longer there, with their text.
    pub taken: Vec<Vec<(String, String)>>,
}

const BOM: char = '\u{feff}';

impl Format {
    /// The values of a file.
    ///
    /// # Errors
    /// The text does not have this format.
    pub fn parse(self, text: &str) -> Result<Value, Problem> {
        let text = text.strip_prefix(BOM).unwrap_or(text);
        let value = match self {
            Self::StrictJson | Self::Json => json::parse(text, self == Self::StrictJson)?,
            Self::Toml => toml::parse(text)?,
            Self::Yaml => yaml::parse(text)?,
        };
        match value {
            Value::Object(_) => Ok(value),
            // An empty YAML file is one of no settings.
            Value::Null if self == Self::Yaml => Ok(Value::Object(Map::new())),
            _ => Err(Problem::at(1, "the file is not a table of settings")),
        }
    }

    /// Makes these changes.
    ///
    /// # Errors
    /// The file has a form that cannot be changed without changing more.
    pub fn edit(self, text: &str, changes: &[Change]) -> Result<Edited, Problem> {
        let mut edited = Edited {
            text: text.to_owned(),
            taken: Vec::new(),
        };
        for change in changes {
            let before = self.parse(&edited.text)?;
            let replaced = change.put.iter().map(|(name, _)| name);
            let replaced = replaced.filter(|name| at(&before, &change.place, name).is_some());
            let mut taken = Vec::new();
            for name in change.take.iter().chain(replaced) {
                taken.extend(self.text_of(&edited.text, &change.place, name)?);
            }
            let put = change.put.iter();
            let put: Vec<_> = put
                .map(|(name, value)| (name.as_str(), Piece::Value(value)))
                .collect();
            edited.text = self.splice(&edited.text, &change.place, &change.take, &put)?;
            edited.taken.push(taken);
        }
        Ok(edited)
    }

    /// Removes and inserts entries of the table at this place.
    pub(crate) fn splice(
        self,
        text: &str,
        place: &[String],
        take: &[String],
        put: &[(&str, Piece<'_>)],
    ) -> Result<String, Problem> {
        let start = text
            .strip_prefix(BOM)
            .map_or(0, |rest| text.len() - rest.len());
        let (mark, body) = text.split_at(start);
        let mut body = body.to_owned();
        let before = self.parse(&body)?;
        // New entries first: they are laid out like the ones that go.
        for (name, piece) in put {
            body = match self {
                Self::StrictJson | Self::Json => {
                    json::put(&body, self == Self::StrictJson, place, name, *piece)?
                }
                Self::Toml => toml::put(&body, place, name, *piece)?,
                Self::Yaml => yaml::put(&body, place, name, *piece)?,
            };
        }
        for name in take {
            if let Some((rest, _)) = self.take(&body, place, name)? {
                body = rest;
            }
        }
        let touched = take.iter().map(String::as_str);
        let touched: Vec<&str> = touched.chain(put.iter().map(|(name, _)| *name)).collect();
        let after = self
            .parse(&body)
            .map_err(|_| Problem::unknown_form(place))?;
        let as_meant = put.iter().all(|(name, piece)| match piece {
            Piece::Value(value) => at(&after, place, name) == Some(value),
            Piece::Text(_) => at(&after, place, name).is_some(),
        });
        let put: Vec<&str> = put.iter().map(|(name, _)| *name).collect();
        let gone =
            |name: &String| put.contains(&name.as_str()) || at(&after, place, name).is_none();
        let others = |value: Value| without(value, place, &touched);
        if !as_meant || !take.iter().all(gone) || others(before) != others(after) {
            return Err(Problem::unknown_form(place));
        }
        Ok(format!("{mark}{body}"))
    }

    /// The text of an entry, in a form that can be inserted again.
    fn text_of(
        self,
        text: &str,
        place: &[String],
        name: &str,
    ) -> Result<Option<(String, String)>, Problem> {
        let body = text.strip_prefix(BOM).unwrap_or(text);
        let taken = self.take(body, place, name)?;
        Ok(taken.map(|(_, own)| (name.to_owned(), own)))
    }

    /// The text without an entry, and the entry.
    fn take(
        self,
        text: &str,
        place: &[String],
        name: &str,
    ) -> Result<Option<(String, String)>, Problem> {
        match self {
            Self::StrictJson | Self::Json => {
                json::take(text, self == Self::StrictJson, place, name)
            }
            Self::Toml => toml::take(text, place, name),
            Self::Yaml => yaml::take(text, place, name),
        }
    }
}

/// The values without these entries of one table, and without the tables that are empty then.
fn without(mut value: Value, place: &[String], names: &[&str]) -> Value {
    let Some(map) = value.as_object_mut() else {
        return value;
    };
    match place.split_first() {
        None => names.iter().for_each(|name| drop(map.remove(*name))),
        Some((key, rest)) => {
            let below = map.remove(key).map(|below| without(below, rest, names));
            let is_left = |below: &Value| {
                !below.is_null() && below.as_object().is_none_or(|map| !map.is_empty())
            };
            let below = below.filter(is_left);
            map.extend(below.map(|below| (key.clone(), below)));
        }
    }
    value
}
