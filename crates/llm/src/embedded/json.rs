//! JSON that keeps the order of its keys: prompts and grammars follow a schema's own order, and
//! a prompt that changes its order would lose its cached prefix.

use std::{collections::HashMap, fmt, hash::Hash};

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// A JSON value; objects keep their order, the last of two equal keys wins.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Json {
    Null,
    Bool(bool),
    Number(serde_json::Number),
    String(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

/// How [`Json::write`] separates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spacing {
    /// `{"a":1,"b":2}`
    Tight,
    /// `{"a": 1, "b": 2}`: what chat templates' authors trained on.
    Wide,
}

impl Json {
    /// Parses one value; nesting is limited by `serde_json` (128 levels).
    pub(super) fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    pub(super) fn get(&self, key: &str) -> Option<&Json> {
        match self {
            Self::Object(entries) => entries.iter().find(|(k, _)| k == key).map(|(_, v)| v),
            _ => None,
        }
    }

    /// How many members an object has.
    pub(super) fn members(&self) -> usize {
        match self {
            Self::Object(entries) => entries.len(),
            _ => 0,
        }
    }

    pub(super) fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn as_usize(&self) -> Option<usize> {
        match self {
            Self::Number(number) => number.as_u64().and_then(|n| usize::try_from(n).ok()),
            _ => None,
        }
    }

    pub(super) fn to_text(&self, spacing: Spacing) -> String {
        let mut out = String::new();
        self.write(spacing, &mut out);
        out
    }

    fn write(&self, spacing: Spacing, out: &mut String) {
        let (comma, colon) = match spacing {
            Spacing::Tight => (",", ":"),
            Spacing::Wide => (", ", ": "),
        };
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Self::Number(number) => out.push_str(&number.to_string()),
            Self::String(text) => out.push_str(&quoted(text)),
            Self::Array(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push_str(comma);
                    }
                    item.write(spacing, out);
                }
                out.push(']');
            }
            Self::Object(entries) => {
                out.push('{');
                for (index, (key, value)) in entries.iter().enumerate() {
                    if index > 0 {
                        out.push_str(comma);
                    }
                    out.push_str(&quoted(key));
                    out.push_str(colon);
                    value.write(spacing, out);
                }
                out.push('}');
            }
        }
    }
}

/// The text as a JSON string, with its quotes.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        // JSON has no NaN or infinity, and neither has text that was parsed.
        Ok(serde_json::Number::from_f64(value).map_or(Json::Null, Json::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Json, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Json::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
        let mut members = Members::new();
        while let Some((key, value)) = map.next_entry::<String, Json>()? {
            members.insert(key, value);
        }
        Ok(Json::Object(members.entries))
    }
}

/// The members of an object while it is read. Found by key, since an app's schema or a call may have a hundred thousand
/// of them.
struct Members<K, V> {
    entries: Vec<(K, V)>,
    places: HashMap<K, usize>,
}

impl<K: Clone + Eq + Hash, V> Members<K, V> {
    fn new() -> Self {
        Self {
            entries: Vec::new(),
            places: HashMap::new(),
        }
    }

    fn insert(&mut self, key: K, value: V) {
        let place = self.places.get(&key);
        match place.and_then(|place| self.entries.get_mut(*place)) {
            Some(entry) => entry.1 = value,
            None => {
                self.places.insert(key.clone(), self.entries.len());
                self.entries.push((key, value));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, hash::Hasher};

    use super::*;

    #[test]
    fn order_is_kept_and_the_last_duplicate_wins() {
        let json = Json::parse(r#"{"to":"a","body":[1,2.5,null],"to":"\"b\""}"#).unwrap();
        assert_eq!(
            json.to_text(Spacing::Tight),
            r#"{"to":"\"b\"","body":[1,2.5,null]}"#
        );
        assert_eq!(
            json.to_text(Spacing::Wide),
            r#"{"to": "\"b\"", "body": [1, 2.5, null]}"#
        );
        assert_eq!(Json::parse(r#"{"a":1} x"#), None);
        assert_eq!(Json::parse(&"[".repeat(100_000)), None);
    }

    /// A key that counts how often it is compared.
    #[derive(Clone)]
    struct Compared<'a>(usize, &'a Cell<usize>);

    impl PartialEq for Compared<'_> {
        fn eq(&self, other: &Self) -> bool {
            self.1.set(self.1.get() + 1);
            self.0 == other.0
        }
    }

    impl Eq for Compared<'_> {}

    impl Hash for Compared<'_> {
        fn hash<H: Hasher>(&self, state: &mut H) {
            self.0.hash(state);
        }
    }

    #[test]
    fn each_member_is_compared_with_few_others() {
        let compared = Cell::new(0);
        let mut members = Members::new();
        for key in (0..100_000).chain(0..100_000) {
            members.insert(Compared(key, &compared), key);
        }
        assert_eq!(members.entries.len(), 100_000);
        // The second half finds itself. Beside that a few keys have a hash in common, to the bits that are looked at.
        let compared = compared.get();
        assert!((100_000..200_000).contains(&compared), "{compared}");
    }
}
