//! What a client asks, as a [`CompletionRequest`].

use std::collections::HashMap;

use hub::{AnswerShape, CompletionRequest, Purpose};
use ifc::{CallId, History, Label, Labeled, Tool, redact};
use serde_json::Value;

use crate::openai_api::request::{self, ChatBody, ChatMessage, Choice, Function};

/// Tokens of an answer when the client names no limit.
const DEFAULT_MAX_TOKENS: u32 = 1024;

/// A request that this server can serve.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) model: String,
    pub(super) request: CompletionRequest,
    pub(super) stream: bool,
    pub(super) stream_usage: bool,
}

/// Reads a request, or says in one line what is wrong with it. Members that say how to sample are
/// the model's configuration here, and are passed over.
///
/// A client of this server is outside of any information-flow control: it sends text without
/// labels, and gets text without labels. So its messages become a history at ⊥. This is right for
/// a model server and for nothing else; an agent that is to be guarded uses the guard proxy.
pub(super) fn parse(body: &[u8]) -> Result<Asked, String> {
    let body = request::parse(body)?;
    refuse_unsupported(&body)?;
    let (shape, only) = shape(&body)?;
    let tools = body
        .tools()
        .iter()
        .filter(|tool| only.as_ref().is_none_or(|only| *only == tool.function.name))
        .map(|tool| tool_tcb(&tool.function))
        .collect();
    let history = history_tcb(tools, &body.messages)?;
    let max_tokens = body.max_completion_tokens.or(body.max_tokens);
    Ok(Asked {
        stream: body.streams(),
        stream_usage: body.streams_usage(),
        model: body.model,
        request: CompletionRequest {
            prompt: redact(&history, &Label::bottom()),
            purpose: Purpose::Step,
            shape,
            max_tokens: max_tokens.unwrap_or(DEFAULT_MAX_TOKENS),
        },
    })
}

fn refuse_unsupported(body: &ChatBody) -> Result<(), String> {
    if body.n.is_some_and(|n| n != 1) {
        return Err("`n` must be 1 on this server".to_owned());
    }
    if body.stop.as_ref().is_some_and(|stop| !stop.is_null()) {
        return Err("`stop` is not supported by this server; leave it out".to_owned());
    }
    Ok(())
}

/// The answer's shape, and the one tool that must be called if the client names it.
fn shape(body: &ChatBody) -> Result<(AnswerShape, Option<String>), String> {
    if let Some(schema) = schema(body)? {
        return Ok((AnswerShape::Json { schema }, None));
    }
    Ok(match body.choice()? {
        Choice::None => (AnswerShape::Text, None),
        Choice::Auto => (AnswerShape::TextOrCalls, None),
        Choice::Required => (AnswerShape::Calls, None),
        Choice::Tool(name) => (AnswerShape::Calls, Some(name)),
    })
}

/// The JSON Schema that `response_format` asks for.
fn schema(body: &ChatBody) -> Result<Option<String>, String> {
    let Some(format) = &body.response_format else {
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

fn tool_tcb(function: &Function) -> Tool {
    Tool {
        label: Label::bottom(),
        name: function.name.clone(),
        description: Labeled::trusted_tcb(function.description()),
        parameters: Labeled::trusted_tcb(function.parameters()),
    }
}

fn history_tcb(tools: Vec<Tool>, messages: &[ChatMessage]) -> Result<History, String> {
    let bottom = Label::bottom();
    let mut history = History::new(tools);
    let mut calls: HashMap<&str, CallId> = HashMap::new();
    for (number, message) in messages.iter().enumerate() {
        let content = message
            .text()
            .map_err(|error| format!("messages[{number}]: {error}"))?;
        let content = Labeled::trusted_tcb(content);
        match message.role.as_str() {
            "system" | "developer" => history.push_system(content),
            "user" => history.push_user(content),
            "assistant" => {
                let made_calls = message.calls();
                let pairs = made_calls.iter().map(|call| {
                    let arguments = Labeled::trusted_tcb(call.function.arguments.clone());
                    (call.function.name.clone(), arguments)
                });
                let ids = history.push_assistant(&bottom, content, pairs);
                calls.extend(made_calls.iter().map(|call| call.id.as_str()).zip(ids));
            }
            "tool" => {
                let id = message.tool_call_id.as_deref().unwrap_or_default();
                let call = calls.get(id).ok_or_else(|| {
                    format!("messages[{number}]: `tool_call_id` answers no earlier call")
                })?;
                history.push_result(&bottom, *call, content);
            }
            _ => return Err(format!("messages[{number}]: unknown `role`")),
        }
    }
    Ok(history)
}
