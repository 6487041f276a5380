//! What the server answers: chat completions, their chunks, and errors in OpenAI's form.

use std::time::{SystemTime, UNIX_EPOCH};

use agent::{Completion, StopReason, Usage};
use axum::{
    http::{StatusCode, header::RETRY_AFTER},
    response::{IntoResponse, Response},
};
use llm::ProviderError;
use serde_json::{Value, json};

/// Names one answer in all of its chunks.
#[derive(Debug, Clone)]
pub(super) struct Envelope {
    id: String,
    model: String,
    created: u64,
}

impl Envelope {
    pub(super) fn new(number: u64, model: &str) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            id: format!("chatcmpl-{number}"),
            model: model.to_owned(),
            created: now.unwrap_or_default().as_secs(),
        }
    }

    /// A whole answer.
    pub(super) fn whole(&self, completion: &Completion) -> Value {
        let mut message = json!({
            "role": "assistant",
            "content": content(completion),
        });
        let calls = calls(completion);
        if !calls.is_empty()
            && let Some(message) = message.as_object_mut()
        {
            message.insert("tool_calls".to_owned(), Value::from(calls));
        }
        let choice = json!({
            "index": 0,
            "message": message,
            "finish_reason": finish_reason(completion),
        });
        self.wrap("chat.completion", vec![choice], usage(&completion.usage))
    }

    /// A piece of the text.
    pub(super) fn text(&self, piece: &str) -> Value {
        self.chunk(json!({"content": piece}), None)
    }

    /// What follows the text: the calls, why the answer ended, what it cost.
    pub(super) fn end(&self, completion: &Completion, with_usage: bool) -> Vec<Value> {
        let mut chunks = Vec::new();
        for (index, mut call) in calls(completion).into_iter().enumerate() {
            if let Some(call) = call.as_object_mut() {
                call.insert("index".to_owned(), Value::from(index));
            }
            chunks.push(self.chunk(json!({"tool_calls": [call]}), None));
        }
        chunks.push(self.chunk(json!({}), Some(finish_reason(completion))));
        if with_usage {
            chunks.push(self.wrap("chat.completion.chunk", vec![], usage(&completion.usage)));
        }
        chunks
    }

    /// The first chunk.
    pub(super) fn start(&self) -> Value {
        self.chunk(json!({"role": "assistant", "content": ""}), None)
    }

    fn chunk(&self, delta: Value, finish_reason: Option<&str>) -> Value {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish_reason});
        self.wrap("chat.completion.chunk", vec![choice], Value::Null)
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

/// An error as a client sees it.
#[derive(Debug)]
pub(super) struct ApiError {
    status: StatusCode,
    kind: &'static str,
    code: Option<&'static str>,
    message: String,
}

impl ApiError {
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            kind: "invalid_request_error",
            code: None,
            message: message.into(),
        }
    }

    pub(super) fn with_status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    pub(super) fn no_model() -> Self {
        Self {
            status: StatusCode::NOT_FOUND,
            kind: "invalid_request_error",
            code: Some("model_not_found"),
            message: "no such model; see /v1/models".to_owned(),
        }
    }

    pub(super) fn busy() -> Self {
        Self {
            status: StatusCode::TOO_MANY_REQUESTS,
            kind: "rate_limit_error",
            code: None,
            message: "too many requests at once; try again".to_owned(),
        }
    }

    pub(super) fn body(&self) -> Value {
        json!({"error": {
            "message": self.message,
            "type": self.kind,
            "param": null,
            "code": self.code,
        }})
    }
}

impl From<ProviderError> for ApiError {
    fn from(error: ProviderError) -> Self {
        let (status, kind, code) = match &error {
            ProviderError::ContextLength { .. } => (
                StatusCode::BAD_REQUEST,
                "invalid_request_error",
                Some("context_length_exceeded"),
            ),
            ProviderError::Unsendable { .. } | ProviderError::NotRecorded { .. } => {
                (StatusCode::BAD_REQUEST, "invalid_request_error", None)
            }
            ProviderError::AboveClearance { .. } => {
                (StatusCode::FORBIDDEN, "permission_error", None)
            }
            ProviderError::TooLarge { .. } => {
                (StatusCode::PAYLOAD_TOO_LARGE, "invalid_request_error", None)
            }
            ProviderError::RateLimited { .. } => {
                (StatusCode::TOO_MANY_REQUESTS, "rate_limit_error", None)
            }
            ProviderError::Timeout { .. } => (StatusCode::GATEWAY_TIMEOUT, "server_error", None),
            ProviderError::Cancelled { .. } => {
                (StatusCode::SERVICE_UNAVAILABLE, "server_error", None)
            }
            ProviderError::Unreachable { .. }
            | ProviderError::Status { .. }
            | ProviderError::Malformed { .. } => (StatusCode::BAD_GATEWAY, "server_error", None),
            ProviderError::Model { .. } => {
                (StatusCode::INTERNAL_SERVER_ERROR, "server_error", None)
            }
        };
        Self {
            status,
            kind,
            code,
            message: error.to_string(),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, axum::Json(self.body())).into_response();
        if self.status == StatusCode::TOO_MANY_REQUESTS {
            let wait = axum::http::HeaderValue::from_static("1");
            response.headers_mut().insert(RETRY_AFTER, wait);
        }
        response
    }
}

fn content(completion: &Completion) -> Option<&str> {
    let text = &completion.text;
    (!text.is_empty() || completion.calls.is_empty()).then_some(text)
}

fn calls(completion: &Completion) -> Vec<Value> {
    let calls = (1..).zip(&completion.calls).map(|(number, call)| {
        json!({
            "id": format!("call_{number}"),
            "type": "function",
            "function": {"name": call.tool, "arguments": call.arguments},
        })
    });
    calls.collect()
}

fn finish_reason(completion: &Completion) -> &'static str {
    match completion.stop {
        StopReason::Length => "length",
        _ if !completion.calls.is_empty() => "tool_calls",
        // OpenAI has no word for it; the text shows it.
        StopReason::End | StopReason::Repetition => "stop",
    }
}

fn usage(usage: &Usage) -> Value {
    json!({
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens.saturating_add(usage.completion_tokens),
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    })
}
