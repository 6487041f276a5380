//! A structured text with the byte span of every value and key.

use std::ops::Range;

use serde_json::Value;

use super::format::Format;
use super::tree::{DUPLICATE, Key, Kind, Node, ParseError};

/// A text that is one value, with the place of every part.
#[derive(Debug)]
pub struct Document<'t> {
    text: &'t str,
    format: Format,
    nodes: Vec<Node>,
    value: Value,
}

impl<'t> Document<'t> {
    /// Parses a text strictly. Only [`Document::values`] finds duplicate keys of JSON, so a caller that relies on what
    /// the text means must call it.
    ///
    /// # Errors
    /// The text is not of the format, or larger or deeper than this crate reads.
    pub fn parse(text: &'t str, format: Format) -> Result<Self, ParseError> {
        let (nodes, value) = format.parse(text)?;
        Ok(Self {
            text,
            format,
            nodes,
            value,
        })
    }

    /// Every value, in the order of the text.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The value that the text is.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// How the text is written.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Length of the text in bytes.
    pub(crate) fn len(&self) -> usize {
        self.text.len()
    }

    /// The text of a range; empty if it is none of this text.
    pub fn slice(&self, span: &Range<usize>) -> &'t str {
        self.text.get(span.clone()).unwrap_or_default()
    }

    /// Every byte that depends on what the value is.
    pub(crate) fn painted(&self, node: &Node) -> Range<usize> {
        match self.format.quotes_are_structure() {
            true => node.inner.clone(),
            false => node.span.clone(),
        }
    }

    /// What a key means.
    pub fn name<'d>(&'d self, key: &'d Key) -> &'d str {
        key.name
            .as_deref()
            .unwrap_or_else(|| self.slice(&key.inner))
    }

    /// The parsed value of each node, in the order of the nodes. Nodes and tree must agree on every
    /// one of them; in JSON that also finds duplicate keys, of which serde_json keeps one.
    ///
    /// # Errors
    /// The first value that the two do not agree about.
    pub fn values(&self) -> Result<Vec<&Value>, ParseError> {
        let mut values: Vec<&Value> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let refuse = |message| ParseError {
                offset: node.span.start,
                message,
            };
            // The nodes are our scanner's, the tree may be another reader's. Walked side by side, the first
            // difference refuses all.
            let parent = node.parent.map(|at| values.get(at));
            let value = match (parent, &node.key) {
                (None, _) => Some(&self.value),
                (Some(Some(Value::Object(map))), Some(key)) => map.get(self.name(key)),
                (Some(Some(Value::Array(items))), None) => items.get(node.index),
                _ => None,
            };
            let value = value.ok_or_else(|| refuse("not what others read here"))?;
            let children = match (node.kind, value) {
                (Kind::Object, Value::Object(map)) => map.len(),
                (Kind::Array, Value::Array(items)) => items.len(),
                (Kind::String | Kind::Date, Value::String(_))
                | (Kind::Number, Value::Number(_))
                | (Kind::Boolean, Value::Bool(_))
                | (Kind::Null, Value::Null) => 0,
                _ => return Err(refuse("not what others read here")),
            };
            // Of equal keys the tree keeps one, so its object has fewer members than the text.
            if children != node.children {
                return Err(refuse(DUPLICATE));
            }
            values.push(value);
        }
        Ok(values)
    }
}
