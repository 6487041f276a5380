//! The sources of a question, as few lines of them as will do.

use hub::question::{QuestionView, Sources};
use hub::trace::{Cause, escape};

use super::layout::{KEY_COLUMNS, Lines, shortened};

/// Sources that are shown, each on one line.
const CAUSES: usize = 3;

/// Lines of a source that has the call's values. The first of them stands near its beginning.
const QUOTE_LINES: usize = 3;

/// What a flow may depend on, after these words.
pub(super) fn depends(lines: &mut Lines, question: &QuestionView, head: &str, whole: bool) {
    let Sources {
        relevant: data,
        screened_out: doubtful,
        descriptions,
    } = question.sources();
    if data.is_empty() {
        let excess = escape(&question.excess.join(", "));
        let from = descriptions.map(|all| format!(", from {all}"));
        lines.own(&format!("{head} {excess}{}.", from.unwrap_or_default()));
        return screened_out(lines, &doubtful, whole);
    }
    lines.own(head);
    // Where some have the values, all the others are one line.
    let quoting = data.iter().filter(|(cause, _)| !cause.quotes.is_empty());
    let most = match quoting.count() {
        _ if whole => data.len(),
        0 => CAUSES,
        quoting => quoting.min(CAUSES),
    };
    for (cause, times) in data.iter().take(most) {
        source(lines, cause, *times, whole);
    }
    let more: Vec<_> = data.iter().skip(most).collect();
    if !more.is_empty() {
        lines.left_out += more
            .iter()
            .map(|(cause, _)| cause.excerpt.chars().count())
            .sum::<usize>();
        let more = match more.len() {
            1 => "1 more result or message".to_owned(),
            count => format!("{count} more results or messages"),
        };
        let end = if descriptions.is_none() { '.' } else { ',' };
        lines.own(&format!("and on {more}{end}"));
    }
    if let Some(descriptions) = descriptions {
        lines.own(&format!("and on {descriptions}."));
    }
    hint(lines, data.iter().take(most).map(|(cause, _)| *cause));
    screened_out(lines, &doubtful, whole);
}

/// One source: the place at which the call's first value stands in it, or how it begins.
fn source(lines: &mut Lines, cause: &Cause, times: usize, whole: bool) {
    let beginning = cause.excerpt.chars().count();
    let mut quotes = cause.quotes.iter().map(|quote| &quote.text);
    match quotes.next() {
        None => lines.sampled(&quoted(cause, times, &cause.excerpt)),
        Some(first) => {
            lines.quoted(&quoted(cause, times, first), QUOTE_LINES);
            let rest = quotes.filter(|text| *text != first);
            if whole {
                rest.for_each(|text| lines.sampled(&quoted(cause, times, text)));
                lines.sampled(&quoted(cause, times, &cause.excerpt));
            } else {
                let rest = rest.map(|text| text.chars().count()).sum::<usize>();
                lines.left_out += beginning + rest;
            }
        }
    }
}

/// Which values stand in the sources that are shown. Whoever writes a text puts into it what he likes.
fn hint<'a>(lines: &mut Lines, causes: impl Iterator<Item = &'a Cause>) {
    let mut names: Vec<String> = Vec::new();
    for quote in causes.flat_map(|cause| &cause.quotes) {
        let name = shortened(&escape(&quote.argument), KEY_COLUMNS);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let (stand, they) = match names.as_slice() {
        [] => return,
        [_] => ("stands", "it comes"),
        _ => ("stand", "they come"),
    };
    let names = names.join(" and ");
    lines.own(&format!(
        "({names} {stand} there word for word: a hint at where {they} from, and no proof.)"
    ));
}

/// What the screener says does not matter although it has the same labels. A text can sway the
/// screener to leave it out, so it is counted here, and can be looked at.
fn screened_out(lines: &mut Lines, data: &[(&Cause, usize)], whole: bool) {
    if data.is_empty() {
        return;
    }
    let (count, these) = match data.len() {
        1 => ("1 more text".to_owned(), "these labels does"),
        count => (format!("{count} more texts"), "these labels do"),
    };
    lines.own(&format!(
        "({count} with {these} not matter, says the screener.)"
    ));
    for (cause, times) in data {
        match whole {
            true => lines.sampled(&quoted(cause, *times, &cause.excerpt)),
            false => lines.left_out += cause.excerpt.chars().count(),
        }
    }
}

/// A source with some of its text.
fn quoted(cause: &Cause, times: usize, text: &str) -> String {
    let times = match times {
        1 => String::new(),
        times => format!(", {times} times"),
    };
    let doubt = match cause.relevant || cause.quotes.is_empty() {
        true => "",
        false => ", which does not matter, says the screener",
    };
    let source = escape(&cause.source.to_string());
    let label = escape(&cause.label.join(", "));
    format!("{source} ({label}){times}{doubt}: {}", escape(text))
}
