//! Requests of OpenAI's Responses, read into a [`Conversation`].
//!
//! A step of the assistant is several items there (thoughts, text, calls) and one message here.

use llm::{Dialect, TokenLimit, ToolChoice};
use serde::Deserialize;
use serde_json::{
    Map, Value, json,
    value::{RawValue, to_raw_value},
};

use super::{
    Attached, InChat, Members, Takes, add_block, attach, image_at, is_inserted, text_or_list,
    unsupported,
};
use crate::conversation::{ClientCall, ClientTool, Conversation, Message, Role};

/// Longest name of a tool with its namespace.
const NAME_LIMIT: usize = 128;
/// The members that only say how to write the answer.
const MEMBERS: &str = "client_metadata include max_tool_calls metadata parallel_tool_calls prompt_cache_key \
prompt_cache_retention reasoning safety_identifier service_tier stream_options temperature text top_p truncation user";

#[derive(Deserialize)]
struct Body {
    model: String,
    input: Box<RawValue>,
    instructions: Option<String>,
    tools: Option<Vec<Tool>>,
    tool_choice: Option<Value>,
    max_output_tokens: Option<u32>,
    store: Option<bool>,
    previous_response_id: Option<Value>,
    stream: Option<bool>,
    #[serde(flatten)]
    more: Map<String, Value>,
}

#[derive(Deserialize)]
struct Format {
    #[serde(rename = "type")]
    kind: String,
    name: Option<String>,
    schema: Option<Value>,
    strict: Option<bool>,
}

#[derive(Default, Deserialize)]
struct Item {
    #[serde(rename = "type")]
    kind: Option<String>,
    role: Option<String>,
    content: Option<Box<RawValue>>,
    call_id: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    arguments: Option<String>,
    /// The argument of a custom tool.
    input: Option<String>,
    output: Option<Box<RawValue>>,
    /// Of thoughts.
    id: Option<String>,
    summary: Option<Value>,
    encrypted_content: Option<String>,
}

#[derive(Default, Deserialize)]
struct Part {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
    refusal: Option<String>,
    image_url: Option<String>,
}

#[derive(Deserialize)]
struct Tool {
    #[serde(rename = "type")]
    kind: String,
    name: Option<String>,
    description: Option<String>,
    parameters: Option<Box<RawValue>>,
    strict: Option<bool>,
    /// Of a namespace.
    tools: Option<Vec<Tool>>,
}

/// Reads the body of a request.
///
/// # Errors
/// What is wrong with it, in one line that names the member.
pub(crate) fn read(body: &[u8], takes: Takes) -> Result<Conversation, String> {
    let body: Body = super::parse(body)?;
    let kept = "keeps no conversation; send all of it each time, and `store`: false";
    if body.store == Some(true) {
        return Err(format!("`store` is not supported: this proxy {kept}"));
    }
    if body.previous_response_id.is_some_and(|id| !id.is_null()) {
        return Err(format!(
            "`previous_response_id` is not supported: this proxy {kept}"
        ));
    }
    let mut members = Members::new(Dialect::Responses, MEMBERS, takes);
    members.pass(body.more, in_chat)?;
    let mut tools = Vec::new();
    for tool in body.tools.unwrap_or_default() {
        tool.read(&mut tools, &mut members)?;
    }
    super::check_tools(tools.iter().map(|tool| &*tool.name))?;
    if tools.is_empty() {
        // An API without tools refuses a word on them.
        members.given.remove("parallel_tool_calls");
    }
    let tool_choice = tool_choice(body.tool_choice.as_ref(), &tools)?;
    let mut reading = Reading {
        takes,
        messages: Vec::new(),
        has_begun: false,
        thoughts: Vec::new(),
    };
    if let Some(instructions) = body.instructions {
        let place = "instructions".to_owned();
        reading
            .messages
            .push(Message::new(place, Role::System, instructions));
    }
    let items = text_or_list(Some(&body.input), |text| Item {
        role: Some("user".to_owned()),
        content: to_raw_value(&text).ok(),
        ..Item::default()
    })?;
    super::check_count("input", items.len())?;
    for (number, item) in items.into_iter().enumerate() {
        let place = format!("input[{number}]");
        let read = reading.item(&place, item);
        read.map_err(|error| format!("{place}: {error}"))?;
    }
    Ok(Conversation {
        model: body.model,
        messages: reading.messages,
        tools,
        tool_choice,
        wants_omitted: None,
        token_limit: body
            .max_output_tokens
            .map_or(TokenLimit::Server, TokenLimit::MaxTokens),
        members: members.given,
        dropped: members.dropped,
        streams: body.stream.unwrap_or(false),
        streams_usage: true,
    })
}

struct Reading {
    takes: Takes,
    messages: Vec<Message>,
    /// Whether anybody but the developer has spoken.
    has_begun: bool,
    /// Those of the step that comes next, for an upstream of this API, which has encrypted them.
    thoughts: Vec<Value>,
}

impl Reading {
    fn item(&mut self, place: &str, item: Item) -> Result<(), String> {
        let kind = item.kind.as_deref().unwrap_or("message");
        let is_thought = kind == "reasoning";
        let new = |role| Message::new(place.to_owned(), role, String::new());
        match kind {
            "message" => match item.role.as_deref() {
                Some("system" | "developer") => {
                    let mut said = new(Role::System);
                    self.content(&mut said, item.content.as_deref())?;
                    // Behind the first words of anybody else it is the agent's program that speaks.
                    said.is_inserted = self.has_begun;
                    self.messages.push(said);
                    return Ok(());
                }
                Some("user") => {
                    let mut said = new(Role::User);
                    self.content(&mut said, item.content.as_deref())?;
                    self.messages.push(said);
                }
                Some("assistant") => {
                    let mut said = new(Role::Assistant);
                    self.content(&mut said, item.content.as_deref())?;
                    // Two texts are two answers, and what stands behind a call belongs to the step that made it.
                    match self.step() {
                        Some(step) if !step.calls.is_empty() => add_block(step, &said.text),
                        _ => self.begin(said),
                    }
                }
                _ => return Err("unknown `role`".to_owned()),
            },
            // What another agent of Codex's says to this one.
            "agent_message" => {
                let mut said = new(Role::User);
                self.content(&mut said, item.content.as_deref())?;
                said.is_inserted = true;
                self.messages.push(said);
            }
            "function_call" | "custom_tool_call" => {
                let call = item.call()?;
                match self.step() {
                    Some(step) => step.calls.push(call),
                    None => self.begin(Message {
                        calls: vec![call],
                        ..new(Role::Assistant)
                    }),
                }
            }
            "function_call_output" | "custom_tool_call_output" => {
                let mut result = new(Role::Tool);
                self.content(&mut result, item.output.as_deref())?;
                result.answers = item.call_id;
                self.messages.push(result);
            }
            "reasoning" if self.takes.upstream == Dialect::Responses => {
                self.thoughts.push(item.thought());
            }
            "reasoning" => {}
            "additional_tools" => {
                return Err("`additional_tools` is not supported: no call that a script makes can be decided on. Codex needs a \
                            model catalogue without `tool_mode`, and `use_responses_lite` false"
                    .to_owned());
            }
            kind => return Err(unsupported(Some(kind))),
        }
        if !is_thought {
            self.thoughts.clear();
        }
        self.has_begun = true;
        Ok(())
    }

    fn begin(&mut self, step: Message) {
        let unread = std::mem::take(&mut self.thoughts);
        self.messages.push(Message { unread, ..step });
    }

    /// The step of the assistant that goes on.
    fn step(&mut self) -> Option<&mut Message> {
        let newest = self.messages.last_mut();
        newest.filter(|newest| newest.role == Role::Assistant)
    }

    fn content(&self, message: &mut Message, content: Option<&RawValue>) -> Result<(), String> {
        let parts = text_or_list(content, |text| Part {
            kind: "input_text".to_owned(),
            text: Some(text),
            ..Part::default()
        })?;
        let mut attached = Attached::default();
        for part in parts {
            match part.kind.as_str() {
                "input_text" | "output_text" | "text" => {
                    let text = part.text.as_deref().unwrap_or_default();
                    message.is_inserted |= message.role == Role::User && is_inserted(text);
                    let before = message.text.len();
                    add_block(message, text);
                    let is_attached = attached.has(text);
                    let span = is_attached.then_some(before..message.text.len());
                    message.attached.extend(span);
                }
                "refusal" => add_block(message, part.refusal.as_deref().unwrap_or_default()),
                "input_image" if matches!(message.role, Role::User | Role::Tool) => {
                    attached.has("");
                    attach(message, image_at(part.image_url.as_deref())?, self.takes)?;
                }
                kind => return Err(unsupported(Some(kind))),
            }
        }
        Ok(())
    }
}

impl Item {
    fn thought(self) -> Value {
        json!({"type": "reasoning", "id": self.id, "summary": self.summary,
            "encrypted_content": self.encrypted_content})
    }

    fn call(self) -> Result<ClientCall, String> {
        let missing = |name| format!("a call has no `{name}`");
        let name = self.name.ok_or_else(|| missing("name"))?;
        Ok(ClientCall {
            id: self.call_id.ok_or_else(|| missing("call_id"))?,
            tool: match &self.namespace {
                Some(namespace) => qualified(namespace, &name),
                None => name,
            },
            arguments: match (self.arguments, self.input) {
                (Some(arguments), _) => arguments,
                (None, Some(input)) => json!({ "input": input }).to_string(),
                (None, None) => return Err(missing("arguments")),
            },
        })
    }
}

/// The name of a tool by which it is told from one of the same name in another namespace.
fn qualified(namespace: &str, name: &str) -> String {
    format!("{}__{name}", namespace.trim_end_matches('_'))
}

impl Tool {
    fn read(self, tools: &mut Vec<ClientTool>, members: &mut Members<'_>) -> Result<(), String> {
        let name = self.name.unwrap_or_default();
        match self.kind.as_str() {
            "function" => tools.push(ClientTool {
                strict: self.strict,
                ..super::tool(name, self.description, self.parameters, NAME_LIMIT)?
            }),
            "namespace" => {
                let first = tools.len();
                for mut tool in self.tools.unwrap_or_default() {
                    if tool.tools.is_some() {
                        return Err("`tools`: a namespace has no namespaces in it".to_owned());
                    }
                    let own = tool.name.unwrap_or_default();
                    tool.name = Some(qualified(&name, &own));
                    tool.read(tools, members)?;
                }
                for tool in tools.iter_mut().skip(first) {
                    tool.namespace = Some(name.clone());
                }
                // What a server says of all its tools.
                if let (Some(tool), Some(words)) = (tools.get_mut(first), self.description) {
                    tool.description = format!("{words}\n\n{}", tool.description);
                }
            }
            kind => members.leave_out(kind)?,
        }
        Ok(())
    }
}

/// The calls that the client wants; `None` if the model is free to choose.
fn tool_choice(choice: Option<&Value>, tools: &[ClientTool]) -> Result<Option<ToolChoice>, String> {
    let free = tools.is_empty().then_some(ToolChoice::None);
    let Some(choice) = choice.filter(|choice| !choice.is_null()) else {
        return Ok(free);
    };
    let member = |name| choice.get(name).and_then(Value::as_str);
    match (choice.as_str(), member("type"), member("name")) {
        (Some("auto"), ..) => Ok(free),
        (Some("none"), ..) => Ok(Some(ToolChoice::None)),
        (Some("required"), ..) if !tools.is_empty() => Ok(Some(ToolChoice::Required)),
        (_, Some("function"), Some(name)) if tools.iter().any(|tool| tool.name == name) => {
            Ok(Some(ToolChoice::Tool(name.to_owned())))
        }
        _ => Err(
            "`tool_choice` must be `none`, `auto`, `required` or a function of `tools`".to_owned(),
        ),
    }
}

/// A member in chat completions.
fn in_chat(name: &str, value: &Value) -> Result<InChat, String> {
    let is_fit = match name {
        "temperature" | "top_p" => value.is_number(),
        "parallel_tool_calls" => value.is_boolean(),
        "text" => {
            let format = value.get("format").map(Format::deserialize).transpose();
            let format = format.map_err(|error| format!("`text.format`: {error}"))?;
            let rest = usize::from(format.is_some());
            let more = value.as_object().is_none_or(|text| text.len() > rest);
            let format = format.map(Format::read).transpose()?.flatten();
            return Ok((format.map(|format| ("response_format", format)), more));
        }
        _ => return Ok((None, true)),
    };
    let name = match name {
        "temperature" => "temperature",
        "top_p" => "top_p",
        _ => "parallel_tool_calls",
    };
    match is_fit {
        true => Ok((Some((name, value.clone())), false)),
        false => Err(format!("`{name}` has another type in the API")),
    }
}

impl Format {
    /// The same in chat completions.
    fn read(self) -> Result<Option<Value>, String> {
        let name = self.name.as_deref().unwrap_or("answer");
        match (self.kind.as_str(), &self.schema) {
            ("text", _) => Ok(None),
            ("json_object", _) => Ok(Some(json!({"type": "json_object"}))),
            ("json_schema", Some(schema)) => {
                Ok(Some(super::json_schema(name, schema, self.strict)))
            }
            _ => Err("`text.format` must be `text`, `json_object` or a `json_schema`".to_owned()),
        }
    }
}
