//! What of the fronts' events is audited, and what of each.
//!
//! Words of users, models and apps become digests. What is left are names: of taints, rules, apps, tools that were decided on,
//! hosts that were connected to, and of people.

use async_trait::async_trait;
use hub::trace::{self, Call, Cause, Event, Flow, MessageKind};
use serde_json::{Map, Value, json};

use super::entry::Note;
use super::keys::AuditKeys;
use super::writer::Audit;
use crate::sink::{At, EventSink};

#[async_trait]
impl EventSink for Audit {
    fn event(&self, at: &At<'_>, event: &Event) {
        let Some(mut note) = note(self.keys(), event) else {
            return;
        };
        note.front = Some(at.front.to_owned());
        note.tenant = at.tenant.map(str::to_owned);
        note.conversation = Some(at.conversation.to_owned());
        match (&note.who, at.asker) {
            (None, asker) => note.who = asker.map(str::to_owned),
            (Some(_), Some(asker)) => note = note.with("asker", asker),
            (Some(_), None) => {}
        }
        self.note(note);
    }

    async fn written(&self) -> Result<(), String> {
        Self::written(self).await
    }
}

/// The note of an event. `None`: it decides nothing and no one has answered.
fn note(keys: &AuditKeys, event: &Event) -> Option<Note> {
    let decision = |outcome, flow| about(keys, Note::new("decision", outcome), flow);
    Some(match event {
        Event::Allowed { flow, by, .. } => Note {
            rule: by.strip_prefix("policy ").map(str::to_owned),
            ..decision("allow", flow).with("by", by.as_str())
        },
        Event::Asked {
            flow,
            rule,
            limit,
            effect,
            excess,
            ran,
            ..
        } => {
            let note = decision("ask", flow);
            let note = note
                .with("limit", names(limit))
                .with("excess", names(excess));
            let note = match ran {
                Some(ran) => note.with("ran", ran.as_str()),
                None => note,
            };
            Note {
                rule: Some(rule.clone()),
                effect: Some(effect.clone()),
                ..note
            }
        }
        Event::Denied { flow, reason, .. } => {
            decision("deny", flow).with("reason", keys.digest(reason))
        }
        // The name is the model's own word: there is no such tool, or not with these arguments.
        Event::Rejected {
            tool,
            arguments,
            label,
            reason,
            ..
        } => Note {
            label: Some(label.clone()),
            content: Some(keys.digest(&format!("{} {}", tool.as_str(), arguments.as_str()))),
            ..Note::new("decision", "reject").with("reason", keys.digest(reason))
        },
        Event::Replied { answer, by, from } => {
            let note = Note::new("answer", answer).by(by.as_deref());
            note.with("from", from.as_deref())
        }
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
            let text = |text: &Cause| {
                json!({
                    "region": text.region,
                    "label": text.label,
                    "content": keys.digest(&text.excerpt),
                })
            };
            let texts: Vec<Value> = texts.iter().map(text).collect();
            Note {
                app: Some(app.clone()),
                effect: Some(effect.clone()),
                ..Note::new("trust", until).with("texts", texts)
            }
        }
        Event::ConnectionAsked {
            app,
            to,
            domain,
            label,
            rule,
            answer,
        } => Note {
            app: Some(app.clone()),
            rule: Some(rule.clone()),
            label: Some(label.clone()),
            ..Note::new("connection", answer)
                .with("to", to.as_str())
                .with("domain", domain.as_str())
        },
        Event::Egress { app, to, outcome } => Note {
            app: Some(app.clone()),
            content: Some(keys.digest(outcome)),
            ..Note::new("connection", "reported").with("to", to.as_str())
        },
        Event::NameDenied { app, name, .. } => Note {
            app: Some(app.clone()),
            content: Some(keys.digest(name)),
            ..Note::new("connection", "deny")
        },
        Event::ClearanceAsked { above, allowed, .. } => Note {
            label: Some(above.clone()),
            ..Note::new("clearance", if *allowed { "allow" } else { "deny" })
        },
        Event::Message {
            exchange,
            message,
            functionality,
            asks,
            serves,
            label,
            ..
        } => Note {
            app: Some(asks.clone()),
            label: Some(label.clone()),
            ..Note::new("message", of_message(*message))
                .with("serves", serves.as_str())
                .with("functionality", functionality.as_str())
                .with("exchange", exchange.as_str())
        },
        Event::AppAsked {
            call,
            text,
            label,
            by,
        } => Note {
            label: Some(label.clone()),
            content: Some(keys.digest(text)),
            ..of_call(keys, Note::new("question", "allow"), call).with("by", by.as_str())
        },
        Event::AppAnswered {
            call,
            answer,
            content,
        } => Note {
            content: Some(keys.digest(content)),
            ..of_call(keys, Note::new("answer", answer), call)
        },
        Event::AppRefused { call, request, .. } => {
            of_call(keys, Note::new("question", "deny"), call).with("request", request.as_str())
        }
        Event::Returned {
            call,
            bytes,
            is_error,
            label,
            ..
        } => Note {
            label: Some(label.clone()),
            ..of_call(
                keys,
                Note::new("result", if *is_error { "error" } else { "done" }),
                call,
            )
            .with("bytes", *bytes)
        },
        Event::CallUnknown { call, .. } => of_call(keys, Note::new("result", "unknown"), call),
        Event::CallFailed { call, .. } => of_call(keys, Note::new("result", "failed"), call),
        _ => return None,
    })
}

/// With what was decided on.
fn about(keys: &AuditKeys, note: Note, flow: &Flow) -> Note {
    match flow {
        Flow::Call(call) => of_call(keys, note, call),
        Flow::Message(message) => {
            let trace::Message {
                from,
                to,
                functionality,
                stage,
                text,
                label,
            } = message;
            Note {
                app: Some(from.clone()),
                label: Some(label.clone()),
                content: Some(keys.digest(text)),
                ..note
                    .with("to", to.as_str())
                    .with("functionality", functionality.as_str())
                    .with("stage", stage.as_str())
            }
        }
        Flow::Answer { apps, text, label } => {
            let apps: Vec<&str> = apps.iter().map(String::as_str).collect();
            Note {
                app: (!apps.is_empty()).then(|| apps.join(", ")),
                label: Some(label.clone()),
                content: Some(keys.digest(text)),
                ..note.with("sink", "answer")
            }
        }
    }
}

fn of_call(keys: &AuditKeys, note: Note, call: &Call) -> Note {
    let data = call.data.iter();
    let data: Map<String, Value> = data.map(|(at, label)| (at.clone(), names(label))).collect();
    let note = match data.is_empty() {
        true => note,
        false => note.with("data", data),
    };
    Note {
        app: Some(call.app.clone()),
        tool: Some(call.tool.as_str().to_owned()),
        label: Some(call.label.clone()),
        content: Some(keys.digest(&call.arguments)),
        ..note
    }
}

fn names(label: &[String]) -> Value {
    label.into()
}

fn of_message(kind: MessageKind) -> &'static str {
    match kind {
        MessageKind::Probe => "probe",
        MessageKind::Formats => "formats",
        MessageKind::Request => "request",
        MessageKind::Response => "response",
        MessageKind::Dropped => "dropped",
        MessageKind::Denied => "deny",
    }
}
