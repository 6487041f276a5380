//! What a client asks: OpenAI's chat completion request, as a [`CompletionRequest`].

use std::collections::HashMap;

use agent::{AnswerShape, CompletionRequest, Purpose};
use ifc::{CallId, History, Label, Labeled, Tool, redact};
use serde::Deserialize;
use serde_json::Value;

/// Tokens of an answer when the client names no limit.
const DEFAULT_MAX_TOKENS: u32 = 1024;
/// Messages of a request: more than fit into any context.
const MAX_MESSAGES: usize = 10_000;
/// Tools of a request. The original takes 128.
const MAX_TOOLS: usize = 1024;

/// A request that this server can serve.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) model: String,
    pub(super) request: CompletionRequest,
    pub(super) stream: bool,
    pub(super) stream_usage: bool,
}

/// The fields that this server knows. Others, such as `temperature`, are the model's configuration
/// here, and are ignored.
#[derive(Deserialize)]
struct Body {
    model: String,
    messages: Vec<Message>,
    #[serde(default)]
    tools: Vec<ToolEntry>,
    tool_choice: Option<Value>,
    response_format: Option<ResponseFormat>,
    max_tokens: Option<u32>,
    max_completion_tokens: Option<u32>,
    n: Option<u32>,
    stop: Option<Value>,
    logprobs: Option<bool>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
}

#[derive(Deserialize)]
struct StreamOptions {
    include_usage: Option<bool>,
}

#[derive(Deserialize)]
struct Message {
    role: String,
    /// A string, a list of parts, or null.
    #[serde(default)]
    content: Value,
    #[serde(default)]
    tool_calls: Option<Vec<ToolCall>>,
    tool_call_id: Option<String>,
}

#[derive(Deserialize)]
struct ToolCall {
    id: String,
    function: CalledFunction,
}

#[derive(Deserialize)]
struct CalledFunction {
    name: String,
    arguments: String,
}

#[derive(Deserialize)]
struct ToolEntry {
    function: Function,
}

#[derive(Deserialize)]
struct Function {
    name: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    parameters: Option<Value>,
}

#[derive(Deserialize)]
struct ResponseFormat {
    r#type: String,
    json_schema: Option<JsonSchema>,
}

#[derive(Deserialize)]
struct JsonSchema {
    schema: Option<Value>,
}

/// Reads a request, or says in one line what is wrong with it.
///
/// A client of this server is outside of any information-flow control: it sends text without
/// labels, and gets text without labels. So its messages become a history at ⊥. This is right for
/// a model server and for nothing else; an agent that is to be guarded uses the guard proxy.
pub(super) fn parse(body: &[u8]) -> Result<Asked, String> {
    let body: Body = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    refuse_unsupported(&body)?;
    let (shape, only) = shape(&body)?;
    let tools = body
        .tools
        .iter()
        .filter(|tool| only.as_ref().is_none_or(|only| *only == tool.function.name))
        .map(|tool| tool_tcb(&tool.function))
        .collect();
    let history = history_tcb(tools, &body.messages)?;
    let max_tokens = body.max_completion_tokens.or(body.max_tokens);
    Ok(Asked {
        model: body.model,
        request: CompletionRequest {
            prompt: redact(&history, &Label::bottom()),
            purpose: Purpose::Step,
            shape,
            max_tokens: max_tokens.unwrap_or(DEFAULT_MAX_TOKENS),
        },
        stream: body.stream.unwrap_or(false),
        stream_usage: body
            .stream_options
            .and_then(|options| options.include_usage)
            .unwrap_or(false),
    })
}

fn refuse_unsupported(body: &Body) -> Result<(), String> {
    if body.n.is_some_and(|n| n != 1) {
        return Err("`n` must be 1 on this server".to_owned());
    }
    if body.stop.as_ref().is_some_and(|stop| !stop.is_null()) {
        return Err("`stop` is not supported by this server; leave it out".to_owned());
    }
    if body.logprobs == Some(true) {
        return Err("`logprobs` is not supported by this server; leave it out".to_owned());
    }
    if body.messages.is_empty() || body.messages.len() > MAX_MESSAGES {
        return Err(format!("`messages` must have 1 to {MAX_MESSAGES} items"));
    }
    if body.tools.len() > MAX_TOOLS {
        return Err(format!("`tools` must have at most {MAX_TOOLS} items"));
    }
    Ok(())
}

/// The answer's shape, and the one tool that must be called if the client names it.
fn shape(body: &Body) -> Result<(AnswerShape, Option<String>), String> {
    if let Some(format) = &body.response_format {
        let schema = match format.r#type.as_str() {
            "text" => None,
            "json_object" => Some(serde_json::json!({"type": "object"})),
            "json_schema" => {
                let schema = format.json_schema.as_ref().and_then(|s| s.schema.clone());
                Some(schema.ok_or("`response_format.json_schema.schema` is missing")?)
            }
            _ => return Err("`response_format.type` is unknown".to_owned()),
        };
        if let Some(schema) = schema {
            let schema = schema.to_string();
            return Ok((AnswerShape::Json { schema }, None));
        }
    }
    match &body.tool_choice {
        None if body.tools.is_empty() => Ok((AnswerShape::Text, None)),
        None => Ok((AnswerShape::TextOrCalls, None)),
        Some(Value::String(choice)) => match choice.as_str() {
            "none" => Ok((AnswerShape::Text, None)),
            "auto" if body.tools.is_empty() => Ok((AnswerShape::Text, None)),
            "auto" => Ok((AnswerShape::TextOrCalls, None)),
            "required" if !body.tools.is_empty() => Ok((AnswerShape::Calls, None)),
            "required" => Err("`tool_choice` is `required`, but there are no `tools`".to_owned()),
            _ => Err("`tool_choice` must be `none`, `auto`, `required` or a function".to_owned()),
        },
        Some(choice) => {
            let name = choice.pointer("/function/name").and_then(Value::as_str);
            let name = name.ok_or("`tool_choice.function.name` is missing")?;
            if !body.tools.iter().any(|tool| tool.function.name == name) {
                return Err("`tool_choice` names a function that is not in `tools`".to_owned());
            }
            Ok((AnswerShape::Calls, Some(name.to_owned())))
        }
    }
}

fn tool_tcb(function: &Function) -> Tool {
    let parameters = match &function.parameters {
        Some(parameters) => parameters.to_string(),
        None => r#"{"type":"object","properties":{}}"#.to_owned(),
    };
    Tool {
        name: function.name.clone(),
        description: Labeled::trusted_tcb(function.description.clone().unwrap_or_default()),
        parameters: Labeled::trusted_tcb(parameters),
    }
}

fn history_tcb(tools: Vec<Tool>, messages: &[Message]) -> Result<History, String> {
    let bottom = Label::bottom();
    let mut history = History::new(tools);
    let mut calls: HashMap<&str, CallId> = HashMap::new();
    for (number, message) in messages.iter().enumerate() {
        let content =
            text(&message.content).map_err(|error| format!("messages[{number}]: {error}"))?;
        let content = Labeled::trusted_tcb(content);
        match message.role.as_str() {
            "system" | "developer" => history.push_system(content),
            "user" => history.push_user(content),
            "assistant" => {
                let made = message.tool_calls.as_deref().unwrap_or_default();
                let pairs = made.iter().map(|call| {
                    let arguments = Labeled::trusted_tcb(call.function.arguments.clone());
                    (call.function.name.clone(), arguments)
                });
                let ids = history.push_assistant(&bottom, content, pairs);
                calls.extend(made.iter().map(|call| call.id.as_str()).zip(ids));
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

/// The text of a message: a string, parts of type `text`, or nothing.
fn text(content: &Value) -> Result<String, &'static str> {
    match content {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text.clone()),
        Value::Array(parts) => parts
            .iter()
            .map(|part| {
                let kind = part.get("type").and_then(Value::as_str);
                let text = part.get("text").and_then(Value::as_str);
                text.filter(|_| kind == Some("text"))
            })
            .collect::<Option<String>>()
            .ok_or("only parts of type `text` are supported"),
        _ => Err("`content` must be a string or a list of parts"),
    }
}
