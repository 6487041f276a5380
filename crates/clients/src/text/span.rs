//! What the formats share: places in a text, and entries of a table.

use std::ops::Range;

use serde_json::Value;

/// What is inserted.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Piece<'a> {
    /// A value, laid out like the file.
    Value(&'a Value),
    /// The text of an entry that was cut out before.
    Text(&'a str),
}

/// The entry of this name in the table at this place.
pub(crate) fn at<'v>(value: &'v Value, place: &[String], name: &str) -> Option<&'v Value> {
    table(value, place)?.get(name)
}

/// The table at this place.
pub(crate) fn table<'v>(value: &'v Value, place: &[String]) -> Option<&'v Value> {
    place.iter().try_fold(value, |value, key| value.get(key))
}

/// The text without these parts.
pub(super) fn cut(text: &str, parts: &[Range<usize>]) -> String {
    let (mut rest, mut from) = (String::new(), 0);
    for part in parts {
        rest += text.get(from..part.start).unwrap_or_default();
        from = part.end;
    }
    rest + text.get(from..).unwrap_or_default()
}

/// The text with another in the place of a part.
pub(super) fn replaced(text: &str, part: Range<usize>, by: &str) -> String {
    let before = text.get(..part.start).unwrap_or_default();
    let after = text.get(part.end..).unwrap_or_default();
    format!("{before}{by}{after}")
}

/// The line ends of a file.
pub(super) fn line_end(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

/// Where the line of a place begins.
pub(super) fn line_start(text: &str, at: usize) -> usize {
    let before = text.get(..at).unwrap_or_default();
    before.rfind('\n').map_or(0, |end| end + 1)
}

/// The number of the line of a place.
pub(super) fn line_number(text: &str, at: usize) -> usize {
    text.get(..at).unwrap_or(text).matches('\n').count() + 1
}
