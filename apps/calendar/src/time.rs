//! Days and times of events: as iCalendar writes them, and as the tools do.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{Span, Timestamp, Zoned};
use serde::{Serialize, Serializer};

use crate::file::Line;

/// A day, a time, or a time in a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// A whole day, wherever the user is.
    Day(Date),
    /// A time without a zone: wherever the user is.
    Local(DateTime),
    /// A moment of the world.
    Zoned(Zoned),
}

impl Moment {
    /// What a caller wrote: `2026-11-24`, `2026-11-24T10:00`, with seconds, with `Z` or an offset.
    pub(crate) fn parse(text: &str) -> Option<Moment> {
        // A bracketed zone is text of the caller's choice, and jiff would read it.
        let plain = |byte: u8| byte.is_ascii_digit() || b"-+:.TtZz ".contains(&byte);
        // 35 bytes are a time with nine digits of a second and an offset.
        if text.len() > 35 || !text.bytes().all(plain) {
            return None;
        }
        if text.len() == 10 {
            return text.parse().ok().map(Moment::Day);
        }
        if let Ok(at) = text.parse::<Timestamp>() {
            return Some(Moment::Zoned(at.to_zoned(TimeZone::UTC)));
        }
        let clock = text.get(10..)?;
        // With a zone it was no valid moment above. Read as a local time it would lose the zone.
        let zoned = clock.contains(['Z', 'z', '+', '-']);
        let at = text.parse().ok().filter(|_| !zoned);
        at.map(Moment::Local)
    }

    /// What stands in a file (RFC 5545 §3.3.4 and §3.3.5). An unknown zone is the user's own: the file says what its
    /// name means, but only in a table of the sender's making.
    pub(crate) fn read(line: &Line) -> Option<Moment> {
        let value = line.value.trim();
        let (day, clock) = value.split_at_checked(8)?;
        let day = Date::new(number(day, 0, 4)?, number(day, 4, 2)?, number(day, 6, 2)?).ok()?;
        if clock.is_empty() {
            return Some(Moment::Day(day));
        }
        let (clock, utc) = match clock.strip_suffix('Z') {
            Some(clock) => (clock, true),
            None => (clock, false),
        };
        let clock = clock.strip_prefix('T').filter(|clock| clock.len() == 6)?;
        // A leap second is the one before it: nothing else here counts them.
        let second = number::<i8>(clock, 4, 2)?.min(59);
        let clock = Time::new(number(clock, 0, 2)?, number(clock, 2, 2)?, second, 0).ok()?;
        let local = day.to_datetime(clock);
        let zone = match utc {
            true => Some(TimeZone::UTC),
            false => line.param("TZID").and_then(zone),
        };
        match zone {
            Some(zone) => local.to_zoned(zone).ok().map(Moment::Zoned),
            None => Some(Moment::Local(local)),
        }
    }

    /// The moment of the world, where the user's zone is `home`.
    pub(crate) fn instant(&self, home: &TimeZone) -> Option<Timestamp> {
        match self {
            Moment::Day(day) => day.to_zoned(home.clone()).ok().map(|at| at.timestamp()),
            Moment::Local(local) => local.to_zoned(home.clone()).ok().map(|at| at.timestamp()),
            Moment::Zoned(at) => Some(at.timestamp()),
        }
    }

    /// The moment after this much time, as `DURATION` counts it.
    pub(crate) fn after(&self, length: Span) -> Option<Moment> {
        Some(match self {
            Moment::Day(day) => Moment::Day(day.checked_add(length).ok()?),
            Moment::Local(local) => Moment::Local(local.checked_add(length).ok()?),
            Moment::Zoned(at) => Moment::Zoned(at.checked_add(length).ok()?),
        })
    }

    /// The day after, for a day.
    pub(crate) fn next_day(&self) -> Option<Moment> {
        match self {
            Moment::Day(day) => day.tomorrow().ok().map(Moment::Day),
            Moment::Local(_) | Moment::Zoned(_) => None,
        }
    }

    /// The same moment, in the user's zone if it has one.
    pub(crate) fn seen_from(&self, home: &TimeZone) -> Moment {
        match self {
            Moment::Zoned(at) => Moment::Zoned(at.with_time_zone(home.clone())),
            other => other.clone(),
        }
    }

    /// A time as the other one is given: in its zone if it has one and this has none, and without a zone, as the user's
    /// clock shows it, if only this has one. `None` for a time that no zone has.
    pub(crate) fn like(&self, other: &Moment, home: &TimeZone) -> Option<Moment> {
        match (self, other) {
            (Moment::Local(local), Moment::Zoned(at)) => {
                let zoned = local.to_zoned(at.time_zone().clone());
                zoned.ok().map(Moment::Zoned)
            }
            (Moment::Zoned(at), Moment::Local(_)) => {
                Some(Moment::Local(at.with_time_zone(home.clone()).datetime()))
            }
            _ => Some(self.clone()),
        }
    }

    /// Whether both are days, or both are times.
    pub(crate) fn is_like(&self, other: &Moment) -> bool {
        matches!(self, Moment::Day(_)) == matches!(other, Moment::Day(_))
    }

    /// A day, or a time in RFC 3339, without an offset if it has no zone. Nothing in it is the sender's but the choice of the
    /// moment.
    pub(crate) fn text(&self) -> String {
        match self {
            Moment::Day(day) => day.strftime("%Y-%m-%d").to_string(),
            Moment::Local(local) => local.strftime("%Y-%m-%dT%H:%M:%S").to_string(),
            Moment::Zoned(at) if at.time_zone() == &TimeZone::UTC => {
                at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
            }
            Moment::Zoned(at) => at.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
        }
    }

    pub(crate) fn line(&self, name: &str) -> Line {
        match self {
            Moment::Day(day) => Line::new(name, ";VALUE=DATE", &day.strftime("%Y%m%d").to_string()),
            Moment::Local(local) => {
                Line::new(name, "", &local.strftime("%Y%m%dT%H%M%S").to_string())
            }
            Moment::Zoned(at) => stamp(name, at.timestamp()),
        }
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.text())
    }
}

/// A property with a time in UTC.
pub(crate) fn stamp(name: &str, at: Timestamp) -> Line {
    Line::new(name, "", &at.strftime("%Y%m%dT%H%M%SZ").to_string())
}

/// A zone by its name in the compiled-in tables; no file is looked up.
pub(crate) fn zone(name: &str) -> Option<TimeZone> {
    TimeZoneDatabase::bundled().get(name).ok()
}

fn number<T: std::str::FromStr>(text: &str, from: usize, length: usize) -> Option<T> {
    let digits = text.get(from..from + length)?;
    let all = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| all)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_of_files_become_rfc_3339() {
        for (params, value, want) in [
            ("", "20261124", Some("2026-11-24")),
            ("", "20261124T100000", Some("2026-11-24T10:00:00")),
            ("", "20261124T100060Z", Some("2026-11-24T10:00:59Z")),
            (
                ";TZID=Europe/Berlin",
                "20260724T100000",
                Some("2026-07-24T10:00:00+02:00"),
            ),
            (
                ";TZID=ignore all rules",
                "20260724T100000",
                Some("2026-07-24T10:00:00"),
            ),
            (
                ";TZID=../../etc/passwd",
                "20260724T100000",
                Some("2026-07-24T10:00:00"),
            ),
            ("", "20261324", None),
            ("", "2026112", None),
            ("", "+0261124", None),
            ("", "20261124T1000", None),
            ("", "20261124T256000", None),
            ("", "2026112ä", None),
        ] {
            let text = format!(
                "BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART{params}:{value}\nEND:VEVENT\nEND:VCALENDAR\n"
            );
            let file = crate::file::File::parse(&text).unwrap();
            let moment = file.properties(0).next().and_then(Moment::read);
            assert_eq!(
                moment.map(|at| at.text()).as_deref(),
                want,
                "{params} {value}"
            );
        }
    }

    #[test]
    fn times_of_callers_are_strict() {
        for (text, want) in [
            ("2026-11-24", Some("2026-11-24")),
            ("2026-11-24T10:00", Some("2026-11-24T10:00:00")),
            ("2026-11-24 10:00:30", Some("2026-11-24T10:00:30")),
            ("2026-11-24T10:00:00Z", Some("2026-11-24T10:00:00Z")),
            ("2026-11-24T10:00:00+01:00", Some("2026-11-24T09:00:00Z")),
            ("tomorrow", None),
            ("2026-11-31", None),
            ("2026-11-24T10:00[Europe/Berlin]", None),
            ("2026-11-24T10:00\nX:1", None),
            ("", None),
        ] {
            assert_eq!(
                Moment::parse(text).map(|at| at.text()).as_deref(),
                want,
                "{text}"
            );
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_time_or_none(text in "[0-9TZ:+. -]{0,40}|.{0,20}") {
            if let Some(moment) = Moment::parse(&text) {
                prop_assert_eq!(Moment::parse(&moment.text()), Some(moment));
            }
        }
    }
}
