//! What lines are put together from: everything foreign escaped.

use crate::trace::{Call, Flow, Message, Usage, escape};

/// Characters of arguments and texts on one line; the whole is in the exported trace.
const LINE: usize = 160;

pub(in crate::trace) fn shown_flow(flow: &Flow) -> String {
    match flow {
        Flow::Call(call) => shown(call),
        Flow::Message(message) => {
            let (text, label) = (safe(&message.text), set(&message.label));
            format!("{} {text} {label}", named(message))
        }
        Flow::Answer { text, label, .. } => format!("the answer {} {}", safe(text), set(label)),
    }
}

/// The tool without its arguments.
pub(in crate::trace) fn tool(call: &Call) -> String {
    format!("{}.{}", safe(&call.app), safe(&call.tool))
}

/// A message without its text.
pub(in crate::trace) fn named(message: &Message) -> String {
    format!(
        "the {} of {} to {} for {}",
        safe(&message.stage),
        safe(&message.from),
        safe(&message.to),
        safe(&message.functionality)
    )
}

pub(in crate::trace) fn shown(call: &Call) -> String {
    let (app, tool, arguments) = (&call.app, &call.tool, &call.arguments);
    let mut text = format!(
        "{}.{} {} {}",
        safe(app),
        safe(tool),
        safe(arguments),
        set(&call.label)
    );
    for (name, label) in &call.data {
        text += &format!("; {} {}", safe(name), set(label));
    }
    text
}

/// A label as a set, escaped.
pub(in crate::trace) fn set(names: &[String]) -> String {
    if names.is_empty() {
        "{trusted, public}".to_owned()
    } else {
        format!("{{{}}}", list(names))
    }
}

/// Names side by side, each escaped.
pub(in crate::trace) fn list<'a>(names: impl IntoIterator<Item = &'a String>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| safe(name)).collect();
    names.join(", ")
}

pub(in crate::trace) fn cost(usage: &Usage) -> String {
    let first = usage
        .first_token_ms
        .map(|ms| format!(", first token after {ms} ms"))
        .unwrap_or_default();
    format!(
        "{} prompt tokens, {} of them cached, {} generated{first}, {} ms",
        usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens, usage.total_ms
    )
}

/// One line of foreign text, escaped and shortened.
pub(in crate::trace) fn safe(text: &str) -> String {
    let start: String = text.chars().take(LINE).collect();
    let mut line = escape(&start);
    if text.chars().nth(LINE).is_some() {
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_cannot_steer_the_terminal() {
        assert_eq!(
            safe("a\u{1b}[2Jb\nc\u{202e}d"),
            "a\\u{1b}[2Jb\\nc\\u{202e}d"
        );
        assert_eq!(safe(&"x".repeat(500)).chars().count(), LINE + 1);
    }
}
