//! `--json`: one record per line on standard output.

use hub::trace::{Record, escape};
use serde::Serialize;
use server::User;

use crate::terminal::{print, print_escaped};

/// A program that reads events. Every question is answered with no, which its record says.
#[derive(Debug, Default)]
pub(crate) struct JsonLines;

impl User for JsonLines {
    fn observe(&mut self, record: &Record) {
        // A closed output does not stop the turn; the trace file has everything.
        let _ = print_json(record);
    }
}

/// Writes a value for a program, or lines of text for a person.
pub(crate) fn show(as_json: bool, value: &impl Serialize, text: &str) -> std::io::Result<()> {
    if as_json {
        return print_json(value);
    }
    // Line by line, since `escape` would replace the line breaks too.
    text.split('\n').try_for_each(|line| print(&escape(line)))
}

/// Writes a value to standard output as one line of JSON. Characters that could steer a terminal are written as escapes
/// of JSON.
pub(crate) fn print_json(value: &impl Serialize) -> std::io::Result<()> {
    print_escaped(&escaped(&serde_json::to_string(value)?))
}

/// The same JSON without any character that must not reach a terminal.
pub(crate) fn escaped(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        // Outside of strings JSON is ASCII, so only parts of strings are replaced.
        if c.is_ascii_graphic() || c == ' ' || escape(c.encode_utf8(&mut [0; 4])) == c.to_string() {
            out.push(c);
        } else {
            // JSON writes characters above U+FFFF as pairs of surrogates.
            for unit in c.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use hub::trace::escape_lines;
    use serde_json::{Value, json};

    use super::*;

    fn check(value: &Value) {
        let line = escaped(&value.to_string());
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), *value);
        // A terminal is given nothing that would have to be escaped for it.
        assert_eq!(escape(&line), line);
        assert_eq!(escape_lines(&line), line);
    }

    #[test]
    fn json_stays_json_and_steers_no_terminal() {
        for c in (0..=0x10_ffff).filter_map(char::from_u32) {
            check(&json!(format!("a{c}b")));
        }
        let foreign = "\u{1b}[2J\u{202e}\u{e0041}\u{7f}\u{9b}\u{2028}\r\n\\u{202e} \\ \"";
        check(&json!({ foreign: [foreign, { "heap": "\u{489}".repeat(50) }] }));
    }

    #[test]
    fn ordinary_text_is_readable() {
        for text in ["Grüße, 14 €", "东京", "Привет", "🚀"] {
            assert_eq!(escaped(&json!(text).to_string()), format!("\"{text}\""));
        }
        let tag = escaped(&json!("\u{e0041}\u{202e}\u{1b}").to_string());
        assert_eq!(tag, r#""\udb40\udc41\u202e\u001b""#);
    }
}
