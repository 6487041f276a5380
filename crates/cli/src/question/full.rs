//! A question with nothing left out.

use hub::question::{Shown, ShownArgument, ShownCall, ShownSource};
use hub::trace::escape;

use super::layout::{Lines, NAME_COLUMNS, columns, shortened};
use super::typed::named;

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
        let head = format!("It may depend on {}:", described(source, usize::MAX));
        lines.own(&head);
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

/// A source in at most so many columns: who wrote it, or its label, and which values of the call occur in it.
pub(super) fn described(source: &ShownSource, most: usize) -> String {
    let cut = |text: &str, most: usize| shortened(&escape(text), most);
    let times = match source.times {
        0 | 1 => String::new(),
        times => format!(", {times} times"),
    };
    // The author of a text chooses what is in it, so this proves nothing.
    let has = match source.shared.as_slice() {
        [] => String::new(),
        names => format!(" with the same {}", cut(&names.join(" and "), NAME_COLUMNS)),
    };
    let name = match source.writers.as_slice() {
        [] => cut(&source.source, NAME_COLUMNS.min(most / 2)),
        writers => {
            let room = most.saturating_sub(columns(&has) + columns(&times) + "text of ".len());
            format!("text of {}", cut(&writers.join(" and "), room))
        }
    };
    let by = match source.is_relevant {
        true if !source.writers.is_empty() => String::new(),
        true => source.label.join(", "),
        false => "irrelevant to the screener".to_owned(),
    };
    let room = most.saturating_sub(columns(&name) + columns(&has) + columns(&times) + 3);
    let by = match by.is_empty() {
        true => by,
        false => format!(" ({})", cut(&by, room)),
    };
    format!("{name}{by}{times}{has}")
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
