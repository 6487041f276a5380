//! The one reader of JSON: where each value and each name stands in a text, and one canonical form of it.
//!
//! It reads RFC 8259. What readers disagree about is a [`Fault`] of the value that has it: a name that stands twice in
//! an object, half of a surrogate pair, a number beyond the range of a double, deep nesting. [`Json::read`] refuses such a
//! text; [`Json::read_marked`] keeps the fault at its value, so that the values beside it can still be used.
//!
//! The canonical form has members sorted by their names (by code point), no blanks, strings with the shortest escapes, and
//! numbers as their original tokens. Two texts have the same form exactly if every reader of JSON that keeps numbers exact
//! takes them for the same value. A number is never rounded, so `1`, `1.0` and `1e0` stay apart.

use std::fmt::{self, Write};
use std::ops::Range;

/// Deepest nesting. `serde_json`, which reads on the other side of every app, stops at 128.
pub const MAX_DEPTH: usize = 64;

/// Most values in one text. A node takes about 150 bytes, so this bounds the memory at 30 MB.
pub const MAX_NODES: usize = 200_000;

/// What is wrong with a text or with a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The text is not JSON from here on, for this reason.
    Syntax(&'static str),
    /// A string has a control character, an unknown escape, or half of a surrogate pair.
    String(&'static str),
    /// A number is not written as JSON has it, or is beyond the range of a double.
    Number(&'static str),
    /// A name stands twice in one object.
    Duplicate,
    /// Nested deeper than [`MAX_DEPTH`].
    Depth,
    /// More values than [`MAX_NODES`].
    Size,
}

impl Fault {
    /// One line that quotes nothing of the text.
    #[must_use]
    pub fn message(self) -> &'static str {
        match self {
            Self::Syntax(message) | Self::String(message) | Self::Number(message) => message,
            Self::Duplicate => "a key stands twice in this object",
            Self::Depth => "nested too deep",
            Self::Size => "too many values",
        }
    }
}

/// Why a text is not read, and from which byte on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JsonError {
    /// The byte.
    pub offset: usize,
    /// The reason.
    pub fault: Fault,
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.fault.message())
    }
}

impl std::error::Error for JsonError {}

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
    /// A date, in a format other than JSON that has a notation for dates.
    Date,
    /// Values in order.
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
    /// Whether `inner` is the value to the byte: it has no escape.
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
    /// Why readers disagree about this value, or about the names of its members. Nothing inside a value that is nested too
    /// deep has a node.
    pub fault: Option<Fault>,
}

/// The name of a member.
#[derive(Debug, Clone)]
pub struct Key {
    /// Every byte that depends on what the name is.
    pub span: Range<usize>,
    /// What is between the quotes.
    pub inner: Range<usize>,
    /// What `inner` means, where it is not that to the byte.
    pub name: Option<Box<str>>,
}

/// Collects the nodes while a reader goes through a text, and holds the limits.
#[derive(Debug, Default)]
pub struct Tree {
    nodes: Vec<Node>,
    /// Numbers of the containers that are not closed yet.
    open: Vec<usize>,
    key: Option<Key>,
}

impl Tree {
    /// The kind of the innermost open container.
    #[must_use]
    pub fn container(&self) -> Option<Kind> {
        let at = self.open.last()?;
        self.nodes.get(*at).map(|node| node.kind)
    }

    /// The name of the next value.
    pub fn key(&mut self, key: Key) {
        self.key = Some(key);
    }

    /// A value that has no values inside.
    ///
    /// # Errors
    /// There are too many values.
    pub fn leaf(
        &mut self,
        kind: Kind,
        span: Range<usize>,
        inner: Range<usize>,
        verbatim: bool,
    ) -> Result<(), JsonError> {
        if self.nodes.len() == MAX_NODES {
            return Err(JsonError {
                offset: span.start,
                fault: Fault::Size,
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
            fault: None,
        });
        Ok(())
    }

    /// A container begins; what comes until [`close`](Self::close) is inside.
    ///
    /// # Errors
    /// It is nested too deep, or there are too many values.
    pub fn open(&mut self, kind: Kind, start: usize) -> Result<(), JsonError> {
        if self.open.len() == MAX_DEPTH {
            return Err(JsonError {
                offset: start,
                fault: Fault::Depth,
            });
        }
        self.leaf(kind, start..start, start..start, true)?;
        self.open.push(self.nodes.len() - 1);
        Ok(())
    }

    /// The innermost container ends.
    pub fn close(&mut self, at: usize) {
        let end = self.nodes.len();
        if let Some(node) = self.open.pop().and_then(|at| self.nodes.get_mut(at)) {
            node.span.end = at;
            node.inner = node.span.clone();
            node.end = end;
        }
    }

    /// The nodes, in the order of the text.
    #[must_use]
    pub fn into_nodes(self) -> Vec<Node> {
        self.nodes
    }
}

/// One JSON text with the places of its values.
#[derive(Debug)]
pub struct Json<'t> {
    text: &'t str,
    nodes: Vec<Node>,
}

impl<'t> Json<'t> {
    /// Reads a text that is one JSON value which every reader takes alike.
    ///
    /// # Errors
    /// The first fault.
    pub fn read(text: &'t str) -> Result<Self, JsonError> {
        Reader::run(text, true)
    }

    /// The same, but a fault of a value does not fail the text: it is at the value's node.
    ///
    /// # Errors
    /// The text is not JSON, or has too many values.
    pub fn read_marked(text: &'t str) -> Result<Self, JsonError> {
        Reader::run(text, false)
    }

    /// The text.
    #[must_use]
    pub fn text(&self) -> &'t str {
        self.text
    }

    /// Every value, in the order of the text. The first is the text as a whole.
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

    /// What a name means.
    #[must_use]
    pub fn name<'d>(&'d self, key: &'d Key) -> &'d str {
        (key.name.as_deref()).unwrap_or_else(|| self.slice(&key.inner))
    }

    /// What a string means; `None` for another value, and for a string with a fault.
    #[must_use]
    pub fn string(&self, node: &Node) -> Option<String> {
        let is_string = node.kind == Kind::String && node.fault.is_none();
        let inner = is_string.then(|| self.slice(&node.inner))?;
        match node.verbatim {
            true => Some(inner.to_owned()),
            false => unescape(inner),
        }
    }

    /// The values directly inside of the value of this number, in the order of the text.
    pub fn children(&self, of: usize) -> impl Iterator<Item = (usize, &Node)> + Clone {
        let count = self.nodes.get(of).map_or(0, |node| node.children);
        let mut next = of + 1;
        (0..count).filter_map(move |_| {
            let (at, node) = (next, self.nodes.get(next)?);
            next = node.end;
            Some((at, node))
        })
    }

    /// Appends the canonical form of the value of this number. The text must be without a fault.
    pub(crate) fn write(&self, of: usize, out: &mut String) {
        let Some(node) = self.nodes.get(of) else {
            return;
        };
        match node.kind {
            Kind::Object => {
                let members = self.children(of);
                let members =
                    members.filter_map(|(at, node)| Some((self.name(node.key.as_ref()?), at)));
                let mut members: Vec<(&str, usize)> = members.collect();
                members.sort_unstable();
                out.push('{');
                for (place, (name, at)) in members.into_iter().enumerate() {
                    if place > 0 {
                        out.push(',');
                    }
                    write_string(name, out);
                    out.push(':');
                    self.write(at, out);
                }
                out.push('}');
            }
            Kind::Array => {
                out.push('[');
                for (place, (at, _)) in self.children(of).enumerate() {
                    if place > 0 {
                        out.push(',');
                    }
                    self.write(at, out);
                }
                out.push(']');
            }
            Kind::String if !node.verbatim => {
                write_string(&self.string(node).unwrap_or_default(), out);
            }
            _ => out.push_str(self.slice(&node.span)),
        }
    }
}

/// Appends a canonical text as it is compared with others ([`crate::Arguments::by_value`]): nothing for null, an empty list
/// and what stands at one of the places of `except`.
pub(crate) fn by_value(text: &str, except: &[Range<usize>], out: &mut String) {
    // Most values are strings, and a string has one spelling.
    match text.as_bytes().first() {
        Some(b'{' | b'[') => {
            if let Ok(json) = Json::read(text) {
                json.by_value(0, except, out);
            }
        }
        _ if except.contains(&(0..text.len())) => {}
        _ => scalar_by_value(text, out),
    }
}

fn scalar_by_value(text: &str, out: &mut String) {
    let is_number = text.starts_with(|c: char| c == '-' || c.is_ascii_digit());
    match is_number.then(|| number_by_value(text)).flatten() {
        Some(number) => out.push_str(&number),
        None if text == "null" => {}
        None => out.push_str(text),
    }
}

/// Appends an object of the members for which `write` appends something.
pub(crate) fn object_by_value<'a, T>(
    members: impl Iterator<Item = (&'a str, T)>,
    mut write: impl FnMut(T, &mut String),
    out: &mut String,
) {
    out.push('{');
    let mut is_first = true;
    for (name, value) in members {
        let begun = out.len();
        if !is_first {
            out.push(',');
        }
        write_string(name, out);
        out.push(':');
        let named = out.len();
        write(value, out);
        match out.len() == named {
            true => out.truncate(begun),
            false => is_first = false,
        }
    }
    out.push('}');
}

/// A number by its sign, its digits without zeros at either end, and the power of ten of the last one: two texts are
/// the same exactly if the numbers are. `None` for an exponent beyond 32 bits.
fn number_by_value(number: &str) -> Option<String> {
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let exponent = i64::from(exponent.parse::<i32>().ok()?);
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", digits.as_str()),
    };
    let significant = digits.trim_end_matches('0');
    if significant.is_empty() {
        return Some("0".to_owned());
    }
    let zeros = i64::try_from(digits.len() - significant.len()).ok()?;
    let power = exponent + zeros - i64::try_from(fraction.len()).ok()?;
    Some(format!(
        "{sign}{}e{power}",
        significant.trim_start_matches('0')
    ))
}

impl Json<'_> {
    fn by_value(&self, of: usize, except: &[Range<usize>], out: &mut String) {
        let Some(node) = self
            .nodes
            .get(of)
            .filter(|node| !except.contains(&node.span))
        else {
            return;
        };
        match node.kind {
            Kind::Object => {
                let members = self.children(of);
                let members =
                    members.filter_map(|(at, node)| Some((self.name(node.key.as_ref()?), at)));
                object_by_value(members, |at, out| self.by_value(at, except, out), out);
            }
            Kind::Array if node.children == 0 => {}
            Kind::Array => {
                out.push('[');
                for (place, (at, _)) in self.children(of).enumerate() {
                    if place > 0 {
                        out.push(',');
                    }
                    self.by_value(at, except, out);
                }
                out.push(']');
            }
            _ => scalar_by_value(self.slice(&node.span), out),
        }
    }
}

/// The string with which a text begins, and how many bytes it takes.
pub(crate) fn leading_string(text: &str) -> Option<(String, usize)> {
    let mut reader = Reader::new(text, true);
    let (inner, _) = reader.string().ok()?;
    let string = unescape(text.get(inner)?)?;
    Some((string, reader.at))
}

/// Appends an object with these members, whose values are canonical already.
pub(crate) fn write_object<'a>(
    members: impl IntoIterator<Item = (&'a str, &'a str)>,
    out: &mut String,
) {
    out.push('{');
    for (at, (name, value)) in members.into_iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        write_string(name, out);
        out.push(':');
        out.push_str(value);
    }
    out.push('}');
}

/// Appends a string with the shortest escapes.
pub(crate) fn write_string(text: &str, out: &mut String) {
    out.push('"');
    let mut copied = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            0x8 => "\\b",
            b'\t' => "\\t",
            b'\n' => "\\n",
            0xc => "\\f",
            b'\r' => "\\r",
            0..=0x1f => "",
            _ => continue,
        };
        out.push_str(text.get(copied..at).unwrap_or_default());
        out.push_str(escape);
        if escape.is_empty() {
            // Writing to a `String` does not fail.
            let _ = write!(out, "\\u{byte:04x}");
        }
        copied = at + 1;
    }
    out.push_str(text.get(copied..).unwrap_or_default());
    out.push('"');
}

/// What stands between the quotes of a string without a fault, with its escapes resolved.
fn unescape(inner: &str) -> Option<String> {
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

/// The number of the four hexadecimal digits from here on.
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

/// Goes through a text once. Iterative, so no nesting overflows the stack.
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

    fn run(text: &'t str, is_strict: bool) -> Result<Json<'t>, JsonError> {
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
        let nodes = reader.tree.nodes;
        Ok(Json { text, nodes })
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
                    // The values beside it may have other labels, and must not fail with it.
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

    /// Where a name stands that an object has twice.
    fn duplicate(&self, object: usize) -> Option<usize> {
        let node = self.tree.nodes.get(object)?;
        if node.kind != Kind::Object || node.children < 2 {
            return None;
        }
        let mut names: Vec<(&str, &Key)> = Vec::with_capacity(node.children);
        let mut next = object + 1;
        while let Some(member) = self.tree.nodes.get(next).filter(|_| next < node.end) {
            let key = member.key.as_ref()?;
            let inner = || self.text.get(key.inner.clone()).unwrap_or_default();
            names.push((key.name.as_deref().unwrap_or_else(inner), key));
            next = member.end;
        }
        // Stable, so that the second of two is the later one.
        names.sort_by_key(|(name, _)| *name);
        let mut pairs = names.iter().zip(names.iter().skip(1));
        pairs.find_map(|(one, two)| (one.0 == two.0).then_some(two.1.span.start))
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

    /// From the opening quote to past the closing one; gives what is between them.
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
                        // Whatever is escaped does not end the string.
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
                // Whatever follows, as in `nullable`, is refused by `run`.
                self.at += word.len();
                return Ok((kind, None));
            }
        }
        Err(self.error(MISSING))
    }

    /// Passes an object or array without a look at what is in it.
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

    /// A fault of a value: an error where the text is read strictly.
    fn found(&self, fault: Fault, offset: usize) -> Result<Option<Fault>, JsonError> {
        match self.is_strict {
            true => Err(JsonError { offset, fault }),
            false => Ok(Some(fault)),
        }
    }

    fn error(&self, fault: Fault) -> JsonError {
        // An escape that the end of the text cuts off leaves the reader behind its end.
        let offset = self.at.min(self.bytes.len());
        JsonError { offset, fault }
    }
}

/// How many bytes of a string come before the next quote, backslash or control character.
fn plain(bytes: &[u8]) -> usize {
    let is_special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..=0x1f);
    bytes.iter().position(is_special).unwrap_or(bytes.len())
}

/// Whether a token is a number of JSON within the range of a double. The error says where it stops being one.
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
    // Some readers refuse what no double can hold, others take it for infinity. The largest double has 309 digits.
    let may_overflow = has_exponent || bytes.len() > 300;
    match may_overflow && !token.parse().is_ok_and(f64::is_finite) {
        true => Err((0, Fault::Number("a number beyond the range of a double"))),
        false => Ok(()),
    }
}
