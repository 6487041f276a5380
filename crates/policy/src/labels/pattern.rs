//! Patterns of identifiers: `INV-[0-9]{4,8}`.

use std::fmt;
use std::str::FromStr;

/// Longest pattern, in bytes.
const MAX_PATTERN_BYTES: usize = 256;

/// Longest text that a pattern may match, in bytes: a SHA-256 in hexadecimal. A set of positions fits into one `u128`.
const MAX_LENGTH: usize = 64;

/// Most free characters of a match: those of a class with more than hexadecimal digits. Identifiers of services have up to
/// eleven; a sentence has more.
const MAX_FREE: usize = 12;

/// Signs of identifiers. None of them ends a token of any [`Format`](crate::Format), and none has a meaning in a regular
/// expression.
const SIGNS: &[u8] = b"-_:/,=@#";

/// A pattern of identifiers, matched against the whole value.
///
/// The syntax is a small part of that of regular expressions, with the same meaning: literal characters
/// (`A-Z a-z 0-9 - _ : / , = @ #`), classes of them and of `.` (`[0-9]`, `[A-Za-z_.-]`), and after either a count (`{8}`,
/// `{1,20}`). There are no open counts, groups, alternatives or negations, so the longest match is known, and matching costs
/// at most that times the length of the pattern.
///
/// A single blank may stand between two items of at least one character each, as in `LU [0-9]{2}`: a match never begins or
/// ends with a blank and has no two in a row.
///
/// A match cannot hold a sentence: it has at most 64 characters, of which at most 12 are free. Literal characters do not
/// count as free.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    items: Vec<Item>,
}

/// So many characters of one class.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Item {
    /// One bit for each ASCII character.
    class: u128,
    least: usize,
    most: usize,
    /// Whether it is a literal character and not a class.
    literal: bool,
}

/// Why a pattern cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PatternError {
    /// The mistake in one line.
    pub message: String,
    /// The place in the pattern, in bytes.
    pub offset: usize,
}

impl Pattern {
    /// The pattern as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the pattern matches the whole text.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        let bytes = text.as_bytes();
        if bytes.len() > MAX_LENGTH {
            return false;
        }
        // Bit `n`: the items so far can match the first `n` bytes.
        let mut reached: u128 = 1;
        for item in &self.items {
            let mut next = 0;
            for start in (0..=bytes.len()).filter(|start| (reached >> start) & 1 == 1) {
                let rest = bytes.get(start..).unwrap_or_default();
                let fitting = rest.iter().take_while(|byte| item.class & bit(**byte) != 0);
                let longest = fitting.take(item.most).count();
                for length in item.least..=longest {
                    // At most bit 64: no match reaches beyond the text.
                    next |= 1 << (start + length);
                }
            }
            reached = next;
        }
        (reached >> bytes.len()) & 1 == 1
    }

    /// How many characters of a match of this length are no literal ones.
    pub(super) fn chosen(&self, length: usize) -> usize {
        let literal = self.items.iter().filter(|item| item.literal);
        length.saturating_sub(literal.map(|item| item.least).sum())
    }

    /// Most characters of a match of this length that are free.
    pub(super) fn free(&self, length: usize) -> usize {
        let others = self.items.iter().filter(|item| !item.is_free());
        let (_, most) = self.lengths();
        length
            .saturating_sub(others.map(|item| item.least).sum())
            .min(most)
    }

    /// Whether a match may have more than so many characters that are no literal ones.
    pub(super) fn can_choose(&self, most: usize) -> bool {
        self.chosen(self.lengths().0) > most
    }

    /// The length of the longest match, and how many of its characters are free.
    fn lengths(&self) -> (usize, usize) {
        let total = self.items.iter().map(|item| item.most).sum();
        let free = self.items.iter().filter(|item| item.is_free());
        (total, free.map(|item| item.most).sum())
    }
}

impl Item {
    fn is_blank(&self) -> bool {
        self.class == bit(b' ')
    }

    /// Whether its characters are free: they could spell a word.
    fn is_free(&self) -> bool {
        let hexadecimal = (0..=127_u8).filter(u8::is_ascii_hexdigit);
        let hexadecimal = hexadecimal.fold(0, |all, byte| all | bit(byte));
        !self.literal && self.class & !hexadecimal != 0
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        let mut reader = Reader {
            bytes: text.as_bytes(),
            at: 0,
        };
        if text.len() > MAX_PATTERN_BYTES {
            let message = format!("the pattern is longer than {MAX_PATTERN_BYTES} bytes");
            return Err(refuse(MAX_PATTERN_BYTES, message));
        }
        let mut items = Vec::new();
        while reader.peek().is_some() {
            items.push(reader.item()?);
        }
        let is_filled = |item: Option<&Item>| item.is_some_and(|it| it.least > 0 && !it.is_blank());
        let mut at = 0;
        for (number, item) in items.iter().enumerate() {
            let before = number.checked_sub(1).and_then(|before| items.get(before));
            if item.is_blank() && !(is_filled(before) && is_filled(items.get(number + 1))) {
                let message = "a blank stands alone, between characters that are always there";
                let blanks = text.match_indices(' ').nth(at);
                return Err(refuse(blanks.map_or(0, |(offset, _)| offset), message));
            }
            at += usize::from(item.is_blank());
        }
        let pattern = Self {
            text: text.to_owned(),
            items,
        };
        match pattern.lengths() {
            (0, _) => Err(refuse(0, "the pattern matches nothing but an empty text")),
            (total, _) if total > MAX_LENGTH => {
                let message = format!(
                    "it matches up to {total} characters; an identifier has at most {MAX_LENGTH}"
                );
                Err(refuse(0, message))
            }
            (_, free) if free > MAX_FREE => {
                let message = format!(
                    "{free} characters of a match can be letters or signs of the writer's choice, \
                     which is room for a sentence; at most {MAX_FREE} can"
                );
                Err(refuse(0, message))
            }
            _ => Ok(pattern),
        }
    }
}

struct Reader<'t> {
    bytes: &'t [u8],
    at: usize,
}

impl Reader<'_> {
    /// A character or a class, and its count.
    fn item(&mut self) -> Result<Item, PatternError> {
        let start = self.at;
        let (class, literal) = match self.take() {
            Some(b'[') => (self.class(start)?, false),
            Some(byte) if is_sign_or_alphanumeric(byte) => (bit(byte), true),
            Some(b' ') => {
                return Ok(Item {
                    class: bit(b' '),
                    least: 1,
                    most: 1,
                    literal: true,
                });
            }
            Some(b'.') => return Err(refuse(start, "a point alone; write [.]")),
            _ => {
                let message = "a pattern has letters, digits, single blanks, classes like [0-9] and \
                               counts like {1,8}, and no other sign than - _ : / , = @ #";
                return Err(refuse(start, message));
            }
        };
        let (least, most) = match self.peek() {
            Some(b'{') => self.count()?,
            _ => (1, 1),
        };
        Ok(Item {
            class,
            least,
            most,
            literal,
        })
    }

    /// From after the opening bracket to past the closing one.
    fn class(&mut self, start: usize) -> Result<u128, PatternError> {
        let mut class = 0;
        loop {
            let at = self.at;
            let first = match self.take() {
                Some(b']') if class != 0 => return Ok(class),
                Some(byte) if is_sign_or_alphanumeric(byte) || byte == b'.' => byte,
                Some(_) => return Err(refuse(at, "this cannot stand in a class")),
                None => return Err(refuse(start, "the class does not end")),
            };
            // A dash is a range only between two characters; at the end it stands for itself.
            let after = self.bytes.get(self.at + 1).copied();
            let last = match (self.peek(), after) {
                (Some(b'-'), Some(last)) if last != b']' => {
                    self.at += 2;
                    last
                }
                // In some languages `[a--b]` and `[-a]` mean something else.
                _ if first == b'-' && self.peek() != Some(b']') => {
                    return Err(refuse(at, "write '-' at the end of the class"));
                }
                _ => first,
            };
            let same_kind = last == first
                || [
                    u8::is_ascii_digit,
                    u8::is_ascii_lowercase,
                    u8::is_ascii_uppercase,
                ]
                .iter()
                .any(|is| is(&first) && is(&last));
            if !same_kind || last < first {
                return Err(refuse(
                    at,
                    "a range goes from a digit or letter up to one of its kind",
                ));
            }
            class = (first..=last).fold(class, |class, byte| class | bit(byte));
        }
    }

    /// `{4}` or `{1,8}`.
    fn count(&mut self) -> Result<(usize, usize), PatternError> {
        let start = self.at;
        let error = || {
            let message = format!("a count is {{4}} or {{1,8}}, up to {MAX_LENGTH}");
            refuse(start, message)
        };
        self.at += 1;
        let least = self.number().ok_or_else(error)?;
        let most = match self.take() {
            Some(b'}') => return in_range(least, least).ok_or_else(error),
            Some(b',') => self.number().ok_or_else(error)?,
            _ => return Err(error()),
        };
        match self.take() {
            Some(b'}') => in_range(least, most).ok_or_else(error),
            _ => Err(error()),
        }
    }

    /// A number of at most two digits. A longer one is out of range.
    fn number(&mut self) -> Option<usize> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let digits = rest.iter().take(2).take_while(|byte| byte.is_ascii_digit());
        let digits = digits.count();
        let text = std::str::from_utf8(rest.get(..digits)?).ok()?;
        self.at += digits;
        text.parse().ok()
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn take(&mut self) -> Option<u8> {
        let byte = self.peek();
        self.at += 1;
        byte
    }
}

fn in_range(least: usize, most: usize) -> Option<(usize, usize)> {
    (least <= most && (1..=MAX_LENGTH).contains(&most)).then_some((least, most))
}

fn is_sign_or_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || SIGNS.contains(&byte)
}

/// The bit of an ASCII character; no bit for any other byte.
fn bit(byte: u8) -> u128 {
    1_u128.checked_shl(u32::from(byte)).unwrap_or(0)
}

fn refuse(offset: usize, message: impl Into<String>) -> PatternError {
    PatternError {
        message: message.into(),
        offset,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pattern(text: &str) -> Pattern {
        text.parse()
            .unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn a_pattern_matches_the_whole_text() {
        for (text, yes, no) in [
            (
                "INV-[0-9]{4}",
                &["INV-1234"] as &[_],
                &["INV-123", "INV-12345", "inv-1234", "INV-1234 "] as &[_],
            ),
            (
                "[0-9a-f]{12}",
                &["02dd015a318e"],
                &["02dd015a318", "02DD015A318E", "02dd015a318e\n", ""],
            ),
            (
                "[A-Z]{2}[0-9]{0,2}[0-9]",
                &["AB1", "AB123"],
                &["AB", "AB1234"],
            ),
            (
                "v{1,2}[v.]{2}x",
                &["vvvx", "v..x", "vvvvx", "vv.vx"],
                &["vvx", "v.x", "vvvvvx"],
            ),
            ("a[b_-]c", &["a-c", "abc", "a_c"], &["ac", "a.c"]),
            (
                "LU [0-9]{2}",
                &["LU 80"],
                &["LU80", "LU  80", "LU 80 ", "LU\t80", "LU\u{a0}80"],
            ),
        ] {
            for found in yes {
                assert!(pattern(text).matches(found), "{text} refuses {found:?}");
            }
            for found in no {
                assert!(!pattern(text).matches(found), "{text} accepts {found:?}");
            }
        }
    }

    #[test]
    fn a_pattern_with_room_for_a_sentence_is_refused() {
        for text in [
            "[a-z]{13}",
            "[A-Za-z0-9_.-]{1,64}",
            "[a-z]{6}-[a-z]{7}",
            "[-a]{13}",
            "[0-9]{65}",
            "[0-9]{60}-[0-9]{60}",
            "[a-z]{4} [a-z]{4} [a-z]{5}",
        ] {
            assert!(text.parse::<Pattern>().is_err(), "{text}");
        }
        // What services of today have.
        for text in [
            "[A-Za-z0-9_-]{11}",
            "U[A-Z0-9]{8,11}",
            "[0-9a-f]{64}",
            "run-of-the-mill-[0-9]{2}",
        ] {
            assert!(text.parse::<Pattern>().is_ok(), "{text}");
        }
    }

    #[test]
    fn what_is_more_than_a_pattern_is_refused_where_it_stands() {
        for (text, offset) in [
            ("", 0),
            ("a{0}", 1),
            ("a*", 1),
            ("ab+", 2),
            ("(a|b)", 0),
            ("a.b", 1),
            ("^a$", 0),
            ("\\d", 0),
            ("[^a]", 1),
            ("[a", 0),
            ("[]", 1),
            ("[z-a]", 1),
            ("[A-z]", 1),
            ("[a-]-z]", 6),
            ("[-a]", 1),
            ("a{1,}", 1),
            ("a{2,1}", 1),
            ("a{999}", 1),
            ("a{-1}", 1),
            ("a{1", 1),
            ("é", 0),
            (" a", 0),
            ("a ", 1),
            ("a  b", 1),
            ("a b{0,2} c", 1),
            ("a [ b]", 3),
            ("a {2}b", 2),
            ("{2}", 0),
            ("a{1}{2}", 4),
        ] {
            assert_eq!(
                text.parse::<Pattern>().map_err(|error| error.offset),
                Err(offset),
                "{text}"
            );
        }
    }

    const PIECES: &[&str] = &[
        "a", "b", "7", "-", "_", " ", "[a-c]", "[0-9]", "[ab7-]", "[.a]", "{2}", "{1,3}", "{0,2}",
    ];

    proptest! {
        /// A pattern means what it means as a regular expression.
        #[test]
        fn a_pattern_is_a_regular_expression(
            pieces in prop::collection::vec(prop::sample::select(PIECES), 1..8),
            text in "[ab7_. -]{0,10}",
        ) {
            let written = pieces.concat();
            if let Ok(pattern) = written.parse::<Pattern>() {
                let regex = regex::Regex::new(&format!("^(?:{written})$")).unwrap();
                prop_assert_eq!(pattern.matches(&text), regex.is_match(&text), "{}", written);
            }
        }

        #[test]
        fn nothing_panics_and_a_match_is_bounded(written in "[\\PC]{0,20}", text in "\\PC*") {
            if let Ok(pattern) = written.parse::<Pattern>() {
                let _ = pattern.matches(&text);
                prop_assert!(!pattern.matches(&"a".repeat(MAX_LENGTH + 1)));
            }
        }
    }
}
