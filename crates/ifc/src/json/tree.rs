//! The values of a text and their places.

use std::fmt;
use std::ops::Range;

/// Deepest nesting. `serde_json`, which reads in every app's spoke, stops at 128.
pub const MAX_DEPTH: usize = 64;

/// Most values in one text. A node takes about 150 bytes, so this bounds the memory at 30 MB.
pub const MAX_NODES: usize = 200_000;

/// A fault of a text or of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The text is not JSON from here on, for this reason.
    Syntax(&'static str),
    /// A string has a control character, an unknown escape, or half of a surrogate pair.
    String(&'static str),
    /// A number is malformed, or beyond the range of a double.
    Number(&'static str),
    /// A name stands twice in one object.
    Duplicate,
    /// Nested deeper than [`MAX_DEPTH`].
    Depth,
    /// More values than [`MAX_NODES`].
    Size,
}

impl Fault {
    /// One line that quotes nothing of the text.
    #[must_use]
    pub fn message(self) -> &'static str {
        match self {
            Self::Syntax(message) | Self::String(message) | Self::Number(message) => message,
            Self::Duplicate => "a key stands twice in this object",
            Self::Depth => "nested too deep",
            Self::Size => "too many values",
        }
    }
}

/// Why a text is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JsonError {
    /// The byte at which it begins to be wrong.
    pub offset: usize,
    /// The reason.
    pub fault: Fault,
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.fault.message())
    }
}

impl std::error::Error for JsonError {}

/// The type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Text.
    String,
    /// An integer or a float.
    Number,
    /// True or false.
    Boolean,
    /// No value.
    Null,
    /// A date, in a format other than JSON that has a notation for dates.
    Date,
    /// Values in order.
    Array,
    /// Values by name.
    Object,
}

/// One value. Nodes are in the order of the text, so the descendants of a node follow it.
#[derive(Debug, Clone)]
pub struct Node {
    /// Its type.
    pub kind: Kind,
    /// The whole value as it is written, quotes and brackets included.
    pub span: Range<usize>,
    /// Of a string, the text between the quotes; else the same as `span`.
    pub inner: Range<usize>,
    /// Whether `inner` is the value to the byte: it has no escape.
    pub verbatim: bool,
    /// The name, for the member of an object.
    pub key: Option<Key>,
    /// One past the last descendant.
    pub end: usize,
    /// The number of values directly inside.
    pub children: usize,
    /// The number of the node that it is directly inside of; `None` for the root.
    pub parent: Option<usize>,
    /// How many values of its parent stand before it.
    pub index: usize,
    /// Why readers disagree about this value, or about the names of its members. A value with [`Fault::Depth`] has no
    /// nodes for what is inside of it.
    pub fault: Option<Fault>,
}

/// The name of a member.
#[derive(Debug, Clone)]
pub struct Key {
    /// Every byte that depends on the name.
    pub span: Range<usize>,
    /// The text between the quotes.
    pub inner: Range<usize>,
    /// The name, if `inner` is not the name to the byte.
    pub name: Option<Box<str>>,
}

/// Collects the nodes while a reader goes through a text, and checks the limits.
#[derive(Debug, Default)]
pub struct Tree {
    pub(super) nodes: Vec<Node>,
    /// Numbers of the containers that are not closed yet.
    pub(super) open: Vec<usize>,
    key: Option<Key>,
}

impl Tree {
    /// The kind of the innermost open container.
    #[must_use]
    pub fn container(&self) -> Option<Kind> {
        let at = self.open.last()?;
        self.nodes.get(*at).map(|node| node.kind)
    }

    /// The name of the next value.
    pub fn key(&mut self, key: Key) {
        self.key = Some(key);
    }

    /// A value that has no values inside.
    ///
    /// # Errors
    /// There are too many values.
    pub fn leaf(
        &mut self,
        kind: Kind,
        span: Range<usize>,
        inner: Range<usize>,
        verbatim: bool,
    ) -> Result<(), JsonError> {
        if self.nodes.len() == MAX_NODES {
            return Err(JsonError {
                offset: span.start,
                fault: Fault::Size,
            });
        }
        let parent = self.open.last().copied();
        let mut index = 0;
        if let Some(parent) = parent.and_then(|at| self.nodes.get_mut(at)) {
            index = parent.children;
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
            parent,
            index,
            fault: None,
        });
        Ok(())
    }

    /// A container begins. Everything until [`close`](Self::close) is inside.
    ///
    /// # Errors
    /// It is nested too deep, or there are too many values.
    pub fn open(&mut self, kind: Kind, start: usize) -> Result<(), JsonError> {
        if self.open.len() == MAX_DEPTH {
            return Err(JsonError {
                offset: start,
                fault: Fault::Depth,
            });
        }
        self.leaf(kind, start..start, start..start, true)?;
        self.open.push(self.nodes.len() - 1);
        Ok(())
    }

    /// The innermost container ends.
    pub fn close(&mut self, at: usize) {
        let end = self.nodes.len();
        if let Some(node) = self.open.pop().and_then(|at| self.nodes.get_mut(at)) {
            node.span.end = at;
            node.inner = node.span.clone();
            node.end = end;
        }
    }

    /// The nodes, in the order of the text.
    #[must_use]
    pub fn into_nodes(self) -> Vec<Node> {
        self.nodes
    }
}

/// The values directly inside of the node of this number.
pub(super) fn children(nodes: &[Node], of: usize) -> impl Iterator<Item = (usize, &Node)> + Clone {
    let count = nodes.get(of).map_or(0, |node| node.children);
    let mut next = of + 1;
    (0..count).filter_map(move |_| {
        let (at, node) = (next, nodes.get(next)?);
        next = node.end;
        Some((at, node))
    })
}
