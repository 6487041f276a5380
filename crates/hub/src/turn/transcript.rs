//! How much of a conversation a prompt shows, and that as one text.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Write;

use ifc::{CallId, History, Label, Labeled, Message, PastCall, Prompt, PromptMessage};

/// One text is at most this fraction of what a summary is made from: a long result must not push
/// everything else out.
const TEXT: usize = 4;

/// What an image counts for beside text: models spend about a thousand tokens on one.
const IMAGE: usize = 4 << 10;

/// A message as a prompt shows it.
pub(super) struct Shown {
    pub(super) position: usize,
    pub(super) bytes: usize,
    /// Whether a part of the history can begin with it: a result goes with its call.
    pub(super) begins: bool,
    pub(super) is_user: bool,
    pub(super) is_step: bool,
}

/// The messages from a position on that a prompt at `label` shows, without the developer's.
pub(super) fn shown(history: &History, label: &Label, from: usize) -> Vec<Shown> {
    let mut calls: BTreeSet<CallId> = BTreeSet::new();
    let mut shown = Vec::new();
    for (position, (own, message)) in history.messages().enumerate().skip(from) {
        let is_visible = own.flows_to(label);
        // A step above has calls below that the user has endorsed.
        let has_endorsed =
            |calls: &[PastCall]| calls.iter().any(|it| it.label(own).flows_to(label));
        match message {
            _ if is_visible => {}
            Message::Assistant { calls, .. } if has_endorsed(calls) => {}
            _ => continue,
        }
        let visible = |text: &Labeled| visible(text, label);
        let bytes = match message {
            Message::System(_) => continue,
            Message::User(text) | Message::Memory(text) => visible(text),
            Message::Assistant { text, calls: made } => {
                let made = made.iter().filter(|call| call.label(own).flows_to(label));
                let made: Vec<&PastCall> = made.collect();
                calls.extend(made.iter().map(|call| call.id));
                let made = made.iter();
                let made = made.map(|call| call.tool.len() + visible(&call.arguments));
                visible(text) + made.sum::<usize>()
            }
            Message::Result { call, .. } if !calls.contains(call) => continue,
            Message::Result { content, .. } => visible(content),
        };
        let bytes = bytes + history.images_at(position, label) * IMAGE;
        shown.push(Shown {
            position,
            bytes,
            begins: !matches!(message, Message::Result { .. }),
            is_user: matches!(message, Message::User(_)),
            is_step: matches!(message, Message::Assistant { .. }),
        });
    }
    shown
}

/// Bytes of a text that a prompt at `label` shows.
fn visible(text: &Labeled, label: &Label) -> usize {
    let hidden = text.regions().filter(|(_, own)| !own.flows_to(label));
    let hidden: usize = hidden.map(|(span, _)| span.len()).sum();
    text.len() - hidden
}

/// What a prompt shows of a conversation, as one text.
pub(super) fn transcript(prompt: &Prompt, limit: usize) -> String {
    let mut text = String::new();
    for message in prompt.messages() {
        // Writing to a string does not fail.
        let _ = match message {
            PromptMessage::System(_) => Ok(()),
            PromptMessage::User(said) => writeln!(text, "User: {}", shortened(said, limit / TEXT)),
            PromptMessage::Assistant { text: said, calls } => {
                let said = shortened(said, limit / TEXT);
                let calls = calls.iter().map(|call| {
                    let arguments = shortened(&call.arguments, limit / TEXT);
                    format!(" [calls {} with {arguments}]", call.tool)
                });
                writeln!(text, "Assistant: {said}{}", calls.collect::<String>())
            }
            PromptMessage::Tool { tool, content, .. } => {
                writeln!(
                    text,
                    "Result of {tool}: {}",
                    shortened(content, limit / TEXT)
                )
            }
        };
    }
    shortened(&text, limit).into_owned()
}

/// A text without its middle, if it is too long.
pub(super) fn shortened(text: &str, limit: usize) -> Cow<'_, str> {
    if text.len() <= limit {
        return Cow::Borrowed(text);
    }
    let (head, _) = text.split_at(text.floor_char_boundary(limit / 2));
    let (_, tail) = text.split_at(text.ceil_char_boundary(text.len() - limit / 2));
    Cow::Owned(format!("{head} […] {tail}"))
}
