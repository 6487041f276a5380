//! Lines about calls.

use super::words::{named, safe, set, shown_flow};
use crate::trace::{Cause, Event, Flow};

pub(super) fn line(event: &Event) -> String {
    match event {
        Event::Allowed { flow, by, .. } => {
            format!("  allowed  {} by {}", shown_flow(flow), safe(by))
        }
        Event::Asked {
            flow,
            rule,
            limit,
            effect,
            excess,
            causes,
            ran,
            ..
        } => asked(flow, rule, limit, effect, excess, causes, ran.as_deref()),
        Event::Denied { flow, reason, .. } => {
            format!("  DENIED   {}: {}", shown_flow(flow), safe(reason))
        }
        Event::Rejected { tool, reason, .. } => {
            format!("  REJECTED {}: {}", safe(tool), safe(reason))
        }
        Event::Answered {
            flow,
            answer,
            allowed,
        } => {
            let allowed = if *allowed { "allowed" } else { "not allowed" };
            let what = match flow {
                Flow::Call(call) => safe(&call.tool),
                Flow::Message(message) => named(message),
                Flow::Answer { .. } => "showing the answer".to_owned(),
            };
            format!("  answer   {}: {what} is {allowed}", safe(answer))
        }
        Event::Trusted {
            texts,
            app,
            effect,
            until,
            ..
        } => {
            let texts = texts.iter().map(|cause| safe(&cause.source.to_string()));
            let texts = texts.collect::<Vec<_>>().join(", ");
            let (app, effect, until) = (safe(app), safe(effect), safe(until));
            format!("  trust    {texts}: {app} may do what it asks for ({effect}, for the {until})")
        }
        Event::Endorsed { call, .. } => {
            let (tool, label) = (safe(&call.tool), set(&call.label));
            format!("  endorsed {tool}: it counts as the user's own at {label}")
        }
        Event::Returned {
            call,
            bytes,
            is_error,
            label,
            regions,
        } => {
            let error = if *is_error { " (error)" } else { "" };
            let (tool, label) = (safe(&call.tool), set(label));
            format!("  result   {tool}: {bytes} bytes{error}, {regions} regions, {label}")
        }
        Event::CallUnknown { call, reason } => {
            let (tool, reason) = (safe(&call.tool), safe(reason));
            format!("  UNKNOWN  whether {tool} ran: {reason}")
        }
        Event::CallFailed { call, reason } => {
            format!("  FAILED   {}: {}", safe(&call.tool), safe(reason))
        }
        _ => String::new(),
    }
}

fn asked(
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
