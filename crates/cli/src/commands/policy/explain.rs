//! `sluice policy explain`: the decisions of a recorded session, and what would have changed them.

use std::path::Path;

use anyhow::{Result, bail};
use config::Config;
use hub::trace::{Cause, Event, Flow, Message, Record, escape};
use ifc::{Arguments, Delivery, Label, Labeled, Lattice, Release, Sink, Stage};
use policy::{AppPolicy, Judgement, Verdict};
use serde::Serialize;
use serde_json::{Value, json};

use super::counted::{Counted, counted};
use super::{conversations, set, short};
use crate::exit::Exit;
use crate::json_lines::print_json;
use crate::terminal::print;
use crate::traces;

/// A decision as it was recorded.
pub(super) struct Recorded<'a> {
    /// Counted from 1, over all conversations.
    pub(super) number: usize,
    /// The conversation that it belongs to; `None` is the session's own.
    pub(super) conversation: Option<&'a str>,
    pub(super) flow: &'a Flow,
    verdict: Verdict,
    /// The rule, or the reason of a denial.
    by: &'a str,
    /// The taints beyond the limit, and the regions that brought them.
    excess: &'a [String],
    causes: &'a [Cause],
    /// The user's answer.
    answer: Option<(&'a str, bool)>,
}

/// One limit that the call exceeds, and what it would have to be for the call to pass.
#[derive(Debug, Serialize)]
struct Wider {
    rule: String,
    place: Option<String>,
    allows: Vec<String>,
    would_pass_with: Vec<String>,
}

/// What the policy says now, in names.
struct Explained {
    now: Judgement,
    /// The label has names that this configuration's lattice lacks.
    unknown: Option<String>,
    /// Limits that are too low.
    wider: Vec<Wider>,
    /// Taints any of which would have stopped the call.
    would_stop: Vec<String>,
    /// The rules for the results of the call that look at its arguments.
    results: Vec<Counted>,
}

/// Explains every decision of a session, or one of them.
pub(crate) fn explain(
    config: &Config,
    file: &Path,
    session: &str,
    only: Option<usize>,
    as_json: bool,
) -> Result<Exit> {
    let records = traces::read(session)?;
    let decisions = decisions(&records);
    if let Some(number) = only.filter(|number| !(1..=decisions.len()).contains(number)) {
        bail!(
            "there is no call {number}; the session has {} decisions, counted from 1",
            decisions.len()
        );
    }
    let policy = config.policy();
    let groups = conversations::groups(&decisions);
    let several = groups.len() > 1;
    for group in &groups {
        let chosen = group.decisions.iter();
        let mut chosen = chosen
            .filter(|one| only.is_none_or(|only| only == one.number))
            .peekable();
        if several && !as_json && chosen.peek().is_some() {
            print(&group.heading())?;
        }
        for recorded in chosen {
            let explained = judge(config, &policy, recorded);
            match as_json {
                true => print_json(&as_line(config, &group.asked_by, recorded, &explained))?,
                false => print(&as_text(config, file, recorded, &explained))?,
            }
        }
    }
    if decisions.is_empty() && !as_json {
        print("no call was decided in this session")?;
    }
    Ok(Exit::Done)
}

fn decisions(records: &[Record]) -> Vec<Recorded<'_>> {
    let mut found: Vec<Recorded<'_>> = Vec::new();
    for record in records {
        let conversation = record.conversation.as_deref();
        let number = found.len() + 1;
        let decided = |flow, verdict, by| Recorded {
            number,
            conversation,
            flow,
            verdict,
            by,
            excess: &[],
            causes: &[],
            answer: None,
        };
        match &record.event {
            Event::Allowed { flow, by, .. } => found.push(decided(flow, Verdict::Allow, by)),
            Event::Denied { flow, reason, .. } => found.push(decided(flow, Verdict::Deny, reason)),
            Event::Asked {
                flow,
                rule,
                excess,
                causes,
                ..
            } => found.push(Recorded {
                excess,
                causes,
                ..decided(flow, Verdict::Ask, rule)
            }),
            Event::Answered {
                flow,
                answer,
                allowed,
            } => {
                let mut asked = found.iter_mut().rev();
                let of_it =
                    |one: &&mut Recorded<'_>| one.flow == flow && one.conversation == conversation;
                if let Some(asked) = asked.find(of_it) {
                    asked.answer = Some((answer, *allowed));
                }
            }
            _ => {}
        }
    }
    found
}

fn judge(config: &Config, policy: &AppPolicy, recorded: &Recorded<'_>) -> Explained {
    let lattice = &config.lattice;
    let mut unknown = None;
    let mut read = |names: &[String]| {
        let label = lattice.labels(names.iter().map(String::as_str));
        label.unwrap_or_else(|error| {
            unknown = Some(error.to_string());
            Label::top()
        })
    };
    let now = judge_flow(policy, recorded.flow, &mut read);
    let exceeded = now
        .limits
        .iter()
        .filter(|part| !part.label.flows_to(&part.limit));
    let wider = exceeded.map(|part| Wider {
        rule: part.rule.clone(),
        place: part
            .place
            .as_ref()
            .map(|place| short(&place.file, place.line)),
        allows: lattice.describe(&part.limit),
        would_pass_with: lattice.describe(&part.limit.join(&part.label)),
    });
    let would_stop = lattice
        .taints()
        .filter(|(_, taint)| !taint.flows_to(&now.limit));
    Explained {
        wider: wider.collect(),
        would_stop: match now.verdict {
            Verdict::Allow => would_stop.map(|(name, _)| name.to_owned()).collect(),
            Verdict::Ask | Verdict::Deny => Vec::new(),
        },
        unknown,
        now,
        results: results(config, recorded.flow),
    }
}

/// The rules for the results of a call that look at its arguments.
fn results(config: &Config, flow: &Flow) -> Vec<Counted> {
    let Flow::Call(call) = flow else {
        return Vec::new();
    };
    let app = config.apps.get(&call.app);
    let rule = app.and_then(|app| app.rules.tool(&call.tool));
    let arguments = Arguments::parse(&call.arguments, &Label::bottom());
    match (rule, arguments) {
        (Some(rule), Ok(arguments)) => counted(&rule.result, &arguments),
        _ => Vec::new(),
    }
}

fn label_of(flow: &Flow) -> &[String] {
    match flow {
        Flow::Call(call) => &call.label,
        Flow::Message(message) => &message.label,
        Flow::Answer { label, .. } => label,
    }
}

/// What the policy says now of what was decided on then, under the labels that `read` makes of names.
fn judge_flow(
    policy: &AppPolicy,
    flow: &Flow,
    read: &mut dyn FnMut(&[String]) -> Label,
) -> Judgement {
    let label = read(label_of(flow));
    match flow {
        Flow::Call(call) => match Arguments::parse(&call.arguments, &label) {
            Ok(arguments) => {
                let data = call.data.iter();
                let arguments = data.fold(arguments, |all, (path, label)| {
                    let label = read(label);
                    match path.parse() {
                        Ok(path) => all.restrict_at(&path, &label),
                        // Written by a version that knew names alone.
                        Err(_) => all.restrict(path, &label),
                    }
                });
                policy.judge(&Sink::Call(&ifc::Call {
                    app: call.app.clone(),
                    tool: call.tool.to_string(),
                    arguments,
                    label,
                }))
            }
            Err(error) => Judgement::denied(call.app.clone(), None, error.to_string()),
        },
        Flow::Message(message) => judge_message(policy, message, &label),
        Flow::Answer { apps, text, .. } => policy.judge(&Sink::Answer(&Release {
            apps: apps.clone(),
            text: Labeled::label_tcb(text.as_str(), label),
        })),
    }
}

fn judge_message(policy: &AppPolicy, message: &Message, label: &Label) -> Judgement {
    let mut stages = Stage::ALL.into_iter();
    let Some(stage) = stages.find(|stage| stage.name() == message.stage) else {
        let reason = format!("there is no message '{}'", escape(&message.stage));
        return Judgement::denied("messages".to_owned(), None, reason);
    };
    policy.judge(&Sink::Delivery(&Delivery {
        from: message.from.clone(),
        to: message.to.clone(),
        functionality: message.functionality.clone(),
        stage,
        message: Labeled::label_tcb(message.text.as_str(), label.clone()),
    }))
}

fn as_line(
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

fn as_text(config: &Config, file: &Path, recorded: &Recorded<'_>, found: &Explained) -> String {
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
