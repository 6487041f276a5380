//! JSON with byte spans: where each value and key stands in the original text.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::Value;

/// Deepest nesting. The protocol refuses deeper results as well; half of serde_json's own limit, so
/// that ours is always the one that speaks.
pub(crate) const MAX_DEPTH: usize = 64;

/// Most values in one text. A node costs about 100 bytes here, so this bounds the memory at 20 MB.
pub(crate) const MAX_NODES: usize = 200_000;

/// Why a text is not taken as JSON, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JsonError {
    pub(crate) offset: usize,
    pub(crate) message: &'static str,
}

/// A text that is one JSON value, with the place of every part.
pub(crate) struct Document<'t> {
    text: &'t str,
    nodes: Vec<Node>,
    value: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    String,
    /// Number, `true`, `false` or `null`.
    Scalar,
    Array,
    Object,
}

/// One value. Nodes lie in the order of the text, so the descendants of a node follow it.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    /// The whole value, quotes and brackets included.
    pub(crate) span: Range<usize>,
    /// For the member of an object: its key, between the quotes.
    pub(crate) key: Option<Range<usize>>,
    /// One past the last descendant.
    pub(crate) end: usize,
    children: usize,
}

impl Node {
    /// The text of the value: of a string what is between the quotes.
    pub(crate) fn content(&self) -> Range<usize> {
        match self.kind {
            Kind::String => self.span.start + 1..self.span.end - 1,
            _ => self.span.clone(),
        }
    }
}

impl<'t> Document<'t> {
    /// Parses one JSON value (RFC 8259), strictly: lone surrogates, trailing text and nesting past
    /// [`MAX_DEPTH`] are errors. Duplicate keys are found by [`Document::values`]; whoever relies on
    /// what the text means calls it.
    pub(crate) fn parse(text: &'t str) -> Result<Self, JsonError> {
        let mut scanner = Scanner {
            bytes: text.as_bytes(),
            at: 0,
            key: None,
            nodes: Vec::new(),
            open: Vec::new(),
        };
        scanner.run()?;
        let value = serde_json::from_str(text).map_err(|_| JsonError {
            offset: 0,
            message: "not JSON as others read it",
        })?;
        Ok(Self {
            text,
            nodes: scanner.nodes,
            value,
        })
    }

    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub(crate) fn value(&self) -> &Value {
        &self.value
    }

    /// Length of the text in bytes.
    pub(crate) fn len(&self) -> usize {
        self.text.len()
    }

    pub(crate) fn slice(&self, span: &Range<usize>) -> &'t str {
        self.text.get(span.clone()).unwrap_or_default()
    }

    /// The parsed value of each node, in the order of the nodes. The scanner and serde_json must
    /// agree on every one of them; that also finds duplicate keys, of which serde_json keeps one.
    pub(crate) fn values(&self) -> Result<Vec<&Value>, JsonError> {
        let mut values = Vec::with_capacity(self.nodes.len());
        // The open containers: value, node number one past its last, next array index.
        let mut open: Vec<(&Value, usize, usize)> = Vec::new();
        for (at, node) in self.nodes.iter().enumerate() {
            let refuse = |message| JsonError {
                offset: node.span.start,
                message,
            };
            while open.last().is_some_and(|(_, end, _)| *end <= at) {
                open.pop();
            }
            let value = match (open.last_mut(), &node.key) {
                (None, _) => Some(&self.value),
                (Some((Value::Object(map), ..)), Some(key)) => {
                    unescape(self.slice(key)).and_then(|key| map.get(key.as_ref()))
                }
                (Some((Value::Array(items), _, next)), None) => {
                    *next += 1;
                    items.get(*next - 1)
                }
                _ => None,
            };
            let value = value.ok_or_else(|| refuse("not JSON as others read it"))?;
            let children = match (node.kind, value) {
                (Kind::Object, Value::Object(map)) => map.len(),
                (Kind::Array, Value::Array(items)) => items.len(),
                (Kind::String, Value::String(_)) => 0,
                (Kind::Scalar, Value::Null | Value::Bool(_) | Value::Number(_)) => 0,
                _ => return Err(refuse("not JSON as others read it")),
            };
            if children != node.children {
                return Err(refuse("a key stands twice in this object"));
            }
            if node.end > at + 1 {
                open.push((value, node.end, 0));
            }
            values.push(value);
        }
        Ok(values)
    }
}

/// The meaning of what stands between the quotes of a JSON string.
pub(crate) fn unescape(content: &str) -> Option<Cow<'_, str>> {
    if !content.contains('\\') {
        return Some(Cow::Borrowed(content));
    }
    serde_json::from_str::<String>(&format!("\"{content}\""))
        .ok()
        .map(Cow::Owned)
}

/// Finds the spans. Iterative, so no nesting overflows the stack.
struct Scanner<'t> {
    bytes: &'t [u8],
    at: usize,
    /// The key that was read for the value to come.
    key: Option<Range<usize>>,
    nodes: Vec<Node>,
    /// Numbers of the containers that are not closed yet.
    open: Vec<usize>,
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
    fn run(&mut self) -> Result<(), JsonError> {
        let mut expect = Expect::Value;
        loop {
            self.skip_space();
            expect = match (expect, self.peek()) {
                (Expect::FirstItem, Some(b']')) | (Expect::FirstKey, Some(b'}')) => self.close(),
                (Expect::FirstItem | Expect::Value, Some(byte)) => self.value(byte)?,
                (Expect::FirstKey | Expect::Key, Some(b'"')) => self.member()?,
                (Expect::AfterValue, byte) => match (self.container(), byte) {
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

    fn container(&self) -> Option<Kind> {
        let at = self.open.last()?;
        self.nodes.get(*at).map(|node| node.kind)
    }

    fn value(&mut self, byte: u8) -> Result<Expect, JsonError> {
        let start = self.at;
        let kind = match byte {
            b'{' => Kind::Object,
            b'[' => Kind::Array,
            b'"' => {
                self.string()?;
                Kind::String
            }
            _ => {
                self.scalar(byte)?;
                Kind::Scalar
            }
        };
        if self.nodes.len() == MAX_NODES {
            return Err(self.refuse("too many values"));
        }
        if let Some(parent) = self.open.last().and_then(|at| self.nodes.get_mut(*at)) {
            parent.children += 1;
        }
        self.nodes.push(Node {
            kind,
            span: start..self.at,
            key: self.key.take(),
            end: self.nodes.len() + 1,
            children: 0,
        });
        if matches!(kind, Kind::String | Kind::Scalar) {
            return Ok(Expect::AfterValue);
        }
        if self.open.len() == MAX_DEPTH {
            return Err(self.refuse("nested too deep"));
        }
        self.open.push(self.nodes.len() - 1);
        self.at += 1;
        Ok(match kind {
            Kind::Object => Expect::FirstKey,
            _ => Expect::FirstItem,
        })
    }

    fn close(&mut self) -> Expect {
        self.at += 1;
        let end = self.nodes.len();
        if let Some(node) = self.open.pop().and_then(|at| self.nodes.get_mut(at)) {
            node.span.end = self.at;
            node.end = end;
        }
        Expect::AfterValue
    }

    fn member(&mut self) -> Result<Expect, JsonError> {
        let start = self.at;
        self.string()?;
        self.key = Some(start + 1..self.at - 1);
        self.skip_space();
        if self.peek() != Some(b':') {
            return Err(self.refuse("':' is missing here"));
        }
        self.at += 1;
        Ok(Expect::Value)
    }

    /// From the opening quote to past the closing one.
    fn string(&mut self) -> Result<(), JsonError> {
        loop {
            self.at += 1;
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
        Ok(())
    }

    /// From the backslash to the last byte of the escape.
    fn escape(&mut self) -> Result<(), JsonError> {
        self.at += 1;
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(()),
            Some(b'u') => match self.hex()? {
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
    fn hex(&mut self) -> Result<u32, JsonError> {
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

    fn scalar(&mut self, byte: u8) -> Result<(), JsonError> {
        for literal in ["true", "false", "null"] {
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            if rest.starts_with(literal.as_bytes()) {
                self.at += literal.len();
                return Ok(());
            }
        }
        if byte == b'-' {
            self.at += 1;
        }
        match self.peek() {
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
        Ok(())
    }

    fn digits(&mut self) -> Result<(), JsonError> {
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

    fn refuse(&self, message: &'static str) -> JsonError {
        JsonError {
            offset: self.at.min(self.bytes.len()),
            message,
        }
    }
}
