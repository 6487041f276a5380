//! Data arguments inside of objects and lists.

use std::ops::Range;

use ifc::{ArgumentPath, Labeled};
use serde_json::{Value, json};

use super::data::DATA;
use super::random::hash;

/// Where the data of a call stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nests {
    /// It is an argument: `b`.
    Not,
    /// It is a member of an object: `b.note`.
    Member,
    /// It is a member of each element of a list: `b[*].note`.
    Elements,
}

/// The member that carries something; the other one decides.
const NOTE: &str = "note";

impl Nests {
    /// Where it stands, as a rule has it.
    pub(crate) fn path(self) -> ArgumentPath {
        let path = match self {
            Self::Not => DATA.to_owned(),
            Self::Member => format!("{DATA}.{NOTE}"),
            Self::Elements => format!("{DATA}[*].{NOTE}"),
        };
        path.parse().unwrap()
    }

    /// The argument that carries this word. Now and then what it depends on chooses also what leads there:
    /// another form, another member, or how many elements there are.
    pub(crate) fn argument(self, word: &str, bits: u64) -> Value {
        let swayed = bits.is_multiple_of(12);
        let bits = bits >> 8;
        let object = |kind: &str, at: usize| json!({"kind": kind, NOTE: format!("m{:012x}", hash(&[word, &at.to_string()]) >> 16)});
        match self {
            Self::Not => json!(word),
            _ if swayed && bits.is_multiple_of(3) => json!([word]),
            Self::Member if swayed => json!({"kind": word, NOTE: word}),
            Self::Member => json!({"kind": "k", NOTE: word}),
            Self::Elements => {
                let count = match swayed {
                    true => bits % 4,
                    false => 2,
                };
                let elements = 0..usize::try_from(count).unwrap();
                elements.map(|at| object("k", at)).collect()
            }
        }
    }

    /// Where in the text of an argument the data stands, by the tests' own reading; `None` where its form is
    /// not the one that leads there.
    pub(crate) fn data(self, value: &Labeled) -> Option<Vec<Range<usize>>> {
        let text = value.reveal_tcb();
        let fits = match (self, serde_json::from_str(text).unwrap()) {
            (Self::Not, _) => return Some(std::iter::once(0..text.len()).collect()),
            (Self::Member, Value::Object(_)) => true,
            (Self::Elements, Value::Array(items)) => items.iter().all(Value::is_object),
            _ => false,
        };
        // Words have no quotes in them.
        let name = format!("\"{NOTE}\":");
        let places = text.match_indices(&name).map(|(at, _)| {
            let start = at + name.len();
            let length = text[start + 1..].find('"').unwrap() + 2;
            start..start + length
        });
        fits.then(|| places.collect())
    }
}

/// The words that the data of an argument are.
pub(crate) fn words(argument: &Value) -> Vec<String> {
    match argument {
        Value::String(word) => vec![word.clone()],
        Value::Array(items) => items.iter().flat_map(words).collect(),
        Value::Object(members) => members.values().flat_map(words).collect(),
        _ => Vec::new(),
    }
}

/// An argument without what it carries.
pub(crate) fn without_data(argument: &Value) -> Value {
    match argument {
        Value::String(_) => Value::Null,
        Value::Object(members) if members.contains_key(NOTE) => {
            let mut members = members.clone();
            members.insert(NOTE.to_owned(), Value::Null);
            Value::Object(members)
        }
        Value::Array(items) if items.iter().all(Value::is_object) => {
            items.iter().map(without_data).collect()
        }
        other => other.clone(),
    }
}
