//! Plain scalars, and which type they have.

use serde_json::{Number, Value};

use super::super::tree::{Kind, ParseError};
use super::{COMMENT, MERGE, Parent, Scalar, Scanner, TRAILING, refuse};

impl Scanner<'_> {
    /// The plain scalar that begins here, up to the end of its line or its colon; and whether it
    /// ends with a colon, so that it is a key.
    pub(super) fn plain_line(&mut self) -> Result<(Scalar, bool), ParseError> {
        let start = self.at;
        let first = self.peek();
        let second = self.bytes.get(start + 1);
        match first {
            None | Some(b'\n') => return Err(refuse(start, "a value is missing here")),
            Some(
                b' ' | b',' | b'[' | b']' | b'{' | b'}' | b'#' | b'&' | b'*' | b'!' | b'|' | b'>'
                | b'\'' | b'"' | b'%' | b'@' | b'`',
            ) => return Err(refuse(start, "a value cannot begin with this")),
            Some(b'-' | b'?' | b':') if matches!(second, None | Some(b' ' | b'\n')) => {
                return Err(refuse(start, "a value cannot begin with this"));
            }
            Some(_) => {}
        }
        self.plain_rest(start)
    }

    /// The same for a line that continues a plain scalar, whatever it begins with.
    fn plain_rest(&mut self, start: usize) -> Result<(Scalar, bool), ParseError> {
        let mut is_key = false;
        let special = |byte: &u8| matches!(byte, b'\n' | b':' | b'#' | b'\t');
        loop {
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            self.at += rest.iter().position(special).unwrap_or(rest.len());
            let before = self.at.checked_sub(1).and_then(|at| self.bytes.get(at));
            match (self.peek(), self.bytes.get(self.at + 1)) {
                (None | Some(b'\n'), _) => break,
                (Some(b':'), None | Some(b' ' | b'\n')) => {
                    is_key = true;
                    break;
                }
                (Some(b'\t'), _) | (Some(b':'), Some(b'\t')) => {
                    return Err(refuse(self.at, TRAILING));
                }
                (Some(b'#'), _) if before == Some(&b' ') => return Err(refuse(self.at, COMMENT)),
                _ => self.at += 1,
            }
        }
        let span = start..self.at;
        if self.slice(&span).ends_with(' ') {
            return Err(refuse(self.at, TRAILING));
        }
        if MERGE.contains(&self.slice(&span)) {
            return Err(refuse(start, "a merge key"));
        }
        let inner = span.clone();
        let meaning = None;
        Ok((
            Scalar {
                span,
                inner,
                meaning,
            },
            is_key,
        ))
    }

    /// A plain value whose first line was read, with the lines that continue it.
    pub(super) fn plain(&mut self, first: Scalar, parent: Parent) -> Result<Value, ParseError> {
        let start = first.span.start;
        let mut folded: Option<String> = None;
        while let Some(line) = self.next_line()? {
            if parent.is_some_and(|parent| line.indent <= parent) {
                break;
            }
            let mut text = match folded.take() {
                Some(text) => text,
                None => self.slice(&first.span).to_owned(),
            };
            self.go(&line);
            let (more, is_key) = self.plain_rest(line.start)?;
            if is_key {
                return Err(refuse(line.start, "a key inside a value"));
            }
            text.push(' ');
            text.push_str(self.slice(&more.span));
            folded = Some(text);
        }
        let span = start..self.at;
        let (kind, value, verbatim) = match folded {
            Some(text) => (Kind::String, Value::String(text), false),
            None => {
                let (kind, value) = resolve(self.slice(&span));
                (kind, value, true)
            }
        };
        self.tree.leaf(kind, span.clone(), span, verbatim)?;
        Ok(value)
    }
}

/// The type of a plain scalar, where YAML 1.1 and 1.2 agree on it; any other is a string: `yes`,
/// `0o14`, `010`, `1:30`, and dates, whose text is what a rule compares.
pub(in super::super) fn resolve(text: &str) -> (Kind, Value) {
    match text {
        "null" | "Null" | "NULL" | "~" => return (Kind::Null, Value::Null),
        "true" | "True" | "TRUE" => return (Kind::Boolean, Value::Bool(true)),
        "false" | "False" | "FALSE" => return (Kind::Boolean, Value::Bool(false)),
        _ => {}
    }
    match number(text) {
        Some(number) => (Kind::Number, Value::Number(number)),
        None => (Kind::String, Value::String(text.to_owned())),
    }
}

fn number(text: &str) -> Option<Number> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits(unsigned) {
        // With a leading zero it is octal for some.
        let whole = unsigned == "0" || !unsigned.starts_with('0');
        let small = text.parse().map(|number: i64| Number::from(number)).ok();
        let large = || text.parse().ok().and_then(Number::from_f64);
        return whole.then(|| small.or_else(large)).flatten();
    }
    let (whole, rest) = unsigned.split_once('.')?;
    let (fraction, exponent) = match rest.split_once(['e', 'E']) {
        None => (rest, None),
        Some((fraction, exponent)) => (fraction, Some(exponent.strip_prefix(['-', '+'])?)),
    };
    let formed = digits(whole) && digits(fraction) && exponent.is_none_or(digits);
    formed
        .then(|| text.parse().ok().and_then(Number::from_f64))
        .flatten()
}
