//! Lists in a text.

use std::ops::Range;

use crate::formats::{Document, Format, Kind, Node};

/// Most elements of a list in one text. A longer list is one text.
const MAX_ELEMENTS: usize = 1000;

/// The notation of a list in a text, so that each element can have a label of its own.
///
/// The author of an element may write a separator, and so make two elements of one. So only elements of a
/// [`Form`](super::Form), which cannot carry a sentence, have the label of the rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum List {
    /// One element a line.
    Lines,
    /// `a, b,c`: a comma, and blanks after it.
    Commas,
    /// One element a line, after its number from 1: `1. a`, `2) b`. Other numbers belong to the element.
    Numbered,
    /// One element a line, after `- ` or `* `.
    Bullets,
}

/// A part of a list in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    /// Its place in the text.
    pub(super) span: Range<usize>,
    /// Whether it is an element; else it is a mark or separator.
    pub(super) is_element: bool,
}

impl List {
    /// Each notation with its name in a configuration.
    pub const NAMES: [(&str, Self); 4] = [
        ("lines", Self::Lines),
        ("commas", Self::Commas),
        ("numbered", Self::Numbered),
        ("bullets", Self::Bullets),
    ];

    /// The pieces of a string, without a gap. `None` if it is no string, has too many elements, or if its format has several
    /// spellings of a line break.
    pub(super) fn pieces(self, document: &Document<'_>, node: &Node) -> Option<Vec<Piece>> {
        if node.kind != Kind::String {
            return None;
        }
        let format = document.format();
        let line_break = match format.line_break() {
            Some(line_break) => line_break,
            // A verbatim value is on one line there, so its commas can be found.
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
            // The mark of the element, the element, and the separator. Every byte is in a piece.
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

    /// The lengths of the first element with its mark, and of the separator after it.
    fn split(self, text: &str, format: Format, line_break: &str) -> (usize, usize) {
        let escapes = format.line_break() == Some("\\n");
        let mut chars = text.char_indices();
        while let Some((at, c)) = chars.next() {
            let rest = text.get(at..).unwrap_or_default();
            if rest.starts_with(line_break) {
                // In a list with commas, a line break counts only at the end of the text.
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

    /// The length of the mark before an element.
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
