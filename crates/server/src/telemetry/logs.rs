//! What happens, as structured log lines.

use std::sync::Arc;
use std::time::Duration;

use hub::trace::{Event, Text, escape};
use tracing::{info, warn};

use super::names::PolicyNames;
use crate::sink::{At, Began, EventSink};

/// A line about what happened in a request.
macro_rules! line {
    ($level:ident, $at:expr, $($rest:tt)*) => {
        $level!(
            front = $at.front,
            tenant = $at.tenant,
            conversation = %escape($at.conversation),
            request = $at.request,
            $($rest)*
        )
    };
}

/// Writes requests, decisions, questions and failures to the log (`tracing`), without any text of a conversation.
pub struct Logs {
    names: Arc<PolicyNames>,
    content: bool,
}

impl Logs {
    /// Log lines that name the tools in `names`, and others as `other`. With `content` they also have arguments, answers
    /// and the reasons of apps and models: text of strangers, and secrets.
    pub fn new(names: Arc<PolicyNames>, content: bool) -> Self {
        Self { names, content }
    }

    /// What may quote a conversation.
    fn quote(&self, text: &Text) -> Option<String> {
        self.content.then(|| escape(text))
    }

    /// A failure outside of decisions, by a word of a fixed list.
    fn failed(&self, at: &At<'_>, kind: &str, app: &str, why: &Text) {
        line!(warn, at, kind, app, reason = self.quote(why), "failure");
    }
}

impl EventSink for Logs {
    fn event(&self, at: &At<'_>, event: &Event) {
        if let Some(it) = self.names.decision(event) {
            return line!(info, at, decision = it.outcome, app = it.app, tool = it.tool,
                label = %it.label, rule = it.rule, content = self.quote(it.text),
                reason = it.reason.and_then(|why| self.quote(why)), "decision");
        }
        match event {
            Event::Rejected { label, reason, .. } => line!(info, at,
                decision = "rejected",
                label = %label.join(","),
                reason = self.quote(reason),
                "decision"
            ),
            Event::Replied { answer, by, from } => line!(
                info,
                at,
                answer,
                by = by.as_deref().map(escape),
                from = from.as_deref(),
                "question answered"
            ),
            Event::SpokeStarted { app, start_ms, .. } => info!(app, start_ms, "app started"),
            Event::SpokeEnded { app, reason } => self.failed(at, "app_ended", app, reason),
            Event::NameDenied { app, reason, .. } => self.failed(at, "name_denied", app, reason),
            Event::Egress { app, outcome, .. } if outcome.starts_with("refused") => {
                self.failed(at, "connection_refused", app, outcome);
            }
            Event::CallFailed { call, reason } => self.failed(at, "call_failed", &call.app, reason),
            Event::CallUnknown { call, reason } => {
                self.failed(at, "call_unknown", &call.app, reason);
            }
            Event::Screened {
                failure: Some(why), ..
            } => self.failed(at, "screening", "", why),
            Event::MemoryFailed { reason } => self.failed(at, "memory", "", reason),
            _ => {}
        }
    }

    fn began(&self, at: &At<'_>, request: &Began<'_>) {
        line!(
            info,
            at,
            asker = at.asker.map(escape),
            method = request.method,
            model = request.model,
            "request"
        );
    }

    fn ended(&self, at: &At<'_>, outcome: Result<(), &str>, time: Duration) {
        let (status, seconds) = (outcome.err().unwrap_or("200"), time.as_secs_f64());
        line!(info, at, status, seconds, "request over");
    }
}
