//! Requests of Anthropic's Messages, read into a [`Conversation`].
//!
//! One message of theirs can be several of ours: each result of a call is one, and so is each text that the agent's program
//! has put beside the user's.

use llm::{Dialect, TokenLimit, ToolChoice};
use serde::Deserialize;
use serde_json::{Map, Value, json, value::RawValue};

use super::{
    Attached, InChat, Members, Takes, add_block, attach, is_inserted, text_or_list, unsupported,
};
use crate::conversation::{ClientCall, ClientTool, Conversation, Message, Role};

/// Longest tool name that the API takes.
const NAME_LIMIT: usize = 128;
/// The members that only say how to write the answer.
const MEMBERS: &str = "cache_control context_management inference_geo metadata output_config service_tier speed \
stop_sequences temperature thinking top_k top_p";
/// Blocks of what a model has thought, which its upstream has signed.
const THOUGHTS: [&str; 2] = ["thinking", "redacted_thinking"];

#[derive(Deserialize)]
struct Body {
    model: String,
    messages: Vec<Entry>,
    system: Option<Box<RawValue>>,
    tools: Option<Vec<Tool>>,
    tool_choice: Option<Choice>,
    max_tokens: Option<u32>,
    stream: Option<bool>,
    #[serde(flatten)]
    more: Map<String, Value>,
}

#[derive(Deserialize)]
struct Entry {
    role: String,
    content: Box<RawValue>,
}

#[derive(Default, Deserialize)]
struct Block {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
    /// Of an image: a string or an object elsewhere.
    source: Option<Box<RawValue>>,
    /// Of a call.
    id: Option<String>,
    name: Option<String>,
    input: Option<Box<RawValue>>,
    /// Of a result.
    tool_use_id: Option<String>,
    content: Option<Box<RawValue>>,
    is_error: Option<bool>,
    tool_name: Option<String>,
    /// Of a thought.
    thinking: Option<String>,
    signature: Option<String>,
    data: Option<String>,
}

#[derive(Deserialize)]
struct Source {
    data: Option<String>,
}

#[derive(Deserialize)]
struct Tool {
    #[serde(rename = "type")]
    kind: Option<String>,
    name: Option<String>,
    description: Option<String>,
    input_schema: Option<Box<RawValue>>,
    strict: Option<bool>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(rename = "type")]
    kind: String,
    name: Option<String>,
    disable_parallel_tool_use: Option<bool>,
}

/// Reads the body of a request.
///
/// # Errors
/// What is wrong with it, in one line that names the member.
pub(crate) fn read(body: &[u8], takes: Takes) -> Result<Conversation, String> {
    let body: Body = super::parse(body)?;
    super::check_count("messages", body.messages.len())?;
    if let Some(edits) = body.more.get("context_management") {
        check_edits(edits)?;
    }
    let mut members = Members::new(Dialect::Messages, MEMBERS, takes);
    members.pass(body.more, in_chat)?;
    let (mut tools, mut omitted) = (Vec::new(), Vec::new());
    for tool in body.tools.unwrap_or_default() {
        match tool.kind.as_deref() {
            None | Some("custom") => tools.push(tool.read()?),
            Some(kind) => {
                members.leave_out(kind)?;
                omitted.extend(tool.name);
            }
        }
    }
    super::check_tools(tools.iter().map(|tool| &*tool.name))?;
    let wanted = body
        .tool_choice
        .as_ref()
        .and_then(|choice| choice.name.clone());
    let wants_omitted = wanted.filter(|wanted| omitted.contains(wanted));
    let tool_choice = match body
        .tool_choice
        .as_ref()
        .filter(|_| wants_omitted.is_none())
    {
        None => tools.is_empty().then_some(ToolChoice::None),
        Some(choice) => choice.read(&tools, &mut members)?,
    };
    let mut messages = Vec::new();
    if let Some(system) = body.system {
        let system = text(Some(&system)).map_err(|error| format!("system: {error}"))?;
        messages.push(Message::new("system".to_owned(), Role::System, system));
    }
    for (number, entry) in body.messages.into_iter().enumerate() {
        let place = format!("messages[{number}]");
        let read = entry.read(&place, takes, &mut messages);
        read.map_err(|error| format!("{place}: {error}"))?;
    }
    Ok(Conversation {
        model: body.model,
        messages,
        tools,
        tool_choice,
        wants_omitted,
        token_limit: body
            .max_tokens
            .map_or(TokenLimit::Server, TokenLimit::MaxTokens),
        members: members.given,
        dropped: members.dropped,
        streams: body.stream.unwrap_or(false),
        streams_usage: true,
    })
}

impl Entry {
    fn read(self, place: &str, takes: Takes, messages: &mut Vec<Message>) -> Result<(), String> {
        let new = |role, text| Message::new(place.to_owned(), role, text);
        match self.role.as_str() {
            // Between the messages a developer does not speak, but the agent's program: instructions of MCP servers stand
            // here too.
            "system" => messages.push(Message {
                is_inserted: true,
                ..new(Role::System, text(Some(&self.content))?)
            }),
            "user" => {
                let (mut beside, mut said) = (Vec::new(), new(Role::User, String::new()));
                let mut attached = Attached::default();
                for block in blocks(Some(&self.content))? {
                    match block.kind.as_str() {
                        // Results are for the calls right before them, so they go first.
                        "tool_result" => messages.push(block.result(place, takes)?),
                        "text" if attached.has(block.text()?) | is_inserted(block.text()?) => {
                            beside.push(Message {
                                is_inserted: true,
                                ..new(Role::User, block.text.unwrap_or_default())
                            });
                        }
                        _ => {
                            attached.has("");
                            block.add_to(&mut said, takes)?;
                        }
                    }
                }
                messages.extend(beside);
                if !said.text.is_empty() || !said.images.is_empty() {
                    messages.push(said);
                }
            }
            "assistant" => {
                let mut said = new(Role::Assistant, String::new());
                for block in blocks(Some(&self.content))? {
                    match block.kind.as_str() {
                        "tool_use" => said.calls.push(block.call()?),
                        "text" => add_block(&mut said, block.text()?),
                        // For an upstream of this API, which has signed them.
                        kind if THOUGHTS.contains(&kind) => {
                            let is_own = takes.upstream == Dialect::Messages;
                            said.unread.extend(is_own.then(|| block.thought()));
                        }
                        kind => return Err(unsupported(Some(kind))),
                    }
                }
                messages.push(said);
            }
            _ => return Err("unknown `role`".to_owned()),
        }
        Ok(())
    }
}

/// The blocks of a content.
fn blocks(content: Option<&RawValue>) -> Result<Vec<Block>, String> {
    text_or_list(content, |text| Block {
        kind: "text".to_owned(),
        text: Some(text),
        ..Block::default()
    })
}

/// The text of a content that has nothing else.
fn text(content: Option<&RawValue>) -> Result<String, String> {
    let mut message = Message::new(String::new(), Role::System, String::new());
    for block in blocks(content)? {
        match block.kind.as_str() {
            "text" => add_block(&mut message, block.text()?),
            kind => return Err(unsupported(Some(kind))),
        }
    }
    Ok(message.text)
}

impl Block {
    fn text(&self) -> Result<&str, String> {
        let text = self.text.as_deref();
        text.ok_or_else(|| "a `text` block has no `text`".to_owned())
    }

    /// Adds a text or an image.
    fn add_to(&self, message: &mut Message, takes: Takes) -> Result<(), String> {
        match self.kind.as_str() {
            "text" => add_block(message, self.text()?),
            "image" => {
                let source = self.source.as_deref().map_or("{}", RawValue::get);
                let source: Source =
                    serde_json::from_str(source).map_err(|error| error.to_string())?;
                attach(message, super::image(source.data.as_deref())?, takes)?;
            }
            // The name of a tool that has become one of the request's own.
            "tool_reference" => {
                let name = self.tool_name.as_deref().unwrap_or_default();
                add_block(message, &format!("tool: {name}"));
            }
            kind => return Err(unsupported(Some(kind))),
        }
        Ok(())
    }

    fn thought(self) -> Value {
        match self.data {
            Some(data) => json!({"type": self.kind, "data": data}),
            None => {
                json!({"type": self.kind, "thinking": self.thinking, "signature": self.signature})
            }
        }
    }

    fn result(self, place: &str, takes: Takes) -> Result<Message, String> {
        let mut result = Message::new(place.to_owned(), Role::Tool, String::new());
        for block in blocks(self.content.as_deref())? {
            block.add_to(&mut result, takes)?;
        }
        result.answers = self.tool_use_id;
        result.is_error = self.is_error.unwrap_or(false);
        Ok(result)
    }

    fn call(self) -> Result<ClientCall, String> {
        let missing = |name| format!("a `tool_use` block has no `{name}`");
        Ok(ClientCall {
            id: self.id.ok_or_else(|| missing("id"))?,
            tool: self.name.ok_or_else(|| missing("name"))?,
            arguments: self.input.ok_or_else(|| missing("input"))?.get().to_owned(),
        })
    }
}

impl Tool {
    fn read(self) -> Result<ClientTool, String> {
        let tool = super::tool(
            self.name.unwrap_or_default(),
            self.description,
            self.input_schema,
            NAME_LIMIT,
        )?;
        Ok(ClientTool {
            strict: self.strict,
            ..tool
        })
    }
}

impl Choice {
    fn read(
        &self,
        tools: &[ClientTool],
        members: &mut Members<'_>,
    ) -> Result<Option<ToolChoice>, String> {
        if self.disable_parallel_tool_use == Some(true) {
            match members.takes.upstream {
                Dialect::Messages => members
                    .dropped
                    .insert("disable_parallel_tool_use".to_owned()),
                Dialect::Chat | Dialect::Responses => {
                    let name = "parallel_tool_calls".to_owned();
                    members.given.insert(name, Value::Bool(false)).is_some()
                }
            };
        }
        let name = self.name.as_deref();
        let is_offered = |name: &&str| tools.iter().any(|tool| tool.name == *name);
        match self.kind.as_str() {
            "none" => Ok(Some(ToolChoice::None)),
            "auto" => Ok(tools.is_empty().then_some(ToolChoice::None)),
            "any" if !tools.is_empty() => Ok(Some(ToolChoice::Required)),
            "tool" => match name.filter(is_offered) {
                Some(name) => Ok(Some(ToolChoice::Tool(name.to_owned()))),
                None => Err("`tool_choice` names a tool that is not in `tools`".to_owned()),
            },
            "any" => Err("`tool_choice` is `any`, but there are no `tools`".to_owned()),
            _ => Err("`tool_choice` must be `auto`, `any`, `tool` or `none`".to_owned()),
        }
    }
}

/// A member in chat completions.
fn in_chat(name: &str, value: &Value) -> Result<InChat, String> {
    let member = match name {
        "temperature" | "top_p" if !value.is_number() => {
            return Err(format!("`{name}` must be a number"));
        }
        "temperature" => "temperature",
        "top_p" => "top_p",
        "stop_sequences" if !super::chat::is_stop(value) => {
            return Err(format!("`{name}` must be a list of strings"));
        }
        "stop_sequences" => "stop",
        "output_config" => {
            let schema = value.pointer("/format/schema");
            let format = schema.map(|schema| super::json_schema("answer", schema, None));
            let more = value
                .as_object()
                .is_none_or(|config| config.len() > usize::from(format.is_some()));
            return Ok((format.map(|format| ("response_format", format)), more));
        }
        _ => return Ok((None, true)),
    };
    Ok((Some((member, value.clone())), false))
}

/// Checks that context is only cleared by the upstream: a summary of its own would be text that no label covers.
fn check_edits(edits: &Value) -> Result<(), String> {
    let edits = edits.get("edits").and_then(Value::as_array);
    for edit in edits.into_iter().flatten() {
        let kind = edit.get("type").and_then(Value::as_str).unwrap_or_default();
        if !kind.starts_with("clear_") {
            let kind = llm::one_line(kind);
            return Err(format!(
                "`context_management`: `{kind}` is not supported; leave it out"
            ));
        }
    }
    Ok(())
}
