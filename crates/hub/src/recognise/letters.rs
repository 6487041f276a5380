//! Text as a sequence of letters and digits that survives how clients rewrite it.
//!
//! Case, white space, punctuation, line wrapping, quoting marks, compatibility forms and combining marks are all gone,
//! and so are the escapes of JSON and Python strings, of HTML (named and numbered), of addresses (`%20`) and of mails
//! (`=20`, soft line breaks). Escapes are decoded in *every* text, also where they were meant literally: what counts is
//! that a text and its escaped form give the same letters, however often it was escaped.
//!
//! A text has two [views](View). It is remembered and looked up in both, so that nothing which one of them passes over
//! is lost. Reading takes time in proportion to the text.

use std::collections::VecDeque;

use html_escape::NAMED_ENTITIES;
use unicode_normalization::char::{canonical_combining_class, decompose_compatible};
use unicode_security::skeleton;

/// From here on scripts are written without blanks, so that each letter is a word.
const WORDLESS: u32 = 0x2E80;
/// Longest name of an HTML entity, and longest number without its zeros.
const NAME: usize = 32;
const NUMBER: usize = 7;
const ESCAPE: char = '\u{1b}';

/// What counts as a letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    /// All letters, markup included: what is hidden in a tag is read by a model.
    Written,
    /// What a reader sees: without tags and sequences that steer a terminal, and each letter as the one that it looks like
    /// (the skeleton of UTS 39).
    Shown,
}

/// One letter or digit of the canonical form.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Letter {
    /// The character, in lower case. `i`, `l` and `1` are one, and so are `o` and `0`: in capitals they look alike.
    pub(super) code: u32,
    /// Where its source bytes begin.
    pub(super) start: usize,
    /// Where they end.
    pub(super) end: usize,
    /// Whether something else than a letter is before it.
    pub(super) begins_word: bool,
}

/// Has the letters of a text read to their end, in each view in which they may be different ones.
pub(super) fn in_views(text: &str, mut read: impl FnMut(View, &mut Letters<'_>)) {
    let mut written = letters(text, View::Written);
    read(View::Written, &mut written);
    if written.differs {
        read(View::Shown, &mut letters(text, View::Shown));
    }
}

/// The letters of a text.
pub(super) fn letters(text: &str, view: View) -> Letters<'_> {
    Letters {
        cursor: Cursor { text, at: 0 },
        view,
        broken: true,
        differs: false,
        decomposed: VecDeque::new(),
    }
}

pub(super) struct Letters<'a> {
    cursor: Cursor<'a>,
    view: View,
    /// Whether something that is no letter was passed since the last letter.
    broken: bool,
    /// Whether something was passed that may be other letters in the other view.
    differs: bool,
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
            let start = self.cursor.at;
            let byte = *self.cursor.text.as_bytes().get(start)?;
            if byte.is_ascii_alphanumeric() {
                self.cursor.at += 1;
                return Some(Letter {
                    code: look(char::from(byte.to_ascii_lowercase())),
                    start,
                    end: self.cursor.at,
                    begins_word: std::mem::take(&mut self.broken),
                });
            }
            match self.cursor.character()? {
                mark @ ('<' | ESCAPE) => {
                    self.broken = true;
                    self.differs = true;
                    if self.view == View::Shown {
                        self.cursor = after_markup(self.cursor, mark).unwrap_or(self.cursor);
                    }
                }
                '\0'..'0' => self.broken = true,
                character => self.take(character, start),
            }
        }
    }
}

impl Letters<'_> {
    /// Takes a character that begins at `start` and ends where we are.
    fn take(&mut self, character: char, start: usize) {
        let end = self.cursor.at;
        let (decomposed, broken) = (&mut self.decomposed, &mut self.broken);
        let mut push = |letter: char| {
            let code = look(letter);
            decomposed.push_back(Letter {
                code,
                start,
                end,
                begins_word: std::mem::take(broken) || code >= WORDLESS,
            });
            *broken = code >= WORDLESS;
        };
        let mut fold = |part: char| {
            for folded in part.to_lowercase() {
                match folded {
                    // Upper case writes both of these otherwise.
                    'ß' => ['s', 's'].into_iter().for_each(&mut push),
                    'ς' => push('σ'),
                    _ if folded.is_alphanumeric() => push(folded),
                    _ => {}
                }
            }
        };
        let mut marks_only = true;
        decompose_compatible(character, |part| {
            marks_only &= canonical_combining_class(part) != 0;
            self.differs |= !part.is_ascii() && part.is_alphanumeric();
            match self.view {
                View::Shown if !part.is_ascii() => {
                    skeleton(part.encode_utf8(&mut [0; 4])).for_each(&mut fold);
                }
                _ => fold(part),
            }
        });
        // A combining mark ends no word: in decomposed text it is within one.
        if self.decomposed.is_empty() && !marks_only {
            self.broken = true;
        }
    }
}

/// One code for letters that look alike in ASCII itself, which a look-alike of one of them may stand for.
fn look(letter: char) -> u32 {
    u32::from(match letter {
        'i' | '1' => 'l',
        '0' => 'o',
        _ => letter,
    })
}

/// The end of a tag or comment, or of a colour or the address of a link for a terminal (ECMA-48), after its first mark.
/// None is looked for beyond the next such mark, so that no part of a text is searched twice.
fn after_markup(mut ahead: Cursor<'_>, mark: char) -> Option<Cursor<'_>> {
    let kind = ahead.character()?;
    let begins = match mark {
        '<' => kind.is_ascii_alphabetic() || matches!(kind, '/' | '!' | '?'),
        _ => matches!(kind, '[' | ']' | '('),
    };
    if !begins {
        return None;
    }
    loop {
        match (mark, kind, ahead.character()?) {
            ('<', _, '<') | (_, '[', ESCAPE) => return None,
            ('<', _, '>') | (_, '(', _) | (_, '[', '@'..='~') | (_, ']', '\u{7}') => {
                return Some(ahead);
            }
            (_, ']', ESCAPE) => {
                // The backslash of the end, which JSON doubles.
                let slashes = ahead.rest().bytes().take(2);
                ahead.at += slashes.take_while(|byte| *byte == b'\\').count();
                return Some(ahead);
            }
            _ => {}
        }
    }
}

/// A place in a text that is read with its escapes decoded.
#[derive(Clone, Copy)]
struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Goes on to this rest of the text.
    fn pass_to(&mut self, rest: &str) {
        self.at = self.text.len() - rest.len();
    }

    /// The next character. What an escape stands for is read as if it stood there itself, as the `&` of `&amp;nbsp;`.
    fn character(&mut self) -> Option<char> {
        let mut character = self.rest().chars().next()?;
        self.at += character.len_utf8();
        // Each turn but the last passes at least one byte.
        loop {
            let meant = match character {
                '\\' => self.backslash(),
                '&' => self.entity(),
                '%' | '=' => self.octets(character),
                _ => None,
            };
            match meant {
                Some(meant) => character = meant,
                None => return Some(character),
            }
        }
    }

    /// What a backslash and what follows it stand for.
    fn backslash(&mut self) -> Option<char> {
        let digits = match self.rest().bytes().next()? {
            b'u' => return self.unicode(),
            b'U' => 8,
            b'x' => 2,
            // A text that is escaped again has more of them before the same character: their number does not matter.
            same @ b'\\' => {
                self.at += 1;
                return Some(char::from(same));
            }
            // Also where it was meant as a letter, as in `C:\new`: every text loses the same one.
            b'n' | b'r' | b't' | b'b' | b'f' => {
                self.at += 1;
                return Some('\n');
            }
            _ => return None,
        };
        let code = hexadecimal(self.rest().get(1..)?, digits)?;
        self.at += 1 + digits;
        Some(character_of(code))
    }

    /// `u` and four digits, or two such escapes that stand for one character.
    fn unicode(&mut self) -> Option<char> {
        let code = hexadecimal(self.rest().get(1..)?, 4)?;
        self.at += 5;
        let rest = self.rest().trim_start_matches('\\');
        let second = rest.strip_prefix('u').and_then(|rest| hexadecimal(rest, 4));
        match second
            .filter(|low| (0xD800..0xDC00).contains(&code) && (0xDC00..0xE000).contains(low))
        {
            Some(low) => {
                self.pass_to(rest.get(5..)?);
                char::from_u32(0x1_0000 + ((code - 0xD800) << 10) + (low - 0xDC00))
            }
            None => Some(character_of(code)),
        }
    }

    /// An entity of HTML after its `&`.
    fn entity(&mut self) -> Option<char> {
        let (character, after) = if let Some(number) = after_mark(self.rest(), '#') {
            let hexadecimal = number.strip_prefix(['x', 'X']);
            let (text, radix) = (
                hexadecimal.unwrap_or(number),
                if hexadecimal.is_some() { 16 } else { 10 },
            );
            let text = text.trim_start_matches('0');
            let (code, count) = digits(text, radix, NUMBER);
            if count == 0 {
                return None;
            }
            let after = text.get(count..)?;
            // Browsers read a number without its end, too.
            (character_of(code), after_mark(after, ';').unwrap_or(after))
        } else {
            // Bounded, or a text of nothing but `&` would be searched to its end from each of them.
            let name = self.rest().bytes().take(NAME);
            let length = name.take_while(u8::is_ascii_alphanumeric).count();
            let (name, after) = self.rest().split_at_checked(length)?;
            let known = NAMED_ENTITIES.binary_search_by_key(&name.as_bytes(), |(name, _)| name);
            let (_, meant) = NAMED_ENTITIES.get(known.ok()?)?;
            (meant.chars().next()?, after_mark(after, ';')?)
        };
        self.pass_to(after);
        Some(character)
    }

    /// The bytes of one character after the first `%` or `=`: of UTF-8, else of Latin-1; or a soft line break.
    fn octets(&mut self, mark: char) -> Option<char> {
        let rest = self.rest();
        if mark == '=' && (rest.starts_with('\n') || rest.starts_with("\r\n")) {
            self.at += rest.find('\n')? + 1;
            return Some('\n');
        }
        if mark == '%' && rest.starts_with('u') {
            return self.unicode();
        }
        let (first, mut ahead) = octet(rest, mark)?;
        self.pass_to(ahead);
        let mut bytes = vec![first];
        while bytes.len() < 4
            && let Some(next) = ahead.strip_prefix(mark)
            && let Some((byte, after)) = octet(next, mark)
            && byte & 0xC0 == 0x80
        {
            bytes.push(byte);
            ahead = after;
            if let Ok(text) = std::str::from_utf8(&bytes) {
                self.pass_to(ahead);
                return text.chars().next();
            }
        }
        Some(char::from(first))
    }
}

/// What follows a mark of an entity, which may be escaped for an address.
fn after_mark(text: &str, mark: char) -> Option<&str> {
    let escaped = || {
        let (byte, after) = octet(text.strip_prefix('%')?, '%')?;
        (char::from(byte) == mark).then_some(after)
    };
    text.strip_prefix(mark).or_else(escaped)
}

/// The byte in two hexadecimal digits, and what follows. The mark before them may have been escaped by itself, any number
/// of times, as in `%2520`.
fn octet(mut text: &str, mark: char) -> Option<(u8, &str)> {
    loop {
        let byte = u8::try_from(hexadecimal(text, 2)?).ok()?;
        let after = text.get(2..)?;
        if char::from(byte) != mark || hexadecimal(after, 2).is_none() {
            return Some((byte, after));
        }
        text = after;
    }
}

/// The number in the first digits, of which there may be so many, and how many there are.
fn digits(text: &str, radix: u32, most: usize) -> (u32, usize) {
    let digits = text
        .chars()
        .take(most)
        .map_while(|digit| digit.to_digit(radix));
    digits.fold((0, 0), |(number, count), digit| {
        (number * radix + digit, count + 1)
    })
}

/// The number in exactly so many hexadecimal digits.
fn hexadecimal(text: &str, count: usize) -> Option<u32> {
    let (number, found) = digits(text, 16, count);
    (found == count).then_some(number)
}

/// The character of this code, or a mark that is no letter.
fn character_of(code: u32) -> char {
    char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(text: &str) -> String {
        let codes = letters(text, View::Written).map(|letter| char::from_u32(letter.code));
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
            "uberwelselooosofortancewuserstrassefln日本語x"
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
        let found: Vec<_> = letters(text, View::Written)
            .map(|letter| (letter.start..letter.end, letter.begins_word))
            .collect();
        let expected = [
            (0..1, true),
            (1..7, false),
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
        assert_eq!(folded(r"\u12 \xZZ \U1 &nothing; &; & \"), "ul2xzzulnothlng");
        assert_eq!(folded(r"\ud83d alone"), "alone");
        assert_eq!(folded("50% =zz %%2 =3 %u12 &#; &#x;"), "5ozz23ul2x");
        assert_eq!(folded("\\u+123"), "ul23");
    }

    /// Searched again from each mark, a megabyte of these would take hours.
    #[test]
    fn hostile_text_is_read_in_linear_time() {
        let begun = std::time::Instant::now();
        for piece in [
            "<a",
            "<a\"",
            "&",
            "&a",
            "&#0",
            "&#x",
            "%25",
            "%F0",
            "%C3%25",
            "=3D",
            "=\n",
            "\\",
            "\\ud83d",
            "\u{1b}[",
            "\u{1b}[0",
            "\u{1b}]",
            "\u{1b}]8;\u{1b}",
            "&amp;lt;a",
            "\u{fdfa}",
        ] {
            let text = piece.repeat((1 << 20) / piece.len());
            for view in [View::Written, View::Shown] {
                letters(&text, view).count();
            }
        }
        assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
    }
}
