//! A trace record for people: one line, or a few for a question.

mod calls;
mod ends;
mod session;
mod steps;
mod words;

use super::{Event, Record};
pub(super) use words::set;
use words::{cost, list, safe, shown_flow, tool};

/// The record as text without a trailing newline. `start_ms` is the first record's time.
///
/// A trace may come from anywhere: whatever it says, names and labels included, is shown escaped, one
/// by one, so that it can neither steer the terminal nor begin a line.
pub fn show(record: &Record, start_ms: u64) -> String {
    let seconds = record.at_ms.saturating_sub(start_ms) as f64 / 1000.0;
    let conversation = match &record.conversation {
        Some(name) => format!("[{}] ", safe(name)),
        None => String::new(),
    };
    format!("{seconds:>8.2}s  {conversation}{}", describe(&record.event))
}

fn describe(event: &Event) -> String {
    match event {
        Event::SessionStarted {
            session,
            mode,
            screener,
            private,
        } => {
            let (session, mode, screener) = (safe(session), safe(mode), safe(screener));
            let private = if *private { ", private" } else { "" };
            format!("session    {session}, {mode}, screener {screener}{private}")
        }
        Event::Planned {
            needed,
            apps,
            each,
            by,
        } => session::planned(needed, apps, *each, by),
        Event::Missing {
            functionality,
            apps,
        } => {
            let functionality = safe(functionality);
            format!(
                "missing    {functionality}; in the catalogue: {}",
                list(apps)
            )
        }
        Event::Gathered { answered, missing } => {
            let missing = match missing.as_slice() {
                [] => String::new(),
                missing => format!("; no answer of {}", list(missing)),
            };
            format!("gathered   {} answers{missing}", answered.len())
        }
        Event::LeftOut { apps } => {
            format!("left out   {}, which did not start", list(apps))
        }
        Event::ServingChosen {
            asks,
            functionality,
            among,
            serves,
            by,
        } => session::serving_chosen(asks, functionality, among, serves.as_deref(), by),
        Event::PlanUnclear { app, reason } => {
            format!(
                "plan       not {}: it is unclear whether it is needed: {}",
                safe(app),
                safe(reason)
            )
        }
        Event::SpokeStarted {
            app,
            pid,
            layers,
            given_up,
            tools,
            start_ms,
        } => session::spoke_started(app, *pid, layers, given_up, tools, *start_ms),
        Event::SpokeEnded { app, reason } => {
            format!("spoke      {} ended: {}", safe(app), safe(reason))
        }
        Event::Egress { app, to, outcome } => {
            let (app, to) = (safe(app), safe(to));
            format!("egress     {app} to {to}: {}", safe(outcome))
        }
        Event::NameDenied { app, name, reason } => {
            let (app, name) = (safe(app), safe(name));
            format!("egress     {app} to {name}: NOT RESOLVED: {}", safe(reason))
        }
        Event::ConnectionAsked {
            app,
            to,
            domain,
            label,
            rule,
            answer,
        } => session::connection_asked(app, to, domain, label, rule, answer),
        Event::Recalled { memories } => session::recalled(memories),
        Event::Remembered { id, label, bytes } => {
            let (id, label) = (safe(id), set(label));
            format!("memory     {bytes} bytes {label} remembered as {id}")
        }
        Event::NotRemembered { label, reason } => {
            format!("memory     {} NOT remembered: {}", set(label), safe(reason))
        }
        Event::MadeRoom { count } => {
            format!("memory     {count} of the oldest forgotten to make room")
        }
        Event::MemoryFailed { reason } => format!("memory     FAILED: {}", safe(reason)),
        Event::User { text, label } => format!("user       {} {}", safe(text), set(label)),
        Event::Screened {
            step,
            screener,
            relevant,
            regions,
            before,
            after,
            failure,
            scores: _,
        } => steps::screened(
            *step,
            screener,
            relevant.as_deref(),
            *regions,
            before,
            after,
            failure.as_ref(),
        ),
        Event::Consulted {
            purpose,
            provider,
            usage,
        } => {
            let (purpose, provider) = (safe(purpose), safe(provider));
            format!("{purpose:<10} {provider}: {}", cost(usage))
        }
        Event::Redacted {
            step,
            label,
            kept,
            masked,
        } => {
            format!(
                "step {step:<2}    prompt at {}: {kept} regions shown, {masked} masked",
                set(label)
            )
        }
        Event::Completed {
            step,
            provider,
            usage,
            stop,
            calls,
        } => steps::completed(*step, provider, usage, *stop, *calls),
        Event::Summarised { step, label, bytes } => {
            let label = set(label);
            format!(
                "step {step:<2}    the beginning is a summary of {bytes} bytes in prompts at {label}"
            )
        }
        Event::DraftDropped { step } => {
            format!("step {step:<2}    draft dropped; generating again with the rest masked")
        }
        Event::Checked { step, label, taken } => steps::checked(*step, label, *taken),
        Event::Filled {
            step,
            tool,
            argument,
            label,
            taken,
        } => steps::filled(*step, tool, argument, label, *taken),
        Event::Refined {
            step,
            of,
            label,
            taken,
            ..
        } => steps::refined(*step, *of, label, *taken),
        Event::Withheld { step, label, taken } => steps::withheld(*step, label, *taken),
        Event::RepetitionDropped { step } => {
            format!(
                "step {step:<2}    nothing but a repeated call, dropped; asking for an answer in words"
            )
        }
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
        } => calls::asked(flow, rule, limit, effect, excess, causes, ran.as_deref()),
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
        } => calls::answered(flow, answer, *allowed),
        Event::Trusted {
            texts,
            app,
            effect,
            until,
            ..
        } => calls::trusted(texts, app, effect, until),
        Event::Endorsed { call, .. } => {
            let label = set(&call.label);
            format!(
                "  endorsed {}: it counts as the user's own at {label}",
                safe(&call.tool)
            )
        }
        Event::Returned {
            call,
            bytes,
            is_error,
            label,
            regions,
        } => {
            let error = if *is_error { " (error)" } else { "" };
            format!(
                "  result   {}: {bytes} bytes{error}, {regions} regions, {}",
                safe(&call.tool),
                set(label)
            )
        }
        Event::Message {
            exchange,
            version: _,
            message,
            functionality,
            asks,
            serves,
            label,
            note,
        } => calls::message(exchange, *message, functionality, asks, serves, label, note),
        Event::Serving {
            asks,
            functionality,
            text,
            label,
        } => {
            format!(
                "  serving  {} asks for {}: {} {}",
                safe(asks),
                safe(functionality),
                safe(text),
                set(label)
            )
        }
        Event::CallUnknown { call, reason } => {
            format!(
                "  UNKNOWN  whether {} ran: {}",
                safe(&call.tool),
                safe(reason)
            )
        }
        Event::CallFailed { call, reason } => {
            format!("  FAILED   {}: {}", safe(&call.tool), safe(reason))
        }
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
        } => calls::unheard(app, request, reason, *times),
        Event::Answer {
            text,
            label,
            refused,
            dropped,
            inert,
            sources,
            hidden,
        } => ends::answer(text, label, *refused, *dropped, *inert, sources, hidden),
        Event::Stopped {
            reason,
            label,
            refused,
            unknown,
            dropped,
        } => ends::stopped(reason, label, *refused, *unknown, *dropped),
    }
}
