//! A structured text with the byte span of every value and key.

use std::ops::Range;

use serde_json::{Map, Value};

use super::{json, python, yaml};

/// Deepest nesting. The protocol refuses deeper results as well; half of serde_json's own limit, so
/// that ours is always the one that speaks.
pub(crate) const MAX_DEPTH: usize = 64;

/// Most values in one text. A node costs about 150 bytes here, so this bounds the memory at 30 MB.
pub(crate) const MAX_NODES: usize = 200_000;

/// How a tool writes its results.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// One JSON value (RFC 8259).
    #[default]
    Json,
    /// One YAML document of the subset that serializers write: block and flow collections, scalars
    /// of every style; no comments, blank lines between values, anchors, tags, or document markers.
    Yaml,
    /// What Python's `repr` writes for built-in values, dates and enumerations.
    Python,
    /// Text without structure: one value, `$`.
    Text,
}

impl Format {
    /// Each format with the name that a configuration uses.
    pub const NAMES: [(&str, Self); 4] = [
        ("json", Self::Json),
        ("yaml", Self::Yaml),
        ("python", Self::Python),
        ("text", Self::Text),
    ];
}

/// Why a text is not taken as what it should be, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ParseError {
    pub(crate) offset: usize,
    pub(crate) message: &'static str,
}

/// A text that is one value, with the place of every part.
pub(crate) struct Document<'t> {
    text: &'t str,
    format: Format,
    nodes: Vec<Node>,
    value: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    String,
    Number,
    Boolean,
    Null,
    /// A date that its format has a notation for.
    Date,
    Array,
    Object,
}

/// One value. Nodes lie in the order of the text, so the descendants of a node follow it.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    /// The whole value as it is written, quotes and brackets included.
    pub(crate) span: Range<usize>,
    /// Of a string what is between the quotes; else the same as `span`.
    pub(crate) inner: Range<usize>,
    /// Whether `inner` is the value to the byte: no escape, no folded line.
    pub(crate) verbatim: bool,
    /// For the member of an object.
    pub(crate) key: Option<Key>,
    /// One past the last descendant.
    pub(crate) end: usize,
    pub(crate) children: usize,
}

/// A key of an object.
#[derive(Debug, Clone)]
pub(crate) struct Key {
    /// Every byte that depends on what the key is.
    pub(crate) span: Range<usize>,
    /// What is between the quotes.
    pub(crate) inner: Range<usize>,
    /// What `inner` means, where it is not that to the byte.
    pub(crate) name: Option<Box<str>>,
}

impl<'t> Document<'t> {
    /// Parses a text strictly. Duplicate keys of JSON are found by [`Document::values`]; whoever
    /// relies on what the text means calls it.
    pub(crate) fn parse(text: &'t str, format: Format) -> Result<Self, ParseError> {
        let (nodes, value) = match format {
            Format::Json => json::parse(text)?,
            Format::Yaml => yaml::parse(text)?,
            Format::Python => python::parse(text)?,
            Format::Text => {
                let mut tree = Tree::default();
                tree.leaf(Kind::String, 0..text.len(), 0..text.len(), true)?;
                (tree.nodes, Value::String(text.to_owned()))
            }
        };
        Ok(Self {
            text,
            format,
            nodes,
            value,
        })
    }

    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub(crate) fn value(&self) -> &Value {
        &self.value
    }

    pub(crate) fn format(&self) -> Format {
        self.format
    }

    /// Length of the text in bytes.
    pub(crate) fn len(&self) -> usize {
        self.text.len()
    }

    pub(crate) fn slice(&self, span: &Range<usize>) -> &'t str {
        self.text.get(span.clone()).unwrap_or_default()
    }

    /// Every byte that depends on what the value is. JSON has one kind of quotes, so a string's are
    /// structure there; in YAML and Python the value decides which quotes it gets, if any.
    pub(crate) fn painted(&self, node: &Node) -> Range<usize> {
        match self.format {
            Format::Json => node.inner.clone(),
            Format::Yaml | Format::Python | Format::Text => node.span.clone(),
        }
    }

    /// What a key means.
    pub(crate) fn name<'d>(&'d self, key: &'d Key) -> &'d str {
        key.name
            .as_deref()
            .unwrap_or_else(|| self.slice(&key.inner))
    }

    /// The parsed value of each node, in the order of the nodes. Nodes and tree must agree on every
    /// one of them; in JSON that also finds duplicate keys, of which serde_json keeps one.
    pub(crate) fn values(&self) -> Result<Vec<&Value>, ParseError> {
        let mut values = Vec::with_capacity(self.nodes.len());
        // The open containers: value, node number one past its last, next array index.
        let mut open: Vec<(&Value, usize, usize)> = Vec::new();
        for (at, node) in self.nodes.iter().enumerate() {
            let refuse = |message| ParseError {
                offset: node.span.start,
                message,
            };
            while open.last().is_some_and(|(_, end, _)| *end <= at) {
                open.pop();
            }
            let value = match (open.last_mut(), &node.key) {
                (None, _) => Some(&self.value),
                (Some((Value::Object(map), ..)), Some(key)) => map.get(self.name(key)),
                (Some((Value::Array(items), _, next)), None) => {
                    *next += 1;
                    items.get(*next - 1)
                }
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
            if children != node.children {
                return Err(refuse(DUPLICATE));
            }
            if node.end > at + 1 {
                open.push((value, node.end, 0));
            }
            values.push(value);
        }
        Ok(values)
    }
}

const DUPLICATE: &str = "a key stands twice in this object";

/// Grows the nodes while a parser goes through a text; it holds the limits.
#[derive(Default)]
pub(super) struct Tree {
    pub(super) nodes: Vec<Node>,
    /// Numbers of the containers that are not closed yet.
    open: Vec<usize>,
    /// The key that was read for the value to come.
    pub(super) key: Option<Key>,
}

impl Tree {
    /// The kind of the innermost open container.
    pub(super) fn container(&self) -> Option<Kind> {
        let at = self.open.last()?;
        self.nodes.get(*at).map(|node| node.kind)
    }

    /// A value that has no values inside.
    pub(super) fn leaf(
        &mut self,
        kind: Kind,
        span: Range<usize>,
        inner: Range<usize>,
        verbatim: bool,
    ) -> Result<(), ParseError> {
        if self.nodes.len() == MAX_NODES {
            return Err(ParseError {
                offset: span.start,
                message: "too many values",
            });
        }
        if let Some(parent) = self.open.last().and_then(|at| self.nodes.get_mut(*at)) {
            parent.children += 1;
        }
        self.nodes.push(Node {
            kind,
            span,
            inner,
            verbatim,
            key: self.key.take(),
            end: self.nodes.len() + 1,
            children: 0,
        });
        Ok(())
    }

    /// A container begins; what comes until [`close`](Self::close) is inside.
    pub(super) fn open(&mut self, kind: Kind, start: usize) -> Result<(), ParseError> {
        self.leaf(kind, start..start, start..start, true)?;
        if self.open.len() == MAX_DEPTH {
            return Err(ParseError {
                offset: start,
                message: "nested too deep",
            });
        }
        self.open.push(self.nodes.len() - 1);
        Ok(())
    }

    /// The innermost container ends.
    pub(super) fn close(&mut self, at: usize) {
        let end = self.nodes.len();
        if let Some(node) = self.open.pop().and_then(|at| self.nodes.get_mut(at)) {
            node.span.end = at;
            node.inner = node.span.clone();
            node.end = end;
        }
    }
}

/// Takes a member into an object; a key that it has already is an error.
pub(super) fn insert(
    map: &mut Map<String, Value>,
    name: &str,
    value: Value,
    offset: usize,
) -> Result<(), ParseError> {
    match map.insert(name.to_owned(), value) {
        None => Ok(()),
        Some(_) => Err(ParseError {
            offset,
            message: DUPLICATE,
        }),
    }
}

/// The character of so many hexadecimal digits, and where they end. A surrogate is none.
pub(super) fn hex(text: &str, at: usize, digits: usize) -> Option<(char, usize)> {
    let end = at + digits;
    let code = text.get(at..end)?;
    // `from_str_radix` alone would take a sign.
    let hexadecimal = code.bytes().all(|byte| byte.is_ascii_hexdigit());
    let code = u32::from_str_radix(code, 16).ok();
    let character = code.filter(|_| hexadecimal).and_then(char::from_u32)?;
    Some((character, end))
}
