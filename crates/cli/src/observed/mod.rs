//! What `--observe` has seen: the report, and a draft policy.

mod draft;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use hub::trace::{Call, Event, Flow, Record, escape};
use ifc::Source;
use serde_json::{Value, json};
use server::TraceFile;
use server::gateway::REDEEMED;
use server::proxy::OBSERVED;
use wire::ToolDescription;

pub(crate) use self::draft::Draft;
use crate::json_lines::escaped;
use crate::known;
use crate::proposal::Tool;
use crate::terminal::say;
use crate::words::{counted, set};

/// Calls of one tool that examples are taken from.
const KEPT: usize = 8;

/// Said when nothing is protected.
pub(crate) const WARNING: &str =
    "note: --observe protects nothing: each call runs, and nothing is asked, refused or withheld";

/// Options of the commands that can only watch.
#[derive(Debug, Default, Args)]
pub(crate) struct Observe {
    /// Block and ask nothing, with a policy or without one; end with a report and a draft policy.
    #[arg(long)]
    pub(crate) observe: bool,
    /// With --observe: the file of the draft, which must not exist [default: sluice.observed.toml beside the configuration; with
    /// guard beside the workspace; else in the working folder].
    #[arg(long, value_name = "FILE", requires = "observe")]
    pub(crate) draft: Option<PathBuf>,
}

/// An app and its tool.
type Name = (String, String);

/// What happened in observed sessions.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    /// The tools that each app offered.
    offered: BTreeMap<String, Vec<Tool>>,
    /// The tools that were called.
    used: BTreeMap<Name, Used>,
    /// From the result of a tool, as the agent calls it, to a call beyond its rule.
    flows: BTreeMap<(String, Name), Flows>,
    /// How often each rule would have asked about a tool.
    asked: BTreeMap<(Name, String), usize>,
    /// Where programs connected to.
    places: BTreeSet<String>,
}

#[derive(Debug, Default)]
struct Used {
    count: usize,
    calls: Vec<Call>,
    has_returned: bool,
    /// The labels of what it returned.
    returned: BTreeSet<String>,
}

#[derive(Debug, Default)]
struct Flows {
    count: usize,
    /// Calls that repeat words of the result, and the arguments that do.
    quoted: usize,
    arguments: BTreeSet<String>,
}

/// Whether a trace is of a session in which everything was only observed.
pub(crate) fn is_observed(records: &[Record]) -> bool {
    records.iter().any(|record| match &record.event {
        Event::SessionStarted { screener, .. } => screener == OBSERVED,
        _ => false,
    })
}

/// Reads what was recorded, writes the draft, and reports on standard error, or as JSON.
pub(crate) fn finish(
    draft: &Draft,
    traces: &[PathBuf],
    places: BTreeSet<String>,
    json: Option<fn(&Value) -> io::Result<()>>,
) -> Result<()> {
    let mut observed = Observed {
        places,
        ..Observed::default()
    };
    for trace in traces.iter().filter(|trace| trace.exists()) {
        observed.add(&TraceFile::read(trace)?);
    }
    // Of nothing there is nothing to draft.
    let written = match observed.counts().0 {
        0 => Err("no call was seen".to_owned()),
        _ => draft.write(&observed).map_err(|error| format!("{error:#}")),
    };
    if let Some(print) = json {
        let mut line = observed.to_json();
        let more = [
            ("draft".to_owned(), json!(written.as_ref().ok())),
            ("no_draft".to_owned(), json!(written.as_ref().err())),
            ("traces".to_owned(), json!(traces)),
        ];
        line.as_object_mut()
            .into_iter()
            .for_each(|it| it.extend(more.clone()));
        return Ok(print(&line)?);
    }
    let shown = |path: &Path| escape(&path.to_string_lossy());
    let mut text = observed.to_text();
    text += &match written {
        Ok(file) => format!("draft policy, for review and --config: {}\n", shown(&file)),
        Err(error) => format!("no draft policy: {}\n", escape(&error)),
    };
    for trace in traces {
        text += &format!("trace: {}\n", shown(trace));
    }
    say(&text);
    Ok(())
}

/// Prints JSON on standard error, where standard output is another program's.
pub(crate) fn say_json(value: &Value) -> io::Result<()> {
    say(&format!("{}\n", escaped(&value.to_string())));
    Ok(())
}

impl Observed {
    /// Adds a session.
    pub(crate) fn add(&mut self, records: &[Record]) {
        for record in records {
            match &record.event {
                // A list that cannot be read costs itself.
                Event::Offered { app, tools } => {
                    let known = self.offered.entry(app.clone()).or_default();
                    let tools: Vec<ToolDescription> =
                        serde_json::from_str(tools).unwrap_or_default();
                    for tool in tools.iter().map(Tool::from) {
                        if known.iter().all(|it| it.name != tool.name) {
                            known.push(tool);
                        }
                    }
                }
                // What another front has decided on is counted there.
                Event::Allowed {
                    flow: Flow::Call(call),
                    by,
                    ..
                } if !by.ends_with(REDEEMED) => self.called(call),
                Event::Asked {
                    flow: Flow::Call(call),
                    rule,
                    causes,
                    ..
                } => {
                    self.called(call);
                    *self.asked.entry((name(call), rule.clone())).or_default() += 1;
                    let mut sources: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
                    for cause in causes {
                        if let Source::Tool(source) = &cause.source {
                            let quoted = cause.quotes.iter().map(|quote| quote.argument.clone());
                            sources.entry(source).or_default().extend(quoted);
                        }
                    }
                    for (source, quoted) in sources {
                        let flow = (source.to_owned(), name(call));
                        let flows = self.flows.entry(flow).or_default();
                        flows.count += 1;
                        flows.quoted += usize::from(!quoted.is_empty());
                        flows.arguments.extend(quoted);
                    }
                }
                Event::Returned { call, label, .. } => {
                    let used = self.used.entry(name(call)).or_default();
                    used.has_returned = true;
                    used.returned.extend(label.iter().cloned());
                }
                _ => {}
            }
        }
    }

    fn called(&mut self, call: &Call) {
        let used = self.used.entry(name(call)).or_default();
        used.count += 1;
        if used.calls.len() < KEPT {
            used.calls.push(call.clone());
        }
    }

    /// The name of the tool that a result is of. Agents have names of their own for the tools of a gateway.
    fn named(&self, source: &str) -> String {
        let is_it = |(app, tool): &&Name| {
            let names = [format!("{app}_{tool}"), format!("{app}__{tool}")];
            tool == source || names.iter().any(|name| source.ends_with(name))
        };
        let mut names = self.used.keys();
        names.find(is_it).map_or_else(|| source.to_owned(), shown)
    }

    fn tool(&self, (app, tool): &Name) -> Option<&Tool> {
        self.offered.get(app)?.iter().find(|it| it.name == *tool)
    }

    /// The arguments of a tool that repeated the result of one of these tools of its app, with its name.
    fn sources(&self, name: &Name, tools: &[Tool]) -> Vec<(String, String)> {
        let mut all = Vec::new();
        for ((from, to), flows) in &self.flows {
            let from = self.named(from);
            let is_it = |tool: &&Tool| from == shown(&(name.0.clone(), tool.name.clone()));
            if let Some(tool) = tools.iter().find(is_it).filter(|_| to == name) {
                let arguments = flows.arguments.iter().cloned();
                all.extend(arguments.map(|it| (it, tool.name.clone())));
            }
        }
        all
    }

    /// Who may have written what a tool returns, beside the label that it had.
    fn guess(&self, name: &Name) -> Option<String> {
        let tool = self.tool(name)?;
        match (known::resembled(tool), tool.hints.open_world) {
            (Some(origin), _) => Some(format!("it could be {origin}, by its name and parameters")),
            (None, Some(false)) => Some("it says that it reaches nothing else".to_owned()),
            (None, _) => None,
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        let tools = self.used.iter().map(|(name, used)| {
            let (app, tool) = name;
            let returned = used.has_returned.then_some(&used.returned);
            json!({ "app": app, "tool": tool, "calls": used.count, "returned": returned, "guess": self.guess(name) })
        });
        let flows = self.flows.iter().map(|((from, to), flows)| {
            json!({ "from": self.named(from), "to": shown(to), "calls": flows.count,
                "same_words": flows.quoted, "arguments": flows.arguments })
        });
        let asked = self.asked.iter();
        let asked = asked.map(
            |((tool, rule), count)| json!({ "tool": shown(tool), "rule": rule, "count": count }),
        );
        let (calls, questions) = self.counts();
        json!({ "kind": "observed", "calls": calls, "would_ask": questions,
            "tools": tools.collect::<Value>(), "flows": flows.collect::<Value>(),
            "asked": asked.collect::<Value>(), "connected": self.places })
    }

    /// Calls, and questions that would have been asked.
    fn counts(&self) -> (usize, usize) {
        let calls = self.used.values().map(|used| used.count).sum();
        (calls, self.asked.values().sum())
    }

    /// The report for a person, escaped.
    pub(crate) fn to_text(&self) -> String {
        let (calls, questions) = self.counts();
        let called = self.used.values().filter(|used| used.count > 0).count();
        let (calls, tools) = (counted(calls, "call", "calls"), called);
        let tools = counted(tools, "tool", "tools");
        let begin = format!("observed {calls} of {tools}; nothing was asked or refused");
        let mut lines = vec![begin];
        for (name, used) in &self.used {
            let label = match used.has_returned {
                true => format!(
                    "returned {}",
                    set(&used.returned.iter().cloned().collect::<Vec<_>>())
                ),
                false => "no result was seen".to_owned(),
            };
            let guess = self.guess(name).map(|it| format!(" ({it})"));
            let count = match used.count {
                0 => "called before".to_owned(),
                count => counted(count, "call", "calls"),
            };
            let name = shown(name);
            let guess = guess.unwrap_or_default();
            lines.push(format!("  {name}: {count}, {label}{guess}"));
        }
        let all: usize = self.offered.values().map(Vec::len).sum();
        let used = self.used.keys().filter(|name| self.tool(name).is_some());
        let others = counted(all - used.count(), "other tool", "other tools");
        lines.push(format!("  {others} offered"));
        if !self.flows.is_empty() {
            lines.push("text that went from a result into a call beyond its rule:".to_owned());
        }
        for ((from, to), flows) in &self.flows {
            let words = match (flows.quoted, &flows.arguments) {
                (0, _) => "it was read before".to_owned(),
                (count, names) => {
                    let names: Vec<&str> = names.iter().map(String::as_str).collect();
                    format!("the same words {count} ×, in {}", names.join(", "))
                }
            };
            let (from, to) = (self.named(from), shown(to));
            lines.push(format!("  {from} → {to}: {} ({words})", flows.count));
        }
        lines.push(format!("would have asked about {questions} of {calls}"));
        for ((tool, rule), count) in &self.asked {
            lines.push(format!("  {count} × {} ({rule})", shown(tool)));
        }
        let places = self.places.iter();
        lines.extend(places.map(|place| format!("connected to {place}")));
        lines.iter().map(|line| escape(line) + "\n").collect()
    }
}

fn name(call: &Call) -> Name {
    (call.app.clone(), call.tool.to_string())
}

fn shown((app, tool): &Name) -> String {
    format!("{app}.{tool}")
}
