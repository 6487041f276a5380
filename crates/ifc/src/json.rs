//! A strict reader of one JSON text, which writes what it has read in one canonical form.
//!
//! The form: members sorted by their names (by code point), no blanks, strings with the shortest
//! escapes, numbers as their original tokens. Two texts have the same form exactly if every reader
//! of JSON that keeps numbers exact takes them for the same value; a number is never rounded, so
//! `1`, `1.0` and `1e0` stay apart.
//!
//! Strict means RFC 8259 and three things more: no name stands twice in an object, no string contains
//! half of a surrogate pair, and no number is beyond the range of a double. About all three, readers
//! disagree, and the app's is not ours.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::ops::Range;

/// Deepest nesting that is read. `serde_json`, on the other side of every app, stops at 128.
pub(crate) const MAX_DEPTH: usize = 64;

/// Why a text is not read. It quotes nothing of the text, which a model or a stranger wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JsonError {
    /// Not JSON, from this byte on.
    Syntax(usize),
    /// Nested deeper than [`MAX_DEPTH`].
    Depth,
    /// A name stands twice in one object.
    Duplicate,
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(at) => write!(f, "not JSON at byte {at}"),
            Self::Depth => write!(f, "nested deeper than {MAX_DEPTH} levels"),
            Self::Duplicate => f.write_str("a name stands twice in one object"),
        }
    }
}

/// The members of a text that is one JSON object, each value in canonical form; `None` if it is
/// another value.
pub(crate) fn members(text: &str) -> Result<Option<BTreeMap<String, String>>, JsonError> {
    let mut reader = Reader { text, at: 0 };
    reader.blanks();
    let found = match reader.peek() {
        Some(b'{') => Some(reader.object(0)?),
        _ => {
            reader.value(&mut String::new(), 0)?;
            None
        }
    };
    reader.blanks();
    match reader.peek() {
        None => Ok(found),
        Some(_) => Err(reader.syntax()),
    }
}

/// What stands directly inside a value.
pub(crate) enum Children {
    /// The members of an object, with where their values stand.
    Members(Vec<(String, Range<usize>)>),
    /// Where the elements of a list stand.
    Elements(Vec<Range<usize>>),
    /// It is neither.
    None,
}

/// What stands directly inside the value at this place of a canonical text. `None` where no value stands there.
pub(crate) fn children(text: &str, place: Range<usize>) -> Option<Children> {
    let text = text.get(..place.end)?;
    let mut reader = Reader {
        text,
        at: place.start,
    };
    let (is_object, close) = match reader.peek()? {
        b'{' => (true, b'}'),
        b'[' => (false, b']'),
        _ => return Some(Children::None),
    };
    let mut members = Vec::new();
    let mut elements = Vec::new();
    let mut scratch = String::new();
    reader.at += 1;
    while reader.peek()? != close {
        // Canonical text has no blanks.
        if !(members.is_empty() && elements.is_empty()) {
            reader.take(b',').ok()?;
        }
        let name = match is_object {
            true => Some(reader.string().ok()?),
            false => None,
        };
        if is_object {
            reader.take(b':').ok()?;
        }
        let start = reader.at;
        scratch.clear();
        // From depth 0: the whole text has been read within the limit.
        reader.value(&mut scratch, 0).ok()?;
        match name {
            Some(name) => members.push((name, start..reader.at)),
            None => elements.push(start..reader.at),
        }
    }
    Some(match is_object {
        true => Children::Members(members),
        false => Children::Elements(elements),
    })
}

/// The value at this place of a canonical text as it is compared with others ([`crate::Arguments::by_value`]); empty
/// for null, an empty list and what stands at one of the places of `except`.
pub(crate) fn by_value(text: &str, place: Range<usize>, except: &[Range<usize>]) -> String {
    if except.contains(&place) {
        return String::new();
    }
    match children(text, place.clone()) {
        Some(Children::Members(members)) => object_by_value(
            (members.iter()).map(|(name, at)| (name.as_str(), by_value(text, at.clone(), except))),
        ),
        Some(Children::Elements(elements)) if elements.is_empty() => String::new(),
        Some(Children::Elements(elements)) => {
            let values = elements.into_iter().map(|at| by_value(text, at, except));
            format!("[{}]", values.collect::<Vec<_>>().join(","))
        }
        Some(Children::None) | None => match text.get(place).unwrap_or_default() {
            "null" => String::new(),
            number if number.starts_with(|c: char| c == '-' || c.is_ascii_digit()) => {
                number_by_value(number).unwrap_or_else(|| number.to_owned())
            }
            other => other.to_owned(),
        },
    }
}

/// An object of the members that are not empty.
pub(crate) fn object_by_value<'a>(members: impl Iterator<Item = (&'a str, String)>) -> String {
    let members: Vec<(&str, String)> = members.filter(|(_, value)| !value.is_empty()).collect();
    let mut out = String::new();
    write_object(
        members.iter().map(|(name, value)| (*name, value.as_str())),
        &mut out,
    );
    out
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

/// The string with which a text begins, and how many bytes it takes.
pub(crate) fn leading_string(text: &str) -> Option<(String, usize)> {
    let mut reader = Reader { text, at: 0 };
    let string = reader.string().ok()?;
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
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            // Writing to a `String` does not fail.
            '\0'..='\u{1f}' => drop(write!(out, "\\u{:04x}", u32::from(c))),
            _ => out.push(c),
        }
    }
    out.push('"');
}

struct Reader<'a> {
    text: &'a str,
    /// Byte offset of what is read next; always on a character boundary when a character is taken.
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn syntax(&self) -> JsonError {
        JsonError::Syntax(self.at)
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn take(&mut self, expected: u8) -> Result<(), JsonError> {
        match self.peek() == Some(expected) {
            true => {
                self.at += 1;
                Ok(())
            }
            false => Err(self.syntax()),
        }
    }

    /// Reads a value inside `depth` others, and appends its canonical form.
    fn value(&mut self, out: &mut String, depth: usize) -> Result<(), JsonError> {
        match self.peek() {
            Some(b'{') => {
                let members = self.object(depth)?;
                let members = members.iter();
                write_object(members.map(|(name, value)| (&**name, &**value)), out);
                Ok(())
            }
            Some(b'[') => self.array(out, depth),
            Some(b'"') => {
                write_string(&self.string()?, out);
                Ok(())
            }
            Some(b'-' | b'0'..=b'9') => self.number(out),
            _ => self.word(out),
        }
    }

    fn object(&mut self, depth: usize) -> Result<BTreeMap<String, String>, JsonError> {
        // The reader calls itself for each level, so this bounds its stack.
        if depth >= MAX_DEPTH {
            return Err(JsonError::Depth);
        }
        self.take(b'{')?;
        let mut members = BTreeMap::new();
        self.blanks();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(members);
        }
        loop {
            self.blanks();
            let name = self.string()?;
            self.blanks();
            self.take(b':')?;
            self.blanks();
            let mut value = String::new();
            self.value(&mut value, depth + 1)?;
            if members.insert(name, value).is_some() {
                return Err(JsonError::Duplicate);
            }
            self.blanks();
            if self.peek() != Some(b',') {
                self.take(b'}')?;
                return Ok(members);
            }
            self.at += 1;
        }
    }

    fn array(&mut self, out: &mut String, depth: usize) -> Result<(), JsonError> {
        if depth >= MAX_DEPTH {
            return Err(JsonError::Depth);
        }
        self.take(b'[')?;
        out.push('[');
        self.blanks();
        if self.peek() != Some(b']') {
            loop {
                self.blanks();
                self.value(out, depth + 1)?;
                self.blanks();
                if self.peek() != Some(b',') {
                    break;
                }
                self.at += 1;
                out.push(',');
            }
        }
        self.take(b']')?;
        out.push(']');
        Ok(())
    }

    /// A string, with its escapes resolved.
    fn string(&mut self) -> Result<String, JsonError> {
        self.take(b'"')?;
        let mut out = String::new();
        loop {
            let rest = self.text.get(self.at..).unwrap_or_default();
            let next = rest.chars().next().ok_or_else(|| self.syntax())?;
            match next {
                '"' => {
                    self.at += 1;
                    return Ok(out);
                }
                '\\' => {
                    self.at += 1;
                    out.push(self.escape()?);
                }
                '\0'..='\u{1f}' => return Err(self.syntax()),
                other => {
                    self.at += other.len_utf8();
                    out.push(other);
                }
            }
        }
    }

    /// What an escape stands for; the backslash has been read.
    fn escape(&mut self) -> Result<char, JsonError> {
        let escape = self.peek().ok_or_else(|| self.syntax())?;
        let character = match escape {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                self.at += 1;
                return self.unicode();
            }
            _ => return Err(self.syntax()),
        };
        self.at += 1;
        Ok(character)
    }

    /// The character of `uXXXX`, or of two of them that are a surrogate pair.
    fn unicode(&mut self) -> Result<char, JsonError> {
        let first = self.hex()?;
        let code = match first {
            0xd800..=0xdbff => {
                self.take(b'\\')?;
                self.take(b'u')?;
                let second = self.hex()?;
                let low = second.checked_sub(0xdc00).filter(|low| *low < 0x400);
                let low = low.ok_or_else(|| self.syntax())?;
                0x1_0000 + ((first - 0xd800) << 10) + low
            }
            code => code,
        };
        // A low surrogate alone is no character.
        char::from_u32(code).ok_or_else(|| self.syntax())
    }

    fn hex(&mut self) -> Result<u32, JsonError> {
        let digits = self.text.get(self.at..self.at + 4);
        // `from_str_radix` would take a sign.
        let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let code = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let code = code.ok_or_else(|| self.syntax())?;
        self.at += 4;
        Ok(code)
    }

    /// A number, appended as its own token.
    fn number(&mut self, out: &mut String) -> Result<(), JsonError> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            // No digit may follow a leading zero; whatever does is refused by who reads on.
            Some(b'0') => self.at += 1,
            _ => self.digits()?,
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        let token = self.text.get(start..self.at).unwrap_or_default();
        // Some readers refuse what no double can hold, others take it for infinity.
        if !token.parse().is_ok_and(f64::is_finite) {
            return Err(JsonError::Syntax(start));
        }
        out.push_str(token);
        Ok(())
    }

    fn digits(&mut self) -> Result<(), JsonError> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        match self.at > start {
            true => Ok(()),
            false => Err(self.syntax()),
        }
    }

    fn word(&mut self, out: &mut String) -> Result<(), JsonError> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let words = ["true", "false", "null"];
        let word = words.into_iter().find(|word| rest.starts_with(word));
        let word = word.ok_or_else(|| self.syntax())?;
        self.at += word.len();
        out.push_str(word);
        Ok(())
    }
}
