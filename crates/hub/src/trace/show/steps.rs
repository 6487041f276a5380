//! Lines about a step.

use super::words::{cost, safe, set};
use crate::StopReason;
use crate::trace::Event;

pub(super) fn line(event: &Event) -> String {
    match event {
        Event::Consulted {
            purpose,
            provider,
            usage,
        } => {
            let (purpose, provider) = (safe(purpose), safe(provider));
            format!("{purpose:<10} {provider}: {}", cost(usage))
        }
        Event::Screened { step, .. }
        | Event::Uncleared { step, .. }
        | Event::Redacted { step, .. }
        | Event::Completed { step, .. }
        | Event::NamedInFull { step, .. }
        | Event::Summarised { step, .. }
        | Event::DraftDropped { step }
        | Event::Checked { step, .. }
        | Event::Filled { step, .. }
        | Event::Refined { step, .. }
        | Event::Withheld { step, .. }
        | Event::RepetitionDropped { step } => format!("step {step:<2}    {}", said(event)),
        _ => String::new(),
    }
}

/// What a step's line says after its number.
fn said(event: &Event) -> String {
    match event {
        Event::Screened {
            screener,
            relevant,
            more_relevant,
            regions,
            before,
            after,
            failure,
            ..
        } => {
            let chosen = match relevant {
                None => "everything".to_owned(),
                Some(relevant) => {
                    format!("{} of {regions} regions", relevant.len() + more_relevant)
                }
            };
            let failure = failure.as_ref().map(|why| format!(" ({})", safe(why)));
            let (screener, before, after) = (safe(screener), set(before), set(after));
            let failure = failure.unwrap_or_default();
            format!("{screener} finds {chosen} relevant: {before} -> {after}{failure}")
        }
        Event::Uncleared { above, label, .. } => {
            let (above, label) = (set(above), set(label));
            format!("no provider is cleared for {above}; taken at {label}, with the rest masked")
        }
        Event::Redacted {
            label,
            kept,
            masked,
            ..
        } => {
            let label = set(label);
            format!("prompt at {label}: {kept} regions shown, {masked} masked")
        }
        Event::Completed {
            provider,
            usage,
            stop,
            calls,
            ..
        } => {
            let stop = match stop {
                StopReason::End => "",
                StopReason::Length => ", stopped by length",
                StopReason::Repetition => ", stopped by repetition",
                StopReason::Filter => ", stopped by the provider's content filter",
                StopReason::Other => ", stopped by the provider",
            };
            let (provider, cost) = (safe(provider), cost(usage));
            format!("{provider} answers with {calls} calls{stop}: {cost}")
        }
        Event::NamedInFull {
            said, meant, label, ..
        } => {
            let (said, meant, label) = (safe(said), safe(meant), set(label));
            format!("{said} is {meant}, the only tool of that name in the prompt at {label}")
        }
        Event::Summarised { label, bytes, .. } => {
            let label = set(label);
            format!("the beginning is a summary of {bytes} bytes in prompts at {label}")
        }
        Event::DraftDropped { .. } => {
            "draft dropped; generating again with the rest masked".to_owned()
        }
        Event::RepetitionDropped { .. } => {
            "nothing but a repeated call, dropped; asking for an answer in words".to_owned()
        }
        Event::Filled {
            tool,
            argument,
            label,
            taken,
            ..
        } => {
            let made = if *taken { "made" } else { "not made" };
            let (tool, argument, label) = (safe(tool), safe(argument), set(label));
            format!("{tool}: {argument} is {made} at {label}")
        }
        Event::Checked { label, taken, .. } => {
            let found = match taken {
                true => "the step can do without the rest",
                false => "other calls come out, so the draft stands",
            };
            format!("checked at {}: {found}", set(label))
        }
        Event::Refined {
            of, label, taken, ..
        } => {
            let found = match taken {
                true => "the same calls come out, so its results have their own labels",
                false => "other calls come out, so its results keep its label",
            };
            let label = set(label);
            format!("reads of step {of} made once more at {label}: {found}")
        }
        Event::Withheld { label, taken, .. } => {
            let found = match taken {
                true => "this is the step",
                false => "it lacks something, so the step is taken from everything",
            };
            let label = set(label);
            format!("taken at {label}, without what the refused call depends on: {found}")
        }
        _ => String::new(),
    }
}
