//! `--json`: one record a line on standard output, and nobody to ask.

use hub::trace::{Record, escape};
use serde::Serialize;
use server::User;

use crate::terminal::print_escaped;

/// A program that reads events. Questions are answered with no; the record says so.
#[derive(Debug, Default)]
pub(crate) struct JsonLines;

impl User for JsonLines {
    fn observe(&mut self, record: &Record) {
        // A reader that went away does not stop the turn; the trace file has everything.
        let _ = print_json(record);
    }
}

/// Writes a value to standard output as one line of JSON. It is the same on a terminal and in a pipe:
/// what could steer a terminal is written with the escapes of JSON itself, so that it stays JSON.
///
/// # Errors
/// Standard output is closed, or a value is not one of JSON.
pub(crate) fn print_json(value: &impl Serialize) -> std::io::Result<()> {
    print_escaped(&escaped(&serde_json::to_string(value)?))
}

/// The same JSON without any character that must not reach a terminal.
fn escaped(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        // Outside of strings JSON is plain ASCII, so whatever is replaced here stands in a string.
        if c.is_ascii_graphic() || c == ' ' || escape(c.encode_utf8(&mut [0; 4])) == c.to_string() {
            out.push(c);
        } else {
            // Beyond the first plane JSON has pairs of surrogates.
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
    use proptest::prelude::*;
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

    proptest! {
        #[test]
        fn any_text_survives(text: String) {
            check(&json!({ &text: text }));
        }
    }
}
