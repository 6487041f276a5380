//! The values of a text in the order of the text, each with its place.

use std::ops::Range;

use serde_json::{Map, Value};

/// Deepest nesting. The protocol refuses deeper results as well; half of serde_json's own limit, so
/// that ours is always the one that speaks.
const MAX_DEPTH: usize = 64;

/// Most values in one text. A node costs about 150 bytes here, so this bounds the memory at 30 MB.
const MAX_NODES: usize = 200_000;

/// Why a text is not taken as what it should be, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ParseError {
    /// The byte at which reading stopped.
    pub offset: usize,
    /// One line.
    pub message: &'static str,
}

/// What a value is.
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
    /// A date that its format has a notation for.
    Date,
    /// Values in order; a Python set and tuple too.
    Array,
    /// Values by name.
    Object,
}

/// One value. Nodes lie in the order of the text, so the descendants of a node follow it.
#[derive(Debug, Clone)]
pub struct Node {
    /// What it is.
    pub kind: Kind,
    /// The whole value as it is written, quotes and brackets included.
    pub span: Range<usize>,
    /// Of a string what is between the quotes; else the same as `span`.
    pub inner: Range<usize>,
    /// Whether `inner` is the value to the byte: no escape, no folded line.
    pub verbatim: bool,
    /// For the member of an object.
    pub key: Option<Key>,
    /// One past the last descendant.
    pub end: usize,
    /// How many values are directly inside.
    pub children: usize,
    /// The number of the node that it is directly inside of; `None` for the text as a whole.
    pub parent: Option<usize>,
    /// How many values of its parent stand before it.
    pub index: usize,
}

/// A key of an object.
#[derive(Debug, Clone)]
pub struct Key {
    /// Every byte that depends on what the key is.
    pub span: Range<usize>,
    /// What is between the quotes.
    pub inner: Range<usize>,
    /// What `inner` means, where it is not that to the byte.
    pub name: Option<Box<str>>,
}

pub(super) const DUPLICATE: &str = "a key stands twice in this object";

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
