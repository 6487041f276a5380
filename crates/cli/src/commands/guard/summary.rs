//! What happened in a run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use hub::trace::{Cause, Event, Flow, escape};
use serde_json::{Map, Value, json};
use server::TraceFile;
use server::gateway::REDEEMED;
use server::proxy::Observer;

use crate::question::shortened;
use crate::terminal::{message, say};

/// Refusals that are shown.
const SHOWN: usize = 20;
/// Letters of a refused call's arguments, and texts that it may come from.
const ARGUMENTS: usize = 80;
const SOURCES: usize = 3;
/// Columns of the reason why a request has failed.
const REASON: usize = 300;
/// Requests that are not served and shown, and letters of one: any program of the agent's can make one.
const UNSERVED: (usize, usize) = (10, 60);

/// Counts of both fronts.
#[derive(Default)]
pub(super) struct Summary(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    calls: usize,
    asked: usize,
    refused: usize,
    /// Calls at the gateway that the proxy has not seen a model propose.
    unproposed: usize,
    /// How often each call was refused, by its tool and the reason, and the arguments of the newest.
    reasons: BTreeMap<(String, String), (usize, String)>,
    /// Where the agent's programs wanted to connect to and were not, with the reason.
    places: BTreeMap<String, String>,
    /// Where they did.
    connected: BTreeSet<String>,
    /// Whether the model's server has failed.
    failed: bool,
    /// The rule of the newest question about a tool.
    rules: BTreeMap<String, String>,
    unserved: BTreeSet<String>,
}

impl Counts {
    fn add(&mut self, event: &Event) {
        match event {
            Event::Allowed {
                flow: Flow::Call(_),
                ..
            } => self.calls += 1,
            Event::Asked {
                flow,
                rule,
                excess,
                causes,
                ..
            } => {
                self.calls += 1;
                self.asked += 1;
                self.learn(flow, rule, excess, causes);
            }
            Event::Answered {
                flow,
                allowed: false,
                ..
            } => {
                let why = self.rules.get(&tool(flow)).cloned().unwrap_or_default();
                self.refuse(flow, why);
            }
            Event::Denied { flow, reason, .. } => {
                self.calls += 1;
                self.refuse(flow, reason.to_string());
            }
            Event::NameDenied { name, reason, .. } => {
                self.places.insert(name.to_string(), reason.to_string());
            }
            Event::Egress { to, outcome, .. } if outcome.starts_with("refused") => {
                self.places.insert(to.clone(), outcome.to_string());
            }
            Event::Egress { to, .. } => {
                self.connected.insert(to.clone());
            }
            // Agents try again for minutes, and say nothing meanwhile.
            Event::Stopped { reason, .. } if !std::mem::replace(&mut self.failed, true) => {
                let reason = shortened(&escape(reason.as_str()), REASON);
                message(&format!(
                    "note: a request to the model has failed, and the agent may try again: {reason}"
                ));
            }
            _ => {}
        }
    }

    fn learn(&mut self, flow: &Flow, rule: &str, excess: &[String], causes: &[Cause]) {
        let mut from: Vec<String> = Vec::new();
        for cause in causes.iter().filter(|cause| cause.relevant) {
            let source = format!("{} ({})", cause.source, cause.label.join(", "));
            if from.len() < SOURCES && !from.contains(&source) {
                from.push(source);
            }
        }
        if from.is_empty() {
            from.extend((!excess.is_empty()).then(|| format!("what is {}", excess.join(", "))));
        }
        let why = match from.join(", ") {
            all if all.is_empty() => format!("{rule} asks about each"),
            all => format!("it may come from {all}, which {rule} does not allow"),
        };
        self.rules.insert(tool(flow), why);
    }

    fn refuse(&mut self, flow: &Flow, why: String) {
        self.refused += 1;
        let (count, newest) = self.reasons.entry((tool(flow), why)).or_default();
        *count += 1;
        *newest = arguments(flow);
    }
}

/// The arguments of a call in few words: the value alone if it has one.
fn arguments(flow: &Flow) -> String {
    let Flow::Call(call) = flow else {
        return String::new();
    };
    let all: Map<String, Value> = serde_json::from_str(call.arguments.as_str()).unwrap_or_default();
    let mut values = all.values();
    let words = match (values.next().and_then(Value::as_str), values.next()) {
        (Some(one), None) => one.to_owned(),
        _ => call.arguments.to_string(),
    };
    format!(" `{}`", shortened(&escape(&words), ARGUMENTS))
}

fn tool(flow: &Flow) -> String {
    match flow {
        Flow::Call(call) => format!("{}.{}", call.app, call.tool.as_str()),
        Flow::Message(message) => message.functionality.clone(),
        Flow::Answer { .. } => "the answer".to_owned(),
    }
}

impl Observer for Summary {
    fn event(&self, _: &str, event: &Event) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.add(event);
    }

    fn unserved(&self, request: &str) {
        // So agents ask whether a server is there, and for a stream that the gateway does not have.
        if ["HEAD /", "GET /mcp"].contains(&request) {
            return;
        }
        let (most, length) = UNSERVED;
        let request: String = request.chars().take(length).collect();
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.unserved.len() < most && counts.unserved.insert(request.clone()) {
            message(&format!(
                "note: the agent asked for {}, which is not served",
                escape(&request)
            ));
        }
    }

    fn failed(&self, reason: &str) {
        message(&format!("the trace cannot be written: {reason}"));
    }
}

impl Summary {
    /// Adds the calls of the gateway. Those that it ran by the proxy's permission are counted there. Whether the trace has more
    /// than its beginning.
    pub(super) fn add_gateway(&self, trace: &Path) -> bool {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Ok(records) = TraceFile::read(trace) else {
            return true;
        };
        for record in &records {
            match &record.event {
                Event::Allowed { by, .. } if by.ends_with(REDEEMED) => {}
                // Counted by what follows: an answer, or a refusal if there was no one to ask.
                Event::Asked {
                    flow,
                    rule,
                    excess,
                    causes,
                    ..
                } => counts.learn(flow, rule, excess, causes),
                event => {
                    counts.add(event);
                    let is_answer = matches!(event, Event::Answered { .. });
                    counts.calls += usize::from(is_answer);
                    counts.asked += usize::from(is_answer);
                    let is_call = matches!(event, Event::Allowed { .. } | Event::Denied { .. });
                    counts.unproposed += usize::from(is_answer || is_call);
                }
            }
        }
        records.len() > 1
    }

    /// Where the agent's programs connected to.
    pub(super) fn connected(&self) -> BTreeSet<String> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.connected.clone()
    }

    /// Prints the counts on standard error. Whether anything was refused.
    pub(super) fn report(&self, as_json: bool, traces: &[PathBuf]) -> bool {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let reasons = counts.reasons.iter();
        if as_json {
            let refused = reasons.map(
                |((tool, why), (count, _))| json!({ "tool": tool, "reason": why, "count": count }),
            );
            let line = json!({ "calls": counts.calls, "asked": counts.asked, "refused": counts.refused,
                "unproposed": counts.unproposed,
                "reasons": refused.collect::<Vec<_>>(), "not_connected": counts.places.keys().collect::<Vec<_>>(), "traces": traces });
            say(&format!("{line}\n"));
            return counts.refused > 0;
        }
        let (calls, asked, refused) = (counts.calls, counts.asked, counts.refused);
        let counted = |count: usize, word: &str| match count {
            1 => format!("1 {word}"),
            _ => format!("{count} {word}s"),
        };
        let (calls, asked) = (counted(calls, "call"), counted(asked, "question"));
        let mut text = format!("sluice: {calls}, {asked}, {refused} refused\n");
        if counts.unproposed > 0 {
            text += &format!(
                "  {} of the calls came to the gateway without the model\n",
                counts.unproposed
            );
        }
        for ((tool, why), (count, arguments)) in reasons.take(SHOWN) {
            let times = if *count > 1 {
                format!("{count} × ")
            } else {
                String::new()
            };
            text += &format!("  {times}{}{arguments}: {}\n", escape(tool), escape(why));
        }
        for (place, why) in counts.places.iter().take(SHOWN) {
            text += &format!("  not connected to {}: {}\n", escape(place), escape(why));
        }
        if !counts.places.is_empty() {
            text += "  --domain NAME allows a domain, and --domain NAME=ADDRESS one at an address that is not public\n";
        }
        for trace in traces {
            text += &format!("trace: {}\n", trace.display());
        }
        say(&text);
        counts.refused > 0
    }
}
