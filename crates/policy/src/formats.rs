//! Structured text, with the place of every value and key.
//!
//! The results of a tool are JSON, records in lines, or text without structure. A program can register a [`Notation`] for another format.
//! [`Document`] has the places of the values and the values themselves, and checks that the two agree.

mod error;
mod lines;

use std::fmt;
use std::ops::Range;
use std::sync::{PoisonError, RwLock};

use ifc::json::{Fault, Json};
use serde_json::Value;

pub use self::error::ParseError;
pub use ifc::json::{Key, Kind, Node, Tree};

/// A notation other than JSON.
pub trait Notation: fmt::Debug + Send + Sync {
    /// The name that a configuration uses.
    fn name(&self) -> &'static str;

    /// The values of a text in the order of the text, and the value as a whole.
    ///
    /// # Errors
    /// The text is not of the notation, or readers of the notation disagree about it.
    fn parse(&self, text: &str) -> Result<(Vec<Node>, Value), ParseError>;

    /// The spelling of a line break inside a string; `None` if there are several. With `\n` a backslash begins an escape.
    fn line_break(&self) -> Option<&'static str>;
}

/// The format of a tool's results.
#[derive(Debug, Default, Clone, Copy)]
pub enum Format {
    /// One JSON value (RFC 8259).
    #[default]
    Json,
    /// Text without structure: one value, `$`.
    Text,
    /// Records of fields, one a line: `[{ "key": "value" }]`. A value may have line breaks, so any line behind the first value
    /// that is a stranger's or a secret may be a part of it.
    Lines,
    /// The same from a tool that writes no line break of a value as one.
    EscapedLines,
    /// A registered notation.
    Other(&'static dyn Notation),
}

static REGISTERED: RwLock<Vec<&'static dyn Notation>> = RwLock::new(Vec::new());

impl Format {
    /// Registers a notation by its name. A second one of the same name has no effect.
    pub fn register(notation: &'static dyn Notation) {
        let mut all = REGISTERED.write().unwrap_or_else(PoisonError::into_inner);
        if all.iter().all(|known| known.name() != notation.name()) {
            all.push(notation);
        }
    }

    /// Every format.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let registered = REGISTERED.read().unwrap_or_else(PoisonError::into_inner);
        let others = registered.iter().map(|notation| Self::Other(*notation));
        let own = [Self::Json, Self::Text, Self::Lines, Self::EscapedLines];
        own.into_iter().chain(others).collect()
    }

    /// The name that a configuration uses.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Text => "text",
            Self::Lines => "lines",
            Self::EscapedLines => "escaped-lines",
            Self::Other(notation) => notation.name(),
        }
    }

    /// Whether a line of one value can look like another field. Only a [`Form`](crate::Form) is then a reason to trust a value.
    #[must_use]
    pub fn is_lines(self) -> bool {
        matches!(self, Self::Lines | Self::EscapedLines)
    }

    /// Whether values of this format have types. In text and lines all are strings.
    pub(crate) fn has_types(self) -> bool {
        matches!(self, Self::Json | Self::Other(_))
    }

    /// The spelling of a line break inside a string, if there is only one.
    pub(crate) fn line_break(self) -> Option<&'static str> {
        match self {
            Self::Json => Some("\\n"),
            Self::Text | Self::Lines | Self::EscapedLines => Some("\n"),
            Self::Other(notation) => notation.line_break(),
        }
    }

    fn parse(self, text: &str) -> Result<(Vec<Node>, Value), ParseError> {
        match self {
            Self::Json => {
                let nodes = Json::read(text)?.into_nodes();
                // Our reader has the places, the other one the values that paths select. Both must accept the text.
                let value = serde_json::from_str(text).map_err(|_| ParseError {
                    offset: 0,
                    message: "not JSON as others read it",
                })?;
                Ok((nodes, value))
            }
            Self::Text => {
                let mut tree = Tree::default();
                tree.leaf(Kind::String, 0..text.len(), 0..text.len(), true)?;
                Ok((tree.into_nodes(), Value::String(text.to_owned())))
            }
            Self::Lines => lines::read(text, true),
            Self::EscapedLines => lines::read(text, false),
            Self::Other(notation) => notation.parse(text),
        }
    }
}

impl PartialEq for Format {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Format {}

/// A text with its values and their places.
#[derive(Debug)]
pub struct Document<'t> {
    text: &'t str,
    format: Format,
    nodes: Vec<Node>,
    value: Value,
}

impl<'t> Document<'t> {
    /// Reads a text.
    ///
    /// # Errors
    /// It is not of the format.
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

    /// The root value.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// The format of the text.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Length of the text in bytes.
    pub(crate) fn len(&self) -> usize {
        self.text.len()
    }

    /// The text of a range; empty if it is not a range of this text.
    pub fn slice(&self, span: &Range<usize>) -> &'t str {
        self.text.get(span.clone()).unwrap_or_default()
    }

    /// Every byte that depends on the value.
    pub(crate) fn painted(&self, node: &Node) -> Range<usize> {
        // JSON has one kind of quotes. In other formats the quotes may depend on the value.
        match self.format == Format::Json {
            true => node.inner.clone(),
            false => node.span.clone(),
        }
    }

    /// The name of a key.
    pub fn name<'d>(&'d self, key: &'d Key) -> &'d str {
        key.name
            .as_deref()
            .unwrap_or_else(|| self.slice(&key.inner))
    }

    /// The parsed value of each node, in the order of the nodes.
    ///
    /// # Errors
    /// The first value about which nodes and values disagree.
    pub fn values(&self) -> Result<Vec<&Value>, ParseError> {
        let mut values: Vec<&Value> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let refuse = |message| ParseError {
                offset: node.span.start,
                message,
            };
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
            // Of equal keys the value keeps one, so it has fewer members than the node.
            if children != node.children {
                return Err(refuse(Fault::Duplicate.message()));
            }
            values.push(value);
        }
        Ok(values)
    }
}
