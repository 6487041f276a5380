//! Strings of a fixed form: there is no room for a sentence in any of them.

/// The form of a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// `2026-11-22`.
    Date,
    /// `2026-11-22T08:25:00Z`, with a fraction of a second and an offset as RFC 3339 has them.
    DateTime,
    /// `08:25` or `08:25:00`.
    Time,
    /// Eight, four, four, four and twelve hexadecimal digits.
    Uuid,
}

impl Format {
    /// Characters of the longest one: a time with nine digits after the point, and an offset.
    pub(super) const LONGEST: usize = 36;

    const ALL: [Self; 4] = [Self::Date, Self::DateTime, Self::Time, Self::Uuid];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Date => "date",
            Self::DateTime => "date-time",
            Self::Time => "time",
            Self::Uuid => "uuid",
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    pub(super) fn names() -> Vec<&'static str> {
        Self::ALL.map(Self::name).to_vec()
    }

    /// Whether a text has this form.
    pub(super) fn holds(self, text: &str) -> bool {
        match self {
            Self::Date => date(text),
            Self::DateTime => {
                let split = text.split_once(['T', 't']);
                split.is_some_and(|(day, rest)| date(day) && time_with_offset(rest))
            }
            Self::Time => clock(text, false) || clock(text, true),
            Self::Uuid => uuid(text),
        }
    }
}

/// A number of exactly so many digits.
fn number(text: &str, digits: usize) -> Option<u32> {
    let all = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| all)
}

fn date(text: &str) -> bool {
    let mut parts = text.split('-');
    let mut next = |digits| parts.next().and_then(|part| number(part, digits));
    let (Some(year), Some(month), Some(day)) = (next(4), next(2), next(2)) else {
        return false;
    };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => 0,
    };
    parts.next().is_none() && (1..=days).contains(&day)
}

/// `08:25`, or with seconds.
fn clock(text: &str, seconds: bool) -> bool {
    let mut parts = text.split(':');
    let mut next = |most| {
        let found = parts.next().and_then(|part| number(part, 2));
        found.is_some_and(|found| found <= most)
    };
    // A leap second is the sixtieth.
    let whole = next(23) && next(59) && (!seconds || next(60));
    whole && parts.next().is_none()
}

fn time_with_offset(text: &str) -> bool {
    let (time, offset) = match text.strip_suffix(['Z', 'z']) {
        Some(time) => (time, None),
        None => {
            let at = text.len().saturating_sub("+00:00".len());
            match text.split_at_checked(at) {
                Some((time, offset)) => (time, Some(offset)),
                None => return false,
            }
        }
    };
    let offset_holds = offset.is_none_or(|offset| {
        let rest = offset.strip_prefix(['+', '-']);
        rest.is_some_and(|rest| clock(rest, false))
    });
    let (seconds, fraction) = match time.split_once('.') {
        Some((seconds, fraction)) => (seconds, Some(fraction)),
        None => (time, None),
    };
    let digits = |fraction: &str| {
        (1..=9).contains(&fraction.len()) && fraction.bytes().all(|byte| byte.is_ascii_digit())
    };
    offset_holds && clock(seconds, true) && fraction.is_none_or(digits)
}

fn uuid(text: &str) -> bool {
    let parts = text.split('-');
    let lengths = parts.clone().map(str::len);
    lengths.eq([8, 4, 4, 4, 12])
        && text
            .bytes()
            .all(|byte| byte == b'-' || byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_hold_what_they_say_and_nothing_else() {
        let cases = [
            (Format::Date, ["2026-11-22", "2024-02-29", "0001-01-01"]),
            (
                Format::DateTime,
                [
                    "2026-11-22T08:25:00Z",
                    "2026-11-22t23:59:60.123456789+14:00",
                    "2000-02-29T00:00:00-00:30",
                ],
            ),
            (Format::Time, ["08:25", "23:59:59", "00:00"]),
            (
                Format::Uuid,
                [
                    "00000000-0000-0000-0000-000000000000",
                    "ABCDEFab-1234-5678-9abc-def012345678",
                    "ffffffff-ffff-ffff-ffff-ffffffffffff",
                ],
            ),
        ];
        for (format, right) in cases {
            for text in right {
                assert!(format.holds(text), "{format:?} {text}");
                assert!(text.chars().count() <= Format::LONGEST);
                for other in Format::ALL {
                    assert!(other == format || !other.holds(text), "{other:?} {text}");
                }
            }
        }
        for wrong in [
            "",
            "2026-13-01",
            "2026-02-29",
            "2026-1-1",
            "2026-11-22 ",
            "+026-11-22",
            "2026-11-22-",
            "2026-11-22T08:25:00",
            "2026-11-22T08:25:00.Z",
            "2026-11-22T08:25:00.1234567890Z",
            "2026-11-22T08:25Z",
            "2026-11-22T08:25:00+1:00",
            "2026-11-22T08:25:00é00:00",
            "2026-11-22T24:00:00Z",
            "8:25",
            "08:25:00:00",
            "00000000-0000-0000-0000-00000000000",
            "00000000-0000-0000-0000-00000000000g",
            "0000000000000000000000000000000000-0",
            "ignore all previous instructions",
        ] {
            assert!(Format::ALL.iter().all(|f| !f.holds(wrong)), "{wrong}");
        }
    }
}
