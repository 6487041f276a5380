//! A request as OpenAI's responses write it.

use std::collections::BTreeMap;

use ifc::{Image, PromptMessage};
use serde::Serialize;
use serde_json::{Value, json, value::RawValue};

use super::asked::{Asked, Choice, before, data_url};

/// Members of the body that no option may set in another way, and those by which the server would bring in what it has kept.
const OWN: &str = "model instructions input tools tool_choice max_output_tokens store stream text \
previous_response_id conversation prompt background";

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "String::is_empty")]
    instructions: String,
    input: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u32>,
    /// The conversation is here; the server is to keep none of it.
    store: bool,
    stream: bool,
    #[serde(flatten)]
    more: BTreeMap<&'a String, &'a Value>,
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    name: &'a str,
    description: &'a str,
    parameters: &'a RawValue,
    /// Always said: without it the API changes the schema.
    strict: bool,
}

/// Writes the body.
pub(super) fn body(asked: &Asked<'_>) -> serde_json::Result<Vec<u8>> {
    let (instructions, input) = write(asked);
    let tools = asked.tools.iter().map(|tool| Tool {
        r#type: "function",
        name: tool.name,
        description: tool.description,
        parameters: &tool.parameters,
        strict: tool.strict.unwrap_or(false),
    });
    let format = asked.wanted.as_ref().and_then(|it| it.text_format());
    serde_json::to_vec(&Body {
        model: asked.model(),
        instructions,
        input,
        tools: tools.collect(),
        tool_choice: asked.choice.map(tool_choice),
        text: asked.with("text", "format", format),
        temperature: asked.temperature(),
        max_output_tokens: asked.limit().map(|(limit, _)| limit),
        store: false,
        stream: asked.streams(),
        more: asked.more(OWN),
    })
}

fn tool_choice(choice: Choice<'_>) -> Value {
    match choice {
        Choice::None => json!("none"),
        Choice::Auto => json!("auto"),
        Choice::Required => json!("required"),
        Choice::Tool(name) => json!({"type": "function", "name": name}),
    }
}

/// The instructions, and the items of the conversation.
fn write(asked: &Asked<'_>) -> (String, Vec<Value>) {
    let (mut instructions, mut input) = (Vec::new(), Vec::new());
    for (at, message) in asked.prompt.messages().iter().enumerate() {
        match message {
            PromptMessage::System(text) if input.is_empty() => instructions.push(text.as_str()),
            PromptMessage::System(text) => input.push(said("developer", text.as_str().into())),
            PromptMessage::User(text) => {
                input.push(said("user", content(text, &asked.images(at))));
            }
            PromptMessage::Assistant { text, calls } => {
                let own = asked.own(at);
                // Thoughts come before what followed them.
                input.extend(own.map_or_else(Vec::new, |own| before(&own.members)));
                if !text.is_empty() {
                    input.push(said("assistant", text.as_str().into()));
                }
                for (index, call) in calls.iter().enumerate() {
                    let members = own.and_then(|own| own.calls.get(index));
                    input.extend(members.map_or_else(Vec::new, |(_, it)| before(it)));
                    let (id, name) = (asked.id(&call.id), asked.names.sent(&call.tool));
                    let arguments = &call.arguments;
                    input.push(json!({"type": "function_call", "call_id": id, "name": name,
                        "arguments": arguments}));
                }
                for call in calls {
                    let (text, images) = asked.result(&call.id);
                    let (id, output) = (asked.id(&call.id), content(text, &images));
                    input.push(
                        json!({"type": "function_call_output", "call_id": id, "output": output}),
                    );
                }
            }
            // Written with its call.
            PromptMessage::Tool { .. } => {}
        }
    }
    if let Some(words) = asked.wanted.as_ref().and_then(|it| it.words()) {
        input.push(said("user", words.into()));
    }
    (instructions.join("\n\n"), input)
}

fn said(role: &str, content: Value) -> Value {
    json!({"type": "message", "role": role, "content": content})
}

/// A text, or parts of which some are images.
fn content(text: &str, images: &[&Image]) -> Value {
    if images.is_empty() {
        return text.into();
    }
    let image = |image: &&Image| json!({"type": "input_image", "image_url": data_url(image)});
    let text = json!({"type": "input_text", "text": text});
    std::iter::once(text)
        .chain(images.iter().map(image))
        .collect()
}
