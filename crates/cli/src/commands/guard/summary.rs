//! What happened in a run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use hub::trace::{Event, Flow, escape};
use serde_json::json;
use server::TraceFile;
use server::gateway::REDEEMED;
use server::proxy::Observer;

use crate::terminal::{message, say};

/// Refusals that are shown.
const SHOWN: usize = 20;
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
    /// How often each call was refused, by its tool and the reason.
    reasons: BTreeMap<(String, String), usize>,
    /// Where the agent's programs wanted to connect to, and were not.
    places: BTreeSet<String>,
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
                flow, rule, excess, ..
            } => {
                self.calls += 1;
                self.asked += 1;
                self.learn(flow, rule, excess);
            }
            Event::Answered {
                flow,
                allowed: false,
                ..
            } => {
                let tool = tool(flow);
                let why = self.rules.get(&tool).cloned().unwrap_or_default();
                self.refuse(tool, why);
            }
            Event::Denied { flow, reason, .. } => {
                self.calls += 1;
                self.refuse(tool(flow), reason.to_string());
            }
            Event::NameDenied { name, .. } => drop(self.places.insert(name.to_string())),
            Event::Egress { to, outcome, .. } if outcome.starts_with("refused") => {
                self.places.insert(to.clone());
            }
            _ => {}
        }
    }

    fn learn(&mut self, flow: &Flow, rule: &str, excess: &[String]) {
        let why = format!("it depends on {} ({rule})", excess.join(", "));
        self.rules.insert(tool(flow), why);
    }

    fn refuse(&mut self, tool: String, why: String) {
        self.refused += 1;
        *self.reasons.entry((tool, why)).or_default() += 1;
    }
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
    /// Adds the calls of the gateway. Those that it ran by the proxy's permission are counted there.
    pub(super) fn add_gateway(&self, trace: &Path) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for record in TraceFile::read(trace).unwrap_or_default() {
            match &record.event {
                Event::Allowed { by, .. } if by.ends_with(REDEEMED) => {}
                // Counted by what follows: an answer, or a refusal if there was no one to ask.
                Event::Asked {
                    flow, rule, excess, ..
                } => counts.learn(flow, rule, excess),
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
    }

    /// Prints the counts on standard error. Whether anything was refused.
    pub(super) fn report(&self, as_json: bool, traces: &[PathBuf]) -> bool {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let reasons = counts.reasons.iter();
        if as_json {
            let refused = reasons
                .map(|((tool, why), count)| json!({ "tool": tool, "reason": why, "count": count }));
            let line = json!({ "calls": counts.calls, "asked": counts.asked, "refused": counts.refused,
                "unproposed": counts.unproposed,
                "reasons": refused.collect::<Vec<_>>(), "not_connected": counts.places, "traces": traces });
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
        for ((tool, why), count) in reasons.take(SHOWN) {
            text += &format!("  {count} × {}: {}\n", escape(tool), escape(why));
        }
        for place in counts.places.iter().take(SHOWN) {
            text += &format!(
                "  not connected to {}; --domain NAME allows it\n",
                escape(place)
            );
        }
        for trace in traces {
            text += &format!("trace: {}\n", trace.display());
        }
        say(&text);
        counts.refused > 0
    }
}
