//! Text without its spelling: what YAML, JSON and Python's `repr` do to a text is undone, so that
//! it is found again, and the place where it was found is known in bytes of the original.

use std::ops::Range;

use serde_json::Value;

/// Shorter strings are in every text by chance: they must be whole words.
const SHORT: usize = 3;

/// A text reduced to its letters and digits in lower case, each with its place in the original.
#[derive(Debug, Clone, Default)]
pub(crate) struct Folded {
    text: String,
    /// For each byte of `text`, the byte of the original where its character begins.
    at: Vec<usize>,
    /// Length of the original.
    end: usize,
}

impl Folded {
    pub(crate) fn new(source: &str) -> Self {
        let mut folded = Self {
            end: source.len(),
            ..Self::default()
        };
        let mut rest = source.char_indices().peekable();
        while let Some((at, c)) = rest.next() {
            if c != '\\' {
                folded.push(at, c);
                continue;
            }
            match rest.next() {
                // YAML's and Python's line breaks and tabs, and the YAML line that goes on.
                Some((_, 'n' | 't' | 'r')) | None => {}
                Some((_, digits @ ('x' | 'u'))) => {
                    let length = if digits == 'x' { 2 } else { 4 };
                    let from = at + 2;
                    let code = source.get(from..from + length);
                    let code = code.and_then(|hex| u32::from_str_radix(hex, 16).ok());
                    if let Some(c) = code.and_then(char::from_u32) {
                        folded.push(at, c);
                        while rest.next_if(|(next, _)| *next < from + length).is_some() {}
                    } else {
                        // No escape: `\x` of a Windows path, for example. The letter counts as itself.
                        folded.push(at + 1, digits);
                    }
                }
                Some((next, other)) => folded.push(next, other),
            }
        }
        folded
    }

    fn push(&mut self, at: usize, c: char) {
        // Blanks, quotes and punctuation are what YAML, JSON and `repr` change; letters and digits stay.
        if c.is_alphanumeric() {
            let before = self.text.len();
            self.text.extend(c.to_lowercase());
            self.at.extend((before..self.text.len()).map(|_| at));
        }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn contains(&self, other: &Self) -> bool {
        !other.text.is_empty() && self.text.contains(&other.text)
    }

    fn find(&self, needle: &Self) -> Vec<Range<usize>> {
        if needle.text.is_empty() {
            return Vec::new();
        }
        let found = self.text.match_indices(&needle.text);
        let range = |(from, matched): (usize, &str)| {
            let start = self.at.get(from).copied().unwrap_or(self.end);
            let last = self.at.get(from + matched.len() - 1).copied();
            // One past the first byte of the last character: it touches the right region.
            start..last.map_or(self.end, |last| last + 1)
        };
        found.map(range).collect()
    }
}

/// Where a value is in a text: a number in any spelling, a short word as a whole word, a
/// longer text without regard to blanks, quotes, escapes, punctuation and case.
pub(crate) fn find_value(text: &str, value: &Value) -> Vec<Range<usize>> {
    match value {
        Value::Number(number) => number
            .as_f64()
            .map_or_else(Vec::new, |number| find_number(text, number)),
        Value::String(needle) => find_text(text, needle),
        _ => Vec::new(),
    }
}

/// As [`find_value`] for a string.
pub(crate) fn find_text(text: &str, needle: &str) -> Vec<Range<usize>> {
    let folded = Folded::new(needle);
    // Long enough to be no coincidence, so it may also stand within words.
    if folded.text.len() > SHORT {
        return Folded::new(text).find(&folded);
    }
    let is_word = |range: &Range<usize>| {
        let before = text.get(..range.start).and_then(|t| t.chars().next_back());
        let after = text.get(range.end..).and_then(|t| t.chars().next());
        !before.is_some_and(in_word) && !after.is_some_and(in_word)
    };
    let found = text.match_indices(needle.trim());
    let ranges = found.map(|(at, matched)| at..at + matched.len());
    ranges.filter(is_word).collect()
}

fn in_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Numbers as they are written in text: `1,050.00`, `98.7`. Parts of dates, times, accounts and
/// versions are none.
fn find_number(text: &str, wanted: f64) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let byte = |at: usize| bytes.get(at).copied().unwrap_or(b' ');
    let digit = |at: usize| byte(at).is_ascii_digit();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if !digit(at) {
            at += 1;
            continue;
        }
        let start = at;
        // A comma or dot belongs to the number only before another digit: `1,050.` may end a sentence.
        while digit(at) || (matches!(byte(at), b',' | b'.') && digit(at + 1)) {
            at += 1;
        }
        // `2022-03-07`, `10:00` and `US10` hold digits that are not numbers of their own.
        let joined = |mark: u8| matches!(mark, b'-' | b':' | b'/');
        let before = start.checked_sub(1).map_or(b' ', byte);
        let further = start.checked_sub(2).map_or(b' ', byte);
        let part = before.is_ascii_alphabetic()
            || before == b'_'
            || joined(before) && further.is_ascii_alphanumeric()
            || byte(at).is_ascii_alphabetic()
            || byte(at) == b'_'
            || joined(byte(at)) && digit(at + 1);
        let number = text.get(start..at).unwrap_or_default().replace(',', "");
        if !part && number.parse() == Ok(wanted) {
            found.push(start..at);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn places(text: &str, value: Value) -> Vec<&str> {
        let found = find_value(text, &value);
        found.into_iter().map(|range| &text[range]).collect()
    }

    #[test]
    fn spelling_is_no_obstacle() {
        for (text, needle) in [
            ("- body: 'Don''t panic,\n    friend'", "Don't panic, friend"),
            (
                r#""a long \
               \ line that\nwraps""#,
                "a long line that wraps",
            ),
            (r#"{"a": "say \"hi\" now"}"#, r#"say "hi" now"#),
            (r"Caf\xE9 Roma, Breizh Caf\u00e9", "Breizh Café"),
            ("STREET: Dalton street 123", "Dalton Street 123"),
        ] {
            assert_eq!(places(text, json!(needle)).len(), 1, "{needle} in {text}");
        }
        assert_eq!(
            places("Send a [redacted] link", json!("send a link")),
            [""; 0]
        );
    }

    #[test]
    fn a_place_is_in_bytes_of_the_original() {
        assert_eq!(
            places("é\\n 'Rue de la Paix'", json!("rue de la")),
            ["Rue de la"]
        );
    }

    #[test]
    fn numbers_are_whole_numbers() {
        assert_eq!(places("id: 7\ndate: 2022-03-07", json!(7)), ["7"]);
        assert_eq!(places("98.70 and 1,050. and £50", json!(98.7)), ["98.70"]);
        assert_eq!(places("98.70 and 1,050. and £50", json!(1050)), ["1,050"]);
        assert_eq!(places("98.70 and 1,050. and £50", json!(50.0)), ["50"]);
        assert_eq!(places("at 10:00, US10, v10_2", json!(10)), [""; 0]);
    }

    #[test]
    fn short_words_are_whole_words() {
        assert_eq!(places("id: '11'\nsize: 1130", json!("11")), ["11"]);
        assert_eq!(places("for your", json!("r")), [""; 0]);
    }
}
