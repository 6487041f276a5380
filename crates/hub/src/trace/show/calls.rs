//! Lines about calls, and messages between apps.

use super::words::{named, safe, set, shown_flow};
use crate::trace::{Cause, Flow, MessageKind};

pub(super) fn asked(
    flow: &Flow,
    rule: &str,
    limit: &[String],
    effect: &str,
    excess: &[String],
    causes: &[Cause],
    ran: Option<&str>,
) -> String {
    let mut text = format!(
        "  ASKED    {}\n{:>21}{}; {} allows {}, and it also depends on {}",
        shown_flow(flow),
        "",
        safe(effect),
        safe(rule),
        set(limit),
        set(excess)
    );
    if let Some(ran) = ran {
        let ran = safe(ran);
        text += &format!("\n{:>21}this very call was sent before ({ran})", "");
    }
    for cause in causes {
        let (source, excerpt) = (safe(&cause.source.to_string()), safe(&cause.excerpt));
        text += &format!(
            "\n{:>21}because of {source} {}: {excerpt}",
            "",
            set(&cause.label)
        );
    }
    text
}

pub(super) fn answered(flow: &Flow, answer: &str, allowed: bool) -> String {
    let allowed = if allowed { "allowed" } else { "not allowed" };
    let what = match flow {
        Flow::Call(call) => safe(&call.tool),
        Flow::Message(message) => named(message),
        Flow::Answer { .. } => "showing the answer".to_owned(),
    };
    format!("  answer   {}: {what} is {allowed}", safe(answer))
}

pub(super) fn trusted(texts: &[Cause], app: &str, effect: &str, until: &str) -> String {
    let texts = texts.iter().map(|cause| safe(&cause.source.to_string()));
    let texts: Vec<String> = texts.collect();
    format!(
        "  trust    {}: {} may do what it asks for ({}, for the {})",
        texts.join(", "),
        safe(app),
        safe(effect),
        safe(until)
    )
}

pub(super) fn message(
    exchange: &str,
    message: MessageKind,
    functionality: &str,
    asks: &str,
    serves: &str,
    label: &[String],
    note: &str,
) -> String {
    let (asks, serves) = (safe(asks), safe(serves));
    let way = match message {
        MessageKind::Formats | MessageKind::Response => format!("{serves} to {asks}"),
        _ => format!("{asks} to {serves}"),
    };
    let note = match note.is_empty() {
        true => String::new(),
        false => format!(": {}", safe(note)),
    };
    // The beginning tells the exchanges of one trace apart.
    let id: String = exchange.chars().take(8).collect();
    format!(
        "  {:<8} {way} for {} (exchange {}) {}{note}",
        message.name(),
        safe(functionality),
        safe(&id),
        set(label)
    )
}

pub(super) fn unheard(app: &str, request: &str, reason: &str, times: u64) -> String {
    let times = match times {
        1 => String::new(),
        times => format!(" ({times} times)"),
    };
    let (app, request, reason) = (safe(app), safe(request), safe(reason));
    format!("  REFUSED  a {request} of {app} by its spoke: {reason}{times}")
}
