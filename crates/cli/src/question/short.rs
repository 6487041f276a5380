//! A question in few lines: the call, its destination first; the text that it may come from, with the place of the call's
//! values; why it is asked; and what the answers allow, as far as there is room.

use hub::question::{Shown, ShownArgument, ShownChoice, ShownSource};
use hub::trace::{escape, escape_lines};

use super::full::{DEPENDS, described, full, marked, name, trusted, waiting, warnings};
use super::layout::{INSET, Lines, NAME_COLUMNS, Size, columns};
use super::typed::{NO, named, prompt};

/// Lines of a question with its prompt on a terminal of [`USUAL`] columns: as much is read before an answer. A narrower
/// terminal has room for the same text in more lines.
const LINES: usize = 12;
const USUAL: usize = 80;

/// Lines before the text that the call may come from, and of that text.
const CALL_LINES: usize = 4;
const EXCERPT_LINES: usize = 2;

/// Characters of that text before a value of the call, so that the value is in its first line.
const BEFORE: usize = 56;

/// Before the rest of a text that was divided.
const CONTINUED: &str = "The call goes on: ";

/// A question in few lines.
#[derive(Debug)]
pub(super) struct Short {
    pub(super) text: String,
    /// Lines that are left out.
    pub(super) hidden: usize,
    /// The answers of which all that they cover is shown.
    pub(super) offered: Vec<String>,
}

/// Where a block is, from the top.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Call,
    Cause,
    Rest,
    Waiting,
    Reasons,
    Notes,
    Trusted,
    Meanings,
}

/// Blocks of lines, and the number of lines that there is still room for.
struct Room {
    columns: usize,
    left: usize,
    blocks: Vec<(Place, Vec<String>)>,
    is_cut: bool,
    /// Whether the beginning of the call is cut: the terminal is very low.
    is_call_cut: bool,
}

impl Room {
    fn lines(&mut self, write: impl FnOnce(&mut Lines)) -> Vec<String> {
        let mut lines = Lines::new(self.columns);
        write(&mut lines);
        self.is_cut |= lines.is_cut;
        lines.lines
    }

    /// Places a block, or as much of it as there is room for.
    fn put(&mut self, place: Place, mut lines: Vec<String>) {
        self.is_cut |= lines.len() > self.left;
        self.is_call_cut |= place == Place::Call && lines.len() > self.left;
        lines.truncate(self.left);
        self.left -= lines.len();
        self.blocks.push((place, lines));
    }

    /// Places a block if there is room for all of it.
    fn fit(&mut self, place: Place, write: impl FnOnce(&mut Lines)) -> bool {
        let lines = self.lines(write);
        let fits = lines.len() <= self.left;
        match fits {
            true => self.put(place, lines),
            false => self.is_cut = true,
        }
        fits
    }
}

/// A part of a call, which is escaped.
struct Part {
    /// What is before it where it is not at the beginning.
    lead: &'static str,
    text: String,
    /// Whether an answer covers it.
    is_covered: bool,
}

/// The question in few lines, on a terminal of so many columns.
pub(super) fn short(shown: &Shown, size: Size) -> Short {
    let columns = Lines::new(size.columns).width;
    let scale = USUAL.div_ceil(columns);
    let all: Vec<&str> = shown.choices.iter().map(|it| it.answer.as_str()).collect();
    // Which answers are offered now decides where the lines of the prompt break.
    let longest = prompt(&[], &all, usize::MAX, columns - columns / 10);
    let longest = longest.lines().count();
    let mut room = Room {
        columns,
        left: (LINES * scale).min(size.rows).saturating_sub(longest),
        blocks: Vec::new(),
        is_cut: false,
        is_call_cut: false,
    };
    let title = room.lines(|lines| {
        for sentence in &shown.title {
            lines.clipped(sentence, scale);
        }
    });
    let excerpt = EXCERPT_LINES * scale;
    let mut lines = Lines::new(columns);
    source(&mut lines, shown, scale, excerpt);
    let cause = lines.lines;
    let reasons = room.lines(|lines| {
        for reason in &shown.reasons {
            lines.clipped(reason, 2 * scale);
        }
    });
    let later = cause.len() + reasons.len();
    let mut head = room.left.saturating_sub(title.len() + later);
    if !cause.is_empty() {
        head = head.min((CALL_LINES * scale).saturating_sub(title.len()));
    }
    room.put(Place::Call, title);
    let rest = room.call(shown, head.max(1));
    room.put(Place::Cause, cause);
    room.put(Place::Reasons, reasons);
    // An address that looks like another one must be seen.
    let warned = |one: &ShownArgument, room: &mut Room| {
        one.mixed.is_empty() || room.fit(Place::Notes, |lines| warnings(lines, one))
    };
    let mut is_call_shown = !room.is_call_cut;
    for one in &shown.arguments {
        is_call_shown &= warned(one, &mut room);
    }
    let is_warning = |note: &&String| note.starts_with('!');
    for note in shown.notes.iter().filter(is_warning) {
        room.fit(Place::Notes, |lines| lines.own(note));
    }
    // The meaning of "once" comes before a long argument that is not covered by it.
    let meaning = |choice: &ShownChoice| format!("{}: {}", named(&choice.answer), choice.meaning);
    let once = shown
        .choices
        .iter()
        .find(|it| it.answer == "once" && !it.meaning.is_empty());
    let once = once.map_or(0, |once| {
        room.lines(|lines| lines.own(&meaning(once))).len()
    });
    let once = once.min(room.left);
    room.left -= once;
    is_call_shown &= room.rest(rest);
    if let Some(more) = more(shown) {
        room.is_cut = true;
        room.fit(Place::Cause, |lines| lines.clipped(&more, scale));
    }
    room.left += once;
    let mut offered = Vec::new();
    let mut has_texts = false;
    for choice in shown.choices.iter().filter(|it| it.answer != NO) {
        let left = (room.left, room.blocks.len());
        let is_trust = choice.answer.starts_with("trust");
        let seen = match choice.answer.as_str() {
            "each" => room.fit(Place::Waiting, |lines| waiting(lines, &shown.waiting)),
            _ if is_trust && !has_texts => room.fit(Place::Trusted, |lines| trusted(lines, shown)),
            _ => true,
        };
        let has_meaning = choice.meaning.is_empty()
            || seen && room.fit(Place::Meanings, |lines| lines.own(&meaning(choice)));
        if seen && has_meaning && is_call_shown {
            has_texts |= is_trust;
            offered.push(choice.answer.clone());
        } else {
            // What an answer covers is of no use without the answer.
            (room.left, _) = left;
            room.blocks.truncate(left.1);
            room.is_cut = true;
        }
    }
    if !shown.waiting.is_empty() && !offered.iter().any(|it| it == "each") {
        let count = shown.waiting.len();
        let calls = if count == 1 { "call" } else { "calls" };
        let also = format!("The same step also wants to make {count} more {calls}.");
        room.fit(Place::Waiting, |lines| lines.clipped(&also, scale));
    }
    for note in shown.notes.iter().filter(|note| !is_warning(note)) {
        room.fit(Place::Notes, |lines| lines.own(note));
    }
    // What is left is for more of the text.
    let left = room.left;
    let mut cause = room.lines(|lines| source(lines, shown, scale, excerpt + left));
    if let Some((_, lines)) = room.blocks.iter_mut().find(|it| it.0 == Place::Cause) {
        cause.truncate(lines.len() + left);
        *lines = cause;
    }
    let mut blocks = room.blocks;
    blocks.sort_by_key(|(place, _)| *place);
    let lines: Vec<String> = blocks.into_iter().flat_map(|(_, lines)| lines).collect();
    let hidden = full(shown, columns).lines.len().saturating_sub(lines.len());
    Short {
        hidden: if room.is_cut { hidden.max(1) } else { 0 },
        text: lines.concat(),
        offered,
    }
}

/// The arguments, each by itself if there are as many lines. Otherwise short ones share a line.
fn groups(arguments: &[ShownArgument], width: usize, most: usize) -> Vec<&[ShownArgument]> {
    let is_short = |it: &ShownArgument| {
        // Within a line, only these names cannot be taken for more than one argument.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        it.mixed.is_empty() && it.name.chars().all(is_plain)
    };
    let mut groups = Vec::new();
    let mut rest = arguments;
    while !rest.is_empty() {
        let fits = |count: &usize| {
            let group = rest.get(..*count).unwrap_or_default();
            group.iter().all(is_short) && columns(&joined(group)) + 6 <= width
        };
        let count = match arguments.len() > most {
            true => (1..=rest.len()).take_while(fits).last().unwrap_or(1),
            false => 1,
        };
        let (group, more) = rest.split_at(count);
        groups.push(group);
        rest = more;
    }
    groups
}

fn joined(arguments: &[ShownArgument]) -> String {
    let all = arguments
        .iter()
        .map(|it| escape(&format!("{}: {}", it.name, it.value)));
    all.collect::<Vec<_>>().join(", ")
}

impl Room {
    /// Places the beginning of the call in at most so many lines, and gives back the rest.
    fn call(&mut self, shown: &Shown, most: usize) -> Vec<Part> {
        let groups = groups(&shown.arguments, self.columns, most);
        let arguments = groups.into_iter().map(|group| Part {
            lead: "The call also has ",
            text: joined(group),
            is_covered: group.iter().any(|it| it.is_covered),
        });
        let text = shown
            .text
            .iter()
            .flat_map(|text| match shown.is_unreadable {
                true => vec![escape(text)],
                false => escape_lines(text)
                    .replace('\t', "    ")
                    .split('\n')
                    .map(str::to_owned)
                    .collect(),
            });
        let text = text.map(|text| Part {
            text,
            lead: CONTINUED,
            is_covered: false,
        });
        let (mut head, mut rest) = (Lines::new(self.columns), Vec::new());
        for part in arguments.chain(text) {
            let left = most - head.lines.len();
            // Only the first part is divided: the others are read better in one piece.
            let is_first = head.lines.is_empty();
            let mut lines = head.broken(&part.text);
            let text = match lines.len() <= left {
                true => String::new(),
                false if is_first => lines.split_off(left).concat(),
                false => std::mem::take(&mut lines).concat(),
            };
            head.put(INSET, &lines);
            let lead = if is_first { CONTINUED } else { part.lead };
            rest.extend((!text.is_empty()).then_some(Part { lead, text, ..part }));
        }
        self.put(Place::Call, head.lines);
        rest
    }

    /// Places the rest of the call as far as there is room. Whether all is shown that an answer covers.
    fn rest(&mut self, rest: Vec<Part>) -> bool {
        let mut is_shown = true;
        for Part {
            lead,
            text,
            is_covered,
        } in rest
        {
            let left = self.left;
            let lines = self.lines(|lines| lines.led(lead, &text));
            is_shown &= !is_covered || lines.len() <= left;
            self.put(Place::Rest, lines);
        }
        is_shown
    }
}

/// The first text that the flow may depend on, or what else there is.
fn source(lines: &mut Lines, shown: &Shown, scale: usize, excerpt: usize) {
    if shown.excess.is_empty() {
        return;
    }
    let Some(source) = shown.sources.first() else {
        let labels = || format!("text labelled {}", escape(&shown.excess.join(", ")));
        let on = shown.descriptions.clone().unwrap_or_else(labels);
        return lines.clipped(&format!("It may depend on {on}."), scale);
    };
    // A prefix and a colon.
    let room = (lines.width * scale).saturating_sub(DEPENDS.len() + 4 * scale);
    let source_of = described(source, room, room);
    lines.clipped(&format!("{DEPENDS}{source_of}:"), scale);
    // Breaks and indents would leave less room for words.
    let words = ShownSource {
        before: spaced(&source.before),
        after: spaced(&source.after),
        ..source.clone()
    };
    lines.sampled(&escape(&marked(&words, BEFORE)), excerpt);
}

/// The words of a text, with one space for each gap.
fn spaced(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(1 << 10));
    for c in text.chars() {
        match c.is_whitespace() {
            true if out.ends_with(' ') => {}
            true => out.push(' '),
            false => out.push(c),
        }
    }
    out
}

/// What else the flow may depend on, counted.
fn more(shown: &Shown) -> Option<String> {
    let more = shown.sources.get(1..).unwrap_or_default();
    let count = |relevant: bool| more.iter().filter(|it| it.is_relevant == relevant).count();
    let texts = |count: usize, what: &str| match count {
        0 => None,
        1 => Some(format!("1 {what}text")),
        count => Some(format!("{count} {what}texts")),
    };
    let others = texts(count(true), "more ").map(|it| {
        let named = more.iter().filter(|it| it.is_relevant);
        let mut names: Vec<String> = named.map(|it| name(it, NAME_COLUMNS)).collect();
        names.dedup();
        format!("{it} ({})", names.join(", "))
    });
    let doubtful =
        texts(count(false), "").map(|it| format!("{it} that the screener found irrelevant"));
    let descriptions = shown
        .descriptions
        .clone()
        .filter(|_| !shown.sources.is_empty());
    // The names are last, since they may be cut.
    let all: Vec<String> = descriptions
        .into_iter()
        .chain(doubtful)
        .chain(others)
        .collect();
    let all = all.join(", ");
    (!all.is_empty()).then(|| format!("It may also depend on {all}."))
}
