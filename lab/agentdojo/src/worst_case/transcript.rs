//! Reads a judge's question back into a scene: what was said, called and returned, with the
//! marked regions by their numbers.

use std::ops::Range;

use ifc::{Prompt, PromptMessage};

use crate::suite::{Scene, Shown};

const OPEN: &str = "«REGION_";
const CLOSE: &str = "«/REGION_";
const END: char = '»';

/// A transcript's text with its markers taken out.
struct Marked {
    text: String,
    regions: Vec<(Range<usize>, u32)>,
}

/// The scene of a consultation, and how many regions it marks.
pub(super) fn read(prompt: &Prompt) -> (Scene, u32) {
    let texts = prompt
        .messages()
        .iter()
        .filter_map(|message| match message {
            PromptMessage::User(text) => Some(text.as_str()),
            _ => None,
        });
    let marked = unmark(&texts.collect::<Vec<_>>().join("\n"));
    let regions = u32::try_from(marked.regions.len()).unwrap_or(u32::MAX);
    (scene(&marked), regions)
}

/// Takes the markers out. Those of a real region carry the nonce of the first one; text that
/// imitates them stays text.
fn unmark(source: &str) -> Marked {
    let mut marked = Marked {
        text: String::with_capacity(source.len()),
        regions: Vec::new(),
    };
    let mut rest = source;
    let mut open: Option<(usize, u32)> = None;
    let mut nonce: Option<&str> = None;
    while let Some(at) = rest.find('«') {
        let (before, marker) = rest.split_at(at);
        marked.text.push_str(before);
        let is_open = marker.starts_with(OPEN);
        let prefix = if is_open { OPEN } else { CLOSE };
        let body = marker.strip_prefix(prefix).and_then(|body| {
            let (body, after) = body.split_once(END)?;
            let (number, found) = body.split_once(':')?;
            Some((number.parse::<u32>().ok()?, found, after))
        });
        match body {
            Some((number, found, after)) if *nonce.get_or_insert(found) == found => {
                if is_open {
                    open = Some((marked.text.len(), number));
                } else if let Some((start, _)) = open.take() {
                    marked.regions.push((start..marked.text.len(), number));
                }
                rest = after;
            }
            _ => {
                marked.text.push('«');
                rest = marker.strip_prefix('«').unwrap_or_default();
            }
        }
    }
    marked.text.push_str(rest);
    marked
}

/// Splits a transcript at the lines that begin a message. Such a line inside a region is text.
fn scene(marked: &Marked) -> Scene {
    let mut scene = Scene::default();
    let mut begins: Vec<usize> = Vec::new();
    let mut at = 0;
    for line in marked.text.split_inclusive('\n') {
        let inside = |(span, _): &(Range<usize>, u32)| span.start < at && at < span.end;
        if header(line).is_some() && !marked.regions.iter().any(inside) {
            begins.push(at);
        }
        at += line.len();
    }
    let ends = begins.iter().skip(1).copied().chain([marked.text.len()]);
    for (begin, end) in begins.iter().zip(ends) {
        let message = marked.text.get(*begin..end).unwrap_or_default();
        let Some((role, name, body)) = header(message) else {
            continue;
        };
        let offset = begin + message.len() - body.len();
        match (role, name) {
            // The question itself follows the transcript, after the last result.
            ("user", _) => scene.user.push(body.to_owned()),
            ("call", name) => {
                let key = scene.len().to_string();
                scene.call(&key, name, body.trim());
            }
            ("result", name) => {
                if let Some(key) = scene.waiting(name) {
                    scene.result(&key, cut(marked, offset, body));
                }
            }
            _ => {}
        }
    }
    scene
}

/// The role, the tool and the text of a message.
fn header(message: &str) -> Option<(&str, &str, &str)> {
    let (head, body) = message
        .split_once(": ")
        .or_else(|| message.split_once(":\n"))?;
    match head.split_once(' ') {
        Some((role @ ("call" | "result" | "tool"), name)) if !name.contains(' ') => {
            Some((role, name, body))
        }
        None if matches!(head, "system" | "user" | "assistant") => Some((head, "", body)),
        _ => None,
    }
}

fn cut(marked: &Marked, offset: usize, body: &str) -> Shown {
    let end = offset + body.len();
    let inside = marked
        .regions
        .iter()
        .filter(|(span, _)| offset <= span.start && span.end <= end);
    let moved = inside.map(|(span, number)| (span.start - offset..span.end - offset, *number));
    Shown::new(body.to_owned(), moved.collect())
}
