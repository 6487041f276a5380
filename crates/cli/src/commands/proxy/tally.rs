//! Counts of what happened in all conversations.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::Result;
use config::App;
use hub::trace::{Event, Flow, escape};
use server::proxy::{Observer, SERVED};

use crate::json_lines::print_json;
use crate::terminal::{say, uncleared};

/// Sets of tools that are checked; an agent has a few.
const TOOL_SETS: usize = 256;

/// Requests that are not served and are shown.
const UNSERVED: usize = 16;

/// Names of what was left out of requests that are shown.
const DROPPED: usize = 256;

/// Counts decisions, and prints events for programs.
pub(super) struct Tally {
    json: bool,
    /// The rules for the agents' tools.
    rules: App,
    counts: Mutex<Counts>,
    failed: AtomicBool,
}

#[derive(Default)]
struct Counts {
    calls: usize,
    answers: usize,
    refused: usize,
    /// Questions by tool and rule.
    asked: BTreeMap<(String, String), usize>,
    /// The sets of tools that were checked, by their hashes.
    tools: HashSet<u64>,
    /// The sets of taints that the upstream is not cleared for.
    uncleared: BTreeSet<Vec<String>>,
    /// What agents have asked for that is not served.
    unserved: BTreeSet<String>,
    /// What was left out of requests, by conversation and name.
    dropped: BTreeSet<(String, String)>,
}

impl Tally {
    pub(super) fn new(json: bool, rules: App) -> Self {
        Self {
            json,
            rules,
            counts: Mutex::default(),
            failed: AtomicBool::new(false),
        }
    }

    /// Whether the trace could not be written.
    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Prints the counts.
    pub(super) fn report(&self) -> Result<()> {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let asked: usize = counts.asked.values().sum();
        if self.json {
            let asked: Vec<_> = (counts.asked.iter())
                .map(|((tool, rule), count)| {
                    serde_json::json!({"tool": tool, "rule": rule, "count": count})
                })
                .collect();
            let line = serde_json::json!({"calls": counts.calls, "answers": counts.answers,
                "asked": asked, "refused": counts.refused});
            print_json(&line)?;
            return Ok(());
        }
        let (calls, refused) = (counts.calls, counts.refused);
        say(&format!(
            "asked about {asked} of {calls} calls, refused {refused}\n"
        ));
        for ((tool, rule), count) in &counts.asked {
            say(&format!(
                "  {count} × {} ({})\n",
                escape(tool),
                escape(rule)
            ));
        }
        Ok(())
    }
}

impl Observer for Tally {
    fn event(&self, conversation: &str, event: &Event) {
        if self.json
            && let Ok(event) = serde_json::to_value(event)
        {
            let line = serde_json::json!({"conversation": conversation, "event": event});
            // A closed output does not stop the guard; the trace has everything.
            let _ = print_json(&line);
        }
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Allowed { .. } => counts.calls += 1,
            // The call is counted here, and a refusal below.
            Event::Asked { flow, rule, .. } => {
                counts.calls += 1;
                let tool = match flow {
                    Flow::Call(call) => call.tool.to_string(),
                    Flow::Message(message) => message.functionality.clone(),
                    Flow::Answer { .. } => "answer".to_owned(),
                };
                let kind = (tool, rule.clone());
                *counts.asked.entry(kind).or_default() += 1;
            }
            Event::Denied { .. } | Event::Rejected { .. } => {
                counts.calls += 1;
                counts.refused += 1;
            }
            Event::Answered { allowed: false, .. } => counts.refused += 1,
            Event::Answer { .. } => counts.answers += 1,
            // Once, since each request has the whole conversation.
            Event::Uncleared { above, .. } if counts.uncleared.insert(above.clone()) => {
                say(&format!("note: {}\n", uncleared(above)));
            }
            _ => {}
        }
    }

    /// Warns of rules that do not fit these tools, when they come first. Rules for tools that a request does not bring are
    /// not checked. The request goes on: a call without a rule is denied.
    fn tools(&self, tools: &[(&str, &str)]) {
        let mut hash = DefaultHasher::new();
        tools.hash(&mut hash);
        // The lock is not held while the rules are checked.
        {
            let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
            let seen = &mut counts.tools;
            if seen.len() >= TOOL_SETS || !seen.insert(hash.finish()) {
                return;
            }
        }
        let mut app = self.rules.clone();
        let is_brought = |rule: &str| tools.iter().any(|(tool, _)| *tool == rule);
        app.rules.tools.retain(|rule, _| is_brought(rule));
        let Err(errors) = app.check_tools(tools) else {
            return;
        };
        for line in errors.iter().map(escape) {
            say(&format!(
                "warning: the agent's tools do not fit the rules: {line}\n"
            ));
        }
    }

    /// Once for each, and not for very many.
    fn unserved(&self, request: &str) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.unserved.len() < UNSERVED && counts.unserved.insert(request.to_owned()) {
            let request = escape(request);
            say(&format!(
                "note: an agent asked for {request}, which is not served; this proxy serves {SERVED}\n"
            ));
        }
    }

    /// Once for each conversation and name, and not for very many.
    fn dropped(&self, conversation: &str, names: &BTreeSet<String>) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let own = |name: &&String| {
            !counts
                .dropped
                .contains(&(conversation.to_owned(), (*name).clone()))
        };
        let new: Vec<String> = names.iter().filter(own).cloned().collect();
        if new.is_empty() || counts.dropped.len() >= DROPPED {
            return;
        }
        // Tools are left out because the configuration says so.
        let (tools, members): (Vec<_>, Vec<_>) =
            (new.iter().map(String::as_str)).partition(|name| name.starts_with("tools."));
        for (names, why) in [
            (members, "the upstream's API does not have"),
            (tools, "the guard cannot decide on"),
        ] {
            if !names.is_empty() {
                let (name, list) = (escape(conversation), escape(&names.join(", ")));
                say(&format!(
                    "note: conversation {name}: {why} {list}; left out\n"
                ));
            }
        }
        let own = new.into_iter().map(|name| (conversation.to_owned(), name));
        counts.dropped.extend(own);
    }

    fn failed(&self, reason: &str) {
        self.failed.store(true, Ordering::Relaxed);
        say(&format!("error: the proxy has stopped serving: {reason}\n"));
    }
}
