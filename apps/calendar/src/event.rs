//! One event: from lines that any sender may have written to the few fields that the tools return, and back.

use app_support::{is_address, text, tools};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};
use serde::Serialize;

use crate::error::CalendarError;
use crate::file::{File, Line, unescape};
use crate::time::Moment;

const MAX_LINE_CHARS: usize = 200;
/// Longest description, read or written: about 2,000 tokens, which leaves a small model room to work.
const MAX_DESCRIPTION_CHARS: usize = 8_000;
const MAX_ATTENDEES: usize = 50;

/// An event as it was read, and the result of `read_event`. Nothing in it is longer than its limit. The order of the fields
/// is the order in the JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Event {
    pub(crate) id: String,
    pub(crate) start: Moment,
    /// `null` where the event has none.
    pub(crate) end: Option<Moment>,
    title: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    location: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    description: String,
    /// The plain address of who the event says it is from.
    #[serde(skip_serializing_if = "Option::is_none")]
    organizer: Option<String>,
    /// The plain addresses of those invited; their display names are left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    attendees: Vec<String>,
    /// Present, and true, for a series: `start` and `end` are those of its first occurrence.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) recurring: bool,
    /// Present, and true, when the description is longer than what is shown.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
    #[serde(skip)]
    pub(crate) uid: String,
    /// One occurrence of a series, changed.
    #[serde(skip)]
    pub(crate) exception: bool,
    #[serde(skip)]
    until: Option<Moment>,
}

/// An event in a listing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Summary {
    id: String,
    start: Moment,
    end: Option<Moment>,
    title: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    location: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    recurring: bool,
}

/// What a caller wrote of an event; `None` stays as it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Draft {
    pub(crate) title: Option<String>,
    pub(crate) start: Option<String>,
    /// When it ends: for whole days the day after the last.
    pub(crate) end: Option<String>,
    pub(crate) location: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) attendees: Option<Vec<String>>,
}

impl Event {
    /// The `n`-th event of a file; `None` without a start, since its time would be unknown.
    pub(crate) fn read(name: &str, file: &File, n: usize) -> Option<Event> {
        // Properties that may stand once are taken from their first line.
        let first = |wanted: &str| file.properties(n).find(|line| line.name == wanted);
        let value = |wanted| first(wanted).map_or(String::new(), |line| unescape(&line.value));
        let one_line = |wanted| text::one_line(&value(wanted), MAX_LINE_CHARS);
        let start = Moment::read(first("DTSTART")?)?;
        let end = match first("DTEND") {
            Some(line) => Moment::read(line),
            None => first("DURATION")
                .and_then(|line| line.value.trim().parse::<Span>().ok())
                .and_then(|length| start.after(length)),
        };
        let rule = first("RRULE").map(|line| line.value.as_str());
        let (description, truncated) = text::lines(&value("DESCRIPTION"), MAX_DESCRIPTION_CHARS);
        let uid = value("UID");
        let exception = first("RECURRENCE-ID").map(|line| line.value.as_str());
        Some(Event {
            id: tools::id(&[name, &uid, exception.unwrap_or_default()]),
            start,
            end,
            recurring: rule.is_some() || first("RDATE").is_some(),
            exception: exception.is_some(),
            // Days that are named (`RDATE`) may come after the end of the rule.
            until: rule.and_then(until).filter(|_| first("RDATE").is_none()),
            title: one_line("SUMMARY"),
            location: one_line("LOCATION"),
            description,
            truncated,
            organizer: first("ORGANIZER").and_then(address),
            attendees: file
                .properties(n)
                .filter(|line| line.name == "ATTENDEE")
                .filter_map(address)
                .take(MAX_ATTENDEES)
                .collect(),
            uid,
        })
    }

    /// Whether some of it may lie from `from` up to, and without, `to`. A series may from its first occurrence on to its
    /// last: its rule is not expanded, so more is listed than takes place, and nothing is missed.
    pub(crate) fn overlaps(&self, from: Timestamp, to: Timestamp, home: &TimeZone) -> bool {
        let Some(start) = self.start.instant(home) else {
            return false;
        };
        let one_day = || self.start.next_day()?.instant(home);
        let end = self.end.as_ref().and_then(|end| end.instant(home));
        // Without an end a day lasts a day, and a time has no length (RFC 5545 §3.6.1). An end before the start
        // counts as the start.
        let end = end.or_else(one_day).unwrap_or(start).max(start);
        let length = start.duration_until(end);
        let last = match (self.recurring, &self.until) {
            (false, _) => end,
            (true, None) => Timestamp::MAX,
            // The last occurrence begins on that day or before.
            (true, Some(until)) => until
                .next_day()
                .as_ref()
                .unwrap_or(until)
                .instant(home)
                .and_then(|at| at.checked_add(length).ok())
                .unwrap_or(Timestamp::MAX),
        };
        // An event without a length has no time after its start, and still takes place.
        start < to && (last > from || start >= from)
    }

    /// Whether every word (in lower case) stands in title, location, description or an address.
    pub(crate) fn contains(&self, words: &[String]) -> bool {
        let organizer = self.organizer.as_deref().unwrap_or_default();
        let addresses = self.attendees.join(" ");
        let all = [
            &self.title,
            &self.location,
            &self.description,
            organizer,
            &addresses,
        ];
        let all = all.join("\n").to_lowercase();
        words.iter().all(|word| all.contains(word.as_str()))
    }

    pub(crate) fn summary(self) -> Summary {
        Summary {
            id: self.id,
            start: self.start,
            end: self.end,
            title: self.title,
            location: self.location,
            recurring: self.recurring,
        }
    }
}

/// What a checked draft changes in a file.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) lines: Vec<Line>,
    /// Names of properties that go without a successor.
    pub(crate) removed: Vec<&'static str>,
}

impl Draft {
    /// The properties that this draft sets, of a new event or of `old`.
    pub(crate) fn changes(
        &self,
        old: Option<&Event>,
        home: &TimeZone,
    ) -> Result<Changes, CalendarError> {
        let mut changes = Changes::default();
        if let Some(title) = &self.title {
            changes.set("SUMMARY", line("title", title, 1)?);
        }
        if let Some(location) = &self.location {
            changes.set("LOCATION", line("location", location, 0)?);
        }
        if let Some(description) = &self.description {
            let hidden = |c: char| text::is_hidden(c) && c != '\n' && c != '\t';
            let count = description.chars().count();
            if count > MAX_DESCRIPTION_CHARS || description.contains(hidden) {
                return Err(CalendarError::BadDescription(MAX_DESCRIPTION_CHARS));
            }
            changes.set("DESCRIPTION", description);
        }
        if let Some(attendees) = &self.attendees {
            if attendees.len() > MAX_ATTENDEES || !attendees.iter().all(|one| is_address(one)) {
                return Err(CalendarError::BadAttendees(MAX_ATTENDEES));
            }
            // An empty list writes no line, so the old ones have to be named.
            changes.removed.push("ATTENDEE");
            let line = |one: &String| Line::new("ATTENDEE", "", &format!("mailto:{one}"));
            changes.lines.extend(attendees.iter().map(line));
        }
        if self.start.is_some() || self.end.is_some() || old.is_none() {
            self.set_times(&mut changes, old, home)?;
        }
        Ok(changes)
    }

    fn set_times(
        &self,
        changes: &mut Changes,
        old: Option<&Event>,
        home: &TimeZone,
    ) -> Result<(), CalendarError> {
        let given = |text: &Option<String>, name| match text {
            Some(text) => Moment::parse(text)
                .map(Some)
                .ok_or(CalendarError::BadTime(name)),
            None => Ok(None),
        };
        let (new_start, new_end) = (given(&self.start, "start")?, given(&self.end, "end")?);
        // A time without a zone is in that of the other one, which the caller has read. Where both are the caller's, it
        // is in the user's.
        let beside_start = match &new_end {
            Some(end) => Some(end.seen_from(home)),
            None => old.and_then(|old| old.end.clone()),
        };
        let beside_end = old.filter(|_| new_start.is_none()).map(|old| &old.start);
        let new_start = alike("start", new_start, beside_start.as_ref(), home)?;
        let new_end = alike("end", new_end, beside_end, home)?;
        let start = new_start.as_ref().or(old.map(|old| &old.start));
        let end = new_end.as_ref().or(old.and_then(|old| old.end.as_ref()));
        let start = start.ok_or(CalendarError::BadTime("start"))?;
        let ordered = end.is_none_or(|end| {
            start.is_like(end)
                && start
                    .instant(home)
                    .is_some_and(|at| Some(at) < end.instant(home))
        });
        if !ordered {
            return Err(CalendarError::BadOrder);
        }
        changes
            .lines
            .extend(new_start.as_ref().map(|start| start.line("DTSTART")));
        // An end that is kept is kept as it was, and not moved along with the start by a duration.
        if let Some(end) = end.filter(|_| new_end.is_some() || old.is_some()) {
            changes.lines.push(end.line("DTEND"));
            // An event has an end or a duration, never both (RFC 5545 §3.6.1).
            changes.removed.push("DURATION");
        }
        Ok(())
    }
}

/// A new time in the form of the one that it stands beside: start and end both have a zone, or neither
/// (RFC 5545 §3.8.2.2).
fn alike(
    name: &'static str,
    new: Option<Moment>,
    beside: Option<&Moment>,
    home: &TimeZone,
) -> Result<Option<Moment>, CalendarError> {
    let (Some(moment), Some(beside)) = (&new, beside) else {
        return Ok(new);
    };
    let moment = moment.like(beside, home);
    moment.map(Some).ok_or(CalendarError::BadTime(name))
}

impl Changes {
    /// Nothing is written for an empty text.
    fn set(&mut self, name: &'static str, text: &str) {
        match text.is_empty() {
            true => self.removed.push(name),
            false => self.lines.push(Line::text(name, text)),
        }
    }
}

fn line<'a>(name: &'static str, text: &'a str, min: usize) -> Result<&'a str, CalendarError> {
    let text = text.trim();
    let fits = (min..=MAX_LINE_CHARS).contains(&text.chars().count());
    let max = MAX_LINE_CHARS;
    match fits && !text.contains(text::is_hidden) {
        true => Ok(text),
        false => Err(CalendarError::BadLine { name, min, max }),
    }
}

/// The plain address of a `mailto:` value; what is no address is text, and is left out.
fn address(line: &Line) -> Option<String> {
    let (scheme, address) = line.value.trim().split_once(':')?;
    let plain = scheme.eq_ignore_ascii_case("mailto") && is_address(address);
    plain.then(|| address.to_owned())
}

/// The end of a series, by its rule.
fn until(rule: &str) -> Option<Moment> {
    let value = rule
        .split(';')
        .filter_map(|part| part.split_once('='))
        .find(|(name, _)| name.eq_ignore_ascii_case("UNTIL"))?
        .1;
    Moment::read(&Line::new("UNTIL", "", value))
}
