//! What happened in all conversations, counted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::Result;
use hub::trace::{Event, Flow, escape};
use server::proxy::Observer;

use super::fit::Fit;
use crate::json_lines::print_json;
use crate::terminal::{say, uncleared};

/// Counts decisions, and prints events for programs.
pub(super) struct Tally {
    json: bool,
    fit: Fit,
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
    /// What the upstream was not shown, which is one of few sets of names.
    uncleared: BTreeSet<Vec<String>>,
}

impl Tally {
    pub(super) fn new(json: bool, fit: Fit) -> Self {
        Self {
            json,
            fit,
            counts: Mutex::default(),
            failed: AtomicBool::new(false),
        }
    }

    /// Whether the trace broke off.
    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// The last words.
    pub(super) fn report(&self, observed: bool) -> Result<()> {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let asked: usize = counts.asked.values().sum();
        if self.json {
            let asked: Vec<_> = (counts.asked.iter())
                .map(|((tool, rule), count)| {
                    serde_json::json!({"tool": tool, "rule": rule, "count": count})
                })
                .collect();
            let line = serde_json::json!({"calls": counts.calls, "answers": counts.answers,
                "asked": asked, "refused": counts.refused, "observed": observed});
            print_json(&line)?;
            return Ok(());
        }
        let would = if observed {
            "would have asked"
        } else {
            "asked"
        };
        say(&format!("{would} about {asked} of {} calls", counts.calls));
        if !observed {
            say(&format!(", refused {}", counts.refused));
        }
        say("\n");
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
            // A reader that went away does not stop the guard; the trace has everything.
            let _ = print_json(&line);
        }
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Allowed { .. } => counts.calls += 1,
            // Counted where it is asked. Its answer below adds nothing but a refusal.
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
            // Said once: each request has the whole conversation.
            Event::Uncleared { above, .. } if counts.uncleared.insert(above.clone()) => {
                say(&format!("note: {}\n", uncleared(above)));
            }
            _ => {}
        }
    }

    fn tools(&self, tools: &[(&str, &str)]) {
        for line in self.fit.news(tools) {
            say(&format!("warning: the agent's tools do not fit: {line}\n"));
        }
    }

    fn failed(&self, reason: &str) {
        self.failed.store(true, Ordering::Relaxed);
        say(&format!("error: nothing is done any more: {reason}\n"));
    }
}
