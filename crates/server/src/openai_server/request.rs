//! What a client asks, as a [`CompletionRequest`].

use std::collections::HashMap;

use hub::{AnswerShape, CompletionRequest, Purpose};
use ifc::{CallId, History, Label, Labeled, Tool, redact};
use llm::{TokenLimit, ToolChoice};
use serde_json::Value;

use crate::api::request::{self, Takes};
use crate::conversation::{ClientTool, Conversation, Message, Role};

/// Tokens of an answer when the client names no limit.
const DEFAULT_MAX_TOKENS: u32 = 1024;

const TAKES: Takes = Takes {
    images: false,
    unknown_members: true,
    omits_tools: false,
    upstream: llm::Dialect::Chat,
};

#[derive(Debug)]
pub(super) struct Asked {
    pub(super) model: String,
    pub(super) request: CompletionRequest,
    pub(super) stream: bool,
    pub(super) stream_usage: bool,
}

/// Reads a request. Members about sampling are ignored: they are the model's configuration here.
///
/// A client of this server is outside of any information-flow control: it sends text without labels, and gets text without
/// labels. So its messages become a history at ⊥. This is right for a model server and for nothing else; an agent that is to
/// be guarded uses the guard proxy.
///
/// # Errors
/// What is wrong with the request, in one line.
pub(super) fn parse(body: &[u8]) -> Result<Asked, String> {
    let Conversation {
        model,
        messages,
        tools,
        tool_choice,
        token_limit,
        members,
        streams,
        streams_usage,
        dropped: _,
        wants_omitted: _,
    } = request::chat::read(body, TAKES)?;
    if members.contains_key("stop") {
        return Err("`stop` is not supported by this server; leave it out".to_owned());
    }
    // A client that names one tool is offered no other.
    let only = |tool: &ClientTool| match &tool_choice {
        Some(ToolChoice::Tool(name)) => tool.name == *name,
        _ => true,
    };
    let offered = tools.into_iter().filter(only).map(tool_tcb).collect();
    let history = history_tcb(offered, messages)?;
    let shape = match (schema(members.get("response_format"))?, &tool_choice) {
        (Some(schema), _) => AnswerShape::Json { schema },
        (None, Some(ToolChoice::None)) => AnswerShape::Text,
        (None, None) => AnswerShape::TextOrCalls,
        (None, Some(_)) => AnswerShape::Calls,
    };
    Ok(Asked {
        model,
        stream: streams,
        stream_usage: streams_usage,
        request: CompletionRequest {
            prompt: redact(&history, &Label::bottom()),
            purpose: Purpose::Step,
            shape,
            max_tokens: match token_limit {
                TokenLimit::MaxCompletionTokens(limit) | TokenLimit::MaxTokens(limit) => limit,
                _ => DEFAULT_MAX_TOKENS,
            },
        },
    })
}

fn schema(format: Option<&Value>) -> Result<Option<String>, String> {
    let Some(format) = format else {
        return Ok(None);
    };
    match format.get("type").and_then(Value::as_str) {
        Some("text") => Ok(None),
        Some("json_object") => Ok(Some(r#"{"type":"object"}"#.to_owned())),
        Some("json_schema") => match format.pointer("/json_schema/schema") {
            Some(schema) => Ok(Some(schema.to_string())),
            None => Err("`response_format.json_schema.schema` is missing".to_owned()),
        },
        _ => Err("`response_format.type` is unknown".to_owned()),
    }
}

fn tool_tcb(tool: ClientTool) -> Tool {
    Tool {
        label: Label::bottom(),
        name: tool.name,
        description: Labeled::trusted_tcb(tool.description),
        parameters: Labeled::trusted_tcb(tool.parameters),
    }
}

fn history_tcb(tools: Vec<Tool>, messages: Vec<Message>) -> Result<History, String> {
    let bottom = Label::bottom();
    let mut history = History::new(tools);
    let mut calls: HashMap<String, CallId> = HashMap::new();
    for (number, message) in messages.into_iter().enumerate() {
        let content = Labeled::trusted_tcb(message.text);
        match message.role {
            Role::System => history.push_system(content),
            Role::User => history.push_user(content),
            Role::Assistant => {
                let made_calls = message.calls.iter();
                let pairs = made_calls.map(|call| {
                    let arguments = Labeled::trusted_tcb(call.arguments.clone());
                    (call.tool.clone(), arguments)
                });
                let ids = history.push_assistant(&bottom, content, pairs);
                let names = message.calls.into_iter().map(|call| call.id);
                calls.extend(names.zip(ids));
            }
            Role::Tool => {
                let id = message.answers.unwrap_or_default();
                let call = calls.get(&id).ok_or_else(|| {
                    format!("messages[{number}]: `tool_call_id` answers no earlier call")
                })?;
                history.push_result(&bottom, *call, content);
            }
        }
    }
    Ok(history)
}
