//! Reads JSON text into nodes.

use std::ops::Range;

use super::tree::{Fault, JsonError, Key, Kind, Node, Tree, children};

/// The values of a text. A fault of a value is an error if the text is read strictly, else it is noted at the value.
pub(super) fn read(text: &str, is_strict: bool) -> Result<Vec<Node>, JsonError> {
    Reader::run(text, is_strict)
}

/// The string at the beginning of a text, and its length in bytes as it is written.
pub(crate) fn leading_string(text: &str) -> Option<(String, usize)> {
    let mut reader = Reader::new(text, true);
    let (inner, _) = reader.string().ok()?;
    let string = unescape(text.get(inner)?)?;
    Some((string, reader.at))
}

/// The text between the quotes of a string without a fault, with its escapes resolved.
pub(super) fn unescape(inner: &str) -> Option<String> {
    let mut out = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some((before, escape)) = rest.split_once('\\') {
        out.push_str(before);
        let (character, length) = match *escape.as_bytes().first()? {
            b'b' => ('\u{8}', 1),
            b'f' => ('\u{c}', 1),
            b'n' => ('\n', 1),
            b'r' => ('\r', 1),
            b't' => ('\t', 1),
            b'u' => match hex(escape.as_bytes(), 1)? {
                high @ 0xd800..=0xdbff => {
                    let low = hex(escape.as_bytes(), 7)?.checked_sub(0xdc00)?;
                    (
                        char::from_u32(0x1_0000 + ((high - 0xd800) << 10) + low)?,
                        11,
                    )
                }
                code => (char::from_u32(code)?, 5),
            },
            other => (char::from(other), 1),
        };
        out.push(character);
        rest = escape.get(length..)?;
    }
    out.push_str(rest);
    Some(out)
}

/// The value of the four hexadecimal digits at this place.
fn hex(bytes: &[u8], at: usize) -> Option<u32> {
    let digits = bytes.get(at..at + 4)?.iter();
    digits.copied().try_fold(0, |code, digit| {
        Some(code * 16 + char::from(digit).to_digit(16)?)
    })
}

const MISSING: Fault = Fault::Syntax("a value or key is missing here");
const SEPARATOR: Fault = Fault::Syntax("something else than ',' or the end is here");
const ESCAPE: Fault = Fault::String("an unknown escape");
const SURROGATE: Fault = Fault::String("half of a surrogate pair");

/// Goes through a text once. It is iterative, so no nesting overflows the stack.
struct Reader<'t> {
    text: &'t str,
    bytes: &'t [u8],
    /// Byte offset of what is read next.
    at: usize,
    tree: Tree,
    is_strict: bool,
}

#[derive(Clone, Copy)]
enum Expect {
    Value,
    /// A value or `]`.
    FirstItem,
    /// A name or `}`.
    FirstKey,
    Key,
    /// `,`, the closing bracket, or the end.
    AfterValue,
}

impl<'t> Reader<'t> {
    fn new(text: &'t str, is_strict: bool) -> Self {
        Self {
            text,
            bytes: text.as_bytes(),
            at: 0,
            tree: Tree::default(),
            is_strict,
        }
    }

    fn run(text: &'t str, is_strict: bool) -> Result<Vec<Node>, JsonError> {
        let mut reader = Self::new(text, is_strict);
        let mut expect = Expect::Value;
        loop {
            reader.blanks();
            expect = match (expect, reader.peek()) {
                (Expect::FirstItem, Some(b']')) | (Expect::FirstKey, Some(b'}')) => {
                    reader.close()?
                }
                (Expect::FirstItem | Expect::Value, Some(byte)) => reader.value(byte)?,
                (Expect::FirstKey | Expect::Key, Some(b'"')) => reader.member()?,
                (Expect::AfterValue, byte) => match (reader.tree.container(), byte) {
                    (None, None) => break,
                    (Some(Kind::Array), Some(b']')) | (Some(Kind::Object), Some(b'}')) => {
                        reader.close()?
                    }
                    (Some(container), Some(b',')) => {
                        reader.at += 1;
                        match container {
                            Kind::Object => Expect::Key,
                            _ => Expect::Value,
                        }
                    }
                    _ => return Err(reader.error(SEPARATOR)),
                },
                _ => return Err(reader.error(MISSING)),
            };
        }
        Ok(reader.tree.nodes)
    }

    fn value(&mut self, byte: u8) -> Result<Expect, JsonError> {
        let start = self.at;
        let fault = match byte {
            b'{' | b'[' => {
                let (kind, first) = match byte {
                    b'{' => (Kind::Object, Expect::FirstKey),
                    _ => (Kind::Array, Expect::FirstItem),
                };
                match self.tree.open(kind, start) {
                    Ok(()) => {
                        self.at += 1;
                        return Ok(first);
                    }
                    // The values beside it may have other labels, so they must stay readable.
                    Err(error) if error.fault == Fault::Depth && !self.is_strict => {
                        self.pass()?;
                        self.tree.leaf(kind, start..self.at, start..self.at, true)?;
                        Some(Fault::Depth)
                    }
                    Err(error) => return Err(error),
                }
            }
            b'"' => {
                let (inner, fault) = self.string()?;
                let verbatim = !self
                    .bytes
                    .get(inner.clone())
                    .unwrap_or_default()
                    .contains(&b'\\');
                self.tree
                    .leaf(Kind::String, start..self.at, inner, verbatim)?;
                fault
            }
            _ => {
                let (kind, fault) = self.scalar(byte)?;
                self.tree.leaf(kind, start..self.at, start..self.at, true)?;
                fault
            }
        };
        if let Some(node) = self.tree.nodes.last_mut() {
            node.fault = fault;
        }
        Ok(Expect::AfterValue)
    }

    fn close(&mut self) -> Result<Expect, JsonError> {
        self.at += 1;
        let number = self.tree.open.last().copied();
        self.tree.close(self.at);
        if let Some(number) = number
            && let Some(second) = self.duplicate(number)
        {
            let fault = self.found(Fault::Duplicate, second)?;
            if let Some(node) = self.tree.nodes.get_mut(number) {
                node.fault = node.fault.or(fault);
            }
        }
        Ok(Expect::AfterValue)
    }

    /// Where a name of this object stands for the second time.
    fn duplicate(&self, object: usize) -> Option<usize> {
        let nodes = &self.tree.nodes;
        let node = nodes.get(object)?;
        if node.kind != Kind::Object || node.children < 2 {
            return None;
        }
        let keys = children(nodes, object).filter_map(|(_, member)| member.key.as_ref());
        let named = keys.map(|key| {
            let inner = || self.text.get(key.inner.clone()).unwrap_or_default();
            (key.name.as_deref().unwrap_or_else(inner), key.span.start)
        });
        let mut names: Vec<(&str, usize)> = named.collect();
        names.sort_unstable();
        let mut pairs = names.iter().zip(names.iter().skip(1));
        pairs.find_map(|(one, two)| (one.0 == two.0).then_some(two.1))
    }

    fn member(&mut self) -> Result<Expect, JsonError> {
        let (inner, fault) = self.string()?;
        let text = self.text.get(inner.clone()).unwrap_or_default();
        let has_escape = fault.is_none() && text.contains('\\');
        let name = has_escape.then(|| unescape(text)).flatten();
        let object = self.tree.open.last().copied();
        if let Some(object) = object.and_then(|at| self.tree.nodes.get_mut(at)) {
            object.fault = object.fault.or(fault);
        }
        self.tree.key(Key {
            span: inner.clone(),
            inner,
            name: name.map(String::into_boxed_str),
        });
        self.blanks();
        if self.peek() != Some(b':') {
            return Err(self.error(Fault::Syntax("':' is missing here")));
        }
        self.at += 1;
        Ok(Expect::Value)
    }

    /// From the opening quote to past the closing one. Returns the range between them.
    fn string(&mut self) -> Result<(Range<usize>, Option<Fault>), JsonError> {
        if self.peek() != Some(b'"') {
            return Err(self.error(MISSING));
        }
        let start = self.at + 1;
        let mut fault = None;
        self.at = start;
        loop {
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            self.at += plain(rest);
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => {
                    let begun = self.at;
                    if let Err(wrong) = self.escape() {
                        fault = fault.or(self.found(wrong, begun)?);
                        // An escaped quote does not end the string.
                        self.at = begun + 2;
                    }
                }
                Some(_) => {
                    let wrong = Fault::String("a control character in a string");
                    fault = fault.or(self.found(wrong, self.at)?);
                    self.at += 1;
                }
                None => return Err(self.error(Fault::Syntax("a string does not end"))),
            }
        }
        self.at += 1;
        Ok((start..self.at - 1, fault))
    }

    /// From the backslash to past the escape.
    fn escape(&mut self) -> Result<(), Fault> {
        let bytes = self.bytes.get(self.at..).unwrap_or_default();
        self.at += match bytes.get(1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => 2,
            Some(b'u') => match hex(bytes, 2).ok_or(ESCAPE)? {
                // Readers disagree about half of a pair, so the other half must follow at once.
                0xd800..=0xdbff => match hex(bytes, 8) {
                    Some(0xdc00..=0xdfff) if bytes.get(6..8) == Some(b"\\u") => 12,
                    _ => return Err(SURROGATE),
                },
                0xdc00..=0xdfff => return Err(SURROGATE),
                _ => 6,
            },
            _ => return Err(ESCAPE),
        };
        Ok(())
    }

    fn scalar(&mut self, byte: u8) -> Result<(Kind, Option<Fault>), JsonError> {
        let start = self.at;
        let rest = self.bytes.get(start..).unwrap_or_default();
        if matches!(byte, b'-' | b'0'..=b'9') {
            let is_part =
                |byte: &&u8| matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9');
            self.at += rest.iter().take_while(is_part).count();
            let token = self.text.get(start..self.at).unwrap_or_default();
            return match number(token) {
                Ok(()) => Ok((Kind::Number, None)),
                Err((at, fault)) => Ok((Kind::Number, self.found(fault, start + at)?)),
            };
        }
        let words = [
            ("true", Kind::Boolean),
            ("false", Kind::Boolean),
            ("null", Kind::Null),
        ];
        for (word, kind) in words {
            if rest.starts_with(word.as_bytes()) {
                // `run` refuses what follows in a word like `nullable`.
                self.at += word.len();
                return Ok((kind, None));
            }
        }
        Err(self.error(MISSING))
    }

    /// Skips an object or array without reading its values.
    fn pass(&mut self) -> Result<(), JsonError> {
        let mut open = 0_usize;
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.string()?;
                    continue;
                }
                Some(b'{' | b'[') => open += 1,
                Some(b'}' | b']') => open -= 1,
                Some(_) => {}
                None => return Err(self.error(SEPARATOR)),
            }
            self.at += 1;
            if open == 0 {
                return Ok(());
            }
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// A fault of a value. It is an error where the text is read strictly.
    fn found(&self, fault: Fault, offset: usize) -> Result<Option<Fault>, JsonError> {
        match self.is_strict {
            true => Err(JsonError { offset, fault }),
            false => Ok(Some(fault)),
        }
    }

    fn error(&self, fault: Fault) -> JsonError {
        // An escape that the end of the text cuts off leaves the reader past the end.
        let offset = self.at.min(self.bytes.len());
        JsonError { offset, fault }
    }
}

/// How many bytes of a string come before the next quote, backslash or control character.
fn plain(bytes: &[u8]) -> usize {
    let special = bytes.iter().position(|byte| is_special(*byte));
    special.unwrap_or(bytes.len())
}

/// Whether this byte cannot stand for itself in a string.
pub(super) fn is_special(byte: u8) -> bool {
    matches!(byte, b'"' | b'\\' | 0..=0x1f)
}

/// Checks that a token is a number of JSON within the range of a double. The error has the byte at which it is not.
fn number(token: &str) -> Result<(), (usize, Fault)> {
    let bytes = token.as_bytes();
    let at = |at: usize| bytes.get(at).copied();
    let digits = |from: usize| {
        let rest = bytes.get(from..).unwrap_or_default();
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        match count {
            0 => Err((from, Fault::Number("a digit is missing here"))),
            count => Ok(from + count),
        }
    };
    let first = usize::from(at(0) == Some(b'-'));
    let mut end = match at(first) {
        // No digit may follow a leading zero (RFC 8259 §6).
        Some(b'0') => first + 1,
        _ => digits(first)?,
    };
    if at(end) == Some(b'.') {
        end = digits(end + 1)?;
    }
    let has_exponent = matches!(at(end), Some(b'e' | b'E'));
    if has_exponent {
        let sign = usize::from(matches!(at(end + 1), Some(b'+' | b'-')));
        end = digits(end + 1 + sign)?;
    }
    if end < bytes.len() {
        return Err((
            end,
            Fault::Number("something else than ',' or the end is here"),
        ));
    }
    // Some readers refuse what no double can hold, others read it as infinity. The largest double has 309 digits.
    let may_overflow = has_exponent || bytes.len() > 300;
    match may_overflow && !token.parse().is_ok_and(f64::is_finite) {
        true => Err((0, Fault::Number("a number beyond the range of a double"))),
        false => Ok(()),
    }
}
