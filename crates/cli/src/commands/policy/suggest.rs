//! `sluice policy suggest`: the narrowest rules that would have made the questions needless which the user has answered
//! with yes, each replayed over recorded sessions.

use std::collections::BTreeSet;

use anyhow::Result;
use config::Config;
use hub::trace::{self, Flow, Record};
use ifc::{Arguments, Label};
use policy::{Judgement, LimitPart, ParameterKind, ToolRule, Verdict, toml_key};
use serde_json::{Value, json};

use super::explain::{decisions, evaluate};
use crate::exit::Exit;
use crate::json_lines::show;
use crate::terminal::{message, print};
use crate::traces;
use crate::words::counted;

/// A wider limit of one part of a call.
#[derive(Debug, PartialEq)]
struct Suggestion {
    app: String,
    tool: String,
    /// The limit by its name, `mail.send_email.arguments.body.limit`.
    rule: String,
    /// What the limit admits then.
    limit: Label,
    /// For the limit of the control part: the control arguments, by value, and the condition that names them.
    control: Option<(String, String)>,
}

/// Suggests rules for what the user has allowed in a session, and replays them over the others.
pub(super) fn suggest(
    config: &Config,
    session: &str,
    replay: &[String],
    as_json: bool,
) -> Result<Exit> {
    let policy = config.policy();
    let sessions = std::iter::once(session).chain(replay.iter().map(String::as_str));
    let records: Vec<Vec<Record>> = sessions.map(traces::read).collect::<Result<_>>()?;
    let mut asked = Vec::new();
    let mut found: Vec<Suggestion> = Vec::new();
    let mut lacking = BTreeSet::new();
    for (at, records) in records.iter().enumerate() {
        for recorded in decisions(records) {
            let (Flow::Call(call), now) = (recorded.flow, evaluate(config, &policy, &recorded).now)
            else {
                continue;
            };
            if now.verdict != Verdict::Ask || now.always_ask || now.excess.is_top() {
                continue;
            }
            let was_allowed = recorded.was_allowed();
            if was_allowed && at == 0 {
                match suggestions(config, call, &now) {
                    Some(new) => {
                        let new = new.into_iter().filter(|one| !found.contains(one));
                        found.extend(new.collect::<Vec<_>>());
                    }
                    None => {
                        lacking.insert(format!("{}.{}", call.app, call.tool.as_str()));
                    }
                }
            }
            asked.push((call, now, was_allowed));
        }
    }
    for tool in lacking {
        message(&format!(
            "note: no rule can name the control arguments of {tool}; write its `parameters` with their kinds"
        ));
    }
    if found.is_empty() && !as_json {
        print("no rule to suggest: nothing that you allowed in this session needs one")?;
    }
    for suggestion in &found {
        let admitted = |(call, now, _): &&(&trace::Call, Judgement, bool)| {
            suggestion.admits(config, call, now)
        };
        let (removed, others): (Vec<_>, Vec<_>) = asked
            .iter()
            .filter(admitted)
            .partition(|(.., allowed)| *allowed);
        let shown = others.iter().map(|(call, ..)| {
            let (tool, arguments) = (call.tool.as_str(), call.arguments.as_str());
            format!("{}.{tool} {arguments}", call.app)
        });
        let others: Vec<String> = shown.collect();
        let mut text = format!(
            "# Removes {} of {} of {}; allows {} that you have not allowed.",
            removed.len(),
            counted(asked.len(), "question", "questions"),
            counted(records.len(), "session", "sessions"),
            counted(others.len(), "other call", "other calls")
        );
        others
            .iter()
            .for_each(|other| text += &format!("\n#   {other}"));
        let lines = suggestion.lines(config);
        let line = json!({
            "kind": "suggestion",
            "rule": suggestion.rule,
            "lines": lines,
            "questions": asked.len(),
            "removes": removed.len(),
            "also_allows": others,
        });
        show(as_json, &line, &format!("{text}\n{lines}\n"))?;
    }
    Ok(Exit::Done)
}

/// A wider limit for each part of a call that exceeds its own. `None` if one of them cannot be written.
fn suggestions(config: &Config, call: &trace::Call, now: &Judgement) -> Option<Vec<Suggestion>> {
    let rule = tool(config, call)?;
    let of_tool = now.limits.first().map(|part| &part.rule);
    exceeded(now)
        .map(|part| {
            let control = match Some(&part.rule) == of_tool {
                true => Some((control(rule, call)?, condition(rule, call)?)),
                false => None,
            };
            Some(Suggestion {
                app: call.app.clone(),
                tool: call.tool.to_string(),
                rule: part.rule.clone(),
                limit: part.limit.join(&part.label),
                control,
            })
        })
        .collect()
}

fn tool<'c>(config: &'c Config, call: &trace::Call) -> Option<&'c ToolRule> {
    let app = config.apps.get(&call.app)?;
    app.rules.tools.get(call.tool.as_str())
}

fn exceeded(now: &Judgement) -> impl Iterator<Item = &LimitPart> {
    let parts = now.limits.iter();
    parts.filter(|part| !part.label.flows_to(&part.limit))
}

/// The control arguments of a call, by value.
fn control(rule: &ToolRule, call: &trace::Call) -> Option<String> {
    let arguments = Arguments::parse(&call.arguments, &Label::bottom()).ok()?;
    Some(arguments.by_value(rule.arguments.keys()))
}

/// A condition in Cedar that holds for calls with exactly these control arguments; `None` if no condition can look at one.
fn condition(rule: &ToolRule, call: &trace::Call) -> Option<String> {
    let parameters = rule.parameters.as_ref()?;
    let arguments: Value = serde_json::from_str(&call.arguments).ok()?;
    let is_data = |name: &str| rule.arguments.keys().any(|path| path.argument() == name);
    let mut terms = Vec::new();
    for (name, parameter) in parameters.0.iter().filter(|(name, _)| !is_data(name)) {
        // Names with other characters need another notation.
        let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let place = format!("context.arguments.{name}");
        let value = arguments.get(name).filter(|value| !value.is_null());
        terms.push(match value {
            _ if !is_plain => return None,
            None if parameter.required => return None,
            None => format!("!(context.arguments has {name})"),
            Some(value) => {
                let has = match parameter.required {
                    true => String::new(),
                    false => format!("context.arguments has {name} && "),
                };
                format!("{has}{place} == {}", literal(parameter.kind, value)?)
            }
        });
    }
    (!terms.is_empty()).then(|| terms.join(" && "))
}

/// A value as Cedar writes it. A text with characters that need an escape has none, so that no rule means another text.
fn literal(kind: ParameterKind, value: &Value) -> Option<String> {
    let text = |text: &str| {
        let is_plain = |c: char| !c.is_control() && !"\"\\'".contains(c);
        text.chars().all(is_plain).then(|| format!("\"{text}\""))
    };
    match (kind, value) {
        (ParameterKind::String | ParameterKind::Line, Value::String(value)) => text(value),
        (ParameterKind::Strings, Value::Array(values)) => {
            let values = values.iter().map(|value| text(value.as_str()?));
            let values: Option<Vec<String>> = values.collect();
            Some(format!("[{}]", values?.join(", ")))
        }
        (ParameterKind::Boolean, Value::Bool(value)) => Some(value.to_string()),
        (ParameterKind::Integer, Value::Number(value)) if value.is_i64() => Some(value.to_string()),
        (ParameterKind::Number | ParameterKind::Amount, Value::Number(value)) => {
            let text = value.to_string();
            let text = if text.contains('.') {
                text
            } else {
                format!("{text}.0")
            };
            let is_plain = text
                .chars()
                .all(|c| c.is_ascii_digit() || c == '.' || c == '-');
            is_plain.then(|| format!("decimal(\"{text}\")"))
        }
        _ => None,
    }
}

impl Suggestion {
    /// Whether a call that the policy asks about would pass with it.
    fn admits(&self, config: &Config, call: &trace::Call, now: &Judgement) -> bool {
        let is_same = |(own, _): &(String, String)| {
            tool(config, call)
                .and_then(|rule| control(rule, call))
                .as_ref()
                == Some(own)
        };
        (&self.app, self.tool.as_str()) == (&call.app, call.tool.as_str())
            && self.control.as_ref().is_none_or(is_same)
            && exceeded(now).all(|part| part.rule == self.rule && part.label.flows_to(&self.limit))
    }

    /// The lines for `sluice.toml`.
    fn lines(&self, config: &Config) -> String {
        let names = config.lattice.describe(&self.limit);
        let (app, tool) = (toml_key(&self.app), toml_key(&self.tool));
        match &self.control {
            None => {
                let argument = self.rule.split_once(".arguments.").map(|it| it.1);
                let argument = argument.unwrap_or_default().trim_end_matches(".limit");
                format!("[app.{app}.tools.{tool}.arguments.{argument}]\nlimit = {names:?}")
            }
            Some((_, condition)) => format!(
                "[app.{app}.tools.{tool}]\ncedar = '''\n@limit(\"{}\")\npermit (principal, action, resource) when {{ {condition} }};\n'''",
                names.join(", ")
            ),
        }
    }
}
