//! One JSON text as a tree of spans, so that every value can be cut out with its labels.
//!
//! Strict about what readers disagree about, as `ifc` is with arguments: a name that stands twice in an
//! object, half of a surrogate pair, a number beyond the range of a double. Such a value is *unfit*: it
//! is of no form, and its end is known, so that the values beside it can be told from it.

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
    Number {
        /// The nearest double, for limits.
        nearest: f64,
        /// Whether it has no fraction, by its digits: `5.00000000000000001` is none, whose nearest double is 5.
        is_whole: bool,
    },
    Boolean,
    Null,
    /// Readers disagree about it, or it is too deep or too long.
    Unfit,
}

impl Node {
    /// Whether nothing in it is unfit.
    pub(super) fn is_fit(&self) -> bool {
        match &self.kind {
            Kind::Unfit => false,
            Kind::Object { members, .. } => members.iter().all(|member| member.value.is_fit()),
            Kind::Array { items, .. } => items.iter().all(Self::is_fit),
            _ => true,
        }
    }
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
        self.blanks();
        let start = self.at;
        let kind = match self.peek().ok_or(NotJson)? {
            // The reader calls itself for each level, so this bounds its stack.
            // Unfit and no error: a sender that nests one value too deep must not make the values beside it fail, which
            // may have another label.
            b'{' | b'[' if depth > MAX_DEPTH => self.pass()?,
            b'{' => self.object(depth)?,
            b'[' => self.array(depth)?,
            b'"' => self.string()?.map_or(Kind::Unfit, Kind::Text),
            b'-' | b'0'..=b'9' => self.number()?,
            _ => self.word()?,
        };
        let span = start..self.at;
        Ok(Node { span, kind })
    }

    fn object(&mut self, depth: usize) -> Result<Kind, NotJson> {
        let mut frame = Vec::new();
        let mut members: Vec<Member> = Vec::new();
        let mut is_fit = true;
        self.take(b'{', &mut frame);
        if self.take(b'}', &mut frame) {
            return Ok(Kind::Object { members, frame });
        }
        loop {
            self.blanks();
            let start = self.at;
            let name = self.string()?;
            is_fit &= name.is_some();
            let name = name.unwrap_or_default();
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
        is_fit &= !members.iter().zip(members.iter().skip(1)).any(twice);
        Ok(match is_fit {
            true => Kind::Object { members, frame },
            false => Kind::Unfit,
        })
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

    /// Passes an object or array without a look at what is in it.
    fn pass(&mut self) -> Result<Kind, NotJson> {
        let mut open = 0_usize;
        loop {
            match self.peek().ok_or(NotJson)? {
                b'"' => {
                    self.string()?;
                    continue;
                }
                b'{' | b'[' => open += 1,
                b'}' | b']' => open -= 1,
                _ => {}
            }
            self.at += 1;
            if open == 0 {
                return Ok(Kind::Unfit);
            }
        }
    }

    /// A string without its escapes; `None` if they make no string.
    fn string(&mut self) -> Result<Option<String>, NotJson> {
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
        let nearest = self.token(start)?;
        let token = self.text.get(start..self.at).ok_or(NotJson)?;
        // Digits are text: a number of any length would have room for a message.
        let nearest = nearest.filter(|_| token.len() <= MAX_NUMBER);
        Ok(nearest.map_or(Kind::Unfit, |nearest| Kind::Number {
            nearest,
            is_whole: is_whole(token),
        }))
    }

    /// What stands from `start` to here, as one token; `None` if it is none.
    fn token<T: serde::de::DeserializeOwned>(&self, start: usize) -> Result<Option<T>, NotJson> {
        let token = self.text.get(start..self.at).ok_or(NotJson)?;
        Ok(serde_json::from_str(token).ok())
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

/// Whether a number of JSON is written without a fraction: `2`, `2.0` and `2e3` are; `2.5e1`, which is 25, is not.
fn is_whole(token: &str) -> bool {
    let (mantissa, exponent) = token.split_once(['e', 'E']).unwrap_or((token, "0"));
    let fraction = mantissa
        .split_once('.')
        .map_or("", |(_, fraction)| fraction);
    fraction.bytes().all(|digit| digit == b'0') && !exponent.starts_with('-')
}
