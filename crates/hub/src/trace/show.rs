//! A trace record for people: one line, or a few for a question.

use super::{AnswerSource, Call, Event, Flow, Message, MessageKind, Record, Usage, escape};
use crate::StopReason;

/// Characters of arguments and texts on one line; the whole is in the exported trace.
const LINE: usize = 160;

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
        } => {
            let taken = match apps.is_empty() {
                true => "no app (vanilla)".to_owned(),
                false => list(apps),
            };
            let more = needed.iter().any(|app| !apps.contains(app));
            let others = match more {
                true => format!(", of {}", list(needed)),
                false => String::new(),
            };
            let each = if *each { ", each by itself" } else { "" };
            format!("plan       {taken}{others}{each}, chosen by {}", safe(by))
        }
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
        } => {
            let serves = serves.as_deref().map_or_else(|| "no app".to_owned(), safe);
            format!(
                "serving    {serves}, of {}, for {} to {}, chosen by {}",
                list(among),
                safe(functionality),
                safe(asks),
                safe(by)
            )
        }
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
        } => {
            let given_up = match given_up.as_slice() {
                [] => String::new(),
                given_up => format!(", GIVEN UP: {}", list(given_up)),
            };
            format!(
                "spoke      {} runs as process {pid} after {start_ms} ms with {} tools; layers {}{given_up}",
                safe(app),
                tools.len(),
                list(layers),
            )
        }
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
        } => {
            let (app, to, domain) = (safe(app), safe(to), safe(domain));
            let (label, rule) = (set(label), safe(rule));
            format!(
                "egress     {app} to {to} with {label}: the rule {rule} asks about {domain}: {}",
                safe(answer)
            )
        }
        Event::Recalled { memories } => {
            let origins = memories.iter().map(|memory| {
                let (origin, id) = (safe(&memory.origin), safe(&memory.id));
                format!("\n{:>21}{origin} {} {id}", "", set(&memory.label))
            });
            format!(
                "memory     {} recalled{}",
                memories.len(),
                origins.collect::<String>()
            )
        }
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
        } => {
            let chosen = match relevant {
                None => "everything".to_owned(),
                Some(relevant) => format!("{} of {regions} regions", relevant.len()),
            };
            let failure = failure
                .as_ref()
                .map(|why| format!(" ({})", safe(why)))
                .unwrap_or_default();
            format!(
                "step {step:<2}    {} finds {chosen} relevant: {} -> {}{failure}",
                safe(screener),
                set(before),
                set(after)
            )
        }
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
        } => {
            let stop = match stop {
                StopReason::End => "",
                StopReason::Length => ", stopped by length",
                StopReason::Repetition => ", stopped by repetition",
            };
            format!(
                "step {step:<2}    {} answers with {calls} calls{stop}: {}",
                safe(provider),
                cost(usage)
            )
        }
        Event::Summarised { step, label, bytes } => {
            let label = set(label);
            format!(
                "step {step:<2}    the beginning is a summary of {bytes} bytes in prompts at {label}"
            )
        }
        Event::DraftDropped { step } => {
            format!("step {step:<2}    draft dropped; generating again with the rest masked")
        }
        Event::Checked { step, label, taken } => {
            let found = match taken {
                true => "the step can do without the rest",
                false => "other calls come out, so the draft stands",
            };
            format!("step {step:<2}    checked at {}: {found}", set(label))
        }
        Event::Filled {
            step,
            tool,
            argument,
            label,
            taken,
        } => {
            let made = match taken {
                true => "made",
                false => "not made",
            };
            let (tool, argument) = (safe(tool), safe(argument));
            format!(
                "step {step:<2}    {tool}: {argument} is {made} at {}",
                set(label)
            )
        }
        Event::Refined {
            step,
            of,
            label,
            taken,
            ..
        } => {
            let found = match taken {
                true => "the same calls come out, so its results have their own labels",
                false => "other calls come out, so its results keep its label",
            };
            format!(
                "step {step:<2}    reads of step {of} made once more at {}: {found}",
                set(label)
            )
        }
        Event::Withheld { step, label, taken } => {
            let found = match taken {
                true => "this is the step",
                false => "it lacks something, so the step is taken from everything",
            };
            let label = set(label);
            format!(
                "step {step:<2}    taken at {label}, without what the refused call depends on: {found}"
            )
        }
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
        } => {
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
            let texts: Vec<String> = texts.collect();
            format!(
                "  trust    {}: {} may do what it asks for ({}, for the {})",
                texts.join(", "),
                safe(app),
                safe(effect),
                safe(until)
            )
        }
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
        } => {
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
        } => {
            let times = match times {
                1 => String::new(),
                times => format!(" ({times} times)"),
            };
            let (app, request, reason) = (safe(app), safe(request), safe(reason));
            format!("  REFUSED  a {request} of {app} by its spoke: {reason}{times}")
        }
        Event::Answer {
            text,
            label,
            refused,
            dropped,
            inert,
            sources,
            hidden,
        } => {
            let listed = |before: &str, sources: &[AnswerSource]| {
                let one = |one: &AnswerSource| {
                    format!("{} {}", safe(&one.source.to_string()), set(&one.label))
                };
                let sources: Vec<String> = sources.iter().map(one).collect();
                match sources.is_empty() {
                    true => String::new(),
                    false => format!(" {before} {}", sources.join(", ")),
                }
            };
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
    }
}

fn shown_flow(flow: &Flow) -> String {
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
fn tool(call: &Call) -> String {
    format!("{}.{}", safe(&call.app), safe(&call.tool))
}

/// A message without its text.
fn named(message: &Message) -> String {
    format!(
        "the {} of {} to {} for {}",
        safe(&message.stage),
        safe(&message.from),
        safe(&message.to),
        safe(&message.functionality)
    )
}

fn shown(call: &Call) -> String {
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

/// A label as a set, escaped.
pub(super) fn set(names: &[String]) -> String {
    if names.is_empty() {
        "{trusted, public}".to_owned()
    } else {
        format!("{{{}}}", list(names))
    }
}

/// Names side by side, each escaped.
fn list<'a>(names: impl IntoIterator<Item = &'a String>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| safe(name)).collect();
    names.join(", ")
}

fn cost(usage: &Usage) -> String {
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
fn safe(text: &str) -> String {
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
