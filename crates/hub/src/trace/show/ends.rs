//! Lines about the end of a turn.

use super::words::{safe, set};
use crate::trace::AnswerSource;

pub(super) fn answer(
    text: &str,
    label: &[String],
    refused: usize,
    dropped: usize,
    inert: usize,
    sources: &[AnswerSource],
    hidden: &[AnswerSource],
) -> String {
    let listed = |before: &str, sources: &[AnswerSource]| {
        let one =
            |one: &AnswerSource| format!("{} {}", safe(&one.source.to_string()), set(&one.label));
        let sources: Vec<String> = sources.iter().map(one).collect();
        match sources.is_empty() {
            true => String::new(),
            false => format!(" {before} {}", sources.join(", ")),
        }
    };
    let (from, without) = (listed("from", sources), listed("without", hidden));
    format!(
        "answer     {} {}{}{}{}{from}{without}",
        safe(text),
        set(label),
        refusals(refused),
        unanswered(dropped),
        made_inert(inert)
    )
}

pub(super) fn stopped(
    reason: &str,
    label: &[String],
    refused: usize,
    unknown: usize,
    dropped: usize,
) -> String {
    let label = match label {
        [] => String::new(),
        label => format!(" {}", set(label)),
    };
    let unknown = match unknown {
        0 => String::new(),
        unknown => format!("; calls of which nobody knows whether they ran: {unknown}"),
    };
    format!(
        "STOPPED    {}{label}{}{}{unknown}",
        safe(reason),
        refusals(refused),
        unanswered(dropped)
    )
}

fn made_inert(words: usize) -> String {
    match words {
        0 => String::new(),
        1 => " (1 address inert)".to_owned(),
        words => format!(" ({words} addresses inert)"),
    }
}

fn unanswered(dropped: usize) -> String {
    match dropped {
        0 => String::new(),
        count => format!("; requests to other apps without a response: {count}"),
    }
}

fn refusals(refused: usize) -> String {
    if refused == 0 {
        String::new()
    } else {
        format!("; calls refused: {refused}")
    }
}
