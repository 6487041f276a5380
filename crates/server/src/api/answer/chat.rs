//! OpenAI's Chat Completions.

use axum::http::StatusCode;
use hub::{StopReason, Usage};
use serde_json::{Value, json};

use super::{Choice, now};
use crate::api::{Dialect, frame::Frame, request};
use crate::conversation::Conversation;

/// One answer, named alike in all of its chunks.
pub(crate) struct ChatCompletion {
    id: String,
    model: String,
    created: u64,
    /// Whether a stream ends with what it cost.
    streams_usage: bool,
}

impl ChatCompletion {
    pub(crate) fn new(id: &str, model: &str, streams_usage: bool) -> Self {
        Self {
            id: format!("chatcmpl-{id}"),
            model: model.to_owned(),
            created: now(),
            streams_usage,
        }
    }

    fn chunk(&self, delta: Value, finish_reason: Option<&str>) -> Frame {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish_reason});
        let chunk = self.wrap("chat.completion.chunk", vec![choice], Value::Null);
        Frame::data(&chunk)
    }

    fn wrap(&self, object: &str, choices: Vec<Value>, usage: Value) -> Value {
        json!({
            "id": self.id,
            "object": object,
            "created": self.created,
            "model": self.model,
            "choices": choices,
            "usage": usage,
        })
    }
}

impl Dialect for ChatCompletion {
    const API: llm::Dialect = llm::Dialect::Chat;
    const PATH: &'static str = "/v1/chat/completions";
    const REFUSED: StatusCode = StatusCode::FORBIDDEN;

    fn read(body: &[u8], takes: request::Takes) -> Result<Conversation, String> {
        request::chat::read(body, takes)
    }

    fn begin(id: &str, request: &Conversation) -> Self {
        Self::new(id, &request.model, request.streams_usage)
    }

    fn whole(&self, choice: &Choice, usage: &Usage) -> String {
        let content = !choice.text.is_empty() || choice.calls.is_empty();
        let content = content.then_some(&choice.text);
        let mut message = json!({"role": "assistant", "content": content});
        if let Some(message) = message.as_object_mut()
            && !choice.calls.is_empty()
        {
            let calls = call_values(choice).collect();
            message.insert("tool_calls".to_owned(), Value::Array(calls));
        }
        let reason = finish_reason(choice);
        let choice = json!({"index": 0, "message": message, "finish_reason": reason});
        let whole = self.wrap("chat.completion", vec![choice], self::usage(usage));
        whole.to_string()
    }

    fn start(&mut self) -> Vec<Frame> {
        vec![self.chunk(json!({"role": "assistant", "content": ""}), None)]
    }

    fn text(&mut self, piece: &str) -> Vec<Frame> {
        vec![self.chunk(json!({"content": piece}), None)]
    }

    fn alive(&mut self) -> Vec<Frame> {
        vec![Frame::COMMENT]
    }

    fn end(&mut self, choice: &Choice, usage: &Usage) -> Vec<Frame> {
        let calls = call_values(choice).enumerate().map(|(number, mut call)| {
            if let Some(call) = call.as_object_mut() {
                call.insert("index".to_owned(), Value::from(number));
            }
            self.chunk(json!({"tool_calls": [call]}), None)
        });
        let end = self.chunk(json!({}), Some(finish_reason(choice)));
        let usage = self.streams_usage.then(|| {
            let usage = self::usage(usage);
            Frame::data(&self.wrap("chat.completion.chunk", vec![], usage))
        });
        let done = Frame::of_text("[DONE]");
        calls.chain([end]).chain(usage).chain([done]).collect()
    }
}

fn finish_reason(choice: &Choice) -> &'static str {
    match choice.stop {
        // OpenAI has no word for another reason; clients take this one for an answer that is not whole.
        StopReason::Length | StopReason::Other => "length",
        StopReason::Filter => "content_filter",
        _ if !choice.calls.is_empty() => "tool_calls",
        // OpenAI has no word for it; the text shows it.
        StopReason::End | StopReason::Repetition => "stop",
    }
}

fn call_values(choice: &Choice) -> impl Iterator<Item = Value> {
    choice.calls.iter().map(|call| {
        json!({
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        })
    })
}

fn usage(usage: &Usage) -> Value {
    json!({
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens.saturating_add(usage.completion_tokens),
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    })
}
