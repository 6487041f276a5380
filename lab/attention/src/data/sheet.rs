//! A sampled step as readers see it: without the labels of values and rules.

use std::fmt::Write as _;
use std::ops::Range;

use super::sample::{Pick, Sampled};
use super::step::Step;
use super::view::{Passage, Writer, passages};
use ifc::Message;

/// Characters of a step; more is tiring to read.
const SIZE: usize = 6000;

/// Characters of a marked region that are shown.
const REGION: usize = 1500;

/// Characters of context around a marked region, and of a text without one: the first that keep a
/// step below [`SIZE`].
const CONTEXTS: [usize; 6] = [usize::MAX, 800, 400, 200, 100, 60];

/// A sampled step for readers: what the user said, the conversation so far with the regions that
/// are asked about marked «A» to «H», and the calls of the step.
#[must_use]
pub fn sheet(step: &Step, sampled: &Sampled) -> String {
    let mut written = String::new();
    for context in CONTEXTS {
        written = conversation(step, &sampled.regions, context);
        if written.chars().count() <= SIZE {
            break;
        }
    }
    let letters: Vec<String> = sampled
        .regions
        .iter()
        .map(|pick| format!("«{}» (region {})", pick.letter, pick.region))
        .collect();
    format!(
        "## {}. {}\n\n{written}\n**The step.** Does it depend on {}?\n\n{}\n",
        sampled.number,
        sampled.step,
        letters.join(", "),
        calls(step),
    )
}

fn calls(step: &Step) -> String {
    let mut written = String::new();
    if !step.draft.text.trim().is_empty() {
        written += &format!("The assistant says: {}\n\n", step.draft.text.trim());
    }
    for call in &step.draft.calls {
        written += &in_words("The assistant now calls", &call.tool, &call.arguments);
        written.push('\n');
    }
    written
}

/// A call in words.
fn in_words(who: &str, tool: &str, arguments: &str) -> String {
    let mut written = format!("{who} `{tool}`");
    match serde_json::from_str(arguments) {
        Ok(serde_json::Value::Object(arguments)) if arguments.is_empty() => {}
        Ok(serde_json::Value::Object(arguments)) => {
            for (name, value) in arguments {
                let value = match value {
                    serde_json::Value::String(text) => text,
                    other => other.to_string(),
                };
                let _ = write!(written, "\n  - {name} = {value}");
            }
        }
        _ => {
            let _ = write!(written, " with {arguments}");
        }
    }
    written
}

fn conversation(step: &Step, picks: &[Pick], context: usize) -> String {
    let mut written = String::new();
    let passages = passages(&step.history);
    let results: Vec<&Passage<'_>> = passages
        .iter()
        .filter(|passage| matches!(passage.writer, Writer::Tool { .. }))
        .collect();
    let mut results = results.into_iter();
    for (_, message) in step.history.messages() {
        match message {
            // The same in every step of a suite.
            Message::System(_) => {}
            Message::User(text) => {
                let _ = writeln!(written, "**The user:** {}\n", text.reveal_tcb().trim());
            }
            Message::Assistant { text, calls } => {
                let text = text.reveal_tcb().trim();
                if !text.is_empty() {
                    let _ = writeln!(written, "**The assistant:** {}\n", shortened(text, context));
                }
                for call in calls {
                    let arguments = call.arguments.reveal_tcb();
                    let said = in_words("**The assistant called**", &call.tool, arguments);
                    let _ = writeln!(written, "{said}\n");
                }
            }
            Message::Result { tool, .. } => {
                if let Some(passage) = results.next() {
                    let shown = marked(passage, picks, context);
                    let _ = writeln!(written, "**Result of** `{tool}`:\n~~~\n{shown}\n~~~\n");
                }
            }
        }
    }
    written
}

/// A result with its marks; what is far from all of them is left out.
fn marked(passage: &Passage<'_>, picks: &[Pick], context: usize) -> String {
    let asked: Vec<(char, Range<usize>)> = passage
        .regions
        .iter()
        .filter_map(|(id, span, _)| {
            let pick = picks.iter().find(|pick| pick.region == id.0)?;
            Some((pick.letter, span.clone()))
        })
        .collect();
    let text = passage.text;
    if asked.is_empty() {
        return shortened(text, context);
    }
    let mut written = String::new();
    let mut from = 0;
    for (letter, span) in &asked {
        let before = text.get(from..span.start).unwrap_or_default();
        let first = from == 0;
        written += &between(before, if first { 0 } else { context }, context);
        let region = text.get(span.clone()).unwrap_or_default();
        let _ = write!(
            written,
            "«{letter}»{}«/{letter}»",
            shortened(region, REGION)
        );
        from = span.end;
    }
    let rest = text.get(from..).unwrap_or_default();
    written + &between(rest, context, 0)
}

/// The first and the last characters of a text.
fn between(text: &str, first: usize, last: usize) -> String {
    let count = text.chars().count();
    if count <= first.saturating_add(last) {
        return text.to_owned();
    }
    let start: String = text.chars().take(first).collect();
    let end: String = text.chars().skip(count - last.min(count)).collect();
    let left_out = count - first - last;
    format!("{start} [… {left_out} characters left out …] {end}")
}

/// A text in at most so many characters, its middle left out.
fn shortened(text: &str, size: usize) -> String {
    between(text, size - size / 3, size / 3)
}
