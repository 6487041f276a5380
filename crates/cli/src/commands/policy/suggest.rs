//! `sluice policy suggest`: the narrowest rules that would have made the questions needless which the user has answered
//! with yes, each replayed over recorded sessions.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail, ensure};
use config::Config;
use hub::trace::{self, Flow, Record, escape};
use ifc::{Arguments, Label};
use policy::{Judgement, LimitPart, ParameterKind, Place, ToolRule, Verdict, toml_key};
use serde_json::{Value, json};

use super::explain::{Found, Recorded, evaluated};
use crate::exit::Exit;
use crate::json_lines::show;
use crate::terminal::{message, print};
use crate::words::{counted, short};
use crate::{observed, traces};

/// A wider limit of one part of a call.
#[derive(Debug, PartialEq)]
struct Suggestion {
    app: String,
    tool: String,
    /// The limit by its name, `mail.send_email.arguments.body.limit`.
    rule: String,
    /// What the limit admits then.
    limit: Label,
    /// Where the limit is now.
    place: Option<Place>,
    /// For the limit of the control part: the control arguments, by value, and the condition that names them.
    control: Option<(String, String)>,
}

/// Suggests rules for what the user has allowed in a session, and replays them over the others.
pub(super) fn suggest(
    config: &Config,
    session: &str,
    replay: &[String],
    allow: &[String],
    as_json: bool,
) -> Result<Exit> {
    let sessions = std::iter::once(session).chain(replay.iter().map(String::as_str));
    let records: Vec<Vec<Record>> = sessions.map(traces::read).collect::<Result<_>>()?;
    let is_observed = records.first().is_some_and(|it| observed::is_observed(it));
    ensure!(
        is_observed || allow.is_empty(),
        "--allow is for a session with --observe; in this one you have answered yourself"
    );
    let decided: Vec<_> = records.iter().map(|it| evaluated(config, it)).collect();
    let count = decided.first().map_or(0, Vec::len);
    let is_known = |mark: &&String| match mark.parse() {
        Ok(number) => (1..=count).contains(&number),
        Err(_) => *mark == "all",
    };
    if let Some(mark) = allow.iter().find(|mark| !is_known(mark)) {
        bail!(
            "--allow {mark}: there is no such call; the session has {count}, counted from 1 by `sluice policy explain`"
        );
    }
    if is_observed && !as_json {
        print(&heading(allow))?;
    }
    let is_marked = |at: usize, number: usize| {
        let marks = |mark: &String| mark == "all" || mark.parse() == Ok(number);
        is_observed && at == 0 && allow.iter().any(marks)
    };
    let (mut asked, mut questions) = (Vec::new(), 0);
    let mut found: Vec<Suggestion> = Vec::new();
    let mut lacking = BTreeSet::new();
    let mut obstacles: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut has_listed = false;
    for (at, decided) in decided.into_iter().enumerate() {
        for (number, (mut recorded, found_now)) in (1..).zip(decided) {
            let obstacle = obstacle(recorded.flow, &found_now);
            let asks = found_now.now.verdict == Verdict::Ask;
            if asks && is_marked(at, number) {
                recorded.allow();
            }
            let is_needed = asks && at == 0 && recorded.was_allowed();
            let is_named = at == 0 && allow.contains(&number.to_string());
            if let Some(why) = obstacle.filter(|_| is_needed || is_named) {
                obstacles.entry(why).or_default().push(number.to_string());
            }
            let (Flow::Call(call), now) = (recorded.flow, found_now.now) else {
                continue;
            };
            if is_observed && at == 0 && allow.is_empty() && !as_json && asks {
                let (tool, arguments) = (call.tool.as_str(), call.arguments.as_str());
                let why = obstacle.map(|it| format!("  (no rule for it: {it})"));
                print(&escape(&format!(
                    "  {number}  {}.{tool} {arguments}{}",
                    call.app,
                    why.unwrap_or_default()
                )))?;
                has_listed = true;
            }
            let was_shown = recorded.verdict == Verdict::Ask;
            questions += usize::from(was_shown && !recorded.is_listed);
            if obstacle.is_some() {
                continue;
            }
            // A question has shown this very call. What an answer about something else let pass may be a stranger's wish.
            if was_shown && recorded.was_allowed() && at == 0 {
                match suggestions(config, call, &now) {
                    Some(new) => new.into_iter().for_each(|one| one.join(&mut found)),
                    None => {
                        lacking.insert(format!("{}.{}", call.app, call.tool.as_str()));
                    }
                }
            }
            asked.push((call, now, recorded));
        }
    }
    for tool in lacking {
        message(&format!(
            "note: no rule can name the control arguments of {}; write its `parameters` with their kinds",
            escape(&tool)
        ));
    }
    let has_obstacle = !obstacles.is_empty();
    for (why, calls) in obstacles {
        message(&format!(
            "note: no rule for call {}: {why}",
            calls.join(", ")
        ));
    }
    if found.is_empty() && !as_json {
        match (is_observed, has_obstacle, allow) {
            (true, _, []) if has_listed => {}
            (true, _, []) => print("  none of its calls")?,
            (true, ..) | (_, true, _) => print("no rule to suggest")?,
            _ => print("no rule to suggest: nothing that you allowed in this session needs one")?,
        }
    }
    for suggestion in &found {
        let admitted = |(call, now, _): &&(&trace::Call, Judgement, Recorded<'_>)| {
            let mut parts = exceeded(now);
            let by_all = |part: &LimitPart| found.iter().any(|one| one.admits(config, call, part));
            parts
                .clone()
                .any(|part| suggestion.admits(config, call, part))
                && parts.all(by_all)
        };
        let (allowed, others): (Vec<_>, Vec<_>) = asked
            .iter()
            .filter(admitted)
            .partition(|(.., recorded)| recorded.was_allowed());
        let shown = allowed.iter().filter(|(.., it)| it.verdict == Verdict::Ask);
        // Other parts of these calls exceed limits of their own.
        let parts = shown.clone().flat_map(|(_, now, _)| exceeded(now));
        let together: BTreeSet<&str> = parts.map(|part| part.rule.as_str()).collect();
        let (listed, removed): (Vec<_>, Vec<_>) =
            shown.map(|it| it.2.is_listed).partition(|it| *it);
        let name = |(call, ..): &(&trace::Call, Judgement, Recorded<'_>)| {
            let (tool, arguments) = (call.tool.as_str(), call.arguments.as_str());
            format!("{}.{tool} {arguments}", call.app)
        };
        // A call that was asked about may have run by trust as well.
        let known: BTreeSet<String> = allowed.iter().map(|it| name(it)).collect();
        let others = others.into_iter().map(name);
        let others: Vec<String> = others.filter(|other| !known.contains(other)).collect();
        let together: Vec<&str> = together
            .into_iter()
            .filter(|rule| *rule != suggestion.rule)
            .collect();
        let with = match together.as_slice() {
            [] => String::new(),
            rules => format!(", together with the lines for {}", rules.join(", ")),
        };
        let mut text = format!(
            "# Removes {} of {} of {}{with}; allows {} that you have not allowed.",
            removed.len(),
            counted(questions, "question", "questions"),
            counted(records.len(), "session", "sessions"),
            counted(others.len(), "other call", "other calls")
        );
        if !listed.is_empty() {
            let calls = counted(listed.len(), "call", "calls");
            text += &format!("\n# Covers {calls} that you allowed with another by `each`.");
        }
        others
            .iter()
            .for_each(|other| text += &format!("\n#   {other}"));
        if suggestion.control.is_none() {
            let tool = format!("{}.{}", suggestion.app, suggestion.tool);
            text += &format!(
                "\n# Holds for {tool} with any other arguments: the text may go to anyone."
            );
        }
        let (place, lines) = suggestion.lines(config);
        let line = json!({
            "kind": "suggestion",
            "rule": suggestion.rule,
            "place": place,
            "lines": lines,
            "questions": questions,
            "removes": removed.len(),
            "together_with": together,
            "listed": listed.len(),
            "also_allows": others,
        });
        show(as_json, &line, &format!("{text}\n# {place}\n{lines}\n"))?;
    }
    Ok(Exit::Done)
}

/// What is said of a session in which nothing was asked.
fn heading(allow: &[String]) -> String {
    let what = match allow {
        [] => {
            "Mark the calls that you would allow with --allow N, or --allow all. This configuration asks about:"
        }
        _ if allow.iter().any(|mark| mark == "all") => {
            "These rules allow all of it, what a stranger's text asked for included: read every call before you use one."
        }
        _ => "These rules allow the calls that you have marked.",
    };
    format!("# No call of this session was approved: it ran with --observe. {what}")
}

/// Why no rule can be suggested for a flow.
fn obstacle(flow: &Flow, found: &Found) -> Option<&'static str> {
    let now = &found.now;
    match now.verdict {
        _ if !matches!(flow, Flow::Call(_)) => Some("it is no call of a tool"),
        Verdict::Allow => Some("this configuration allows it without a question"),
        Verdict::Deny => Some("this configuration denies it"),
        Verdict::Ask if found.unknown.is_some() => {
            Some("its label has a name that this configuration does not have")
        }
        Verdict::Ask if now.excess.is_top() => Some(
            "it could be made from anything; say first what the tools before it return, with `results`, `labels` or `rest`",
        ),
        Verdict::Ask if now.always_ask => Some("its rule asks about every call"),
        Verdict::Ask => None,
    }
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
                place: part.place.clone(),
                control,
            })
        })
        .collect()
}

fn tool<'c>(config: &'c Config, call: &trace::Call) -> Option<&'c ToolRule> {
    let app = config.apps.get(&call.app)?;
    app.rules.tools.get(call.tool.as_str())
}

fn exceeded(now: &Judgement) -> impl Iterator<Item = &LimitPart> + Clone {
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
    /// Whether it admits this part of a call.
    fn admits(&self, config: &Config, call: &trace::Call, part: &LimitPart) -> bool {
        let is_same = |(own, _): &(String, String)| {
            tool(config, call)
                .and_then(|rule| control(rule, call))
                .as_ref()
                == Some(own)
        };
        (&self.app, self.tool.as_str()) == (&call.app, call.tool.as_str())
            && self.control.as_ref().is_none_or(is_same)
            && part.rule == self.rule
            && part.label.flows_to(&self.limit)
    }

    /// Adds it, or widens the one for the same calls: a limit can be written once.
    fn join(self, found: &mut Vec<Self>) {
        let is_same = |known: &&mut Self| {
            let key = |it: &Self| (it.app.clone(), it.rule.clone(), it.control.clone());
            key(known) == key(&self)
        };
        match found.iter_mut().find(is_same) {
            Some(known) => known.limit = known.limit.join(&self.limit),
            None => found.push(self),
        }
    }

    /// Where its lines go, and the lines. The tool has a table already, and what it has can be spelled in several ways.
    fn lines(&self, config: &Config) -> (String, String) {
        let names = config.lattice.describe(&self.limit);
        let place = self.place.as_ref();
        let place = place.map_or(String::new(), |place| format!(" ({})", short(place)));
        match &self.control {
            None => (
                format!("In place of {}{place}:", self.rule),
                format!("limit = {names:?}"),
            ),
            Some((_, condition)) => {
                let (app, tool) = (toml_key(&self.app), toml_key(&self.tool));
                let condition = format!("when {{ {condition} }};");
                (
                    format!(
                        "In `cedar` of [app.{app}.tools.{tool}]{place}; if it has none, between `cedar = '''` and `'''`:"
                    ),
                    format!(
                        "@limit(\"{}\")\npermit (principal, action, resource) {condition}",
                        names.join(", ")
                    ),
                )
            }
        }
    }
}
