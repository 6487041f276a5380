//! A JSON text with the places of its values.

use std::ops::Range;

use super::reader::{self, unescape};
use super::tree::{JsonError, Key, Kind, Node, children};

/// One JSON text with the places of its values.
#[derive(Debug)]
pub struct Json<'t> {
    text: &'t str,
    pub(super) nodes: Vec<Node>,
}

impl<'t> Json<'t> {
    /// Reads a text that is one JSON value without a fault.
    ///
    /// # Errors
    /// The first fault.
    pub fn read(text: &'t str) -> Result<Self, JsonError> {
        let nodes = reader::read(text, true)?;
        Ok(Self { text, nodes })
    }

    /// Reads a text that is one JSON value. A fault of a value does not fail the text; it is noted at the value's node.
    ///
    /// # Errors
    /// The text is not JSON, or has too many values.
    pub fn read_marked(text: &'t str) -> Result<Self, JsonError> {
        let nodes = reader::read(text, false)?;
        Ok(Self { text, nodes })
    }

    /// The text.
    #[must_use]
    pub fn text(&self) -> &'t str {
        self.text
    }

    /// Every value, in the order of the text. The first is the root.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The same, without the text.
    #[must_use]
    pub fn into_nodes(self) -> Vec<Node> {
        self.nodes
    }

    /// The text of a range; empty if it is none of this text.
    #[must_use]
    pub fn slice(&self, span: &Range<usize>) -> &'t str {
        self.text.get(span.clone()).unwrap_or_default()
    }

    /// The name, with its escapes resolved.
    #[must_use]
    pub fn name<'d>(&'d self, key: &'d Key) -> &'d str {
        (key.name.as_deref()).unwrap_or_else(|| self.slice(&key.inner))
    }

    /// The text of a string, with its escapes resolved; `None` for another value, and for a string with a fault.
    #[must_use]
    pub fn string(&self, node: &Node) -> Option<String> {
        let is_string = node.kind == Kind::String && node.fault.is_none();
        let inner = is_string.then(|| self.slice(&node.inner))?;
        match node.verbatim {
            true => Some(inner.to_owned()),
            false => unescape(inner),
        }
    }

    /// The values directly inside of a node, in the order of the text, each with its number.
    pub fn children(&self, of: usize) -> impl Iterator<Item = (usize, &Node)> + Clone {
        children(&self.nodes, of)
    }
}
