//! The sources of a question, in few lines.

use hub::question::{QuestionView, Sources};
use hub::trace::{Cause, escape};
use ifc::Source;

use super::layout::{Lines, NAME_COLUMNS, shortened};

/// Sources that are shown, each on one line.
const CAUSES: usize = 3;

/// Lines of a source that has the call's values. The first value is near the beginning of its quote.
const QUOTE_LINES: usize = 3;

/// What a flow may depend on, after these words.
pub(super) fn depends(lines: &mut Lines, question: &QuestionView, head: &str) {
    let Sources {
        relevant: data,
        screened_out,
        descriptions,
    } = question.sources();
    if data.is_empty() {
        // Descriptions are counted with their labels.
        let on = descriptions.unwrap_or_else(|| {
            let excess = escape(&question.excess.join(", "));
            format!("text labelled {excess}")
        });
        lines.own(&format!("{head} {on}."));
        return irrelevant(lines, &screened_out);
    }
    lines.own(&format!("{head}:"));
    // Where some have the call's values, all the others are one line.
    let quoting = data.iter().filter(|(cause, _)| !cause.quotes.is_empty());
    let most = match quoting.count() {
        _ if lines.full => data.len(),
        0 => CAUSES,
        quoting => quoting.min(CAUSES),
    };
    let (shown, more) = data.split_at(most.min(data.len()));
    for (cause, times) in shown {
        source(lines, cause, *times);
    }
    lines.is_cut |= !more.is_empty();
    let more = match more.len() {
        0 => None,
        1 => Some("1 more result or message".to_owned()),
        count => Some(format!("{count} more results or messages")),
    };
    let rest: Vec<String> = more.into_iter().chain(descriptions).collect();
    if !rest.is_empty() {
        lines.own(&format!("and {}.", rest.join(" and ")));
    }
    quoted_values(lines, shown.iter().map(|(cause, _)| *cause));
    irrelevant(lines, &screened_out);
}

/// One source: the first of the call's values in it with the text around, or its beginning; or all of it.
fn source(lines: &mut Lines, cause: &Cause, times: usize) {
    let first = cause.quotes.first();
    if let Some(quote) = first {
        lines.quoted(&described(cause, times, &quote.text), QUOTE_LINES);
    }
    match (lines.full, first) {
        (true, _) => {
            // The system's text is the agent's own, and long.
            let is_system = cause.source == Source::System;
            let all = Some(&cause.text).filter(|it| !it.is_empty() && !is_system);
            lines.quoted(&described(cause, times, ""), usize::MAX);
            lines.paragraphs(all.unwrap_or(&cause.excerpt));
        }
        (false, Some(_)) => lines.is_cut = true,
        (false, None) => lines.sampled(&described(cause, times, &cause.excerpt)),
    }
}

/// The names of the arguments whose values occur in the sources that are shown. The author of a text chooses what it
/// contains, so this proves nothing.
fn quoted_values<'a>(lines: &mut Lines, causes: impl Iterator<Item = &'a Cause>) {
    let mut names: Vec<String> = Vec::new();
    for quote in causes.flat_map(|cause| &cause.quotes) {
        let name = shortened(&escape(&quote.argument), NAME_COLUMNS);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if !names.is_empty() {
        lines.own(&format!(
            "({}: the same text occurs there. This suggests the origin and does not prove it.)",
            names.join(", ")
        ));
    }
}

/// The texts with the same labels that the screener found irrelevant. A text can sway the screener, so they are counted
/// and can be shown.
fn irrelevant(lines: &mut Lines, data: &[(&Cause, usize)]) {
    let texts = match data.len() {
        0 => return,
        1 => "1 more text".to_owned(),
        count => format!("{count} more texts"),
    };
    lines.own(&format!(
        "(The screener found {texts} with these labels irrelevant.)"
    ));
    lines.is_cut |= !lines.full;
    let shown = if lines.full { data } else { &[] };
    for (cause, times) in shown {
        source(lines, cause, *times);
    }
}

/// A source with some of its text.
fn described(cause: &Cause, times: usize, text: &str) -> String {
    let times = match times {
        1 => String::new(),
        times => format!(", {times} times"),
    };
    let doubt = match cause.relevant || cause.quotes.is_empty() {
        true => "",
        false => ", irrelevant according to the screener",
    };
    let source = escape(&cause.source.to_string());
    let label = escape(&cause.label.join(", "));
    format!("{source} ({label}){times}{doubt}: {}", escape(text))
}
