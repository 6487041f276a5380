//! Lines about the end of a turn.

use super::words::{safe, set};
use crate::trace::{AnswerSource, Event};

pub(super) fn line(event: &Event) -> String {
    match event {
        Event::Answer {
            text,
            label,
            refused,
            dropped,
            inert,
            sources,
            hidden,
        } => {
            let (from, without) = (listed("from", sources), listed("without", hidden));
            format!(
                "answer     {} {}{}{}{}{from}{without}",
                safe(text),
                set(label),
                refusals(*refused),
                unanswered(*dropped),
                made_inert(*inert)
            )
        }
        Event::Stopped {
            reason,
            label,
            refused,
            unknown,
            dropped,
        } => {
            let label = match label.as_slice() {
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
                refusals(*refused),
                unanswered(*dropped)
            )
        }
        _ => String::new(),
    }
}

fn listed(before: &str, sources: &[AnswerSource]) -> String {
    let one = |it: &AnswerSource| format!("{} {}", safe(&it.source.to_string()), set(&it.label));
    let sources: Vec<String> = sources.iter().map(one).collect();
    match sources.is_empty() {
        true => String::new(),
        false => format!(" {before} {}", sources.join(", ")),
    }
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
