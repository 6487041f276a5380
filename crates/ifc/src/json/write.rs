//! The canonical form of JSON, and the form in which values are compared.

use std::fmt::Write;
use std::ops::Range;

use super::document::Json;
use super::reader::is_special;
use super::tree::{Kind, Node};

impl Json<'_> {
    /// Appends the canonical form of the value of this number. The text must be without a fault.
    pub(crate) fn write(&self, of: usize, out: &mut String) {
        self.write_as(of, None, out);
    }

    /// Appends the canonical form, or where there are places to leave out, the form by value ([`by_value`]).
    fn write_as(&self, of: usize, except: Option<&[Range<usize>]>, out: &mut String) {
        let is_left_out = |node: &Node| except.is_some_and(|places| places.contains(&node.span));
        let Some(node) = self.nodes.get(of).filter(|node| !is_left_out(node)) else {
            return;
        };
        match node.kind {
            Kind::Object => {
                let members = self.children(of);
                let members =
                    members.filter_map(|(at, node)| Some((self.name(node.key.as_ref()?), at)));
                let mut members: Vec<(&str, usize)> = members.collect();
                members.sort_unstable();
                write_object(members, |at, out| self.write_as(at, except, out), out);
            }
            Kind::Array if node.children == 0 && except.is_some() => {}
            Kind::Array => {
                out.push('[');
                for (place, (at, _)) in self.children(of).enumerate() {
                    if place > 0 {
                        out.push(',');
                    }
                    self.write_as(at, except, out);
                }
                out.push(']');
            }
            _ if except.is_some() => scalar_by_value(self.slice(&node.span), out),
            Kind::String if !node.verbatim => {
                write_string(&self.string(node).unwrap_or_default(), out);
            }
            _ => out.push_str(self.slice(&node.span)),
        }
    }
}

/// Appends a canonical text in the form in which it is compared with others ([`crate::Arguments::by_value`]): numbers by
/// value, and nothing for null, an empty list and the values at the places of `except`.
pub(crate) fn by_value(text: &str, except: &[Range<usize>], out: &mut String) {
    // Most values are strings, and a canonical string needs no reader.
    match text.as_bytes().first() {
        Some(b'{' | b'[') => {
            if let Ok(json) = Json::read(text) {
                json.write_as(0, Some(except), out);
            }
        }
        _ if except.contains(&(0..text.len())) => {}
        // Of JSON in a string, what stands outside of the places.
        _ if !except.is_empty() => {
            let mut places = except.to_vec();
            places.sort_by_key(|place| place.start);
            let mut from = 0;
            for place in places {
                out.push_str(text.get(from..place.start).unwrap_or_default());
                from = from.max(place.end);
            }
            out.push_str(text.get(from..).unwrap_or_default());
        }
        _ => scalar_by_value(text, out),
    }
}

fn scalar_by_value(text: &str, out: &mut String) {
    match Number::read(text) {
        Some(number) => number.write(out),
        None if text == "null" => {}
        None => out.push_str(text),
    }
}

/// Appends an object with the members for which `write` appends a value, in the given order.
pub(crate) fn write_object<'a, T>(
    members: impl IntoIterator<Item = (&'a str, T)>,
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

/// A number of JSON, exactly: its digits as a whole number, times ten to the power of `exponent`. Two texts give the same
/// `Number` exactly if the numbers are equal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Number {
    /// Whether it is below zero.
    pub is_negative: bool,
    /// Its digits without zeros at either end; empty for zero.
    pub digits: String,
    /// The power of ten of the last digit; 0 for zero.
    pub exponent: i64,
}

impl Number {
    /// Reads a number; `None` for any other value, and for an exponent beyond 32 bits.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let (is_negative, unsigned) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        if !unsigned.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
        // 32 bits, so that the sums of 64 bits below cannot overflow.
        let exponent = i64::from(exponent.parse::<i32>().ok()?);
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = format!("{whole}{fraction}");
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let significant = digits.trim_end_matches('0');
        if significant.is_empty() {
            return Some(Self {
                is_negative: false,
                digits: String::new(),
                exponent: 0,
            });
        }
        let zeros = i64::try_from(digits.len() - significant.len()).ok()?;
        Some(Self {
            is_negative,
            digits: significant.trim_start_matches('0').to_owned(),
            exponent: exponent + zeros - i64::try_from(fraction.len()).ok()?,
        })
    }

    fn write(&self, out: &mut String) {
        let sign = if self.is_negative { "-" } else { "" };
        // Writing to a `String` does not fail.
        let _ = match self.digits.is_empty() {
            true => write!(out, "0"),
            false => write!(out, "{sign}{}e{}", self.digits, self.exponent),
        };
    }
}

/// Appends a string with the shortest escapes.
pub(crate) fn write_string(text: &str, out: &mut String) {
    out.push('"');
    // Most strings have nothing to escape, and a fold looks at many bytes at a time.
    if !text.bytes().fold(false, |has, byte| has | is_special(byte)) {
        out.push_str(text);
        out.push('"');
        return;
    }
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
