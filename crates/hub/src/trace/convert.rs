//! From the turn machine's events to the trace's.

use std::time::Duration;

use crate::{Event as AgentEvent, Outcome, StopReason, Subject, Verdict};
use ifc::{Answer, Basis, Label, Lattice, Ran, Source};

use super::{Call, Cause, Event, Flow, Names, Score, Usage};

/// The trace entry for an event of the turn machine.
pub fn from_agent(lattice: &Lattice, event: AgentEvent) -> Event {
    let names = |label: &Label| lattice.describe(label);
    match event {
        AgentEvent::User { text, label } => Event::User {
            text,
            label: names(&label),
        },
        AgentEvent::Screened {
            step,
            screener,
            relevant,
            regions,
            before,
            after,
            failure,
            scores,
        } => Event::Screened {
            step,
            screener,
            relevant: relevant.map(|ids| ids.into_iter().map(|id| id.0).collect()),
            regions,
            before: names(&before),
            after: names(&after),
            failure,
            scores: scores.iter().map(|one| scored(lattice, one)).collect(),
        },
        AgentEvent::Redacted {
            step,
            label,
            kept,
            masked,
        } => Event::Redacted {
            step,
            label: names(&label),
            kept,
            masked,
        },
        AgentEvent::Completed {
            step,
            provider,
            usage,
            stop,
            calls,
        } => Event::Completed {
            step,
            provider,
            usage: usage.into(),
            stop: match stop {
                StopReason::End => "end",
                StopReason::Length => "length",
                StopReason::Repetition => "repetition",
            }
            .to_owned(),
            calls,
        },
        AgentEvent::DraftDropped { step } => Event::DraftDropped { step },
        AgentEvent::Checked { step, label, taken } => Event::Checked {
            step,
            label: names(&label),
            taken,
        },
        AgentEvent::RepetitionDropped { step } => Event::RepetitionDropped { step },
        AgentEvent::Decided {
            step,
            subject,
            verdict,
        } => decided(lattice, step, &subject, verdict),
        AgentEvent::Rejected {
            step,
            proposed,
            label,
            reason,
        } => Event::Rejected {
            step,
            tool: proposed.tool,
            arguments: proposed.arguments,
            label: names(&label),
            reason,
        },
        AgentEvent::Answered {
            subject,
            answer,
            allowed,
        } => Event::Answered {
            flow: flow(lattice, &subject),
            answer: match answer {
                Answer::Once => "once",
                Answer::Session => "session",
                Answer::No => "no",
            }
            .to_owned(),
            allowed,
        },
        AgentEvent::Returned {
            call,
            bytes,
            is_error,
            label,
            regions,
        } => Event::Returned {
            call: call_of(lattice, &call),
            bytes,
            is_error,
            label: names(&label),
            regions,
        },
        AgentEvent::CallUnknown { call, reason } => Event::CallUnknown {
            call: call_of(lattice, &call),
            reason,
        },
        AgentEvent::CallFailed { call, reason } => Event::CallFailed {
            call: call_of(lattice, &call),
            reason,
        },
        AgentEvent::Ended {
            outcome:
                Outcome {
                    result: Ok(answer),
                    refused,
                    ..
                },
        } => Event::Answer {
            text: answer.reveal_tcb().to_owned(),
            label: names(&answer.label()),
            refused,
        },
        AgentEvent::Ended {
            outcome:
                Outcome {
                    result: Err(stop),
                    refused,
                    unknown,
                },
        } => Event::Stopped {
            reason: stop.reveal_tcb(),
            label: stop
                .words()
                .map(|words| names(&words.label()))
                .unwrap_or_default(),
            refused,
            unknown,
        },
    }
}

fn decided(lattice: &Lattice, step: usize, subject: &Subject, verdict: Verdict) -> Event {
    let flow = flow(lattice, subject);
    match verdict {
        Verdict::Allowed(basis) => Event::Allowed {
            step,
            flow,
            by: match basis {
                Basis::Policy { rule } => format!("policy {rule}"),
                Basis::UserOnce => "user".to_owned(),
                Basis::UserSession => "user, for the session".to_owned(),
            },
        },
        Verdict::Asked {
            rule,
            limit,
            effect,
            excess,
            causes: found,
            ran,
        } => Event::Asked {
            step,
            flow,
            rule,
            limit: lattice.describe(&limit),
            effect: effect.name().to_owned(),
            excess: lattice.describe(&excess),
            causes: causes(lattice, &found),
            ran: ran.map(ran_name).map(str::to_owned),
        },
        Verdict::Denied(reason) => Event::Denied { step, flow, reason },
    }
}

/// Causes in the trace's form; the user's question shows the same.
pub fn causes(lattice: &Lattice, causes: &[ifc::Cause]) -> Vec<Cause> {
    let one = |cause: &ifc::Cause| Cause {
        region: cause.region.0,
        source: source(&cause.source),
        excerpt: cause.excerpt.reveal_tcb().to_owned(),
        label: lattice.describe(&cause.excerpt.label()),
    };
    causes.iter().map(one).collect()
}

/// What is known of an equal call that was sent before: `answered` or `unknown`.
pub fn ran_name(ran: Ran) -> &'static str {
    match ran {
        Ran::Answered => "answered",
        Ran::Unknown => "unknown",
    }
}

fn flow(lattice: &Lattice, subject: &Subject) -> Flow {
    match subject {
        Subject::Call(call) => Flow::Call(call_of(lattice, call)),
        Subject::Answer(release) => Flow::Answer {
            app: release.app.clone(),
            text: release.text.reveal_tcb().to_owned(),
            label: lattice.describe(&release.text.label()),
        },
    }
}

fn call_of(lattice: &Lattice, call: &ifc::Call) -> Call {
    let label: Names = lattice.describe(&call.label);
    Call {
        app: call.app.clone(),
        tool: call.tool.clone(),
        arguments: call.arguments.to_json(),
        label,
    }
}

impl From<crate::Usage> for Usage {
    fn from(usage: crate::Usage) -> Self {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self {
            prompt_tokens: usage.prompt_tokens,
            cached_tokens: usage.cached_tokens,
            completion_tokens: usage.completion_tokens,
            first_token_ms: usage.time_to_first_token.map(ms),
            total_ms: ms(usage.total_time),
        }
    }
}

fn scored(lattice: &Lattice, scored: &crate::Scored) -> Score {
    Score {
        region: scored.region.0,
        source: source(&scored.source),
        excerpt: scored.excerpt.reveal_tcb().to_owned(),
        label: lattice.describe(&scored.excerpt.label()),
        score: scored.score,
    }
}

fn source(source: &Source) -> String {
    match source {
        Source::System => "system message".to_owned(),
        Source::User => "user".to_owned(),
        Source::Assistant => "earlier answer of the model".to_owned(),
        Source::Hub => "the hub".to_owned(),
        Source::Tool(tool) => format!("result of {tool}"),
        Source::Description(tool) => format!("description of {tool}"),
    }
}
