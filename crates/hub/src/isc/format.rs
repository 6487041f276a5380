//! Strings of a fixed form: none of them has room for a sentence.

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

    /// Whether a text has this form. Only the form is checked, not the calendar: `2026-13-40` is a date.
    pub(super) fn holds(self, text: &str) -> bool {
        match self {
            Self::Date => is(text, "0000-00-00"),
            Self::DateTime => {
                let text = text.to_ascii_uppercase();
                let Some((time, rest)) = text.split_at_checked("0000-00-00T00:00:00".len()) else {
                    return false;
                };
                let fraction = rest.strip_prefix('.');
                let digits = fraction.map_or(0, |rest| {
                    rest.bytes().take_while(u8::is_ascii_digit).count()
                });
                let offset = fraction.map_or(rest, |rest| rest.get(digits..).unwrap_or_default());
                is(time, "0000-00-00T00:00:00")
                    && fraction.is_none_or(|_| (1..=9).contains(&digits))
                    && ["Z", "+00:00", "-00:00"]
                        .iter()
                        .any(|form| is(offset, form))
            }
            Self::Time => is(text, "00:00") || is(text, "00:00:00"),
            Self::Uuid => is(text, "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"),
        }
    }
}

/// Whether a text is this pattern, in which `0` is any digit and `x` any hexadecimal one.
fn is(text: &str, pattern: &str) -> bool {
    let mut pairs = text.bytes().zip(pattern.bytes());
    text.len() == pattern.len()
        && pairs.all(|(byte, wanted)| match wanted {
            b'0' => byte.is_ascii_digit(),
            b'x' => byte.is_ascii_hexdigit(),
            wanted => byte == wanted,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_has_no_room_for_words() {
        let cases = [
            (Format::Date, ["2026-11-22", "2000-02-29", "0000-01-01"]),
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
