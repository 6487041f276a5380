//! Text as a sequence of letters and digits that survives how clients rewrite it.
//!
//! Case, white space, punctuation, line wrapping, quoting marks, the escapes of JSON and Python
//! strings, HTML entities, compatibility forms and combining marks are all gone. Escapes are
//! decoded in *every* text, also where they were meant literally: what counts is that a text and
//! its escaped form give the same letters, however often it was escaped.

use std::collections::VecDeque;

use unicode_normalization::char::{canonical_combining_class, decompose_compatible};

/// From here on scripts are written without blanks, so that each letter is a word.
const WORDLESS: u32 = 0x2E80;
/// Longest name or number of an HTML entity.
const ENTITY: usize = 8;

/// One letter or digit of the canonical form.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Letter {
    /// The character, in lower case.
    pub(super) code: u32,
    /// Where its source bytes begin.
    pub(super) start: usize,
    /// Where they end.
    pub(super) end: usize,
    /// Whether something else than a letter is before it.
    pub(super) begins_word: bool,
}

/// The letters of a text.
pub(super) fn letters(text: &str) -> Letters<'_> {
    Letters {
        text,
        at: 0,
        broken: true,
        decomposed: VecDeque::new(),
    }
}

pub(super) struct Letters<'a> {
    text: &'a str,
    at: usize,
    /// Whether something that is no letter was passed since the last letter.
    broken: bool,
    /// The letters of one character that means several.
    decomposed: VecDeque<Letter>,
}

impl Iterator for Letters<'_> {
    type Item = Letter;

    fn next(&mut self) -> Option<Letter> {
        loop {
            if let Some(letter) = self.decomposed.pop_front() {
                return Some(letter);
            }
            let start = self.at;
            let byte = *self.text.as_bytes().get(start)?;
            match byte {
                b'a'..=b'z' | b'0'..=b'9' | b'A'..=b'Z' => {
                    self.at += 1;
                    return Some(Letter {
                        code: u32::from(byte.to_ascii_lowercase()),
                        start,
                        end: self.at,
                        begins_word: std::mem::take(&mut self.broken),
                    });
                }
                b'\\' => self.escape(),
                b'&' => self.entity(),
                0..0x80 => {
                    self.at += 1;
                    self.broken = true;
                }
                _ => {
                    let character = self.rest().chars().next()?;
                    self.at += character.len_utf8();
                    self.take(character, start);
                }
            }
        }
    }
}

impl Letters<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Takes a character that begins at `start` and ends where we are.
    fn take(&mut self, character: char, start: usize) {
        let end = self.at;
        let (decomposed, broken) = (&mut self.decomposed, &mut self.broken);
        let mut push = |letter: char| {
            let code = u32::from(letter);
            decomposed.push_back(Letter {
                code,
                start,
                end,
                begins_word: std::mem::take(broken) || code >= WORDLESS,
            });
            *broken = code >= WORDLESS;
        };
        let mut marks_only = true;
        decompose_compatible(character, |part| {
            marks_only &= canonical_combining_class(part) != 0;
            for folded in part.to_lowercase() {
                match folded {
                    // Upper case writes both of these otherwise.
                    'ß' => ['s', 's'].into_iter().for_each(&mut push),
                    'ς' => push('σ'),
                    _ if folded.is_alphanumeric() => push(folded),
                    _ => {}
                }
            }
        });
        // A combining mark ends no word: in decomposed text it is within one.
        if self.decomposed.is_empty() && !marks_only {
            self.broken = true;
        }
    }

    /// Passes backslashes and what they escape. A text that is escaped again has more of them
    /// before the same character, so their number does not matter.
    fn escape(&mut self) {
        let start = self.at;
        self.broken = true;
        self.at += backslashes(self.rest());
        // A backslash can be escaped by its number too.
        while let Some(length) = numbered_backslash(self.rest()) {
            self.at += length;
            self.at += backslashes(self.rest());
        }
        match self.rest().bytes().next() {
            // Also where it was meant as a letter, as in `C:\new`: every text loses the same one.
            Some(b'n' | b'r' | b't' | b'b' | b'f') => self.at += 1,
            Some(b'u') => self.unicode(start),
            Some(b'U') => self.number(start, 8),
            Some(b'x') => self.number(start, 2),
            _ => {}
        }
    }

    /// `u` and four digits, or two such escapes that stand for one character.
    fn unicode(&mut self, start: usize) {
        let Some(high) = hexadecimal(self.rest(), 4) else {
            return;
        };
        let Some(low) = self
            .low_surrogate()
            .filter(|_| (0xD800..0xDC00).contains(&high))
        else {
            return self.number(start, 4);
        };
        let (low, length) = low;
        self.at += length;
        let code = 0x1_0000 + ((high - 0xD800) << 10) + (low - 0xDC00);
        if let Some(character) = char::from_u32(code) {
            self.take(character, start);
        }
    }

    /// The second escape of a pair, and the length of both.
    fn low_surrogate(&self) -> Option<(u32, usize)> {
        let second = self.rest().get(5..)?;
        let slashes = backslashes(second);
        let low = hexadecimal(second.get(slashes..)?, 4)?;
        let is_low = slashes > 0 && second.as_bytes().get(slashes) == Some(&b'u');
        (is_low && (0xDC00..0xE000).contains(&low)).then_some((low, 5 + slashes + 5))
    }

    /// A letter and so many hexadecimal digits; if they are not there, the letter is one.
    fn number(&mut self, start: usize, digits: usize) {
        let Some(code) = hexadecimal(self.rest(), digits) else {
            return;
        };
        self.at += 1 + digits;
        if let Some(character) = char::from_u32(code) {
            self.take(character, start);
        }
    }

    /// `&amp;` and its like, by name or number.
    fn entity(&mut self) {
        let start = self.at;
        self.broken = true;
        self.at += 1;
        // Bounded, or a text of nothing but `&` would be searched to its end from each of them.
        let mut head = self.rest().bytes().take(ENTITY + 1);
        let Some(length) = head.position(|byte| byte == b';') else {
            return;
        };
        let name = self.rest().get(..length).unwrap_or_default();
        let number = name
            .strip_prefix('#')
            .map(|number| match number.strip_prefix(['x', 'X']) {
                Some(digits) => (digits, 16),
                None => (number, 10),
            })
            // A sign, which the parser would take, makes it plain text for a reader of HTML.
            .filter(|(digits, _)| digits.starts_with(|first: char| first.is_ascii_alphanumeric()))
            .and_then(|(digits, radix)| u32::from_str_radix(digits, radix).ok());
        let is_mark = matches!(name, "amp" | "lt" | "gt" | "quot" | "apos" | "nbsp");
        if let Some(character) = number.and_then(char::from_u32) {
            self.at += length + 1;
            self.take(character, start);
        } else if is_mark {
            self.at += length + 1;
        }
    }
}

fn backslashes(text: &str) -> usize {
    text.bytes().take_while(|byte| *byte == b'\\').count()
}

/// The length of what follows a backslash in the escape of another one by its number.
fn numbered_backslash(text: &str) -> Option<usize> {
    let is = |escape: &str| {
        let head = text.as_bytes().get(..escape.len());
        head.is_some_and(|head| head.eq_ignore_ascii_case(escape.as_bytes()))
    };
    ["u005c", "x5c"]
        .into_iter()
        .find(|escape| is(escape))
        .map(str::len)
}

/// The number in `digits` hexadecimal digits after the first byte.
fn hexadecimal(text: &str, digits: usize) -> Option<u32> {
    let number = text.get(1..=digits)?;
    // `from_str_radix` would take a sign.
    let is_number = number.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_number.then(|| u32::from_str_radix(number, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(text: &str) -> String {
        let codes = letters(text).map(|letter| char::from_u32(letter.code));
        codes.collect::<Option<String>>().unwrap_or_default()
    }

    #[test]
    fn a_text_and_its_other_writings_have_the_same_letters() {
        let text = "Überweise 1\u{a0}000 € \"sofort\"\nan C:\\new\\user — Straße ﬁn 😀 日本語\t𝒳!";
        let json = serde_json::to_string(text).unwrap_or_default();
        let twice = serde_json::to_string(&json).unwrap_or_default();
        let ascii: String = (text.encode_utf16())
            .map(|unit| match u8::try_from(unit) {
                Ok(byte) if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
                _ => format!("\\u{unit:04X}"),
            })
            .collect();
        let html = text.replace('"', "&quot;").replace('é', "&#233;");
        let wrapped = text.replace(' ', "\r\n> ");
        let decomposed = text.replace('Ü', "U\u{308}");
        for other in [&json, &twice, &ascii, &html, &wrapped, &decomposed] {
            assert_eq!(folded(other), folded(text), "{other}");
        }
        assert_eq!(
            folded(text),
            "uberweise1000sofortancewuserstrassefin日本語x"
        );
        let text = "Ein großer ﬁsch, 3 Ärzte";
        assert_eq!(folded(&text.to_uppercase()), folded(text));
    }

    #[test]
    fn a_number_with_a_sign_is_no_reference() {
        assert_eq!(folded("&#65;&#x41;"), "aa");
        assert_eq!(
            folded("&#+65;&#x+41;&#-65;&#x;"),
            folded("# 65; x 41; 65; x;")
        );
    }

    #[test]
    fn letters_know_where_they_come_from() {
        let text = r"a\u00e9 &#98;ﬁ";
        let found: Vec<_> = letters(text)
            .map(|letter| (letter.start..letter.end, letter.begins_word))
            .collect();
        let expected = [
            (0..1, true),
            (1..7, true),
            (8..13, true),
            (13..16, false),
            (13..16, false),
        ];
        assert_eq!(found, expected);
        for (span, _) in found {
            assert!(text.get(span).is_some());
        }
    }

    #[test]
    fn what_only_looks_like_an_escape_loses_nothing_but_the_marks() {
        assert_eq!(folded(r"\u12 \xZZ \U1 &nothing; &; & \"), "u12xzzu1nothing");
        assert_eq!(folded(r"\ud83d alone"), "alone");
        assert_eq!(folded("\\u+123"), "u123");
    }
}
