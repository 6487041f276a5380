//! What went wrong with a request, before an API gives it its form.

use std::{borrow::Cow, time::Duration};

use axum::{
    http::{HeaderValue, StatusCode, header::RETRY_AFTER},
    response::{IntoResponse, Response},
};
use llm::{ErrorKind, ProviderError};
use serde_json::{Value, json};

/// Why a request was refused, if it is said in words of the program alone, which the log may have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reason(pub(crate) &'static str);

#[derive(Debug, Clone)]
pub(crate) struct ApiError {
    pub(super) status: StatusCode,
    pub(super) kind: Cow<'static, str>,
    pub(super) code: Option<Cow<'static, str>>,
    pub(super) message: Cow<'static, str>,
    retry_after: Option<Duration>,
}

impl ApiError {
    pub(crate) fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// An error whose kind follows from its status.
    pub(crate) fn new(status: StatusCode, message: impl Into<Cow<'static, str>>) -> Self {
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
    pub(crate) fn internal(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, reason)
    }

    /// Something that this needs does not answer at present.
    pub(crate) fn unavailable(reason: impl Into<Cow<'static, str>>) -> Self {
        Self {
            retry_after: Some(Duration::from_secs(1)),
            ..Self::new(StatusCode::SERVICE_UNAVAILABLE, reason)
        }
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    pub(crate) fn with_status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    pub(crate) fn with_retry(mut self, after: Duration) -> Self {
        self.retry_after = Some(after);
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

/// In OpenAI's form, for what belongs to no API.
impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        self.respond(self.status, self.body())
    }
}

impl ApiError {
    /// The answer to a request that failed, with the status and body of its API.
    pub(super) fn respond(&self, status: StatusCode, body: Value) -> Response {
        let mut response = (status, axum::Json(body)).into_response();
        if let Cow::Borrowed(words) = self.message {
            response.extensions_mut().insert(Reason(words));
        }
        if let Some(wait) = self.retry_after {
            let seconds = HeaderValue::from(wait.as_secs().max(1));
            response.headers_mut().insert(RETRY_AFTER, seconds);
        }
        response
    }
}
