//! iCalendar files as content lines (RFC 5545 §3.1 and §3.4).
//!
//! A file is kept as its lines, so that a change to one event leaves every other byte as it was: alarms, zones and
//! extensions that this app does not know stay. (The crate `icalendar` writes a whole file anew and reads nested
//! components recursively, as deep as a sender likes.)

use std::collections::BTreeSet;
use std::ops::Range;

/// Deepest nesting of components; real ones have three (calendar, zone or event, alarm).
const MAX_DEPTH: usize = 8;
/// Where a written line is folded, in bytes (RFC 5545 §3.1: 75 octets with nothing but the line end beyond).
const FOLD_BYTES: usize = 75;

/// A file that cannot be read as iCalendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// As it stands in the file, folds and line end included.
    raw: String,
    /// In upper case.
    pub(crate) name: String,
    /// Parameter names in upper case, values without quotes.
    params: Vec<(String, String)>,
    /// As it is written, with its escapes.
    pub(crate) value: String,
}

impl Line {
    /// A new line; `value` is written as it is.
    pub(crate) fn new(name: &str, params: &str, value: &str) -> Line {
        let raw = fold(&format!("{name}{params}:{value}"));
        Line {
            raw,
            name: name.to_owned(),
            params: Vec::new(),
            value: value.to_owned(),
        }
    }

    pub(crate) fn text(name: &str, text: &str) -> Line {
        Line::new(name, "", &escape(text))
    }

    pub(crate) fn param(&self, name: &str) -> Option<&str> {
        let found = self.params.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    fn parse(raw: String) -> Result<Line, Broken> {
        let unfolded = unfold(&raw);
        let end = unfolded.find([';', ':']).ok_or(Broken)?;
        let (name, rest) = unfolded.split_at(end);
        // A quoted parameter may hold a colon (RFC 5545 §3.2).
        let colon = unquoted(rest, ':').ok_or(Broken)?;
        let (params, value) = (rest.get(..colon), rest.get(colon + 1..));
        let (params, value) = params.zip(value).ok_or(Broken)?;
        let well_formed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if name.is_empty() || !name.bytes().all(well_formed) {
            return Err(Broken);
        }
        Ok(Line {
            name: name.to_ascii_uppercase(),
            params: parse_params(params),
            value: value.to_owned(),
            raw,
        })
    }
}

/// A file: all its lines, and where the events are among them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct File {
    lines: Vec<Line>,
    events: Vec<Range<usize>>,
    /// Whether there is a task or a journal entry beside the events.
    others: bool,
}

impl File {
    /// Reads a file: well-formed lines, components that are closed in order, all of them in a calendar.
    pub(crate) fn parse(text: &str) -> Result<File, Broken> {
        let lines = logical_lines(text)
            .map(Line::parse)
            .collect::<Result<Vec<_>, _>>()?;
        let mut open: Vec<(&str, usize)> = Vec::new();
        let (mut events, mut others) = (Vec::new(), false);
        for (at, line) in lines.iter().enumerate() {
            match line.name.as_str() {
                "BEGIN" => {
                    let top = line.value.eq_ignore_ascii_case("VCALENDAR");
                    // A calendar is outermost and only there.
                    if top != open.is_empty() || open.len() == MAX_DEPTH {
                        return Err(Broken);
                    }
                    open.push((&line.value, at));
                }
                "END" => {
                    let (begun, from) = open.pop().ok_or(Broken)?;
                    if !begun.eq_ignore_ascii_case(&line.value) {
                        return Err(Broken);
                    }
                    if open.len() == 1 && begun.eq_ignore_ascii_case("VEVENT") {
                        events.push(from..at + 1);
                    } else if open.len() == 1 {
                        others |= !begun.eq_ignore_ascii_case("VTIMEZONE");
                    }
                }
                _ if open.is_empty() => return Err(Broken),
                _ => {}
            }
        }
        if !open.is_empty() || lines.is_empty() {
            return Err(Broken);
        }
        Ok(File {
            lines,
            events,
            others,
        })
    }

    /// The lines of a new file with one event.
    pub(crate) fn with_event(lines: &[Line]) -> String {
        let line = |name, value| Line::new(name, "", value).raw;
        let mut text = line("BEGIN", "VCALENDAR");
        text += &line("VERSION", "2.0");
        text += &line("PRODID", "-//Sluice//sluice-calendar//EN");
        text += &line("BEGIN", "VEVENT");
        text.extend(lines.iter().map(|line| line.raw.as_str()));
        text += &line("END", "VEVENT");
        text += &line("END", "VCALENDAR");
        text
    }

    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }

    /// The properties of an event, those of its alarms left out.
    pub(crate) fn properties(&self, event: usize) -> impl Iterator<Item = &Line> {
        self.own_lines(event).filter_map(|at| self.lines.get(at))
    }

    /// The file with these properties of an event in the place of those that have the same name or one of `removed`.
    pub(crate) fn with_changes(&self, event: usize, removed: &[&str], lines: &[Line]) -> String {
        // A set, since an event may have a line for each of a hundred thousand attendees.
        let gone: BTreeSet<usize> = self
            .own_lines(event)
            .filter(|&at| {
                let name = self.lines.get(at).map(|line| line.name.as_str());
                name.is_some_and(|name| {
                    removed.contains(&name) || lines.iter().any(|line| line.name == name)
                })
            })
            .collect();
        let first = self.events.get(event).map(|range| range.start);
        let mut text = String::new();
        for (at, line) in self.lines.iter().enumerate() {
            if !gone.contains(&at) {
                text += &line.raw;
            }
            if Some(at) == first {
                text.extend(lines.iter().map(|line| line.raw.as_str()));
            }
        }
        text
    }

    /// The file without these events; `None` when nothing would be left in it.
    pub(crate) fn without(&self, events: &[usize]) -> Option<String> {
        if events.len() >= self.events.len() && !self.others {
            return None;
        }
        let ranges = events.iter().filter_map(|&n| self.events.get(n));
        let gone: BTreeSet<usize> = ranges.cloned().flatten().collect();
        let kept = self.lines.iter().enumerate();
        let kept = kept.filter(|(at, _)| !gone.contains(at));
        Some(kept.map(|(_, line)| line.raw.as_str()).collect())
    }

    fn own_lines(&self, event: usize) -> impl Iterator<Item = usize> {
        let range = self.events.get(event).cloned().unwrap_or_default();
        let mut depth = 0_usize;
        range.filter(move |&at| {
            let name = self.lines.get(at).map(|line| line.name.as_str());
            match name {
                Some("BEGIN") => depth += 1,
                Some("END") => depth = depth.saturating_sub(1),
                _ => return depth == 1,
            }
            false
        })
    }
}

/// The text of a value (RFC 5545 §3.3.11).
pub(crate) fn unescape(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some('n' | 'N') => text.push('\n'),
                Some(other) => text.push(other),
                None => text.push('\\'),
            },
            other => text.push(other),
        }
    }
    text
}

fn escape(text: &str) -> String {
    let mut value = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' => value.push_str("\\n"),
            '\\' | ';' | ',' => value.extend(['\\', character]),
            other => value.push(other),
        }
    }
    value
}

/// A line of at most [`FOLD_BYTES`] bytes, and what follows on lines that begin with a space.
fn fold(line: &str) -> String {
    let mut folded = String::with_capacity(line.len() + 2);
    let mut width = 0;
    for character in line.chars() {
        if width + character.len_utf8() > FOLD_BYTES {
            folded.push_str("\r\n ");
            // The space that begins the line counts.
            width = 1;
        }
        folded.push(character);
        width += character.len_utf8();
    }
    folded + "\r\n"
}

fn unfold(raw: &str) -> String {
    let mut lines = raw.lines();
    let mut unfolded = lines.next().unwrap_or_default().to_owned();
    for line in lines {
        // A line that goes on begins with one space or tab, which is none of its text.
        unfolded.push_str(line.get(1..).unwrap_or_default());
    }
    unfolded
}

/// The lines with those that go on joined to them; empty lines are passed over. A line of blanks alone
/// is not empty: it goes on with the text of the line before.
fn logical_lines(text: &str) -> impl Iterator<Item = String> {
    let mut physical = text
        .strip_prefix('\u{feff}')
        .unwrap_or(text)
        .split_inclusive('\n')
        .filter(|line| !line.trim_end_matches(['\r', '\n']).is_empty())
        .peekable();
    std::iter::from_fn(move || {
        let mut line = physical.next()?.to_owned();
        while let Some(more) = physical.next_if(|next| next.starts_with([' ', '\t'])) {
            line += more;
        }
        // A last line without its end gets one, so that lines can be written after it.
        if !line.ends_with('\n') {
            line += "\r\n";
        }
        Some(line)
    })
}

/// Where `wanted` stands for the first time outside of quotes.
fn unquoted(text: &str, wanted: char) -> Option<usize> {
    let mut quoted = false;
    text.char_indices().find_map(|(at, character)| {
        quoted ^= character == '"';
        (character == wanted && !quoted).then_some(at)
    })
}

fn parse_params(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = text.strip_prefix(';');
    while let Some(text) = rest {
        let end = unquoted(text, ';').unwrap_or(text.len());
        if let Some((name, value)) = text.get(..end).and_then(|one| one.split_once('=')) {
            let value = value.trim_matches('"').to_owned();
            found.push((name.to_ascii_uppercase(), value));
        }
        rest = text.get(end + 1..);
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TWO: &str = "BEGIN:VCALENDAR\r\nX-OWN:kept\r\nBEGIN:VEVENT\r\nUID:1\r\nSUMMARY;X=\"a:b;c\":on\r\n e\\, \\nmore\r\n\
        BEGIN:VALARM\r\nSUMMARY:alarm\r\nEND:VALARM\r\nEND:VEVENT\r\nBEGIN:VEVENT\nUID:2\nEND:VEVENT\nEND:VCALENDAR\n";

    #[test]
    fn lines_are_unfolded_and_alarms_are_no_properties() {
        let file = File::parse(TWO).unwrap();
        assert_eq!(file.len(), 2);
        let lines: Vec<_> = file.properties(0).collect();
        let names: Vec<_> = lines.iter().map(|line| line.name.as_str()).collect();
        assert_eq!(names, ["UID", "SUMMARY"]);
        assert_eq!(unescape(&lines[1].value), "one, \nmore");
        assert_eq!(lines[1].param("X"), Some("a:b;c"));
    }

    #[test]
    fn a_change_leaves_every_other_byte() {
        let file = File::parse(TWO).unwrap();
        let changed = file.with_changes(0, &[], &[Line::text("SUMMARY", "new; title")]);
        let want = TWO
            .replace("SUMMARY;X=\"a:b;c\":on\r\n e\\, \\nmore\r\n", "")
            .replacen(
                "BEGIN:VEVENT\r\n",
                "BEGIN:VEVENT\r\nSUMMARY:new\\; title\r\n",
                1,
            );
        assert_eq!(changed, want);
        assert_eq!(
            file.without(&[1]).unwrap(),
            TWO.replace("BEGIN:VEVENT\nUID:2\nEND:VEVENT\n", "")
        );
        assert_eq!(file.without(&[0, 1]), None);
    }

    /// A fold may leave nothing but blanks for the last line.
    #[test]
    fn blanks_at_the_end_of_a_folded_text_stay() {
        for blanks in 1..=2 * FOLD_BYTES {
            let text = "x".repeat(FOLD_BYTES) + &" ".repeat(blanks);
            let written = File::with_event(&[Line::text("SUMMARY", &text)]);
            let file = File::parse(&written).unwrap();
            let line = file.properties(0).next().unwrap();
            assert_eq!(unescape(&line.value), text);
        }
    }

    #[test]
    fn what_is_no_calendar_is_broken() {
        let deep = "BEGIN:VCALENDAR\n".to_owned() + &"BEGIN:X\n".repeat(100_000);
        for text in [
            "",
            "hello",
            "BEGIN:VEVENT\nEND:VEVENT\n",
            "BEGIN:VCALENDAR\n",
            "BEGIN:VCALENDAR\nBEGIN:VEVENT\nEND:VCALENDAR\nEND:VEVENT\n",
            "BEGIN:VCALENDAR\nno colon\nEND:VCALENDAR\n",
            "BEGIN:VCALENDAR\nEND:VCALENDAR\nUID:1\n",
            "BEGIN:VCALENDAR\nBEGIN:VCALENDAR\nEND:VCALENDAR\nEND:VCALENDAR\n",
            "END:VCALENDAR\n",
            &deep,
        ] {
            assert_eq!(File::parse(text), Err(Broken), "{:.60}", text);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_broken(text in "(BEGIN|END|UID|VEVENT|VCALENDAR|:|;|=|\"|\n|\r\n| |x|ä){0,80}") {
            if let Ok(file) = File::parse(&text) {
                for event in 0..file.len() {
                    prop_assert!(file.properties(event).all(|line| !line.name.is_empty()));
                }
            }
        }

        #[test]
        fn what_is_written_is_read_back(text in "[^\\p{Cc}]{0,200}(\n[^\\p{Cc}]{0,200})?") {
            let written = File::with_event(&[Line::text("SUMMARY", &text)]);
            prop_assert!(written.lines().all(|line| line.len() <= FOLD_BYTES));
            let file = File::parse(&written).unwrap();
            let lines: Vec<_> = file.properties(0).collect();
            prop_assert_eq!(lines.len(), 1);
            prop_assert_eq!(unescape(&lines[0].value), text);
        }
    }
}
