//! YAML: where each value and key stands in the original text.
//!
//! It reads what serializers write (PyYAML's dumper in each of its scalar styles, and its like), and
//! only where YAML 1.1, YAML 1.2 and their implementations agree on the tokens. Everything else is
//! refused: comments, blank lines between values, anchors, aliases, tags, merge keys, explicit keys,
//! document markers, directives, tabs and spaces where they only separate, line breaks other than
//! `\n`, flow collections with line breaks between values, plain scalars that could be a key.

use std::ops::Range;

use serde_json::{Map, Value};

use super::tree::{Key, Kind, Node, ParseError, Tree, insert};

mod block;
mod flow;
mod quoted;
mod scalar;

#[cfg(test)]
pub(super) use self::scalar::resolve;

/// Longest key. A key on one line may not be longer in YAML (§7.4.2: 1024 characters).
const MAX_KEY_BYTES: usize = 1024;

/// Parses one YAML document.
pub(super) fn parse(text: &str) -> Result<(Vec<Node>, Value), ParseError> {
    let mut scanner = Scanner {
        text,
        bytes: text.as_bytes(),
        at: 0,
        line: 0,
        tree: Tree::default(),
    };
    scanner.characters()?;
    scanner.marker(0)?;
    let value = scanner.node(None, 0, true)?;
    match scanner.next_line()? {
        None => Ok((scanner.tree.nodes, value)),
        Some(line) => Err(refuse(line.start, INDENT)),
    }
}

const INDENT: &str = "this line is indented like no line above it";
const TRAILING: &str = "a space or tab stands where it only separates";

fn refuse(offset: usize, message: &'static str) -> ParseError {
    ParseError { offset, message }
}

struct Scanner<'t> {
    text: &'t str,
    bytes: &'t [u8],
    at: usize,
    /// Where the line begins that `at` is on, as long as only indentation and dashes stand before.
    line: usize,
    tree: Tree,
}

/// The next line that is not empty.
struct Line {
    /// Of its first character that is not a space.
    start: usize,
    indent: usize,
}

/// The indentation of the collection that a node is in; `None` at the root.
type Parent = Option<usize>;

/// A scalar that was read.
struct Scalar {
    span: Range<usize>,
    inner: Range<usize>,
    /// What it means, unless that is `inner` to the byte.
    meaning: Option<String>,
}

impl Scanner<'_> {
    /// The value that begins here. `block` says that a block collection may begin here as well.
    fn node(&mut self, parent: Parent, column: usize, block: bool) -> Result<Value, ParseError> {
        let start = self.at;
        match self.peek() {
            Some(b'-') if self.is_dash(start) => match block {
                true => self.sequence(column),
                false => Err(refuse(start, "a list begins inside a line")),
            },
            Some(b'[' | b'{') => self.flow(parent),
            Some(b'|' | b'>') => {
                let scalar = self.block_scalar(parent)?;
                self.string(scalar)
            }
            Some(b'"' | b'\'') => {
                let scalar = self.quoted(parent)?;
                match block && self.peek() == Some(b':') {
                    true => self.mapping(column, scalar),
                    false => self.string(scalar),
                }
            }
            _ => {
                let (scalar, is_key) = self.plain_line()?;
                match (is_key, block) {
                    (true, true) => self.mapping(column, scalar),
                    (true, false) => Err(refuse(self.at, "a key stands where a value should")),
                    (false, _) => self.plain(scalar, parent),
                }
            }
        }
    }

    /// A block sequence whose first dash is here.
    fn sequence(&mut self, column: usize) -> Result<Value, ParseError> {
        self.tree.open(Kind::Array, self.at)?;
        let mut items = Vec::new();
        loop {
            self.at += 1;
            items.push(match self.peek() {
                Some(b' ') => {
                    self.separation()?;
                    self.node(Some(column), self.at - self.line, true)?
                }
                _ => self.value_below(column, false)?,
            });
            match self.next_line()? {
                Some(line) if line.indent == column && self.is_dash(line.start) => self.go(&line),
                _ => break,
            }
        }
        self.tree.close(self.at);
        Ok(Value::Array(items))
    }

    /// A block mapping whose first key was read; its colon is here.
    fn mapping(&mut self, column: usize, first: Scalar) -> Result<Value, ParseError> {
        self.tree.open(Kind::Object, first.span.start)?;
        let mut map = Map::new();
        let mut key = first;
        loop {
            let (offset, name) = (key.span.start, self.key(key)?);
            self.at += 1;
            let value = match self.peek() {
                Some(b' ') => {
                    self.separation()?;
                    self.node(Some(column), 0, false)?
                }
                _ => self.value_below(column, true)?,
            };
            insert(&mut map, &name, value, offset)?;
            match self.next_line()? {
                Some(line) if line.indent == column => self.go(&line),
                Some(line) if line.indent > column => return Err(refuse(line.start, INDENT)),
                _ => break,
            }
            key = match self.peek() {
                // Without a parent: a key of several lines is refused in `key`, however it is indented.
                Some(b'"' | b'\'') => self.quoted(None)?,
                _ => self.plain_line()?.0,
            };
            if self.peek() != Some(b':') {
                return Err(refuse(self.at, "':' is missing here"));
            }
        }
        self.tree.close(self.at);
        Ok(Value::Object(map))
    }

    /// The value whose dash or colon ends its line: below it, or null.
    fn value_below(&mut self, column: usize, in_mapping: bool) -> Result<Value, ParseError> {
        match self.next_line()? {
            Some(line) if line.indent > column => {
                self.go(&line);
                self.node(Some(column), line.indent, true)
            }
            // A list may stand as far left as its key.
            Some(line) if in_mapping && line.indent == column && self.is_dash(line.start) => {
                self.go(&line);
                self.sequence(column)
            }
            _ => {
                // Of no length, but a value: that nothing was written is content.
                let here = self.at..self.at;
                self.tree.leaf(Kind::Null, here.clone(), here, true)?;
                Ok(Value::Null)
            }
        }
    }

    /// Takes a scalar as the key of the next value; gives its name.
    fn key(&mut self, scalar: Scalar) -> Result<String, ParseError> {
        let Scalar {
            span,
            inner,
            meaning,
        } = scalar;
        let written = self.slice(&span);
        if written.len() > MAX_KEY_BYTES || written.contains('\n') {
            return Err(refuse(span.start, "a key is longer than a key may be"));
        }
        let name = match &meaning {
            Some(name) => name.clone(),
            None => self.slice(&inner).to_owned(),
        };
        self.tree.key = Some(Key {
            span,
            inner,
            name: meaning.map(String::into_boxed_str),
        });
        Ok(name)
    }

    /// Takes a scalar as a string value.
    fn string(&mut self, scalar: Scalar) -> Result<Value, ParseError> {
        let verbatim = scalar.meaning.is_none();
        let value = match scalar.meaning {
            Some(value) => value,
            None => self.slice(&scalar.inner).to_owned(),
        };
        let (span, inner) = (scalar.span, scalar.inner);
        self.tree.leaf(Kind::String, span, inner, verbatim)?;
        Ok(Value::String(value))
    }

    /// From the end of a value, or of a dash or colon: the next line, if there is one.
    fn next_line(&self) -> Result<Option<Line>, ParseError> {
        match self.peek() {
            None => return Ok(None),
            Some(b'\n') => {}
            Some(_) => return Err(refuse(self.at, "something follows a value on its line")),
        }
        let begin = self.at + 1;
        let rest = self.bytes.get(begin..).unwrap_or_default();
        let indent = rest.iter().take_while(|byte| **byte == b' ').count();
        let start = begin + indent;
        match self.bytes.get(start) {
            None if indent == 0 => Ok(None),
            // Empty lines at the end separate nothing.
            Some(b'\n') if rest.iter().all(|byte| *byte == b'\n') => Ok(None),
            // An empty line between values, or a line of white space: readers differ about what they belong to.
            None | Some(b'\n' | b'\t') => Err(refuse(start, TRAILING)),
            Some(b'#') => Err(refuse(start, COMMENT)),
            Some(_) => {
                if indent == 0 {
                    self.marker(start)?;
                }
                Ok(Some(Line { start, indent }))
            }
        }
    }

    fn go(&mut self, line: &Line) {
        self.at = line.start;
        self.line = line.start - line.indent;
    }

    /// A dash that begins an item.
    fn is_dash(&self, at: usize) -> bool {
        let after = self.bytes.get(at + 1);
        self.bytes.get(at) == Some(&b'-') && matches!(after, None | Some(b' ' | b'\n'))
    }

    /// The spaces before a value on the same line.
    fn separation(&mut self) -> Result<(), ParseError> {
        while self.peek() == Some(b' ') {
            self.at += 1;
        }
        match self.peek() {
            None | Some(b'\n' | b'\t') => Err(refuse(self.at, TRAILING)),
            Some(b'#') => Err(refuse(self.at, COMMENT)),
            Some(_) => Ok(()),
        }
    }

    /// What begins a line and means something other than content there, whatever it stands in.
    fn marker(&self, line: usize) -> Result<(), ParseError> {
        let rest = self.bytes.get(line..).unwrap_or_default();
        match rest.starts_with(b"---") || rest.starts_with(b"...") || rest.starts_with(b"%") {
            true => Err(refuse(line, "a document marker or directive")),
            false => Ok(()),
        }
    }

    /// Characters that YAML does not allow, or that are line breaks for some readers only.
    fn characters(&self) -> Result<(), ParseError> {
        let bytes = self.bytes;
        let is_special = |byte: &u8| {
            *byte < b' ' && !matches!(byte, b'\n' | b'\t')
                || matches!(byte, 0x7f | 0xc2 | 0xe2 | 0xef)
        };
        let mut at = 0;
        while let Some(step) = bytes
            .get(at..)
            .and_then(|rest| rest.iter().position(is_special))
        {
            at += step;
            let allowed = match bytes.get(at..).unwrap_or_default() {
                // The controls U+0080 to U+009F, among them the break U+0085.
                [0xc2, 0x80..=0x9f, ..] => false,
                // The breaks U+2028 and U+2029.
                [0xe2, 0x80, 0xa8 | 0xa9, ..] => false,
                // The byte order mark, U+FFFE and U+FFFF.
                [0xef, 0xbb, 0xbf, ..] | [0xef, 0xbf, 0xbe | 0xbf, ..] => false,
                [0xc2 | 0xe2 | 0xef, ..] => true,
                _ => false,
            };
            if !allowed {
                return Err(refuse(at, "a character that not all readers take as text"));
            }
            at += 1;
        }
        Ok(())
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn slice(&self, range: &Range<usize>) -> &str {
        self.text.get(range.clone()).unwrap_or_default()
    }
}

const COMMENT: &str = "a comment";
/// Plain scalars of which YAML 1.1 makes something else than a value.
const MERGE: [&str; 2] = ["<<", "="];
