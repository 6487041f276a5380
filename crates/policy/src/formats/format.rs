//! How a text is written, and what depends on it.

use serde_json::Value;

use super::tree::{Kind, Node, ParseError, Tree};
use super::{json, python, yaml};

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

    /// The values of a text in the order of the text, and the value as a whole.
    pub(super) fn parse(self, text: &str) -> Result<(Vec<Node>, Value), ParseError> {
        match self {
            Self::Json => json::parse(text),
            Self::Yaml => yaml::parse(text),
            Self::Python => python::parse(text),
            Self::Text => {
                let mut tree = Tree::default();
                tree.leaf(Kind::String, 0..text.len(), 0..text.len(), true)?;
                Ok((tree.nodes, Value::String(text.to_owned())))
            }
        }
    }

    /// Whether the quotes of a string are the same whatever it says. JSON has one kind; in YAML and
    /// Python the value decides which quotes it gets, if any.
    pub(super) fn quotes_are_structure(self) -> bool {
        self == Self::Json
    }

    /// Whether values of this format have types. In text without structure a number is a string.
    pub(crate) fn has_types(self) -> bool {
        self != Self::Text
    }

    /// How a line break is written inside a string, if there is only one way.
    pub(crate) fn line_break(self) -> Option<&'static str> {
        match self {
            Self::Json | Self::Python => Some("\\n"),
            Self::Text => Some("\n"),
            // Its line breaks depend on the style, which depends on the whole value.
            Self::Yaml => None,
        }
    }
}
