//! A client's request, independent of the API it came by. Every dialect reads one; the proxy and the model server work on it.

use std::collections::BTreeSet;
use std::ops::Range;

use ifc::Image;
use llm::{TokenLimit, ToolChoice};
use serde_json::{Map, Value};

/// A conversation that a client brings, and how it wants it to go on.
pub(crate) struct Conversation {
    pub(crate) model: String,
    pub(crate) messages: Vec<Message>,
    pub(crate) tools: Vec<ClientTool>,
    /// Which calls are wished, if the model is not free to choose.
    pub(crate) tool_choice: Option<ToolChoice>,
    pub(crate) token_limit: TokenLimit,
    /// The tool that is wanted, if it is one that was left out.
    pub(crate) wants_omitted: Option<String>,
    /// Members that only say how to write the answer, for the upstream.
    pub(crate) members: Map<String, Value>,
    /// What only tunes the answer and the upstream's API does not have, by name: it goes nowhere.
    pub(crate) dropped: BTreeSet<String>,
    pub(crate) streams: bool,
    /// Whether a stream ends with what it cost.
    pub(crate) streams_usage: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// The developer.
    System,
    User,
    Assistant,
    /// The client, which executed a call.
    Tool,
}

impl Role {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }
}

pub(crate) struct Message {
    /// Where it stands in the client's request, as `messages[3]`.
    pub(crate) place: String,
    pub(crate) role: Role,
    /// Whether the agent's program has put it there: what it found (files, instructions of servers, reminders) under the
    /// developer's or the user's role.
    pub(crate) is_inserted: bool,
    /// The parts of a user's text that the agent's program has put there, such as files that are attached.
    pub(crate) attached: Vec<Range<usize>>,
    /// The name that the client gave the speaker.
    pub(crate) name: Option<String>,
    pub(crate) text: String,
    pub(crate) images: Vec<Image>,
    /// The calls that it makes: only of [`Role::Assistant`].
    pub(crate) calls: Vec<ClientCall>,
    /// The call whose result it is: only of [`Role::Tool`].
    pub(crate) answers: Option<String>,
    /// Whether the client says that the call failed.
    pub(crate) is_error: bool,
    /// What an upstream of the same API gave with this step and needs back: only of [`Role::Assistant`].
    pub(crate) unread: Vec<Value>,
}

impl Message {
    pub(crate) fn new(place: String, role: Role, text: String) -> Self {
        Self {
            place,
            role,
            is_inserted: false,
            attached: Vec::new(),
            name: None,
            text,
            images: Vec::new(),
            calls: Vec::new(),
            answers: None,
            is_error: false,
            unread: Vec::new(),
        }
    }
}

pub(crate) struct ClientCall {
    pub(crate) id: String,
    pub(crate) tool: String,
    /// As they were written, which may be no JSON.
    pub(crate) arguments: String,
}

pub(crate) struct ClientTool {
    pub(crate) name: String,
    pub(crate) description: String,
    /// A JSON Schema, as the client has written it.
    pub(crate) parameters: String,
    /// Whether its arguments must fit exactly, if the client says so.
    pub(crate) strict: Option<bool>,
    /// The namespace that its name begins with, in an API that keeps the two apart.
    pub(crate) namespace: Option<String>,
}
