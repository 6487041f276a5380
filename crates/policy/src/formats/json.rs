//! JSON: where each value and key stands in the original text.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::Value;

use super::tree::{Key, Kind, Node, ParseError, Tree};

/// Parses one JSON value (RFC 8259), strictly: lone surrogates, trailing text and deep nesting are
/// errors.
pub(super) fn parse(text: &str) -> Result<(Vec<Node>, Value), ParseError> {
    let mut scanner = Scanner {
        text,
        bytes: text.as_bytes(),
        at: 0,
        tree: Tree::default(),
    };
    scanner.run()?;
    // The scanner has the places, the other reader the values that paths select. What one of them does not take is not
    // read.
    let value = serde_json::from_str(text).map_err(|_| ParseError {
        offset: 0,
        message: "not JSON as others read it",
    })?;
    Ok((scanner.tree.nodes, value))
}

/// The meaning of what stands between the quotes of a JSON string.
fn unescape(content: &str) -> Option<Cow<'_, str>> {
    if !content.contains('\\') {
        return Some(Cow::Borrowed(content));
    }
    serde_json::from_str::<String>(&format!("\"{content}\""))
        .ok()
        .map(Cow::Owned)
}

/// Finds the spans. Iterative, so no nesting overflows the stack.
struct Scanner<'t> {
    text: &'t str,
    bytes: &'t [u8],
    at: usize,
    tree: Tree,
}

#[derive(Clone, Copy)]
enum Expect {
    Value,
    /// A value or `]`.
    FirstItem,
    /// A key or `}`.
    FirstKey,
    Key,
    /// `,`, the closing bracket, or the end.
    AfterValue,
}

impl Scanner<'_> {
    fn run(&mut self) -> Result<(), ParseError> {
        let mut expect = Expect::Value;
        loop {
            self.skip_space();
            expect = match (expect, self.peek()) {
                (Expect::FirstItem, Some(b']')) | (Expect::FirstKey, Some(b'}')) => self.close(),
                (Expect::FirstItem | Expect::Value, Some(byte)) => self.value(byte)?,
                (Expect::FirstKey | Expect::Key, Some(b'"')) => self.member()?,
                (Expect::AfterValue, byte) => match (self.tree.container(), byte) {
                    (None, None) => return Ok(()),
                    (Some(Kind::Array), Some(b']')) | (Some(Kind::Object), Some(b'}')) => {
                        self.close()
                    }
                    (Some(container), Some(b',')) => {
                        self.at += 1;
                        match container {
                            Kind::Object => Expect::Key,
                            _ => Expect::Value,
                        }
                    }
                    _ => return Err(self.refuse("something else than ',' or the end is here")),
                },
                _ => return Err(self.refuse("a value or key is missing here")),
            };
        }
    }

    fn value(&mut self, byte: u8) -> Result<Expect, ParseError> {
        let start = self.at;
        match byte {
            b'{' => {
                self.tree.open(Kind::Object, start)?;
                self.at += 1;
                return Ok(Expect::FirstKey);
            }
            b'[' => {
                self.tree.open(Kind::Array, start)?;
                self.at += 1;
                return Ok(Expect::FirstItem);
            }
            b'"' => {
                let inner = self.string()?;
                let verbatim = !self.slice(&inner).contains('\\');
                let span = start..self.at;
                self.tree.leaf(Kind::String, span, inner, verbatim)?;
            }
            _ => {
                let kind = self.scalar(byte)?;
                self.tree.leaf(kind, start..self.at, start..self.at, true)?;
            }
        }
        Ok(Expect::AfterValue)
    }

    fn close(&mut self) -> Expect {
        self.at += 1;
        self.tree.close(self.at);
        Expect::AfterValue
    }

    fn member(&mut self) -> Result<Expect, ParseError> {
        let inner = self.string()?;
        let name = match unescape(self.slice(&inner)) {
            Some(Cow::Borrowed(_)) => None,
            Some(Cow::Owned(name)) => Some(name.into_boxed_str()),
            None => return Err(self.refuse("an unknown escape")),
        };
        self.tree.key = Some(Key {
            span: inner.clone(),
            inner,
            name,
        });
        self.skip_space();
        if self.peek() != Some(b':') {
            return Err(self.refuse("':' is missing here"));
        }
        self.at += 1;
        Ok(Expect::Value)
    }

    /// The text of a range.
    fn slice(&self, range: &Range<usize>) -> &str {
        self.text.get(range.clone()).unwrap_or_default()
    }

    /// From the opening quote to past the closing one; gives what is between them.
    fn string(&mut self) -> Result<Range<usize>, ParseError> {
        let start = self.at + 1;
        loop {
            self.at += 1;
            // `at` was on the opening quote, or on the last byte of an escape.
            let special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..=0x1f);
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            self.at += rest.iter().position(special).unwrap_or(rest.len());
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => self.escape()?,
                Some(_) => return Err(self.refuse("a control character in a string")),
                None => return Err(self.refuse("a string does not end")),
            }
        }
        self.at += 1;
        Ok(start..self.at - 1)
    }

    /// From the backslash to the last byte of the escape.
    fn escape(&mut self) -> Result<(), ParseError> {
        self.at += 1;
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(()),
            Some(b'u') => match self.hex()? {
                // Readers disagree about half of a pair, so the other half must follow at once.
                0xd800..=0xdbff => {
                    let pair = self.bytes.get(self.at + 1..self.at + 3) == Some(b"\\u");
                    self.at += 2;
                    match pair.then(|| self.hex()).transpose()? {
                        Some(0xdc00..=0xdfff) => Ok(()),
                        _ => Err(self.refuse("half of a surrogate pair")),
                    }
                }
                0xdc00..=0xdfff => Err(self.refuse("half of a surrogate pair")),
                _ => Ok(()),
            },
            _ => Err(self.refuse("an unknown escape")),
        }
    }

    /// From the `u` of `\uXXXX` to its last digit.
    fn hex(&mut self) -> Result<u32, ParseError> {
        let digits = self.bytes.get(self.at + 1..self.at + 5).unwrap_or_default();
        let code = digits.iter().try_fold(0, |code, byte| {
            Some(code * 16 + char::from(*byte).to_digit(16)?)
        });
        match code {
            Some(code) if digits.len() == 4 => {
                self.at += 4;
                Ok(code)
            }
            _ => Err(self.refuse("an unknown escape")),
        }
    }

    fn scalar(&mut self, byte: u8) -> Result<Kind, ParseError> {
        let literals = [
            ("true", Kind::Boolean),
            ("false", Kind::Boolean),
            ("null", Kind::Null),
        ];
        for (literal, kind) in literals {
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            if rest.starts_with(literal.as_bytes()) {
                // Whatever follows, as in `nullable`, is refused by `run`.
                self.at += literal.len();
                return Ok(kind);
            }
        }
        if byte == b'-' {
            self.at += 1;
        }
        match self.peek() {
            // No digit may follow (RFC 8259 §6): `run` refuses it, as it does all that is no separator.
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits()?,
            _ => return Err(self.refuse("a value or key is missing here")),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(Kind::Number)
    }

    fn digits(&mut self) -> Result<(), ParseError> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at == start {
            return Err(self.refuse("a digit is missing here"));
        }
        Ok(())
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn refuse(&self, message: &'static str) -> ParseError {
        ParseError {
            // A text that ends within a surrogate pair leaves the scanner behind its end.
            offset: self.at.min(self.bytes.len()),
            message,
        }
    }
}
