//! What the policy says now of a recorded decision, in words and as a line of JSON.

use std::path::Path;

use config::Config;
use hub::trace::{Flow, escape};
use ifc::Lattice;
use policy::{Judgement, Verdict};
use serde::Serialize;
use serde_json::{Value, json};

use super::counted::Counted;
use super::recorded::Recorded;
use super::shown::{set, short};

/// One limit that the call exceeds, and what it would have to be for the call to pass.
#[derive(Debug, Serialize)]
pub(super) struct Wider {
    pub(super) rule: String,
    pub(super) place: Option<String>,
    pub(super) allows: Vec<String>,
    pub(super) would_pass_with: Vec<String>,
}

/// What the policy says now, in names.
pub(super) struct Explained {
    pub(super) now: Judgement,
    /// The label has names that this configuration's lattice lacks.
    pub(super) unknown: Option<String>,
    /// Limits that are too low.
    pub(super) wider: Vec<Wider>,
    /// Taints any of which would have stopped the call.
    pub(super) would_stop: Vec<String>,
    /// The rules for the results of the call that look at its arguments.
    pub(super) results: Vec<Counted>,
}

pub(super) fn label_of(flow: &Flow) -> &[String] {
    match flow {
        Flow::Call(call) => &call.label,
        Flow::Message(message) => &message.label,
        Flow::Answer { label, .. } => label,
    }
}

/// One line of `--json`.
pub(super) fn as_line(
    config: &Config,
    asked_by: &[usize],
    recorded: &Recorded<'_>,
    found: &Explained,
) -> Value {
    let Explained { now, .. } = found;
    json!({
        "kind": "decision",
        "number": recorded.number,
        "conversation": recorded.conversation,
        "asked_by": asked_by,
        "flow": recorded.flow,
        "recorded": {
            "verdict": recorded.verdict.name(),
            "by": recorded.by,
            "excess": recorded.excess,
            "causes": recorded.causes,
            "answer": recorded.answer.map(|(answer, _)| answer),
            "allowed": recorded.answer.map(|(_, allowed)| allowed),
        },
        "now": {
            "verdict": now.verdict.name(),
            "same": now.verdict == recorded.verdict,
            "rule": now.rule,
            "place": now.place.as_ref().map(ToString::to_string),
            "reason": now.reason,
            "limit": config.lattice.describe(&now.limit),
            "excess": config.lattice.describe(&now.excess),
            "label_unknown": found.unknown,
        },
        "would_pass": found.wider,
        "would_stop": found.would_stop,
        "results": found.results.iter().map(Counted::as_json).collect::<Vec<_>>(),
    })
}

/// In lines.
pub(super) fn as_text(
    config: &Config,
    file: &Path,
    recorded: &Recorded<'_>,
    found: &Explained,
) -> String {
    let what = match recorded.flow {
        Flow::Call(call) => format!(
            "{}.{} {}",
            escape(&call.app),
            escape(&call.tool),
            escape(&call.arguments)
        ),
        Flow::Message(message) => format!(
            "the {} of {} to {} for {} {}",
            escape(&message.stage),
            escape(&message.from),
            escape(&message.to),
            escape(&message.functionality),
            escape(&message.text)
        ),
        Flow::Answer { text, .. } => format!("the answer {}", escape(text)),
    };
    let mut lines = vec![format!("call {}  {what}", recorded.number)];
    let label = label_of(recorded.flow);
    lines.push(format!("  label      {}", foreign(label)));
    lines.push(format!("  recorded   {}", recorded_text(recorded)));
    for cause in recorded.causes {
        lines.push(format!(
            "    because of region {}, {} {}: {}",
            cause.region,
            escape(&cause.source.to_string()),
            foreign(&cause.label),
            escape(&cause.excerpt)
        ));
    }
    lines.push(format!(
        "  now        {}",
        now_text(config, file, recorded, &found.now)
    ));
    if let Some(unknown) = &found.unknown {
        let unknown = escape(unknown);
        lines.push(format!("    its label is taken as unknown: {unknown}"));
    }
    lines.extend(
        change_text(&config.lattice, found)
            .into_iter()
            .map(|line| format!("  {line}")),
    );
    let results = found.results.iter();
    lines.extend(results.map(|rule| format!("  result     {}", rule.as_text())));
    lines.push(String::new());
    lines.join("\n")
}

/// A recorded label as a set. A trace is a file that may come from anywhere.
fn foreign(names: &[String]) -> String {
    escape(&set(names))
}

fn recorded_text(recorded: &Recorded<'_>) -> String {
    match recorded.verdict {
        Verdict::Allow => format!("allowed by {}", escape(recorded.by)),
        Verdict::Deny => format!("denied: {}", escape(recorded.by)),
        Verdict::Ask => {
            let answer = match recorded.answer {
                Some((answer, true)) => format!("the user said {}", escape(answer)),
                Some((answer, false)) => format!("the answer was {}", escape(answer)),
                None => "there was no answer".to_owned(),
            };
            let beyond = match recorded.excess {
                [] => String::new(),
                excess => format!(", because {} goes beyond its limit", foreign(excess)),
            };
            format!("asked by {}{beyond}; {answer}", escape(recorded.by))
        }
    }
}

fn now_text(config: &Config, file: &Path, recorded: &Recorded<'_>, now: &Judgement) -> String {
    let same = match now.verdict == recorded.verdict {
        true => "the same",
        false => "DIFFERENT",
    };
    let place = now
        .place
        .as_ref()
        .map(|place| format!(" ({})", short(&place.file, place.line)));
    let limit = match now.verdict {
        // A denial has no limit that anything could be below.
        Verdict::Deny => String::new(),
        _ => format!(
            ", which allows {}",
            set(&config.lattice.describe(&now.limit))
        ),
    };
    let reason = now
        .reason
        .as_ref()
        .map(|reason| format!(": {}", escape(reason)));
    format!(
        "{same}: {} says {} by {}{}{limit}{}",
        file.display(),
        now.verdict.name(),
        now.rule,
        place.unwrap_or_default(),
        reason.unwrap_or_default()
    )
}

/// What would have changed the decision.
fn change_text(lattice: &Lattice, found: &Explained) -> Vec<String> {
    let Explained { now, wider, .. } = found;
    match now.verdict {
        Verdict::Allow if found.would_stop.is_empty() => {
            vec!["change     no label would stop it".to_owned()]
        }
        Verdict::Allow => vec![format!(
            "change     it would be asked about if its label also had one of {}",
            set(&found.would_stop)
        )],
        Verdict::Deny => {
            vec![
                "change     no label and no answer would let it pass; only another rule".to_owned(),
            ]
        }
        Verdict::Ask => {
            let mut lines = Vec::new();
            if now.excess.is_top() {
                let limit = set(&lattice.describe(&now.limit));
                lines.push(format!(
                    "change     it would pass if its label were known and below {limit}"
                ));
            } else if !now.excess.is_bottom() {
                let excess = set(&lattice.describe(&now.excess));
                lines.push(format!(
                    "change     it would pass without {excess} in its label"
                ));
            }
            for part in wider {
                let place = part.place.as_ref().map(|place| format!(" ({place})"));
                let with: Vec<String> = part
                    .would_pass_with
                    .iter()
                    .map(|name| format!("{name:?}"))
                    .collect();
                lines.push(format!(
                    "change     {}{} would let it pass as [{}]",
                    part.rule,
                    place.unwrap_or_default(),
                    with.join(", ")
                ));
            }
            if now.always_ask {
                lines.push("change     no label would let it pass without a question".to_owned());
            }
            lines
        }
    }
}
