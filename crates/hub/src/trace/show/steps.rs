//! Lines about a step.

use super::words::{cost, safe, set};
use crate::StopReason;
use crate::trace::{Text, Usage};

pub(super) fn screened(
    step: usize,
    screener: &str,
    relevant: Option<&[u32]>,
    regions: usize,
    before: &[String],
    after: &[String],
    failure: Option<&Text>,
) -> String {
    let chosen = match relevant {
        None => "everything".to_owned(),
        Some(relevant) => format!("{} of {regions} regions", relevant.len()),
    };
    let failure = failure
        .map(|why| format!(" ({})", safe(why)))
        .unwrap_or_default();
    format!(
        "step {step:<2}    {} finds {chosen} relevant: {} -> {}{failure}",
        safe(screener),
        set(before),
        set(after)
    )
}

pub(super) fn completed(
    step: usize,
    provider: &str,
    usage: &Usage,
    stop: StopReason,
    calls: usize,
) -> String {
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

pub(super) fn checked(step: usize, label: &[String], taken: bool) -> String {
    let found = match taken {
        true => "the step can do without the rest",
        false => "other calls come out, so the draft stands",
    };
    format!("step {step:<2}    checked at {}: {found}", set(label))
}

pub(super) fn filled(
    step: usize,
    tool: &str,
    argument: &str,
    label: &[String],
    taken: bool,
) -> String {
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

pub(super) fn refined(step: usize, of: usize, label: &[String], taken: bool) -> String {
    let found = match taken {
        true => "the same calls come out, so its results have their own labels",
        false => "other calls come out, so its results keep its label",
    };
    format!(
        "step {step:<2}    reads of step {of} made once more at {}: {found}",
        set(label)
    )
}

pub(super) fn withheld(step: usize, label: &[String], taken: bool) -> String {
    let found = match taken {
        true => "this is the step",
        false => "it lacks something, so the step is taken from everything",
    };
    let label = set(label);
    format!("step {step:<2}    taken at {label}, without what the refused call depends on: {found}")
}
