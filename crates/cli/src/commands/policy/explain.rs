//! `sluice policy explain`: the decisions of a recorded session, and what would have changed them.

use std::path::Path;

use anyhow::{Result, bail};
use config::Config;
use hub::trace::{Flow, Message, escape};
use ifc::{Arguments, Delivery, Label, Labeled, Release, Sink, Stage};
use policy::{AppPolicy, Judgement, Verdict};

use super::conversations;
use super::counted::{Counted, counted};
use super::explanation::{Explained, Wider, as_line, as_text, label_of};
use super::recorded::{Recorded, decisions};
use super::shown::short;
use crate::exit::Exit;
use crate::json_lines::print_json;
use crate::terminal::print;
use crate::traces;

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

fn judge(config: &Config, policy: &AppPolicy, recorded: &Recorded<'_>) -> Explained {
    let lattice = &config.lattice;
    let mut unknown = None;
    let mut read = |names: &[String]| {
        let label = lattice.labels(names.iter().map(String::as_str));
        label.unwrap_or_else(|error| {
            // A taint that this lattice lacks could mean anything, so the label is the unknown.
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
    // Each taint that the limit does not admit would have stopped the call if its label had it.
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
            // Arguments without one canonical text are rejected before any rule is asked.
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
