//! A request as Anthropic's messages write it.

use std::collections::BTreeMap;

use ifc::{Image, PromptCall, PromptMessage};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use super::asked::{Asked, Choice, before, encoded};

/// Members of the body that no option may set in another way.
const OWN: &str =
    "model system messages tools tool_choice parallel_tool_calls max_tokens stream output_config";
/// Members that are sent only with thoughts.
const OF_THOUGHTS: [&str; 2] = ["thinking", "context_management"];
/// The limit on generated tokens where the caller names none, since the API wants one. No model in use takes fewer.
const MAX_TOKENS: u32 = 32_000;
/// By this beta feature instructions may be among the messages.
const SYSTEM_IN_PLACE: &str = "mid-conversation-system";
/// Before an answer that nothing came before: the API wants the user to begin.
const BEGINNING: &str = "(The beginning of the conversation is left out.)";
const NO_PARAMETERS: &str = r#"{"type":"object"}"#;

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Value>,
    messages: Vec<Message>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
    stream: bool,
    #[serde(flatten)]
    more: BTreeMap<&'a String, &'a Value>,
}

#[derive(Serialize)]
struct Message {
    role: &'static str,
    content: Vec<Box<RawValue>>,
    #[serde(skip)]
    begins_with_thoughts: bool,
    #[serde(skip)]
    has_calls: bool,
}

#[derive(Serialize)]
struct Tool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a RawValue,
}

#[derive(Serialize)]
struct ToolUse<'a> {
    r#type: &'static str,
    id: &'a str,
    name: &'a str,
    /// As the model wrote it.
    input: Box<RawValue>,
}

/// Writes the body.
pub(super) fn body(asked: &Asked<'_>) -> serde_json::Result<Vec<u8>> {
    let mut tools: Vec<Tool<'_>> = (asked.tools.iter())
        .map(|tool| Tool {
            name: tool.name,
            description: tool.description,
            input_schema: &tool.parameters,
        })
        .collect();
    let one_by_one = asked.options.members.get("parallel_tool_calls") == Some(&Value::Bool(false));
    let mut tool_choice = asked.choice.map(|it| self::tool_choice(it, one_by_one));
    if tools.is_empty() {
        // The API takes no past call without tools. Those of past calls are named, and none may be called.
        let input_schema = serde_json::from_str(NO_PARAMETERS)?;
        let name = |name| Tool {
            name,
            description: "",
            input_schema,
        };
        tools.extend(asked.names.all().map(name));
        tool_choice = (!tools.is_empty()).then(|| json!({"type": "none"}));
    }
    let max_tokens = asked.limit().map(|(limit, _)| limit);
    let max_tokens = max_tokens.or(asked.config.completion_tokens);
    let max_tokens = max_tokens.unwrap_or(MAX_TOKENS);
    let (mut system, mut messages) = write(asked, true)?;
    let thinks = !must_not_think(asked, max_tokens, &messages);
    if !thinks {
        (system, messages) = write(asked, false)?;
    }
    let format = asked.wanted.as_ref().and_then(|it| it.output_format());
    let mut more = asked.more(OWN);
    more.retain(|name, _| thinks || !OF_THOUGHTS.contains(&name.as_str()));
    if asked.goes_on {
        // The next step begins in the same way. Without marks the API keeps nothing of it.
        system.last_mut().into_iter().for_each(mark);
        if let Some(last) = messages.last_mut().and_then(|it| it.content.last_mut()) {
            let mut block = serde_json::from_str(last.get())?;
            mark(&mut block);
            *last = to_raw_value(&block)?;
        }
    }
    serde_json::to_vec(&Body {
        model: asked.model(),
        max_tokens,
        system,
        messages,
        tools,
        tool_choice,
        output_config: asked.with("output_config", "format", format),
        temperature: asked.temperature(),
        stream: asked.streams(),
        more,
    })
}

/// Marks the end of a part that the API keeps for the next request.
fn mark(block: &mut Value) {
    if let Some(block) = block.as_object_mut() {
        block.insert("cache_control".to_owned(), json!({"type": "ephemeral"}));
    }
}

fn tool_choice(choice: Choice<'_>, one_by_one: bool) -> Value {
    let mut choice = match choice {
        Choice::None => return json!({"type": "none"}),
        Choice::Auto => json!({"type": "auto"}),
        Choice::Required => json!({"type": "any"}),
        Choice::Tool(name) => json!({"type": "tool", "name": name}),
    };
    if one_by_one && let Some(choice) = choice.as_object_mut() {
        choice.insert("disable_parallel_tool_use".to_owned(), json!(true));
    }
    choice
}

/// Whether the thoughts that the caller asks for have to be left out of this request. With a budget of thoughts the API
/// takes no step with calls that does not begin with its thoughts, as one that another model took, and no forced call.
/// Where the model decides itself whether it thinks (`adaptive`), both are allowed.
fn must_not_think(asked: &Asked<'_>, max_tokens: u32, messages: &[Message]) -> bool {
    let Some(thinking) = asked.options.members.get("thinking") else {
        return false;
    };
    let is_forced = matches!(asked.choice, Some(Choice::Required | Choice::Tool(_)));
    let budget = thinking.get("budget_tokens").and_then(Value::as_u64);
    let lacks_thoughts = |it: &Message| it.has_calls && !it.begins_with_thoughts;
    thinking.get("type").and_then(Value::as_str) == Some("enabled")
        && (is_forced
            || budget.is_some_and(|budget| budget >= u64::from(max_tokens))
            || messages.iter().any(lacks_thoughts))
}

/// The instructions, and the messages in turns of the user and the model.
fn write(asked: &Asked<'_>, with_thoughts: bool) -> serde_json::Result<(Vec<Value>, Vec<Message>)> {
    let beta = asked.options.beta.as_deref().unwrap_or_default();
    let (mut system, mut turns) = (Vec::new(), Turns::default());
    for (at, message) in asked.prompt.messages().iter().enumerate() {
        match message {
            PromptMessage::System(text) if text.trim().is_empty() => {}
            PromptMessage::System(text) => {
                match beta.contains(SYSTEM_IN_PLACE) && !turns.0.is_empty() {
                    true => turns.add("system", &self::text(text))?,
                    false => system.push(self::text(text)),
                }
            }
            PromptMessage::User(text) => {
                turns.say("user", text)?;
                for image in asked.images(at) {
                    turns.add("user", &self::image(image))?;
                }
            }
            PromptMessage::Assistant { text, calls } => {
                let own = asked.own(at);
                let thoughts = |members: &str| {
                    let mut blocks = before(members);
                    blocks.retain(|block| with_thoughts || !is_thought(block));
                    blocks
                };
                turns.step(own.map_or_else(Vec::new, |own| thoughts(&own.members)))?;
                turns.say("assistant", text)?;
                for (index, call) in calls.iter().enumerate() {
                    let members = own.and_then(|own| own.calls.get(index));
                    turns.step(members.map_or_else(Vec::new, |(_, it)| thoughts(it)))?;
                    turns.call(asked, call)?;
                }
                for call in calls {
                    let (content, images) = asked.result(&call.id);
                    let mut parts: Vec<Value> = images.into_iter().map(image).collect();
                    let content = match parts.is_empty() {
                        true => json!(content),
                        false => {
                            parts.insert(0, self::text(content));
                            Value::Array(parts)
                        }
                    };
                    let id = asked.id(&call.id);
                    let result =
                        json!({"type": "tool_result", "tool_use_id": id, "content": content});
                    turns.add("user", &result)?;
                }
            }
            // Written with its call.
            PromptMessage::Tool { .. } => {}
        }
    }
    if let Some(words) = asked.wanted.as_ref().and_then(|it| it.words()) {
        turns.say("user", &words)?;
    }
    let first = turns.0.first();
    if first.is_none_or(|first| first.role != "user") {
        let content = vec![to_raw_value(&text(BEGINNING))?];
        turns.0.insert(0, Message::new("user", content));
    }
    Ok((system, turns.0))
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn image(image: &Image) -> Value {
    let source =
        json!({"type": "base64", "media_type": image.media_type(), "data": encoded(image)});
    json!({"type": "image", "source": source})
}

fn is_thought(block: &Value) -> bool {
    let kind = block.get("type").and_then(Value::as_str);
    matches!(kind, Some("thinking" | "redacted_thinking"))
}

impl Message {
    fn new(role: &'static str, content: Vec<Box<RawValue>>) -> Self {
        Self {
            role,
            content,
            begins_with_thoughts: false,
            has_calls: false,
        }
    }
}

/// Messages, in which two of one role are one.
#[derive(Default)]
struct Turns(Vec<Message>);

impl Turns {
    fn add(&mut self, role: &'static str, block: &impl Serialize) -> serde_json::Result<()> {
        let block = to_raw_value(block)?;
        match self.0.last_mut().filter(|last| last.role == role) {
            Some(last) => last.content.push(block),
            None => self.0.push(Message::new(role, vec![block])),
        }
        Ok(())
    }

    /// Adds a text. The API takes none that is blank, and none that ends an answer with blanks.
    fn say(&mut self, role: &'static str, words: &str) -> serde_json::Result<()> {
        let words = if role == "assistant" {
            words.trim_end()
        } else {
            words
        };
        match words.trim().is_empty() {
            true => Ok(()),
            false => self.add(role, &text(words)),
        }
    }

    /// Adds blocks of the model that are not read.
    fn step(&mut self, blocks: Vec<Value>) -> serde_json::Result<()> {
        for block in blocks {
            self.add("assistant", &block)?;
            if let Some(last) = self.0.last_mut().filter(|last| last.content.len() == 1) {
                last.begins_with_thoughts = is_thought(&block);
            }
        }
        Ok(())
    }

    fn call(&mut self, asked: &Asked<'_>, call: &PromptCall) -> serde_json::Result<()> {
        // Arguments that are no object are shown as they are, since the API takes nothing else.
        let input: Option<Map<String, Value>> = serde_json::from_str(&call.arguments).ok();
        let input = match input {
            Some(_) => RawValue::from_string(call.arguments.clone())?,
            None => to_raw_value(&json!({"arguments": call.arguments}))?,
        };
        self.add(
            "assistant",
            &ToolUse {
                r#type: "tool_use",
                id: asked.id(&call.id),
                name: asked.names.sent(&call.tool),
                input,
            },
        )?;
        if let Some(last) = self.0.last_mut() {
            last.has_calls = true;
        }
        Ok(())
    }
}
