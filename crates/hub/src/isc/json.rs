//! One JSON text as a tree of spans, so that every value can be cut out with its labels.
//!
//! Strict about what readers disagree about, as `ifc` is with arguments: no name stands twice in an
//! object, no half of a surrogate pair, no number beyond the range of a double.

use std::ops::Range;

/// Deepest nesting of a message; a schema that goes deeper is refused.
pub(super) const MAX_DEPTH: usize = 8;

/// Longest number, in bytes: every double has a shorter form.
pub(super) const MAX_NUMBER: usize = 32;

/// A value and where it stands.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) span: Range<usize>,
    pub(super) kind: Kind,
}

#[derive(Debug)]
pub(super) enum Kind {
    Object {
        members: Vec<Member>,
        /// Braces, commas, colons and names: all that is not a value.
        frame: Vec<Range<usize>>,
    },
    Array {
        items: Vec<Node>,
        /// Brackets and commas.
        frame: Vec<Range<usize>>,
    },
    /// A string without its escapes.
    Text(String),
    Number(f64),
    Boolean,
    Null,
}

#[derive(Debug)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) value: Node,
}

/// The text is not one JSON value that every reader understands alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NotJson;

/// Reads a text that is one JSON value.
pub(super) fn read(text: &str) -> Result<Node, NotJson> {
    let mut reader = Reader { text, at: 0 };
    let node = reader.value(0)?;
    reader.blanks();
    match reader.at == text.len() {
        true => Ok(node),
        false => Err(NotJson),
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blanks(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    /// Whether this byte stands next; then it is passed, and its span kept.
    fn take(&mut self, byte: u8, frame: &mut Vec<Range<usize>>) -> bool {
        self.blanks();
        let is_next = self.peek() == Some(byte);
        if is_next {
            frame.push(self.at..self.at + 1);
            self.at += 1;
        }
        is_next
    }

    fn value(&mut self, depth: usize) -> Result<Node, NotJson> {
        // The reader calls itself for each level, so this bounds its stack.
        if depth > MAX_DEPTH {
            return Err(NotJson);
        }
        self.blanks();
        let start = self.at;
        let kind = match self.peek().ok_or(NotJson)? {
            b'{' => self.object(depth)?,
            b'[' => self.array(depth)?,
            b'"' => Kind::Text(self.string()?),
            b'-' | b'0'..=b'9' => self.number()?,
            _ => self.word()?,
        };
        let span = start..self.at;
        Ok(Node { span, kind })
    }

    fn object(&mut self, depth: usize) -> Result<Kind, NotJson> {
        let mut frame = Vec::new();
        let mut members: Vec<Member> = Vec::new();
        self.take(b'{', &mut frame);
        if self.take(b'}', &mut frame) {
            return Ok(Kind::Object { members, frame });
        }
        loop {
            self.blanks();
            let start = self.at;
            let name = self.string()?;
            frame.push(start..self.at);
            if !self.take(b':', &mut frame) {
                return Err(NotJson);
            }
            let value = self.value(depth + 1)?;
            members.push(Member { name, value });
            if self.take(b'}', &mut frame) {
                break;
            }
            if !self.take(b',', &mut frame) {
                return Err(NotJson);
            }
        }
        // The order in which a sender writes its members says nothing to the receiver.
        members.sort_by(|a, b| a.name.cmp(&b.name));
        let twice = |(a, b): (&Member, &Member)| a.name == b.name;
        match members.iter().zip(members.iter().skip(1)).any(twice) {
            true => Err(NotJson),
            false => Ok(Kind::Object { members, frame }),
        }
    }

    fn array(&mut self, depth: usize) -> Result<Kind, NotJson> {
        let mut frame = Vec::new();
        let mut items = Vec::new();
        self.take(b'[', &mut frame);
        if self.take(b']', &mut frame) {
            return Ok(Kind::Array { items, frame });
        }
        loop {
            items.push(self.value(depth + 1)?);
            if self.take(b']', &mut frame) {
                return Ok(Kind::Array { items, frame });
            }
            if !self.take(b',', &mut frame) {
                return Err(NotJson);
            }
        }
    }

    fn string(&mut self) -> Result<String, NotJson> {
        let start = self.at;
        if self.peek() != Some(b'"') {
            return Err(NotJson);
        }
        self.at += 1;
        loop {
            match self.peek().ok_or(NotJson)? {
                b'"' => break,
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        self.token(start)
    }

    fn number(&mut self) -> Result<Kind, NotJson> {
        let start = self.at;
        while let Some(b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        match self.at - start > MAX_NUMBER {
            true => Err(NotJson),
            false => Ok(Kind::Number(self.token(start)?)),
        }
    }

    /// What stands from `start` to here, as one token.
    fn token<T: serde::de::DeserializeOwned>(&self, start: usize) -> Result<T, NotJson> {
        let token = self.text.get(start..self.at).ok_or(NotJson)?;
        serde_json::from_str(token).map_err(|_| NotJson)
    }

    fn word(&mut self) -> Result<Kind, NotJson> {
        let rest = self.text.get(self.at..).ok_or(NotJson)?;
        let words = [
            ("true", Kind::Boolean),
            ("false", Kind::Boolean),
            ("null", Kind::Null),
        ];
        let mut words = words.into_iter();
        let (word, kind) = words
            .find(|(word, _)| rest.starts_with(word))
            .ok_or(NotJson)?;
        self.at += word.len();
        Ok(kind)
    }
}
