//! Block scalars: `|` and `>`.

use super::super::tree::ParseError;
use super::{INDENT, Parent, Scalar, Scanner, TRAILING, refuse};

/// What becomes of the line breaks at the end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Chomp {
    Strip,
    Clip,
    Keep,
}

struct Header {
    folded: bool,
    chomp: Chomp,
    /// The indentation of the content, less that of the parent, if it is given.
    indent: Option<usize>,
}

impl Scanner<'_> {
    /// The block scalar whose header is here. Its span goes up to the last line break before the
    /// next value: how many empty lines there are depends on what the scalar is.
    pub(super) fn block_scalar(&mut self, parent: Parent) -> Result<Scalar, ParseError> {
        let start = self.at;
        let Some(parent) = parent else {
            return Err(refuse(start, "a block scalar as the whole text"));
        };
        let header = self.header()?;
        let indent = match header.indent {
            Some(indent) => parent + indent,
            None => self.detect_indent(parent)?,
        };
        let mut lines: Vec<&str> = Vec::new();
        // The lines up to the last one that is not empty.
        let mut full = 0;
        while let Some(b'\n') = self.peek() {
            let line = self.at + 1;
            let rest = self.text.get(line..).unwrap_or_default();
            let length = rest.find('\n').unwrap_or(rest.len());
            let content = rest.get(..length).unwrap_or_default();
            let spaces = content.len() - content.trim_start_matches(' ').len();
            let blank = spaces == content.len();
            // The line break at the end of the text begins no line.
            if line == self.bytes.len() || (!blank && spaces < indent) {
                break;
            }
            self.at = line + length;
            if blank && self.at == self.bytes.len() {
                // A line for some readers, none for others.
                return Err(refuse(line, TRAILING));
            }
            let content = content.get(indent.min(spaces)..).unwrap_or_default();
            lines.push(content);
            if !content.is_empty() {
                full = lines.len();
            }
        }
        let empty = lines.len() - full;
        lines.truncate(full);
        let mut text = match header.folded {
            true => fold(&lines),
            false => lines.join("\n"),
        };
        // The end of the text counts as a line break, which whoever sent the text cut off.
        let breaks = empty + usize::from(full > 0);
        let kept = match header.chomp {
            Chomp::Strip => 0,
            Chomp::Clip => breaks.min(usize::from(full > 0)),
            Chomp::Keep => breaks,
        };
        text.extend(std::iter::repeat_n('\n', kept));
        Ok(Scalar {
            span: start..self.at,
            inner: start..self.at,
            meaning: Some(text),
        })
    }

    /// `|` or `>` and what may follow it; then the line must end.
    fn header(&mut self) -> Result<Header, ParseError> {
        let mut header = Header {
            folded: self.peek() == Some(b'>'),
            chomp: Chomp::Clip,
            indent: None,
        };
        loop {
            self.at += 1;
            match self.peek() {
                None | Some(b'\n') => return Ok(header),
                Some(b'-') if header.chomp == Chomp::Clip => header.chomp = Chomp::Strip,
                Some(b'+') if header.chomp == Chomp::Clip => header.chomp = Chomp::Keep,
                Some(digit @ b'1'..=b'9') if header.indent.is_none() => {
                    header.indent = Some(usize::from(digit - b'0'));
                }
                Some(_) => return Err(refuse(self.at, "something follows a block scalar's sign")),
            }
        }
    }

    /// The indentation of the first line that is not empty. Empty lines before it may not be longer.
    fn detect_indent(&self, parent: usize) -> Result<usize, ParseError> {
        let mut longest = 0;
        let rest = self.text.get(self.at..).unwrap_or_default();
        for line in rest.split('\n').skip(1) {
            let spaces = line.len() - line.trim_start_matches(' ').len();
            if spaces < line.len() {
                return match spaces > parent {
                    // Nothing but empty lines.
                    false => Ok(longest.max(parent + 1)),
                    true if longest > spaces => Err(refuse(self.at, INDENT)),
                    true => Ok(spaces),
                };
            }
            longest = longest.max(spaces);
        }
        Ok(longest.max(parent + 1))
    }
}

/// Joins lines as `>` does: a break between two lines of text is a space, breaks around empty lines
/// and around lines that begin with white space stay.
fn fold(lines: &[&str]) -> String {
    let mut text = String::new();
    let indented = |line: &str| line.starts_with([' ', '\t']);
    let mut last: Option<&str> = None;
    let mut empty = 0;
    for line in lines {
        if line.is_empty() {
            empty += 1;
            continue;
        }
        let breaks = match last {
            None => empty,
            Some(last) if indented(last) || indented(line) => empty + 1,
            Some(_) if empty == 0 => {
                text.push(' ');
                0
            }
            Some(_) => empty,
        };
        text.extend(std::iter::repeat_n('\n', breaks));
        text.push_str(line);
        last = Some(line);
        empty = 0;
    }
    text
}
