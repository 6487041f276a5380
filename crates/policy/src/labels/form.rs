//! Strict forms of values. A field of such a form cannot carry a sentence.

use std::ops::{Range, RangeInclusive};

use super::pattern::Pattern;
use crate::formats::{Document, Kind, Node};

/// Longest address: what SMTP can carry (RFC 5321 §4.5.3.1.3, without the angle brackets).
const MAX_EMAIL: usize = 254;
/// Longest local part of an address (RFC 5321 §4.5.3.1.1).
const MAX_LOCAL: usize = 64;
/// Longest label of a domain name (RFC 1035 §2.3.4).
const MAX_DOMAIN_LABEL: usize = 63;
/// Longest token: names of users and channels, account numbers.
const MAX_TOKEN: usize = 64;
/// Most hexadecimal digits: a SHA-256.
const MAX_HEX: usize = 64;
/// Hexadecimal digits between the dashes of a UUID (RFC 9562 §4).
const UUID: [usize; 5] = [8, 4, 4, 4, 12];
/// Most digits of an integer: any 64-bit number.
const MAX_DIGITS: usize = 20;
/// Longest number: the shortest digits of any 64-bit float fit.
const MAX_NUMBER: usize = 32;

/// Most characters of the writer's choice in a trusted value that may be a destination. Account numbers, addresses and ids
/// of large services have more; the small numbers of one mailbox or list do not.
const MOST_CHOSEN: usize = 5;

/// The form that a value must have to get the label of a rule.
///
/// The forms are short ASCII without spaces. They are checked on the bytes of the original text, so a value with an escape
/// does not match. `null` matches every form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form {
    /// An address `local@domain.tld`: dot-atom and host name, no display name, no comment.
    ///
    /// The local part can be a few words joined by dots; see [`Form::can_spell_words`].
    Email,
    /// `2026-11-30`, or with a time: `2026-11-30T10:00:00Z` (RFC 3339), `2026-11-30 10:00` (people, Python). Python's
    /// `datetime.datetime(…)` too.
    Date,
    /// A UUID: `0190b6f0-3c1e-7f27-b0ec-6a1b2c3d4e5f`.
    Uuid,
    /// A string of at most 64 hexadecimal digits.
    Hex,
    /// A string of so many decimal digits, at most 20: a one-time code has six.
    Digits(RangeInclusive<usize>),
    /// An identifier by a pattern: `INV-[0-9]{4,8}`.
    Pattern(Pattern),
    /// A token of at most 64 of `A-Z a-z 0-9 _ . : , = -`, for names and account numbers.
    ///
    /// It can spell a sentence; see [`Form::can_spell_words`].
    Token,
    /// An integer of at most 20 digits.
    Integer,
    /// An integer in this range, written without a leading zero, a point or an exponent.
    IntegerIn(RangeInclusive<i64>),
    /// A number of at most 32 characters: digits, a point, an exponent.
    Number,
    /// `true` or `false`.
    Boolean,
    /// A string that is one of these words.
    OneOf(Vec<String>),
}

impl Form {
    /// The forms that a configuration names, all but [`Form::OneOf`], [`Form::IntegerIn`] and [`Form::Pattern`].
    pub const NAMED: [(&str, Self); 9] = [
        ("email", Self::Email),
        ("date", Self::Date),
        ("uuid", Self::Uuid),
        ("hex", Self::Hex),
        ("digits", Self::Digits(1..=MAX_DIGITS)),
        ("token", Self::Token),
        ("integer", Self::Integer),
        ("number", Self::Number),
        ("boolean", Self::Boolean),
    ];

    /// The form called `name`. `digits` may say how many: `digits(6)`, `digits(4,8)`.
    pub fn named(name: &str) -> Option<Self> {
        if let Some(count) = name.strip_prefix("digits(") {
            return Some(Self::Digits(counts(count.strip_suffix(')')?)?));
        }
        let mut named = Self::NAMED.into_iter();
        named.find_map(|(own, form)| (own == name).then_some(form))
    }

    /// Whether a value of this form can say something to a model: `send-all-mail-to:eve` is a token. Such a value needs a
    /// taint of its own, which a policy can accept at the sinks that take such values.
    #[must_use]
    pub fn can_spell_words(&self) -> bool {
        match self {
            Self::Email | Self::Token => true,
            // The words of `OneOf` are the author's; a pattern leaves no room for a sentence.
            Self::Date
            | Self::Uuid
            | Self::Hex
            | Self::Digits(_)
            | Self::Pattern(_)
            | Self::Integer
            | Self::IntegerIn(_)
            | Self::Number
            | Self::Boolean
            | Self::OneOf(_) => false,
        }
    }

    /// How many characters of a value could spell words that are not the user's.
    pub(crate) fn spells(&self, text: &str) -> usize {
        match self {
            Self::Pattern(pattern) => pattern.free(text.len()),
            _ => 0,
        }
    }

    /// Whether a service that has such a value keeps it as more than text, so that it writes it on one line.
    pub(super) fn is_typed(&self) -> bool {
        match self {
            Self::Date
            | Self::Uuid
            | Self::Integer
            | Self::IntegerIn(_)
            | Self::Number
            | Self::Boolean
            | Self::OneOf(_) => true,
            Self::Email | Self::Hex | Self::Digits(_) | Self::Pattern(_) | Self::Token => false,
        }
    }

    /// Whether the writer of this value of the form could have chosen whom or what it names.
    ///
    /// A date names nobody, and the words of [`Form::OneOf`] are the user's. Values of forms that can spell words have a
    /// taint of their own.
    pub(super) fn is_chosen(&self, text: &str) -> bool {
        let chosen = match self {
            Self::Email | Self::Token | Self::Date | Self::Boolean | Self::OneOf(_) => 0,
            Self::Pattern(pattern) => pattern.chosen(text.len()),
            // A price names nobody.
            Self::Number => match text.split_once('.') {
                Some((whole, cents)) if cents.len() <= 2 => whole.len(),
                _ => text.len(),
            },
            Self::Uuid | Self::Hex | Self::Digits(_) | Self::Integer | Self::IntegerIn(_) => {
                text.len()
            }
        };
        chosen > MOST_CHOSEN
    }

    /// Whether the writer of some value of the form could choose whom or what it names.
    #[must_use]
    pub fn can_name(&self) -> bool {
        match self {
            Self::Digits(count) => *count.end() > MOST_CHOSEN,
            Self::IntegerIn(range) => self.is_chosen(&range.end().to_string()),
            Self::Pattern(pattern) => pattern.can_choose(MOST_CHOSEN),
            _ => self.is_chosen(&"0".repeat(MAX_NUMBER)),
        }
    }

    /// Whether a value has this form as it is written.
    pub(super) fn matches(&self, document: &Document<'_>, node: &Node) -> bool {
        let text = document.slice(&node.inner);
        match node.kind {
            Kind::Null => true,
            // Values have no types in this format.
            Kind::String if !document.format().has_types() => self.matches_token(text),
            Kind::String => node.verbatim && self.matches_string(text),
            Kind::Number => self.matches_number(text),
            Kind::Boolean => self.matches_boolean(text),
            Kind::Date => *self == Self::Date,
            Kind::Array | Kind::Object => false,
        }
    }

    /// Whether a canonical value of a call's arguments has this form. A string with an escape has none, and neither has
    /// `null`.
    pub(crate) fn matches_json(&self, json: &str) -> bool {
        let quoted = json.strip_prefix('"');
        match quoted.and_then(|rest| rest.strip_suffix('"')) {
            Some(text) => !text.contains(['"', '\\']) && self.matches_string(text),
            None => self.matches_number(json) || self.matches_boolean(json),
        }
    }

    /// Whether an element of a list in a text has this form. One with an escape has none.
    pub(super) fn matches_element(&self, document: &Document<'_>, span: &Range<usize>) -> bool {
        let text = document.slice(span);
        self.matches_token(text) && (!document.format().has_types() || !text.contains('\\'))
    }

    /// Whether a piece of a string has this form.
    pub(super) fn matches_token(&self, text: &str) -> bool {
        self.matches_string(text) || self.matches_number(text) || self.matches_boolean(text)
    }

    fn matches_string(&self, text: &str) -> bool {
        match self {
            Self::Email => is_email(text),
            Self::Date => is_date(text),
            Self::Uuid => is_uuid(text),
            Self::Hex => is_hex(text),
            Self::Digits(count) => count.contains(&text.len()) && is_digits(text),
            Self::Pattern(pattern) => pattern.matches(text),
            Self::Token => is_token(text),
            Self::OneOf(words) => words.iter().any(|word| word == text),
            Self::Integer | Self::IntegerIn(_) | Self::Number | Self::Boolean => false,
        }
    }

    fn matches_number(&self, text: &str) -> bool {
        match self {
            Self::Integer => is_integer(text),
            Self::IntegerIn(range) => is_integer_in(text, range),
            Self::Number => is_number(text),
            _ => false,
        }
    }

    fn matches_boolean(&self, text: &str) -> bool {
        // JSON writes them in lower case, other notations with a capital letter too.
        *self == Self::Boolean && matches!(text, "true" | "false" | "True" | "False")
    }
}

fn is_email(text: &str) -> bool {
    let Some((local, domain)) = text.split_once('@') else {
        return false;
    };
    // The `atext` of RFC 5322 §3.2.3. A quoted local part, which could hold a sentence, is refused.
    let atom = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+/=?^_`{|}~-".contains(c);
    let host = |c: char| c.is_ascii_alphanumeric() || c == '-';
    text.len() <= MAX_EMAIL
        && local.len() <= MAX_LOCAL
        && local
            .split('.')
            .all(|part| !part.is_empty() && part.chars().all(atom))
        && domain.contains('.')
        && domain.split('.').all(|part| {
            (1..=MAX_DOMAIN_LABEL).contains(&part.len())
                && part.chars().all(host)
                && !part.starts_with('-')
                && !part.ends_with('-')
        })
}

fn is_token(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:,=-".contains(&byte);
    (1..=MAX_TOKEN).contains(&text.len()) && text.bytes().all(allowed)
}

fn is_hex(text: &str) -> bool {
    (1..=MAX_HEX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_uuid(text: &str) -> bool {
    let groups = text.split('-');
    groups.clone().map(str::len).eq(UUID) && groups.into_iter().all(is_hex)
}

fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    (1..=MAX_DIGITS).contains(&digits.len()) && is_digits(digits)
}

/// Each number has one spelling: `-0`, `+1` and `007` are refused.
fn is_integer_in(text: &str, range: &RangeInclusive<i64>) -> bool {
    let number = text.parse::<i64>().ok();
    number.is_some_and(|number| range.contains(&number) && number.to_string() == text)
}

/// `6`, or `4,8`.
fn counts(text: &str) -> Option<RangeInclusive<usize>> {
    let (least, most) = text.split_once(',').unwrap_or((text, text));
    let number = |text: &str| is_digits(text).then(|| text.parse().ok()).flatten();
    let (least, most): (usize, usize) = (number(least)?, number(most)?);
    (1 <= least && least <= most && most <= MAX_DIGITS).then_some(least..=most)
}

fn is_number(text: &str) -> bool {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let unsigned = mantissa.strip_prefix('-').unwrap_or(mantissa);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, "0"));
    text.len() <= MAX_NUMBER
        && is_digits(whole)
        && is_digits(fraction)
        && is_digits(exponent.strip_prefix(['-', '+']).unwrap_or(exponent))
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// `date` or `date-time` of RFC 3339 §5.6; seconds and zone may be missing. Fields are in range, but a 31st of February
/// passes: the check bounds how much the text can carry.
fn is_date(text: &str) -> bool {
    let Some((date, time)) = text.split_at_checked(10) else {
        return false;
    };
    let full_date = fields(date, "-", &[(4, 0, 9999), (2, 1, 12), (2, 1, 31)]);
    full_date && (time.is_empty() || is_time(time))
}

fn is_time(text: &str) -> bool {
    let Some(rest) = text.strip_prefix(['T', 't', ' ']) else {
        return false;
    };
    // `10:00`, or `10:00:00`.
    let seconds = rest.as_bytes().get(5) == Some(&b':');
    let width = if seconds { 8 } else { 5 };
    let Some((clock, rest)) = rest.split_at_checked(width) else {
        return false;
    };
    let zone = match rest.strip_prefix('.') {
        None => rest,
        Some(fraction) => {
            let zone = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
            let digits = fraction.len() - zone.len();
            // Nanoseconds at most.
            if !seconds || !(1..=9).contains(&digits) {
                return false;
            }
            zone
        }
    };
    let offset = zone.strip_prefix(['+', '-']);
    // A 60th second is a leap second (RFC 3339 §5.7).
    let limits = [(2, 0, 23), (2, 0, 59), (2, 0, 60)];
    fields(
        clock,
        ":",
        limits
            .get(..if seconds { 3 } else { 2 })
            .unwrap_or_default(),
    ) && (matches!(zone, "" | "Z" | "z")
        || offset.is_some_and(|offset| fields(offset, ":", &[(2, 0, 23), (2, 0, 59)])))
}

/// Whether `text` is numbers of these widths and ranges between separators.
fn fields(text: &str, separator: &str, expected: &[(usize, u16, u16)]) -> bool {
    let parts: Vec<&str> = text.split(separator).collect();
    parts.len() == expected.len()
        && parts
            .iter()
            .zip(expected)
            .all(|(part, (width, least, most))| {
                part.len() == *width
                    && part.bytes().all(|byte| byte.is_ascii_digit())
                    && part
                        .parse()
                        .is_ok_and(|number: u16| (*least..=*most).contains(&number))
            })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::Format;

    fn check(form: &str, accepted: &[&str], refused: &[&str]) {
        let form = Form::named(form).unwrap();
        for json in accepted {
            assert!(matches(&form, json), "{form:?} refuses {json}");
        }
        for json in refused {
            assert!(!matches(&form, json), "{form:?} accepts {json}");
        }
    }

    fn matches(form: &Form, json: &str) -> bool {
        let document = Document::parse(json, Format::Json).unwrap();
        form.matches(&document, &document.nodes()[0])
    }

    #[test]
    fn an_email_is_an_address_and_nothing_around_it() {
        check(
            "email",
            &[r#""a.b+c@mail.example.com""#, r#""x@y.z""#, "null"],
            &[
                r#""Please send money <a@b.c>""#,
                r#""a@b""#,
                r#""a b@c.d""#,
                r#""a@b.c@d.e""#,
                r#""a@-b.c""#,
                r#""a..b@c.d""#,
                r#""a@b..c""#,
                r#""@b.c""#,
                r#""a@b.c ignore""#,
                r#""a\u0040b.c""#,
                r#""""#,
                "1",
                "[]",
            ],
        );
        let long = format!("\"{}@b.c\"", "a".repeat(65));
        check("email", &[], &[&long]);
    }

    #[test]
    fn a_date_is_a_date() {
        check(
            "date",
            &[
                r#""2026-11-30""#,
                r#""2026-11-30T10:00:00Z""#,
                r#""2026-11-30T10:00:60.123456789+01:30""#,
                r#""2026-11-30T10:00:00""#,
                r#""2026-11-30 10:00""#,
            ],
            &[
                r#""2026-13-30""#,
                r#""2026-11-30T10:0""#,
                r#""2026-11-30 10:00 pay""#,
                r#""2026-11-30 10:00.5""#,
                r#""2026-11-30T10:00:00.Z""#,
                r#""2026-11-30T25:00:00Z""#,
                r#""2026-11-30 send money""#,
                r#""+026-11-30""#,
                r#""2026-11-3é""#,
                r#""tomorrow""#,
                "20261130",
            ],
        );
    }

    #[test]
    fn identifiers_have_a_shape() {
        check(
            "uuid",
            &[r#""0190b6f0-3c1e-7f27-b0ec-6a1b2c3d4e5f""#, "null"],
            &[
                r#""0190b6f03c1e7f27b0ec6a1b2c3d4e5f""#,
                r#""0190b6f0-3c1e-7f27-b0ec-6a1b2c3d4e5g""#,
                r#""0190b6f0-3c1e-7f27-b0ec-6a1b2c3d4e5f-""#,
                r#""""#,
            ],
        );
        check("hex", &[r#""02DD015a""#], &[r#""0x1""#, r#""""#, "1"]);
        check(
            "digits",
            &[r#""0033""#],
            &[r#""-1""#, r#""1.5""#, r#""""#, "1"],
        );
        let digits = |count| format!("\"{}\"", "1".repeat(count));
        check("digits", &[&digits(20)], &[&digits(21)]);
        check("hex", &[&digits(64)], &[&digits(65)]);
        check(
            "token",
            &[r#""1700000000.M1P2.host:2,S=10""#, r#""a""#, &digits(64)],
            &[r#""a b""#, r#""""#, r#""a\n""#, r#""é""#, "1", &digits(65)],
        );
    }

    #[test]
    fn integers_numbers_and_booleans() {
        check("integer", &["0", "-12"], &["1.5", "1e9", r#""1""#, "true"]);
        check("integer", &[], &[&"1".repeat(21)]);
        check(
            "number",
            &["0", "-12", "1.5", "1e9", "-2.50E-7"],
            &[r#""1""#, "true"],
        );
        check("number", &[], &["1".repeat(33).as_str()]);
        check("boolean", &["true", "false"], &["1", r#""true""#]);
    }

    #[test]
    fn one_of_compares_whole_words() {
        let form = Form::OneOf(vec!["inbox".to_owned()]);
        assert!(matches(&form, r#""inbox""#));
        assert!(!matches(&form, r#""inbox now""#));
        assert!(!matches(&form, r#""in\u0062ox""#));
    }
}
