//! What Python's `repr` writes: where each value and key stands in the original text.
//!
//! It reads dictionaries, lists, tuples, strings, numbers, `None`, `True`, `False`, `datetime`s and `date`s, written
//! exactly as `repr` writes them; anything else is refused. In that form a string ends at the first quote of its kind that has no backslash, so text
//! inside a string stays inside it.

use std::ops::Range;

use policy::Notation;
use policy::formats::{Key, Kind, Node, ParseError, Tree};
use serde_json::{Map, Number, Value};

use super::insert;

/// Python's `repr`.
#[derive(Debug)]
pub struct Python;

impl Notation for Python {
    fn name(&self) -> &'static str {
        "python"
    }

    fn parse(&self, text: &str) -> Result<(Vec<Node>, Value), ParseError> {
        let mut scanner = Scanner {
            text,
            bytes: text.as_bytes(),
            at: 0,
            tree: Tree::default(),
        };
        let value = scanner.value()?;
        match scanner.at == text.len() {
            true => Ok((scanner.tree.into_nodes(), value)),
            false => Err(scanner.refuse("something follows the value")),
        }
    }

    fn line_break(&self) -> Option<&'static str> {
        Some("\\n")
    }
}

struct Scanner<'t> {
    text: &'t str,
    bytes: &'t [u8],
    at: usize,
    tree: Tree,
}

/// A value that has no values inside.
struct Scalar {
    kind: Kind,
    span: Range<usize>,
    inner: Range<usize>,
    verbatim: bool,
    value: Value,
}

impl Scanner<'_> {
    fn value(&mut self) -> Result<Value, ParseError> {
        let start = self.at;
        match self.peek() {
            Some(b'[') => self.items(start, "]"),
            Some(b'(') => self.items(start, ")"),
            Some(b'{') => self.members(start),
            _ => {
                let scalar = self.scalar()?;
                self.leaf(scalar)
            }
        }
    }

    fn items(&mut self, start: usize, end: &str) -> Result<Value, ParseError> {
        self.tree.open(Kind::Array, start)?;
        self.at += 1;
        let mut items = Vec::new();
        while !self.take(end) {
            if !items.is_empty() {
                self.expect(", ")?;
            }
            items.push(self.value()?);
            // A tuple of one has a comma; without it, these are parentheses.
            if end == ")" && items.len() == 1 && self.peek() != Some(b',') {
                return Err(self.refuse("a comma is missing here"));
            }
            if end == ")" && items.len() == 1 && self.take(",)") {
                break;
            }
        }
        self.tree.close(self.at);
        Ok(Value::Array(items))
    }

    fn members(&mut self, start: usize) -> Result<Value, ParseError> {
        self.tree.open(Kind::Object, start)?;
        self.at += 1;
        let mut map = Map::new();
        while !self.take("}") {
            if !map.is_empty() {
                self.expect(", ")?;
            }
            let key = self.scalar()?;
            self.expect(": ")?;
            let offset = key.span.start;
            let name = match (key.kind, key.value) {
                (Kind::String, Value::String(name)) => name,
                // The name of a number is its text.
                _ => self.slice(&key.span).to_owned(),
            };
            self.tree.key(Key {
                span: key.span,
                inner: key.inner,
                name: (!key.verbatim).then(|| name.clone().into_boxed_str()),
            });
            let value = self.value()?;
            insert(&mut map, &name, value, offset)?;
        }
        self.tree.close(self.at);
        Ok(Value::Object(map))
    }

    fn leaf(&mut self, scalar: Scalar) -> Result<Value, ParseError> {
        let (span, inner) = (scalar.span, scalar.inner);
        self.tree.leaf(scalar.kind, span, inner, scalar.verbatim)?;
        Ok(scalar.value)
    }

    fn scalar(&mut self) -> Result<Scalar, ParseError> {
        let start = self.at;
        let (kind, value) = match self.peek() {
            Some(b'\'' | b'"') => return self.string(),
            Some(b'-' | b'0'..=b'9') => (Kind::Number, Value::Number(self.number()?)),
            _ if self.take("None") => (Kind::Null, Value::Null),
            _ if self.take("True") => (Kind::Boolean, Value::Bool(true)),
            _ if self.take("False") => (Kind::Boolean, Value::Bool(false)),
            _ if self.take("datetime.datetime(") => (Kind::Date, self.date(true)?),
            _ if self.take("datetime.date(") => (Kind::Date, self.date(false)?),
            _ => return Err(self.refuse("a value is missing here")),
        };
        Ok(Scalar {
            kind,
            span: start..self.at,
            inner: start..self.at,
            verbatim: true,
            value,
        })
    }

    /// From the opening quote to past the closing one.
    fn string(&mut self) -> Result<Scalar, ParseError> {
        let start = self.at;
        let quote = self.peek().unwrap_or(b'\'');
        self.at += 1;
        let mut text = String::new();
        let mut verbatim = true;
        loop {
            let run = self.at;
            let special = |byte: &u8| *byte == quote || *byte == b'\\' || byte.is_ascii_control();
            let rest = self.bytes.get(run..).unwrap_or_default();
            self.at += rest.iter().position(special).unwrap_or(rest.len());
            text.push_str(self.slice(&(run..self.at)));
            match self.peek() {
                Some(b'\\') => {
                    verbatim = false;
                    text.push(self.escape(quote)?);
                }
                Some(byte) if byte == quote => break,
                Some(_) => return Err(self.refuse("a control character in a string")),
                None => return Err(self.refuse("a string does not end")),
            }
        }
        self.at += 1;
        // `repr` takes double quotes only where that spares it to escape single ones.
        let double = text.contains('\'') && !text.contains('"');
        if double != (quote == b'"') {
            return Err(self.refuse("a string in quotes that it does not need"));
        }
        Ok(Scalar {
            kind: Kind::String,
            span: start..self.at,
            inner: start + 1..self.at - 1,
            verbatim,
            value: Value::String(text),
        })
    }

    /// From the backslash to past the escape.
    fn escape(&mut self, quote: u8) -> Result<char, ParseError> {
        let escape = self.bytes.get(self.at + 1).copied();
        let digits = match escape {
            Some(b'x') => 2,
            Some(b'u') => 4,
            Some(b'U') => 8,
            _ => {
                let character = match escape {
                    Some(b'\\') => '\\',
                    // A double quote is never escaped: `repr` uses double quotes only around a text that has none.
                    Some(b'\'') if quote == b'\'' => '\'',
                    Some(b'n') => '\n',
                    Some(b'r') => '\r',
                    Some(b't') => '\t',
                    _ => return Err(self.refuse("an escape that repr does not write")),
                };
                self.at += 2;
                return Ok(character);
            }
        };
        let (character, end) = hex(self.text, self.at + 2, digits)
            .ok_or_else(|| self.refuse("an escape that repr does not write"))?;
        self.at = end;
        Ok(character)
    }

    fn number(&mut self) -> Result<Number, ParseError> {
        let start = self.at;
        let rest = self.bytes.get(start..).unwrap_or_default();
        let part = |byte: &u8| byte.is_ascii_digit() || b"-+.e".contains(byte);
        self.at += rest.iter().take_while(|byte| part(byte)).count();
        let text = self.slice(&(start..self.at));
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let (mantissa, exponent) = match text.split_once('e') {
            None => (text, None),
            // `repr` always writes the sign of an exponent.
            Some((mantissa, exponent)) => (mantissa, exponent.strip_prefix(['-', '+'])),
        };
        let unsigned = mantissa.strip_prefix('-').unwrap_or(mantissa);
        let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, "0"));
        let formed = digits(whole)
            && digits(fraction)
            && (whole == "0" || !whole.starts_with('0'))
            && exponent.map_or(!text.contains('e'), digits);
        let small = text.parse().map(|number: i64| Number::from(number)).ok();
        let large = || text.parse().ok().and_then(Number::from_f64);
        let number = formed.then(|| small.or_else(large)).flatten();
        number.ok_or(ParseError {
            offset: start,
            message: "a number that repr does not write",
        })
    }

    /// The numbers of a date up to its closing parenthesis. It means the date as ISO 8601 has it.
    fn date(&mut self, with_time: bool) -> Result<Value, ParseError> {
        let limits = [
            (1, 9999),
            (1, 12),
            (1, 31),
            (0, 23),
            (0, 59),
            (0, 59),
            (0, 999_999),
        ];
        let fields = if with_time { 5..=7 } else { 3..=3 };
        let mut numbers = Vec::new();
        let mut zone = "";
        loop {
            // The zone is the last argument, after the minute at the earliest.
            if with_time && fields.contains(&numbers.len()) && self.take(UTC) {
                zone = "Z";
                break;
            }
            let start = self.at;
            let rest = self.bytes.get(start..).unwrap_or_default();
            self.at += rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let number: Option<u32> = self.slice(&(start..self.at)).parse().ok();
            let range = limits.get(numbers.len());
            match (number, range) {
                (Some(number), Some((least, most))) if (*least..=*most).contains(&number) => {
                    numbers.push(number);
                }
                _ => return Err(self.refuse("not a date")),
            }
            if !self.take(", ") {
                break;
            }
        }
        self.expect(")")?;
        if !fields.contains(&numbers.len()) {
            return Err(self.refuse("not a date"));
        }
        Ok(Value::String(iso(&numbers) + zone))
    }

    fn take(&mut self, token: &str) -> bool {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let found = rest.starts_with(token.as_bytes());
        if found {
            self.at += token.len();
        }
        found
    }

    fn expect(&mut self, token: &str) -> Result<(), ParseError> {
        match self.take(token) {
            true => Ok(()),
            false => Err(self.refuse("a separator or closing bracket is missing here")),
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn slice(&self, range: &Range<usize>) -> &str {
        self.text.get(range.clone()).unwrap_or_default()
    }

    fn refuse(&self, message: &'static str) -> ParseError {
        ParseError {
            offset: self.at.min(self.bytes.len()),
            message,
        }
    }
}

/// The one time zone whose `repr` is part of the language.
const UTC: &str = "tzinfo=datetime.timezone.utc";

/// Year, month, day, hour, minute, second, microsecond; the later ones may be missing.
fn iso(numbers: &[u32]) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    let seconds = numbers.len() == 5;
    let numbers = numbers.iter().copied().chain(seconds.then_some(0));
    for (number, before) in numbers.zip(["", "-", "-", "T", ":", ":", "."]) {
        let width = match before {
            "" => 4,
            "." => 6,
            _ => 2,
        };
        // Writing to a string does not fail.
        let _ = write!(text, "{before}{number:0width$}");
    }
    text
}

/// The character of so many hexadecimal digits, and where they end. A surrogate is none.
fn hex(text: &str, at: usize, digits: usize) -> Option<(char, usize)> {
    let end = at + digits;
    let code = text.get(at..end)?;
    // `from_str_radix` alone would take a sign.
    let hexadecimal = code.bytes().all(|byte| byte.is_ascii_hexdigit());
    let code = u32::from_str_radix(code, 16).ok();
    let character = code.filter(|_| hexadecimal).and_then(char::from_u32)?;
    Some((character, end))
}
