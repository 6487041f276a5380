//! Lines about what apps ask for while a call runs.

use super::words::{safe, set, tool};
use crate::trace::Event;

pub(super) fn line(event: &Event) -> String {
    match event {
        Event::AppAsked {
            call,
            text,
            label,
            by,
        } => {
            let (text, by) = (safe(text), safe(by));
            format!("  ASKS YOU {}: {text} {} by {by}", tool(call), set(label))
        }
        Event::AppAnswered {
            call,
            answer,
            content,
        } => {
            let (answer, content) = (safe(answer), safe(content));
            format!("  to app   {}: {answer} {content}", tool(call))
        }
        Event::Sampling {
            call,
            provider,
            label,
            bytes,
            max_tokens,
        } => {
            format!(
                "  samples  {}: {bytes} bytes to {} at {}, at most {max_tokens} tokens",
                tool(call),
                safe(provider),
                set(label)
            )
        }
        Event::AppRefused {
            call,
            request,
            reason,
        } => {
            let (request, reason) = (safe(request), safe(reason));
            format!("  REFUSED  a {request} of {}: {reason}", tool(call))
        }
        Event::Unheard {
            app,
            request,
            reason,
            times,
        } => {
            let times = match times {
                1 => String::new(),
                times => format!(" ({times} times)"),
            };
            let (app, request, reason) = (safe(app), safe(request), safe(reason));
            format!("  REFUSED  a {request} of {app} by its spoke: {reason}{times}")
        }
        _ => String::new(),
    }
}
