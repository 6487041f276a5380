//! Anthropic's Messages.

use axum::http::StatusCode;
use hub::{StopReason, Usage};
use serde::Serialize;
use serde_json::{Value, json, value::RawValue};

use super::{CallOut, Choice};
use crate::api::{Dialect, error::ApiError, frame::Frame, request};
use crate::conversation::Conversation;

/// The kinds of errors that the API has, of which an upstream of this API may have named one.
const KINDS: &str = "invalid_request_error authentication_error billing_error permission_error not_found_error \
request_too_large rate_limit_error timeout_error api_error overloaded_error";

/// One answer.
pub(crate) struct AnthropicMessage {
    id: String,
    model: String,
    /// Whether the block of its text has begun.
    has_text: bool,
}

/// A message as a whole. Arguments stand in it digit for digit.
#[derive(Serialize)]
struct Whole<'a> {
    id: &'a str,
    r#type: &'static str,
    role: &'static str,
    model: &'a str,
    content: Vec<Block<'a>>,
    stop_reason: Option<&'static str>,
    stop_sequence: Option<&'static str>,
    usage: Value,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block<'a> {
    Text {
        text: &'a str,
    },
    ToolUse {
        id: &'a str,
        name: &'a str,
        input: Box<RawValue>,
    },
}

impl AnthropicMessage {
    fn message<'a>(&'a self, choice: Option<&'a Choice>, usage: &Usage) -> Whole<'a> {
        let text = choice.filter(|choice| !choice.text.is_empty());
        let text = text.map(|choice| Block::Text { text: &choice.text });
        let calls = choice.into_iter().flat_map(|choice| &choice.calls);
        let calls = calls.map(|call| Block::ToolUse {
            id: &call.id,
            name: &call.name,
            input: input(call),
        });
        Whole {
            id: &self.id,
            r#type: "message",
            role: "assistant",
            model: &self.model,
            content: text.into_iter().chain(calls).collect(),
            stop_reason: choice.map(stop_reason),
            stop_sequence: None,
            usage: self::usage(usage),
        }
    }
}

impl Dialect for AnthropicMessage {
    const API: llm::Dialect = llm::Dialect::Messages;
    const PATH: &'static str = "/v1/messages";

    fn read(body: &[u8], takes: request::Takes) -> Result<Conversation, String> {
        request::messages::read(body, takes)
    }

    fn begin(id: &str, request: &Conversation) -> Self {
        Self {
            id: format!("msg_{id}"),
            model: request.model.clone(),
            has_text: false,
        }
    }

    fn whole(&self, choice: &Choice, usage: &Usage) -> String {
        // No member has a key that is no string.
        serde_json::to_string(&self.message(Some(choice), usage)).unwrap_or_default()
    }

    fn start(&mut self) -> Vec<Frame> {
        let message = self.message(None, &Usage::default());
        vec![Frame::named("message_start", json!({ "message": message }))]
    }

    fn text(&mut self, piece: &str) -> Vec<Frame> {
        let begin = (!self.has_text).then(|| begin(0, json!({"type": "text", "text": ""})));
        self.has_text = true;
        let piece = delta(0, json!({"type": "text_delta", "text": piece}));
        begin.into_iter().chain([piece]).collect()
    }

    fn alive(&mut self) -> Vec<Frame> {
        let ping = Frame::named("ping", json!({}));
        // Claude Code's clock stops for nothing but what belongs to a message.
        let empty = json!({"type": "text_delta", "text": ""});
        let empty = self.has_text.then(|| delta(0, empty));
        [ping].into_iter().chain(empty).collect()
    }

    fn end(&mut self, choice: &Choice, usage: &Usage) -> Vec<Frame> {
        let mut frames: Vec<Frame> = self.has_text.then(|| stop(0)).into_iter().collect();
        for (index, call) in (usize::from(self.has_text)..).zip(&choice.calls) {
            let block = json!({"type": "tool_use", "id": call.id, "name": call.name, "input": {}});
            let input = json!({"type": "input_json_delta", "partial_json": call.arguments});
            frames.extend([begin(index, block), delta(index, input), stop(index)]);
        }
        let reason = json!({"stop_reason": stop_reason(choice), "stop_sequence": null});
        let end = json!({"delta": reason, "usage": self::usage(usage)});
        frames.push(Frame::named("message_delta", end));
        frames.push(Frame::named("message_stop", json!({})));
        frames
    }

    fn last_event(error: &ApiError) -> Frame {
        Frame::named("error", Self::error(error))
    }

    fn error(error: &ApiError) -> Value {
        let own = match error.status {
            StatusCode::UNAUTHORIZED => "authentication_error",
            StatusCode::NOT_FOUND => "not_found_error",
            StatusCode::PAYLOAD_TOO_LARGE => "request_too_large",
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            StatusCode::GATEWAY_TIMEOUT => "timeout_error",
            StatusCode::SERVICE_UNAVAILABLE => "overloaded_error",
            status if status.as_u16() == 529 => "overloaded_error",
            status if status.is_server_error() => "api_error",
            _ => "invalid_request_error",
        };
        let known = KINDS.split(' ').find(|kind| *kind == error.kind);
        let kind = match known {
            // The status is another one in this API.
            None | Some("permission_error" | "invalid_request_error") => own,
            Some(kind) => kind,
        };
        json!({"type": "error", "error": {"type": kind, "message": error.message}})
    }
}

/// The arguments of a call as they are; what is no JSON, which is passed on while a proxy only watches, is a text in an object.
fn input(call: &CallOut) -> Box<RawValue> {
    let other = || json!({"input": call.arguments}).to_string();
    let written = RawValue::from_string(call.arguments.clone());
    let written = written.or_else(|_| RawValue::from_string(other()));
    written.unwrap_or_default()
}

fn begin(index: usize, block: Value) -> Frame {
    let event = json!({"index": index, "content_block": block});
    Frame::named("content_block_start", event)
}

fn delta(index: usize, delta: Value) -> Frame {
    Frame::named(
        "content_block_delta",
        json!({"index": index, "delta": delta}),
    )
}

fn stop(index: usize) -> Frame {
    Frame::named("content_block_stop", json!({ "index": index }))
}

fn stop_reason(choice: &Choice) -> &'static str {
    match choice.stop {
        // Clients take this one for an answer that is not whole.
        StopReason::Length | StopReason::Other => "max_tokens",
        StopReason::Filter => "refusal",
        _ if !choice.calls.is_empty() => "tool_use",
        StopReason::End | StopReason::Repetition => "end_turn",
    }
}

fn usage(usage: &Usage) -> Value {
    json!({
        // Here those from a cache do not count in them.
        "input_tokens": usage.prompt_tokens.saturating_sub(usage.cached_tokens),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.completion_tokens,
    })
}
