//! Flow collections. Only a string in quotes may go on over several lines: where a serializer breaks
//! lines between values depends on how long the values before are.

use serde_json::{Map, Value};

use super::super::tree::{Kind, ParseError, insert};
use super::scalar::resolve;
use super::{Parent, Scalar, Scanner, refuse};

impl Scanner<'_> {
    /// The flow collection that begins here.
    pub(super) fn flow(&mut self, parent: Parent) -> Result<Value, ParseError> {
        let (kind, end) = match self.peek() {
            Some(b'[') => (Kind::Array, b']'),
            _ => (Kind::Object, b'}'),
        };
        self.tree.open(kind, self.at)?;
        self.at += 1;
        self.spaces();
        let (mut items, mut map) = (Vec::new(), Map::new());
        let mut more = self.peek() != Some(end);
        while more {
            match kind {
                Kind::Array => items.push(self.flow_value(parent)?),
                _ => self.flow_member(&mut map, parent)?,
            }
            more = self.peek() == Some(b',');
            if more {
                self.at += 1;
                self.spaces();
            }
        }
        if self.peek() != Some(end) {
            return Err(refuse(self.at, "a collection does not end on its line"));
        }
        self.at += 1;
        self.tree.close(self.at);
        Ok(match kind {
            Kind::Array => Value::Array(items),
            _ => Value::Object(map),
        })
    }

    fn flow_member(
        &mut self,
        map: &mut Map<String, Value>,
        parent: Parent,
    ) -> Result<(), ParseError> {
        let key = match self.peek() {
            Some(b'"' | b'\'') => self.quoted(parent)?,
            _ => self.flow_plain()?,
        };
        let offset = key.span.start;
        let name = self.key(key)?;
        // Without the blank, YAML 1.1 and 1.2 differ about whether `{a:b}` and `{"a":b}` have a key.
        if self.bytes.get(self.at..self.at + 2) != Some(b": ") {
            return Err(refuse(self.at, "': ' is missing here"));
        }
        self.at += 1;
        self.spaces();
        let value = self.flow_value(parent)?;
        insert(map, &name, value, offset)
    }

    fn flow_value(&mut self, parent: Parent) -> Result<Value, ParseError> {
        match self.peek() {
            Some(b'[' | b'{') => self.flow(parent),
            Some(b'"' | b'\'') => {
                let scalar = self.quoted(parent)?;
                self.string(scalar)
            }
            _ => {
                let span = self.flow_plain()?.span;
                let (kind, value) = resolve(self.slice(&span));
                self.tree.leaf(kind, span.clone(), span, true)?;
                Ok(value)
            }
        }
    }

    /// A plain scalar without anything that could end one, or begin something else, for any reader.
    fn flow_plain(&mut self) -> Result<Scalar, ParseError> {
        let start = self.at;
        let rest = self.text.get(start..).unwrap_or_default();
        let ends = |c: char| matches!(c, ',' | '[' | ']' | '{' | '}' | ':' | '\n');
        let found = rest.find(ends).unwrap_or(rest.len());
        let text = rest.get(..found).unwrap_or_default().trim_end_matches(' ');
        let first = text.chars().next();
        let begins = first.is_some_and(|c| !c.is_ascii_punctuation() || "-+._/~".contains(c));
        // Some readers take a dash for the beginning of an item wherever an end follows it.
        let dash = text == "-" || text.starts_with("- ") || text.ends_with(" -");
        if !begins || dash || text.contains(['#', '?', '\t']) {
            return Err(refuse(start, "a value cannot stand here without quotes"));
        }
        self.at += text.len();
        let span = start..self.at;
        Ok(Scalar {
            inner: span.clone(),
            span,
            meaning: None,
        })
    }

    fn spaces(&mut self) {
        while self.peek() == Some(b' ') {
            self.at += 1;
        }
    }
}
