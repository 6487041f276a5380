//! `sluice policy test --from`: a recorded session as a test.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use config::Config;
use hub::trace::{Call, Flow, escape};
use ifc::{ArgumentPath, Arguments, Dimension, Label};
use policy::Verdict;
use serde::Serialize;
use serde_json::Value;

use super::explain::{Recorded, decisions};
use super::sequence::{Sequence, Session, Step};
use crate::exit::Exit;
use crate::terminal::{message, print_escaped};
use crate::{observed, traces};

#[derive(Serialize)]
struct TestFile {
    test: Vec<Test>,
}

#[derive(Serialize)]
struct Test {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<Session>,
    steps: Vec<Step>,
}

/// Prints the calls of each conversation of a session as a test that passes with this configuration. A trace has no results:
/// each call has the labels that it had, and an empty result if one came. Notes say where the session had another decision.
pub(super) fn record(config: &Config, session: &str, hides_secrets: bool) -> Result<Exit> {
    let records = traces::read(session)?;
    let mut conversations: BTreeMap<_, (Sequence<'_>, Vec<Step>)> = BTreeMap::new();
    let all = decisions(&records);
    let is_observed = observed::is_observed(&records);
    for (at, recorded) in all.iter().enumerate() {
        let Flow::Call(call) = recorded.flow else {
            continue;
        };
        let answer = match recorded.answer {
            Some(("session", true)) => Some("session"),
            Some((_, true)) if !recorded.was_trusted() => Some("once"),
            // The call ran, by an earlier answer or other rules. Later calls may depend on it. With --observe, all calls run.
            None if recorded.verdict == Verdict::Allow && !is_observed => Some("once"),
            _ => None,
        };
        let is_again = |later: &Recorded<'_>| later.is_about(recorded.conversation, call);
        // After `trust` a call is decided on again, which is the answer.
        let is_open = recorded.verdict == Verdict::Ask
            && (recorded.answer.is_none() || recorded.was_trusted());
        if is_open && all.iter().skip(at + 1).any(is_again) {
            continue;
        }
        let mut step = Step {
            call: format!("{}.{}", call.app, call.tool.as_str()),
            arguments: as_table(match hides_secrets {
                true => without_secrets(config, call),
                false => call.arguments.as_str().to_owned(),
            }),
            label: Some(call.label.clone()),
            labels: call.data.clone(),
            answer: answer.map(str::to_owned),
            result: recorded.returned.map(|_| Value::from("")),
            error: recorded.returned.is_some_and(|(_, is_error)| is_error),
            ..Step::default()
        };
        let session = Session {
            user: recorded.user.map(str::to_owned),
        };
        let new = || (Sequence::new(config, &session), Vec::new());
        let conversation = conversations.entry((recorded.conversation, recorded.user));
        let (sequence, steps) = conversation.or_insert_with(new);
        let (found, runs) = match sequence.make(&step) {
            Ok(made) => made,
            // Such as arguments that are no JSON, or a label that this configuration lacks.
            Err(error) => {
                message(&escape(&format!("note: left out {}: {error:#}", step.call)));
                continue;
            }
        };
        if found.verdict != recorded.verdict {
            let (was, by) = (recorded.verdict.name(), recorded.by);
            let call = &step.call;
            message(&escape(&format!(
                "note: {call}: {was} by {by} in the session, and now {found}"
            )));
        }
        step.answer = step.answer.filter(|_| found.verdict == Verdict::Ask);
        step.result = step.result.filter(|_| runs);
        step.error &= runs;
        step.expect = Some(found.verdict.name().to_owned());
        if !sequence.lists(&call.app, call.tool.as_str()) {
            step.rule = Some(found.by);
        }
        step.because = Some(found.because).filter(|names| !names.is_empty());
        steps.push(step);
    }
    ensure!(
        !conversations.is_empty(),
        "no call was decided in this session"
    );
    // `latest` is another session tomorrow.
    let file = traces::find(session)?;
    let session = file.file_stem().unwrap_or_default().to_string_lossy();
    let tests = conversations
        .into_iter()
        .map(|((name, user), (_, steps))| Test {
            name: name.map_or_else(|| session.to_string(), |name| format!("{session}: {name}")),
            session: user.map(|user| Session {
                user: Some(user.to_owned()),
            }),
            steps,
        });
    let file = TestFile {
        test: tests.collect(),
    };
    print_escaped(toml::to_string(&file)?.trim_end())?;
    Ok(Exit::Done)
}

/// Arguments as a table, or as their text where a table would be other arguments: TOML has no null and fewer numbers.
fn as_table(text: String) -> Value {
    let by_value = |text: &str| {
        let read = Arguments::parse(text, &Label::bottom());
        read.map(|it| it.by_value(std::iter::empty::<&ArgumentPath>()))
    };
    let table = serde_json::from_str::<Value>(&text).ok();
    let written = table.filter(|table| toml::Value::try_from(table).is_ok());
    let is_same = |table: &Value| matches!((by_value(&table.to_string()), by_value(&text)), (Ok(one), Ok(other)) if one == other);
    written.filter(is_same).unwrap_or(Value::String(text))
}

/// The arguments without the words and numbers of those that may reveal a secret.
pub(crate) fn without_secrets(config: &Config, call: &Call) -> String {
    let secrets = config.lattice.whole(Dimension::Confidentiality);
    let is_secret = |names: &Vec<String>| {
        let label = config.lattice.labels(names.iter().map(String::as_str));
        !label.unwrap_or(Label::top()).meet(&secrets).is_bottom()
    };
    let secret = call.data.iter().filter(|(_, names)| is_secret(names));
    let secret: Vec<&String> = secret.map(|(path, _)| path).collect();
    let arguments = serde_json::from_str::<BTreeMap<String, Value>>(&call.arguments);
    let mut arguments = arguments.unwrap_or_default();
    for (name, value) in &mut arguments {
        let is_own = |path: &&String| {
            let path = path.parse::<ArgumentPath>();
            path.map_or(true, |path| path.argument() == name)
        };
        if is_secret(&call.label) || secret.iter().any(is_own) {
            hide(value);
        }
    }
    serde_json::to_string(&arguments).unwrap_or_default()
}

fn hide(value: &mut Value) {
    match value {
        Value::String(text) => "[secret]".clone_into(text),
        Value::Number(number) => *number = 0.into(),
        Value::Array(values) => values.iter_mut().for_each(hide),
        Value::Object(members) => members.values_mut().for_each(hide),
        Value::Null | Value::Bool(_) => {}
    }
}
