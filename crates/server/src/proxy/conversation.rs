//! A client's request in no API's words: what every dialect reads, and what the rest of the proxy works on.

use ifc::Image;
use llm::{TokenLimit, ToolChoice};
use serde_json::{Map, Value};

/// A conversation that a client brings, and how it wants it to go on.
pub(super) struct Conversation {
    /// The model that is to answer.
    pub(super) model: String,
    /// All messages, oldest first.
    pub(super) messages: Vec<Message>,
    /// The tools that the client executes.
    pub(super) tools: Vec<ClientTool>,
    /// Which calls are wished, if the model is not free to choose.
    pub(super) tool_choice: Option<ToolChoice>,
    /// The limit on generated tokens.
    pub(super) token_limit: TokenLimit,
    /// Members that only say how to write the answer, for the upstream.
    pub(super) members: Map<String, Value>,
    /// How many answers are wished, each decided by itself.
    pub(super) choices: usize,
    /// Whether the answer is streamed.
    pub(super) streams: bool,
    /// Whether a stream ends with what it cost.
    pub(super) streams_usage: bool,
}

/// Who speaks in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// The developer.
    System,
    User,
    Assistant,
    /// The client, which executed a call.
    Tool,
}

impl Role {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }
}

/// One message.
pub(super) struct Message {
    pub(super) role: Role,
    /// The name that the client gave whoever speaks.
    pub(super) name: Option<String>,
    pub(super) text: String,
    pub(super) images: Vec<Image>,
    /// The calls that it makes: only of [`Role::Assistant`].
    pub(super) calls: Vec<ClientCall>,
    /// The call whose result it is: only of [`Role::Tool`].
    pub(super) answers: Option<String>,
}

/// A call, as the client knows it.
pub(super) struct ClientCall {
    pub(super) id: String,
    pub(super) tool: String,
    /// As they were written, which may be no JSON.
    pub(super) arguments: String,
}

/// A tool that the client executes.
pub(super) struct ClientTool {
    pub(super) name: String,
    pub(super) description: String,
    /// A JSON Schema, as the client has written it.
    pub(super) parameters: String,
}
