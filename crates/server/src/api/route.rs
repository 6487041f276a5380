//! What the paths of a service are for.

use axum::response::{IntoResponse, Response};

use super::Dialect;
use super::answer::{chat::ChatCompletion, messages::AnthropicMessage, responses::OpenAiResponse};
use super::error::ApiError;
use super::frame::Frame;

/// The list of models, in OpenAI's form.
pub(crate) const MODELS: &str = "/v1/models";
/// Estimates the tokens of a request of Anthropic's API.
pub(crate) const COUNT_TOKENS: &str = "/v1/messages/count_tokens";
/// Where a gateway speaks MCP.
pub(crate) const MCP: &str = "/mcp";
/// What a service shows of itself.
pub(crate) const HEALTHZ: &str = "/healthz";
pub(crate) const READYZ: &str = "/readyz";
pub(crate) const METRICS: &str = "/metrics";

/// What a request is for, by its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    Chat,
    Messages,
    CountTokens,
    Responses,
    Models,
    Mcp,
    Desk,
    /// Health and metrics.
    Watched,
    Other,
}

impl Route {
    pub(crate) fn of(path: &str) -> Self {
        match path {
            ChatCompletion::PATH => Self::Chat,
            AnthropicMessage::PATH => Self::Messages,
            COUNT_TOKENS => Self::CountTokens,
            OpenAiResponse::PATH => Self::Responses,
            MODELS => Self::Models,
            MCP => Self::Mcp,
            HEALTHZ | READYZ | METRICS => Self::Watched,
            path if path.starts_with("/sluice/") => Self::Desk,
            _ => Self::Other,
        }
    }

    /// The front and what it speaks, as metrics name them. A path is a client's word, and there is no end of them.
    pub(crate) fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Chat => ("proxy", "chat"),
            Self::Messages => ("proxy", "messages"),
            Self::CountTokens => ("proxy", "count_tokens"),
            Self::Responses => ("proxy", "responses"),
            Self::Models => ("proxy", "models"),
            Self::Mcp => ("gateway", "mcp"),
            Self::Desk => ("desk", "desk"),
            Self::Watched | Self::Other => ("other", "other"),
        }
    }

    /// An error in the form that clients of this path read.
    pub(crate) fn response(self, error: ApiError) -> Response {
        match self {
            Self::Messages | Self::CountTokens => AnthropicMessage::response(&error),
            Self::Responses => OpenAiResponse::response(&error),
            _ => error.into_response(),
        }
    }

    /// What ends a stream that is cut; `None` if clients of this path know no such event.
    pub(crate) fn last_event(self, error: &ApiError) -> Option<Frame> {
        match self {
            Self::Chat => Some(ChatCompletion::last_event(error)),
            Self::Messages => Some(AnthropicMessage::last_event(error)),
            Self::Responses => Some(OpenAiResponse::last_event(error)),
            _ => None,
        }
    }
}
