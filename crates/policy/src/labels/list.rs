//! Lists that are written as text.

use std::ops::Range;

use crate::formats::{Document, Format, Kind, Node};

/// Most elements of a list in one text. A longer one is a text.
const MAX_ELEMENTS: usize = 1000;

/// How a text writes a list, so that each element can have a label of its own.
///
/// Whoever writes an element may write a separator as well, and so make two elements of one. That is why only
/// elements of a [`Form`](super::Form) have the label of the rule: such an element says nothing, whoever wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum List {
    /// One element a line.
    Lines,
    /// `a, b,c`: a comma, and blanks after it.
    Commas,
    /// One element a line, after its number: `1. a`, `2) b`. Numbers that do not count from 1 belong to the
    /// element.
    Numbered,
    /// One element a line, after `- ` or `* `.
    Bullets,
}

/// A part of a list that is written as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    /// Where it stands in the text.
    pub(super) span: Range<usize>,
    /// Whether it is an element, and not what stands around one.
    pub(super) is_element: bool,
}

impl List {
    /// Each way with the name that a configuration uses.
    pub const NAMES: [(&str, Self); 4] = [
        ("lines", Self::Lines),
        ("commas", Self::Commas),
        ("numbered", Self::Numbered),
        ("bullets", Self::Bullets),
    ];

    /// A string in pieces without a gap. `None` if it is no string, has too many elements, or if its
    /// format can write a line break in several ways.
    pub(super) fn pieces(self, document: &Document<'_>, node: &Node) -> Option<Vec<Piece>> {
        if node.kind != Kind::String {
            return None;
        }
        let format = document.format();
        let line_break = match format.line_break() {
            Some(line_break) => line_break,
            // A verbatim value lies on one line there, so its commas can be found.
            None if self == Self::Commas && node.verbatim => "\n",
            None => return None,
        };
        let text = document.slice(&node.inner);
        let mut pieces = Vec::new();
        let mut at = 0;
        let mut count = 0;
        while at < text.len() {
            let rest = text.get(at..)?;
            let (length, separator) = self.split(rest, format, line_break);
            let line = rest.get(..length)?;
            count += 1;
            if count > MAX_ELEMENTS {
                return None;
            }
            // What marks the element, the element, and what separates it from the next: no byte is without a piece.
            let before = self.before(line, count);
            for (length, is_element) in
                [(before, false), (length - before, true), (separator, false)]
            {
                let start = node.inner.start + at;
                if length > 0 {
                    pieces.push(Piece {
                        span: start..start + length,
                        is_element,
                    });
                }
                at += length;
            }
        }
        Some(pieces)
    }

    /// The bytes of the first element with all that stands before it, and of what ends it.
    fn split(self, text: &str, format: Format, line_break: &str) -> (usize, usize) {
        let escapes = format.line_break() == Some("\\n");
        let mut chars = text.char_indices();
        while let Some((at, c)) = chars.next() {
            let rest = text.get(at..).unwrap_or_default();
            if rest.starts_with(line_break) {
                // The end of a text may be the end of its last line.
                if self != Self::Commas || rest.len() == line_break.len() {
                    return (at, line_break.len());
                }
            }
            if c == ',' && self == Self::Commas {
                let blanks = rest.get(1..).unwrap_or_default();
                let blanks = blanks.len() - blanks.trim_start_matches(' ').len();
                return (at, 1 + blanks);
            }
            // `\\n` is a backslash and a letter.
            if c == '\\' && escapes {
                chars.next();
            }
        }
        (text.len(), 0)
    }

    /// The bytes before an element that every list of this kind has there.
    fn before(self, line: &str, number: usize) -> usize {
        let of = |prefix: &str| line.starts_with(prefix).then_some(prefix.len());
        let found = match self {
            Self::Lines | Self::Commas => None,
            Self::Numbered => of(&format!("{number}. ")).or_else(|| of(&format!("{number}) "))),
            Self::Bullets => of("- ").or_else(|| of("* ")),
        };
        found.unwrap_or(0)
    }
}
