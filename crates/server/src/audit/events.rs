//! What of the fronts' events is audited, and what of each.
//!
//! Words of users, models and apps become digests. What is left are names: of taints, rules, apps, tools that were decided on,
//! hosts that were connected to, and of people.

use async_trait::async_trait;
use hub::trace::{Call, Cause, Event, Flow};
use serde_json::{Value, json};

use super::entry::Note;
use super::keys::AuditKeys;
use super::writer::Audit;
use crate::sink::{At, EventSink};

#[async_trait]
impl EventSink for Audit {
    fn event(&self, at: &At<'_>, event: &Event) {
        let Some(note) = note(self.keys(), event) else {
            return;
        };
        // Of an answer it is the approver, or no one.
        let who = if note.kind == "answer" {
            "asker"
        } else {
            "who"
        };
        self.note(
            note.with("front", at.front)
                .with("tenant", at.tenant)
                .with("conversation", at.conversation)
                .with(who, at.asker),
        );
    }

    async fn written(&self) -> Result<(), String> {
        // The reason may name a path of this machine. It is in the log.
        let written = Self::written(self).await;
        written.map_err(|_| "the audit log cannot be written; the log says why".to_owned())
    }
}

/// The note of an event. `None`: it decides nothing, and no one has answered.
fn note(keys: &AuditKeys, event: &Event) -> Option<Note> {
    let digest = |text: &str| keys.digest(text);
    let decision = |outcome, flow| about(keys, Note::new("decision", outcome), flow);
    let call = |kind, outcome, call| of_call(keys, Note::new(kind, outcome), call);
    let of_app = |kind, outcome, app: &String| Note::new(kind, outcome).with("app", app.as_str());
    Some(match event {
        Event::Allowed { flow, by, .. } => decision("allow", flow)
            .with("rule", by.strip_prefix("policy "))
            .with("by", by.as_str()),
        Event::Asked {
            flow,
            rule,
            limit,
            effect,
            excess,
            ran,
            ..
        } => decision("ask", flow)
            .with("rule", rule.as_str())
            .with("effect", effect.as_str())
            .with("limit", names(limit))
            .with("excess", names(excess))
            .with("ran", ran.as_deref()),
        Event::Denied {
            flow, rule, reason, ..
        } => decision("deny", flow)
            .with("rule", rule.as_deref())
            .with("reason", digest(reason)),
        // The name is the model's own word: there is no such tool, or not with these arguments.
        Event::Rejected {
            tool,
            arguments,
            label,
            ..
        } => Note::new("decision", "reject")
            .with(
                "content",
                digest(&format!("{} {}", tool.as_str(), arguments.as_str())),
            )
            .with("label", names(label)),
        Event::Replied { answer, by, from } => Note::new("answer", answer)
            .with("who", by.as_deref())
            .with("from", from.as_deref()),
        Event::Answered {
            flow,
            answer,
            allowed,
        } => {
            let kind = if *allowed { "grant" } else { "refusal" };
            about(keys, Note::new(kind, answer), flow)
        }
        Event::Trusted {
            texts,
            app,
            effect,
            until,
            ..
        } => {
            let text =
                |text: &Cause| json!({"label": text.label, "content": digest(&text.excerpt)});
            of_app("trust", until, app)
                .with("effect", effect.as_str())
                .with("texts", texts.iter().map(text).collect::<Vec<_>>())
        }
        Event::ConnectionAsked {
            app,
            to,
            domain,
            label,
            rule,
            answer,
        } => of_app("connection", answer, app)
            .with("rule", rule.as_str())
            .with("label", names(label))
            .with("to", to.as_str())
            .with("domain", domain.as_str()),
        Event::Egress { app, to, outcome } => of_app("connection", "reported", app)
            .with("to", to.as_str())
            .with("content", digest(outcome)),
        Event::NameDenied { app, name, .. } => {
            of_app("connection", "deny", app).with("content", digest(name))
        }
        Event::ClearanceAsked { above, allowed, .. } => {
            Note::new("clearance", if *allowed { "allow" } else { "deny" })
                .with("label", names(above))
        }
        Event::Message {
            exchange,
            message,
            functionality,
            asks,
            serves,
            label,
            ..
        } => {
            let outcome = serde_json::to_value(message).unwrap_or_default();
            of_app("message", outcome.as_str().unwrap_or_default(), asks)
                .with("serves", serves.as_str())
                .with("functionality", functionality.as_str())
                .with("exchange", exchange.as_str())
                .with("label", names(label))
        }
        Event::AppAsked {
            call: of,
            text,
            label,
            by,
        } => call("question", "allow", of)
            .with("content", digest(text))
            .with("label", names(label))
            .with("by", by.as_str()),
        Event::AppAnswered {
            call: of,
            answer,
            content,
        } => call("answer", answer, of).with("content", digest(content)),
        Event::AppRefused {
            call: of, request, ..
        } => call("question", "deny", of).with("request", request.as_str()),
        Event::Returned {
            call: of,
            bytes,
            is_error,
            label,
            ..
        } => call("result", if *is_error { "error" } else { "done" }, of)
            .with("label", names(label))
            .with("bytes", *bytes),
        Event::CallUnknown { call: of, .. } => call("result", "unknown", of),
        Event::CallFailed { call: of, .. } => call("result", "failed", of),
        _ => return None,
    })
}

/// With what was decided on.
fn about(keys: &AuditKeys, note: Note, flow: &Flow) -> Note {
    match flow {
        Flow::Call(call) => of_call(keys, note, call),
        Flow::Message(message) => note
            .with("app", message.from.as_str())
            .with("to", message.to.as_str())
            .with("functionality", message.functionality.as_str())
            .with("stage", message.stage.as_str())
            .with("label", names(&message.label))
            .with("content", keys.digest(&message.text)),
        Flow::Answer { apps, text, label } => note
            .with("sink", "answer")
            .with("apps", apps.iter().cloned().collect::<Vec<_>>())
            .with("label", names(label))
            .with("content", keys.digest(text)),
    }
}

fn of_call(keys: &AuditKeys, note: Note, call: &Call) -> Note {
    let note = match call.data.is_empty() {
        true => note,
        // The labels of its data arguments.
        false => note.with("data", json!(call.data)),
    };
    note.with("app", call.app.as_str())
        .with("tool", call.tool.as_str())
        .with("label", names(&call.label))
        .with("content", keys.digest(&call.arguments))
}

fn names(label: &[String]) -> Value {
    label.into()
}
