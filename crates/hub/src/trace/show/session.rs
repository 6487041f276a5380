//! Lines about a session: its apps, what they reach, what is remembered.

use std::collections::BTreeSet;

use super::words::{list, safe, set};
use crate::trace::Recalled;

pub(super) fn planned(needed: &[String], apps: &BTreeSet<String>, each: bool, by: &str) -> String {
    let taken = match apps.is_empty() {
        true => "no app (vanilla)".to_owned(),
        false => list(apps),
    };
    let more = needed.iter().any(|app| !apps.contains(app));
    let others = match more {
        true => format!(", of {}", list(needed)),
        false => String::new(),
    };
    let each = if each { ", each by itself" } else { "" };
    format!("plan       {taken}{others}{each}, chosen by {}", safe(by))
}

pub(super) fn serving_chosen(
    asks: &str,
    functionality: &str,
    among: &[String],
    serves: Option<&str>,
    by: &str,
) -> String {
    let serves = serves.map_or_else(|| "no app".to_owned(), safe);
    format!(
        "serving    {serves}, of {}, for {} to {}, chosen by {}",
        list(among),
        safe(functionality),
        safe(asks),
        safe(by)
    )
}

pub(super) fn spoke_started(
    app: &str,
    pid: u32,
    layers: &[String],
    given_up: &[String],
    tools: &[String],
    start_ms: u64,
) -> String {
    let given_up = match given_up {
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

pub(super) fn connection_asked(
    app: &str,
    to: &str,
    domain: &str,
    label: &[String],
    rule: &str,
    answer: &str,
) -> String {
    let (app, to, domain) = (safe(app), safe(to), safe(domain));
    let (label, rule) = (set(label), safe(rule));
    format!(
        "egress     {app} to {to} with {label}: the rule {rule} asks about {domain}: {}",
        safe(answer)
    )
}

pub(super) fn recalled(memories: &[Recalled]) -> String {
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
