//! A question with nothing left out.

use hub::question::{Shown, ShownArgument, ShownCall, ShownSource};
use hub::trace::escape;

use super::layout::{Lines, NAME_COLUMNS, columns, shortened};
use super::typed::named;

/// Before the name of a source.
pub(super) const DEPENDS: &str = "It may depend on ";

/// All of a question on a terminal of so many columns, without a prompt.
pub(crate) fn full(shown: &Shown, width: usize) -> Lines {
    let mut lines = Lines::new(width);
    for sentence in &shown.title {
        lines.own(sentence);
    }
    for one in &shown.arguments {
        argument(&mut lines, one);
    }
    contents(&mut lines, shown);
    waiting(&mut lines, &shown.waiting);
    if !shown.excess.is_empty() {
        depends(&mut lines, shown);
    }
    let notes = shown.reasons.iter().chain(&shown.notes);
    notes.for_each(|sentence| lines.own(sentence));
    trusted(&mut lines, shown);
    for choice in shown.choices.iter().filter(|it| !it.meaning.is_empty()) {
        lines.own(&format!("{}: {}", named(&choice.answer), choice.meaning));
    }
    lines
}

/// An argument in full, with its warnings.
pub(super) fn argument(lines: &mut Lines, one: &ShownArgument) {
    lines.quoted(&escape(&format!("{}: {}", one.name, one.value)));
    warnings(lines, one);
}

/// The words of an argument that look like others.
pub(super) fn warnings(lines: &mut Lines, one: &ShownArgument) {
    let name = shortened(&escape(&one.name), NAME_COLUMNS);
    for word in &one.mixed {
        let word = shortened(&escape(word), 4 * NAME_COLUMNS);
        lines.own(&format!(
            "! {name} mixes letters of several scripts: {word}"
        ));
    }
}

/// The text of an answer or a message, or arguments that cannot be read.
pub(super) fn contents(lines: &mut Lines, shown: &Shown) {
    match &shown.text {
        Some(text) if shown.is_unreadable => lines.quoted(&escape(text)),
        Some(text) => lines.paragraphs(text),
        None => {}
    }
}

/// The other calls of the step. An answer allows them.
pub(super) fn waiting(lines: &mut Lines, calls: &[ShownCall]) {
    if !calls.is_empty() {
        lines.own("The same step also wants to call:");
    }
    for call in calls {
        lines.quoted(&escape(&format!("{}.{}", call.app, call.tool)));
        for one in &call.arguments {
            argument(lines, one);
        }
    }
}

/// The texts that the user would trust.
pub(super) fn trusted(lines: &mut Lines, shown: &Shown) {
    for text in &shown.trusted {
        let source = shortened(&escape(&text.source), 2 * NAME_COLUMNS);
        lines.own(&format!("You would trust all of {source}:"));
        lines.paragraphs(&text.text);
    }
}

fn depends(lines: &mut Lines, shown: &Shown) {
    for source in &shown.sources {
        // A foreign name begins no line.
        let room = lines.width.saturating_sub(DEPENDS.len() + 4);
        let source_of = described(source, room.max(NAME_COLUMNS), usize::MAX);
        lines.own(&format!("{DEPENDS}{source_of}:"));
        lines.paragraphs(&marked(source, usize::MAX));
    }
    let labels = || format!("text labelled {}", escape(&shown.excess.join(", ")));
    let rest = match (&shown.descriptions, shown.sources.is_empty()) {
        (Some(descriptions), _) => descriptions.clone(),
        (None, true) => labels(),
        (None, false) => return,
    };
    lines.own(&format!("It may depend on {rest}."));
}

/// The name of a source: who wrote it, else where it comes from.
pub(super) fn name(source: &ShownSource, most: usize) -> String {
    let name = match source.writers.as_slice() {
        [] => source.source.clone(),
        writers => format!("text of {}", writers.join(" and ")),
    };
    shortened(&escape(&name), most)
}

/// A source in at most so many columns, its name in fewer: its label, and which values of the call occur in it. The name
/// says most, and is cut last.
pub(super) fn described(source: &ShownSource, name_room: usize, most: usize) -> String {
    let times = match source.times {
        0 | 1 => String::new(),
        times => format!(", {times} times"),
    };
    let (doubt, label) = match source.is_relevant {
        true if source.label.is_empty() || !source.writers.is_empty() => ("", String::new()),
        true => ("", format!(" ({})", escape(&source.label.join(", ")))),
        false => (" (irrelevant to the screener)", String::new()),
    };
    // The author of a text chooses what is in it, so this proves nothing.
    let has = match source.shared.as_slice() {
        [] => String::new(),
        names => {
            let names = shortened(&escape(&names.join(" and ")), NAME_COLUMNS);
            format!(" with the same {names}")
        }
    };
    let room = most.saturating_sub(doubt.len() + times.len());
    let name = name(source, name_room.min(room));
    let room = room.saturating_sub(columns(&name));
    let has = if columns(&has) <= room {
        has
    } else {
        String::new()
    };
    let fits = columns(&label) + columns(&has) <= room;
    let label = if fits { label } else { String::new() };
    format!("{name}{doubt}{label}{times}{has}")
}

/// The text of a source, escaped, with a mark around the value of the call; of what is before it at most so many
/// characters.
pub(super) fn marked(source: &ShownSource, before: usize) -> String {
    let characters = source.before.chars().count();
    let skipped = characters.saturating_sub(before);
    let lead: String = source.before.chars().skip(skipped).collect();
    let begin = if skipped > 0 { "…" } else { "" };
    match source.text.is_empty() {
        true => format!("{begin}{lead}{}", source.after),
        false => format!("{begin}{lead}>>{}<<{}", source.text, source.after),
    }
}
