//! A session as a flow: what was read, which labels it has, what the model proposed, and how that was decided.

use hub::trace::{Record, is_label, says_nothing};
use maud::{Markup, html};
use serde_json::{Map, Value};

use super::lists::{label, pages};
use crate::TracePart;
use crate::desk::page::layout::{boxed, line, short};

/// Kinds of events that a reader of the flow looks for: the class of the step, and its heading. Others have their own name.
const KINDS: [(&str, &str, &str); 24] = [
    ("user", "read", "You wrote"),
    ("serving", "read", "Another app asked"),
    ("recalled", "read", "Recalled from memory"),
    ("returned", "read", "Read"),
    ("screened", "labelled", "Screened: which texts are relevant"),
    ("redacted", "masked", "Prompt: what the model sees"),
    ("uncleared", "masked", "Masked for the provider"),
    (
        "withheld",
        "masked",
        "Re-run without what blocked the refused call",
    ),
    ("checked", "masked", "Re-run without what blocked the call"),
    ("completed", "proposed", "The model answered"),
    ("allowed", "allowed", "Allowed"),
    ("asked", "asked", "Asked"),
    ("replied", "answered", "Answered"),
    ("answered", "answered", "Decided by the answer"),
    ("trusted", "answered", "Trusted"),
    ("denied", "denied", "Denied"),
    ("rejected", "denied", "Rejected: it makes no sense"),
    ("call_unknown", "denied", "Unknown whether the call ran"),
    ("call_failed", "denied", "The call failed"),
    ("connection_asked", "asked", "Asked about a connection"),
    ("clearance_asked", "asked", "Asked about the provider"),
    ("message", "read", "Message between apps"),
    ("answer", "answer", "Answer"),
    ("stopped", "denied", "Stopped without an answer"),
];

/// Members whose names say too little beside their values.
const NAMES: [(&str, &str); 10] = [
    ("kept", "texts shown"),
    ("masked", "texts masked"),
    ("regions", "texts"),
    ("relevant", "relevant texts"),
    ("excess", "beyond the limit"),
    ("causes", "because of"),
    ("taken", "it counts"),
    ("calls", "proposed calls"),
    ("excerpt", "text"),
    ("from", "answered from"),
];

/// Part of a session.
pub(super) fn session(id: &str, part: &TracePart, conversation: Option<usize>) -> Markup {
    let of = conversation.map_or(String::new(), |number| format!("&c={number}"));
    let pages = pages(part.page, part.pages, &|page| {
        format!("/sessions/{id}?page={page}{of}")
    });
    let has_several = part.conversations.len() > 1;
    html! {
        @if has_several {
            form .actions method="get" {
                label for="c" { "Conversation" }
                select #c name="c" {
                    option value="" { "all" }
                    @for (number, name) in part.conversations.iter().enumerate() {
                        option value=(number) selected[conversation == Some(number)] { (short(name)) }
                    }
                }
                button .button type="submit" { "Show" }
            }
        }
        (pages)
        ol .list .flow {
            @for (number, record) in &part.records {
                @match record {
                    Ok(record) => (step(record, part.start_ms, has_several)),
                    Err(reason) => li .step .denied { h2 { "Line " (number) " is no record" } p { (line(reason)) } },
                }
            }
        }
        (pages)
    }
}

fn step(record: &Record, start_ms: u64, has_several: bool) -> Markup {
    let seconds = record.at_ms.saturating_sub(start_ms) as f64 / 1000.0;
    // An event is an object with a kind.
    let event = serde_json::to_value(&record.event).unwrap_or_default();
    let nothing = Map::new();
    let event = event.as_object().unwrap_or(&nothing);
    let kind = event
        .get("kind")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let known = KINDS.iter().find(|(name, ..)| *name == kind);
    let own = kind.replace('_', " ");
    let (mut class, head) = known.map_or(("other", &*own), |(_, class, head)| (*class, *head));
    // Most prompts mask nothing.
    if event.get("masked").is_some_and(|it| it == 0) {
        class = "labelled";
    }
    html! {
        li .step .(class) {
            h2 { (head) }
            p .muted {
                (format!("{seconds:.2} s"))
                @if let (true, Some(name)) = (has_several, &record.conversation) { " · " (short(name)) }
            }
            (members(event))
        }
    }
}

/// The members of an event or of a part of it, each with its name. A call comes as `app.tool`.
fn members(all: &Map<String, Value>) -> Markup {
    let text = |name: &str| all.get(name).and_then(Value::as_str);
    let call = text("app")
        .zip(text("tool"))
        .filter(|_| all.contains_key("arguments"));
    // `sluice trace show --saliency` shows the scores.
    let is_shown = |name: &str| {
        let is_of_call = call.is_some() && matches!(name, "app" | "tool");
        !is_of_call && !matches!(name, "kind" | "step" | "scores" | "usage")
    };
    let shown = all
        .iter()
        .filter(|(name, it)| is_shown(name) && !says_nothing(name, it));
    html! {
        @if let Some((app, tool)) = call { p { code { (line(app)) "." (line(tool)) } } }
        @for (name, it) in shown {
            (member(if call.is_some() && name == "label" { "call_label" } else { name }, it))
        }
    }
}

fn member(name: &str, value: &Value) -> Markup {
    let renamed = NAMES.iter().find(|(own, _)| *own == name);
    let words = renamed.map_or_else(|| name.replace('_', " "), |(_, words)| (*words).to_owned());
    let strings = |all: &[Value]| -> Vec<String> {
        let all = all.iter();
        all.map(|it| it.as_str().map_or_else(|| it.to_string(), str::to_owned))
            .collect()
    };
    match value {
        Value::Array(names) if is_label(name) || name == "call_label" => {
            html! { p { (words) " " (label(&strings(names))) } }
        }
        Value::Array(all) if all.iter().any(Value::is_object) => html! {
            p { (words) }
            ul { @for it in all.iter().filter_map(Value::as_object) { li { (members(it)) } } }
        },
        Value::Array(all) => html! { p { (line(&words)) " " (short(&strings(all).join(", "))) } },
        // The labels of arguments, by their paths.
        Value::Object(all) if name == "data" => html! {
            @for (path, names) in all {
                p { code { (line(path)) } " " (label(&strings(names.as_array().map_or(&[], Vec::as_slice)))) }
            }
        },
        Value::Object(all) => members(all),
        Value::String(text) if matches!(name, "text" | "arguments" | "excerpt") => {
            boxed(&words, &cut(text))
        }
        Value::String(text) => html! { p { (line(&words)) " " (line(&cut(text))) } },
        Value::Bool(is) => html! { p { (words) ": " (if *is { "yes" } else { "no" }) } },
        other => html! { p { (line(&words)) " " (other) } },
    }
}

/// The beginning of a text. A page has some hundred of them; `sluice trace show --json` prints all.
fn cut(text: &str) -> String {
    /// Characters.
    const MOST: usize = 2_000;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => text.get(..end).unwrap_or_default().to_owned() + "…",
        None => text.to_owned(),
    }
}
