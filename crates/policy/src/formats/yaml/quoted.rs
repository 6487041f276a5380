//! Quoted scalars, over one line or several.

use super::super::tree::{self, ParseError};
use super::{Parent, Scalar, Scanner, TRAILING, refuse};

impl Scanner<'_> {
    /// The quoted scalar that begins here.
    pub(super) fn quoted(&mut self, parent: Parent) -> Result<Scalar, ParseError> {
        let start = self.at;
        let double = self.peek() == Some(b'"');
        let quote = if double { b'"' } else { b'\'' };
        self.at += 1;
        let mut text = String::new();
        // No more than this much of `text` may be stripped as white space before a line break.
        let mut solid = 0;
        let mut verbatim = true;
        loop {
            let run = self.at;
            let special =
                |byte: &u8| *byte == quote || *byte == b'\n' || (double && *byte == b'\\');
            let rest = self.bytes.get(run..).unwrap_or_default();
            self.at += rest.iter().position(special).unwrap_or(rest.len());
            let ends = self.peek() == Some(quote)
                && (double || self.bytes.get(self.at + 1) != Some(&quote));
            // The value is what stands between the quotes, and needs no copy.
            if ends && verbatim {
                break;
            }
            verbatim = false;
            text.push_str(self.text.get(run..self.at).unwrap_or_default());
            match (self.peek(), self.bytes.get(self.at + 1)) {
                _ if ends => break,
                (None, _) => return Err(refuse(start, "a string does not end")),
                (Some(b'\\'), Some(b'\n')) => {
                    self.at += 1;
                    // At least one, so `breaks - 1` cannot underflow.
                    let breaks = self.breaks(parent)?;
                    text.extend(std::iter::repeat_n('\n', breaks - 1));
                    solid = text.len();
                }
                (Some(b'\\'), _) => {
                    text.push(self.escape()?);
                    solid = text.len();
                }
                (Some(b'\n'), _) => {
                    // Only what was written as it is can be stripped. To look further back would take quadratic time
                    // over a string of escaped blanks and line breaks.
                    let loose = text.get(solid..).unwrap_or_default();
                    let kept = loose.trim_end_matches([' ', '\t']).len();
                    text.truncate(solid + kept);
                    match self.breaks(parent)? {
                        1 => text.push(' '),
                        breaks => text.extend(std::iter::repeat_n('\n', breaks - 1)),
                    }
                    solid = text.len();
                }
                // Two single quotes.
                _ => {
                    text.push('\'');
                    self.at += 2;
                }
            }
        }
        self.at += 1;
        Ok(Scalar {
            span: start..self.at,
            inner: start + 1..self.at - 1,
            meaning: (!verbatim).then_some(text),
        })
    }

    /// From a line break inside a string to where the text goes on; gives how many breaks.
    fn breaks(&mut self, parent: Parent) -> Result<usize, ParseError> {
        let mut breaks = 0;
        loop {
            let line = self.at + 1;
            let rest = self.bytes.get(line..).unwrap_or_default();
            let indent = rest.iter().take_while(|byte| **byte == b' ').count();
            self.at = line + indent;
            breaks += 1;
            match self.peek() {
                Some(b'\n') => {}
                Some(b'\t') => return Err(refuse(self.at, TRAILING)),
                _ if parent.is_some_and(|parent| indent <= parent) => {
                    return Err(refuse(self.at, "a string goes on too far left"));
                }
                _ => {
                    if indent == 0 {
                        self.marker(line)?;
                    }
                    return Ok(breaks);
                }
            }
        }
    }

    /// From the backslash to past the escape.
    fn escape(&mut self) -> Result<char, ParseError> {
        let start = self.at;
        self.at += 2;
        let known = match self.bytes.get(start + 1) {
            Some(b'0') => '\0',
            Some(b'a') => '\u{7}',
            Some(b'b') => '\u{8}',
            Some(b't') => '\t',
            Some(b'n') => '\n',
            Some(b'v') => '\u{b}',
            Some(b'f') => '\u{c}',
            Some(b'r') => '\r',
            Some(b'e') => '\u{1b}',
            Some(b' ') => ' ',
            Some(b'"') => '"',
            Some(b'/') => '/',
            Some(b'\\') => '\\',
            Some(b'N') => '\u{85}',
            Some(b'_') => '\u{a0}',
            Some(b'L') => '\u{2028}',
            Some(b'P') => '\u{2029}',
            Some(b'x') => return self.hex(2),
            Some(b'u') => return self.hex(4),
            Some(b'U') => return self.hex(8),
            _ => return Err(refuse(start, "an unknown escape")),
        };
        Ok(known)
    }

    fn hex(&mut self, digits: usize) -> Result<char, ParseError> {
        let (character, end) = tree::hex(self.text, self.at, digits)
            .ok_or_else(|| refuse(self.at, "an unknown escape"))?;
        self.at = end;
        Ok(character)
    }
}
