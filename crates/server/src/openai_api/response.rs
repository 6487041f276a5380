//! What a server answers: chat completions, their chunks, and errors in OpenAI's form.

use std::{
    borrow::Cow,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use axum::{
    http::{HeaderValue, StatusCode, header::RETRY_AFTER},
    response::{IntoResponse, Response},
};
use hub::{StopReason, Usage};
use llm::{ErrorKind, ProviderError};
use serde_json::{Value, json};

/// Names one answer in all of its chunks.
#[derive(Debug, Clone)]
pub(crate) struct Envelope {
    id: String,
    model: String,
    created: u64,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Choice {
    pub(crate) text: String,
    pub(crate) calls: Vec<CallOut>,
    pub(crate) stop: StopReason,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallOut {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
}

impl Choice {
    fn content(&self) -> Option<&str> {
        (!self.text.is_empty() || self.calls.is_empty()).then_some(&self.text)
    }

    fn finish_reason(&self) -> &'static str {
        match self.stop {
            // OpenAI has no word for another reason; clients take this one for an answer that is not whole.
            StopReason::Length | StopReason::Other => "length",
            StopReason::Filter => "content_filter",
            _ if !self.calls.is_empty() => "tool_calls",
            // OpenAI has no word for it; the text shows it.
            StopReason::End | StopReason::Repetition => "stop",
        }
    }

    fn call_values(&self) -> impl Iterator<Item = Value> {
        self.calls.iter().map(|call| {
            json!({
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            })
        })
    }
}

impl Envelope {
    pub(crate) fn new(id: String, model: &str) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            id,
            model: model.to_owned(),
            created: now.unwrap_or_default().as_secs(),
        }
    }

    pub(crate) fn completion(&self, choice: &Choice, usage: &Usage) -> Value {
        let mut message = json!({"role": "assistant", "content": choice.content()});
        if let Some(message) = message.as_object_mut()
            && !choice.calls.is_empty()
        {
            let calls = choice.call_values().collect();
            message.insert("tool_calls".to_owned(), Value::Array(calls));
        }
        let reason = choice.finish_reason();
        let choice = json!({"index": 0, "message": message, "finish_reason": reason});
        self.wrap("chat.completion", vec![choice], self::usage(usage))
    }

    /// The first chunk of a stream.
    pub(crate) fn start(&self) -> Value {
        self.chunk(json!({"role": "assistant", "content": ""}), None)
    }

    pub(crate) fn text(&self, piece: &str) -> Value {
        self.chunk(json!({"content": piece}), None)
    }

    /// What follows the text: the calls, why the answer ended, and the usage for clients that ask.
    pub(crate) fn end(&self, choice: &Choice, usage: Option<&Usage>) -> Vec<Value> {
        let calls = choice.call_values().enumerate().map(|(number, mut call)| {
            if let Some(call) = call.as_object_mut() {
                call.insert("index".to_owned(), Value::from(number));
            }
            self.chunk(json!({"tool_calls": [call]}), None)
        });
        let end = self.chunk(json!({}), Some(choice.finish_reason()));
        let usage =
            usage.map(|usage| self.wrap("chat.completion.chunk", vec![], self::usage(usage)));
        calls.chain([end]).chain(usage).collect()
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

#[derive(Debug, Clone)]
pub(crate) struct ApiError {
    status: StatusCode,
    kind: Cow<'static, str>,
    code: Option<Cow<'static, str>>,
    message: String,
    retry_after: Option<Duration>,
}

impl ApiError {
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// An error whose kind follows from its status.
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        let kind = match status {
            StatusCode::UNAUTHORIZED => "authentication_error",
            StatusCode::FORBIDDEN => "permission_error",
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            status if status.is_server_error() => "server_error",
            _ => "invalid_request_error",
        };
        let retry = status == StatusCode::TOO_MANY_REQUESTS;
        Self {
            status,
            kind: kind.into(),
            code: None,
            message: message.into(),
            retry_after: retry.then_some(Duration::from_secs(1)),
        }
    }

    /// Something went wrong here, which is not the client's mistake.
    pub(crate) fn internal(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, reason)
    }

    pub(crate) fn with_status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    pub(crate) fn with_code(mut self, code: &'static str) -> Self {
        self.code = Some(code.into());
        self
    }

    /// The same error without its words, which may be those of a server that has seen a prompt. The
    /// status stays: clients go by it, and it is one of few.
    pub(crate) fn without_words(self) -> Self {
        let message = "the model gave no answer; the trace says why";
        // A code of ours says what the client can do, and is one of few too.
        let code = self.code.filter(|code| matches!(code, Cow::Borrowed(_)));
        Self {
            code,
            retry_after: self.retry_after,
            ..Self::new(self.status, message)
        }
    }

    pub(crate) fn no_model() -> Self {
        let message = "no such model; use a name of /v1/models, or write this one as `model` at the provider in sluice.toml";
        Self::new(StatusCode::NOT_FOUND, message).with_code("model_not_found")
    }

    pub(crate) fn busy() -> Self {
        let message = "too many requests at once; try again";
        Self::new(StatusCode::TOO_MANY_REQUESTS, message)
    }

    pub(crate) fn body(&self) -> Value {
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
        let (status, code) = match &error.kind {
            ErrorKind::ContextLength(_) => {
                (StatusCode::BAD_REQUEST, Some("context_length_exceeded"))
            }
            ErrorKind::Unsendable(_) => (StatusCode::BAD_REQUEST, None),
            ErrorKind::AboveClearance => (StatusCode::FORBIDDEN, None),
            ErrorKind::TooLarge { .. } | ErrorKind::RequestTooLarge(_) => {
                (StatusCode::PAYLOAD_TOO_LARGE, None)
            }
            ErrorKind::RateLimited(..) => (StatusCode::TOO_MANY_REQUESTS, None),
            ErrorKind::Timeout { .. } => (StatusCode::GATEWAY_TIMEOUT, None),
            ErrorKind::Status { code, .. } => {
                let status = StatusCode::from_u16(*code).unwrap_or_default();
                // A redirect or a success with an error inside tells the client nothing.
                let is_error = status.is_client_error() || status.is_server_error();
                (
                    if is_error {
                        status
                    } else {
                        StatusCode::BAD_GATEWAY
                    },
                    None,
                )
            }
            ErrorKind::Unreachable(_) | ErrorKind::Malformed(_) | ErrorKind::Cut => {
                (StatusCode::BAD_GATEWAY, None)
            }
            ErrorKind::Model(_) => (StatusCode::INTERNAL_SERVER_ERROR, None),
        };
        let mut answer = Self::new(status, error.to_string());
        answer.code = code.map(Cow::from);
        match error.kind {
            ErrorKind::Status { names, .. } => {
                answer.code = names.code.map(Cow::from);
                answer.kind = names.kind.map_or(answer.kind, Cow::from);
                // Of a spent quota: waiting does not help.
                answer.retry_after = None;
            }
            ErrorKind::RateLimited(retry_after, _) => {
                answer.retry_after = retry_after.or(answer.retry_after);
            }
            _ => {}
        }
        answer
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        self.respond(self.body())
    }
}

impl ApiError {
    /// The answer to a request that failed, with a body in the words of its API.
    pub(crate) fn respond(&self, body: Value) -> Response {
        let mut response = (self.status, axum::Json(body)).into_response();
        if let Some(wait) = self.retry_after {
            let seconds = HeaderValue::from(wait.as_secs().max(1));
            response.headers_mut().insert(RETRY_AFTER, seconds);
        }
        response
    }
}

/// A list of models by their names.
pub(crate) fn model_list<'a>(names: impl Iterator<Item = &'a str>) -> Value {
    let models = names.map(|name| json!({"id": name, "object": "model", "owned_by": "sluice"}));
    json!({"object": "list", "data": models.collect::<Vec<_>>()})
}

fn usage(usage: &Usage) -> Value {
    json!({
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens.saturating_add(usage.completion_tokens),
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    })
}
