//! Anthropic's Messages and OpenAI's Responses over a model of chat completions: requests are read as such, and its answers
//! are written as theirs. What the real servers refuse is refused.

use std::collections::BTreeSet;

use serde_json::{Value, json};

/// An API other than chat completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// Anthropic's Messages.
    Messages,
    /// OpenAI's Responses.
    Responses,
}

/// A call of the model.
pub struct Call {
    /// By which its result names it.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// JSON, or text where the tool takes text.
    pub arguments: String,
    /// The namespace of the tool (Responses).
    pub namespace: Option<String>,
    /// Whether the tool takes text (Responses).
    pub is_custom: bool,
}

impl Call {
    /// Of a plain function.
    pub fn new(id: &str, tool: &str, arguments: &str) -> Self {
        Self {
            id: id.to_owned(),
            tool: tool.to_owned(),
            arguments: arguments.to_owned(),
            namespace: None,
            is_custom: false,
        }
    }
}

/// An answer of the model: text, calls, and whether it was cut.
pub struct Answer {
    /// The text; may be empty.
    pub text: String,
    /// The calls.
    pub calls: Vec<Call>,
    /// Whether a limit on tokens ended it.
    pub is_cut: bool,
    /// Generated tokens.
    pub tokens: usize,
}

impl Wire {
    /// The API of a path; `None` for chat completions.
    pub fn of(path: &str) -> Option<Self> {
        let path = path.split('?').next().unwrap_or_default();
        match path.rsplit('/').next() {
            Some("messages") => Some(Self::Messages),
            Some("responses") => Some(Self::Responses),
            _ => None,
        }
    }

    /// A request as a chat completion, or why a server refuses it.
    pub fn as_chat(self, body: &Value) -> Result<Value, String> {
        let (mut messages, mut chat) = (Vec::new(), json!({"model": body["model"]}));
        match self {
            Self::Messages => of_messages(body, &mut messages)?,
            Self::Responses => of_responses(body, &mut messages)?,
        }
        let limit = ["max_tokens", "max_output_tokens"].map(|name| body[name].clone());
        chat["max_tokens"] = limit
            .into_iter()
            .find(|it| !it.is_null())
            .unwrap_or_default();
        chat["stream"] = body["stream"].clone();
        chat["messages"] = messages.into();
        let tools = body["tools"].as_array().into_iter().flatten();
        let tools = tools.map(|tool| {
            let parameters = [&tool["input_schema"], &tool["parameters"]];
            let parameters = parameters.into_iter().find(|it| it.is_object());
            json!({"type": "function", "function": {"name": tool["name"],
                "description": tool["description"], "parameters": parameters}})
        });
        chat["tools"] = tools.collect();
        let choice = &body["tool_choice"];
        let kind = choice["type"].as_str().or(choice.as_str());
        chat["tool_choice"] = match kind {
            Some("tool" | "function") => {
                json!({"type": "function", "function": {"name": choice["name"]}})
            }
            Some("any") => json!("required"),
            kind => json!(kind),
        };
        let formats = [&body["output_config"]["format"], &body["text"]["format"]];
        for format in formats.into_iter().filter(|it| it.is_object()) {
            chat["response_format"] = json!({"type": format["type"], "json_schema": format});
        }
        Ok(chat)
    }

    /// The answer, whole and as the events of a stream.
    pub fn write(self, answer: &Answer, number: usize) -> (Value, Vec<Value>) {
        match self {
            Self::Messages => message(answer, number),
            Self::Responses => response(answer, number),
        }
    }
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

/// The text of a content: a string, or the texts of a list.
fn text(content: &Value) -> String {
    let parts = list(content);
    let parts = parts.iter().filter_map(|part| part["text"].as_str());
    let joined = parts.collect::<Vec<_>>().join("\n");
    content.as_str().map_or(joined, str::to_owned)
}

fn refuse(holds: bool, why: &str) -> Result<(), String> {
    holds.then_some(()).ok_or_else(|| why.to_owned())
}

fn called(id: &Value, name: &Value, arguments: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
}

fn of_messages(body: &Value, out: &mut Vec<Value>) -> Result<(), String> {
    refuse(body["max_tokens"].is_u64(), "max_tokens: field required")?;
    for block in list(&body["system"]) {
        out.push(json!({"role": "system", "content": block["text"]}));
    }
    let messages = list(&body["messages"]);
    refuse(!messages.is_empty(), "messages: at least one is required")?;
    let thinks = body["thinking"]["type"] == "enabled";
    let choice = &body["tool_choice"]["type"];
    let is_forced = choice == "any" || choice == "tool";
    refuse(!thinks || !is_forced, "thinking: not with a forced call")?;
    let mut open: BTreeSet<String> = BTreeSet::new();
    let mut role = &json!("assistant");
    for message in &messages {
        refuse(message["role"] != *role, "messages: roles must alternate")?;
        role = &message["role"];
        let content = list(&message["content"]);
        refuse(!content.is_empty(), "messages: empty content")?;
        let is_blank = |block: &Value| {
            block["type"] == "text" && block["text"].as_str().unwrap().trim().is_empty()
        };
        refuse(!content.iter().any(is_blank), "messages: blank text")?;
        if *role == "user" {
            let (results, rest): (Vec<_>, Vec<_>) =
                (content.iter()).partition(|block| block["type"] == "tool_result");
            for result in &results {
                let id = result["tool_use_id"].as_str().unwrap();
                refuse(open.remove(id), "tool_result without its tool_use")?;
                out.push(json!({"role": "tool", "tool_call_id": id,
                    "content": text(&result["content"])}));
            }
            refuse(open.is_empty(), "tool_use without its tool_result")?;
            let first = content.first().unwrap();
            let in_order = results.is_empty() || first["type"] == "tool_result";
            refuse(in_order, "tool_result behind other blocks")?;
            if !rest.is_empty() {
                let rest = Value::from_iter(rest.into_iter().cloned());
                out.push(json!({"role": "user", "content": text(&rest)}));
            }
            continue;
        }
        let calls = content.iter().filter(|block| block["type"] == "tool_use");
        let calls: Vec<Value> = calls
            .map(|call| called(&call["id"], &call["name"], &call["input"].to_string()))
            .collect();
        open.extend(
            calls
                .iter()
                .map(|call| call["id"].as_str().unwrap().to_owned()),
        );
        refuse(
            calls.is_empty() || !list(&body["tools"]).is_empty(),
            "tools: required with tool_use",
        )?;
        let begins = content.first().unwrap()["type"].as_str().unwrap();
        refuse(
            !thinks || calls.is_empty() || begins.ends_with("thinking"),
            "expected `thinking` at the beginning",
        )?;
        let mut said = json!({"role": "assistant", "content": text(&message["content"])});
        if !calls.is_empty() {
            said["tool_calls"] = calls.into();
        }
        out.push(said);
    }
    refuse(open.is_empty(), "tool_use without its tool_result")
}

fn of_responses(body: &Value, out: &mut Vec<Value>) -> Result<(), String> {
    refuse(body["store"] == false, "store: must be false here")?;
    if let Some(instructions) = body["instructions"].as_str() {
        out.push(json!({"role": "system", "content": instructions}));
    }
    let items = list(&body["input"]);
    let ids = |kind: &str| -> BTreeSet<String> {
        let items = items.iter().filter(|item| item["type"] == kind);
        items
            .map(|item| item["call_id"].as_str().unwrap().to_owned())
            .collect()
    };
    let (made, answered) = (ids("function_call"), ids("function_call_output"));
    refuse(
        made == answered,
        "a call without an output, or an output without a call",
    )?;
    for (at, item) in items.iter().enumerate() {
        match item["type"].as_str().unwrap() {
            "function_call" => {
                let arguments = item["arguments"].as_str().unwrap();
                let call = called(&item["call_id"], &item["name"], arguments);
                match out.last_mut().filter(|last| last["role"] == "assistant") {
                    Some(last) if last["tool_calls"].is_array() => {
                        last["tool_calls"].as_array_mut().unwrap().push(call);
                    }
                    Some(last) => last["tool_calls"] = json!([call]),
                    None => {
                        out.push(json!({"role": "assistant", "content": "", "tool_calls": [call]}));
                    }
                }
            }
            "function_call_output" => out.push(json!({"role": "tool",
                "tool_call_id": item["call_id"], "content": text(&item["output"])})),
            "message" => {
                let role = item["role"]
                    .as_str()
                    .unwrap()
                    .replace("developer", "system");
                out.push(json!({"role": role, "content": text(&item["content"])}));
            }
            _ => {
                let next = items
                    .get(at + 1)
                    .map_or("", |it| it["type"].as_str().unwrap());
                let is_used = ["function_call", "message", "reasoning"].contains(&next);
                refuse(is_used, "reasoning without what followed it")?;
            }
        }
    }
    Ok(())
}

/// A text in pieces.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(' ')
}

fn message(answer: &Answer, number: usize) -> (Value, Vec<Value>) {
    let mut blocks = Vec::new();
    if !answer.text.is_empty() {
        blocks.push(json!({"type": "text", "text": answer.text}));
    }
    for call in &answer.calls {
        let input: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
        blocks.push(json!({"type": "tool_use", "id": call.id, "name": call.tool, "input": input}));
    }
    let reason = match (answer.is_cut, answer.calls.is_empty()) {
        (true, _) => "max_tokens",
        (false, true) => "end_turn",
        (false, false) => "tool_use",
    };
    let usage = json!({"input_tokens": 7, "cache_read_input_tokens": 2,
        "cache_creation_input_tokens": 1, "output_tokens": answer.tokens});
    let message = |content: &[Value], reason: Value| {
        json!({"id": format!("msg_{number}"), "type": "message", "role": "assistant", "model": "m",
            "content": content, "stop_reason": reason, "usage": usage})
    };
    let mut events = vec![
        json!({"type": "message_start", "message": message(&[], Value::Null)}),
        json!({"type": "ping"}),
    ];
    for (index, block) in blocks.iter().enumerate() {
        let (mut start, deltas) = (
            block.clone(),
            match block["text"].as_str() {
                Some(text) => words(text)
                    .map(|it| json!({"type": "text_delta", "text": it}))
                    .collect(),
                None => {
                    let json = block["input"].to_string();
                    let (a, b) = json.split_at(1);
                    vec!["", a, b]
                        .into_iter()
                        .map(|it| json!({"type": "input_json_delta", "partial_json": it}))
                        .collect::<Vec<_>>()
                }
            },
        );
        match block["text"].is_string() {
            true => start["text"] = json!(""),
            false => start["input"] = json!({}),
        }
        events.push(json!({"type": "content_block_start", "index": index, "content_block": start}));
        events.extend(
            (deltas.into_iter())
                .map(|it| json!({"type": "content_block_delta", "index": index, "delta": it})),
        );
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events.push(
        json!({"type": "message_delta", "delta": {"stop_reason": reason},
        "usage": {"output_tokens": answer.tokens}}),
    );
    events.push(json!({"type": "message_stop"}));
    (message(&blocks, json!(reason)), events)
}

fn response(answer: &Answer, number: usize) -> (Value, Vec<Value>) {
    let mut items = Vec::new();
    if !answer.text.is_empty() {
        let content = json!([{"type": "output_text", "text": answer.text, "annotations": []}]);
        items.push(
            json!({"type": "message", "id": format!("msg_{number}"), "role": "assistant",
            "status": "completed", "content": content}),
        );
    }
    for call in &answer.calls {
        let (kind, arguments) = match call.is_custom {
            true => ("custom_tool_call", "input"),
            false => ("function_call", "arguments"),
        };
        let mut item = json!({"type": kind, "id": format!("fc_{}", call.id), "call_id": call.id,
            "name": call.tool, arguments: call.arguments, "status": "completed"});
        if let Some(namespace) = &call.namespace {
            item["namespace"] = json!(namespace);
        }
        items.push(item);
    }
    let (status, details) = match answer.is_cut {
        true => ("incomplete", json!({"reason": "max_output_tokens"})),
        false => ("completed", Value::Null),
    };
    let response = |status: &str, output: &[Value], usage: Value| {
        json!({"id": format!("resp_{number}"), "object": "response", "model": "m", "error": null,
            "status": status, "output": output, "usage": usage, "store": false,
            "incomplete_details": if status == "incomplete" { details.clone() } else { Value::Null }})
    };
    let usage = json!({"input_tokens": 10, "input_tokens_details": {"cached_tokens": 2},
        "output_tokens": answer.tokens, "total_tokens": 10 + answer.tokens});
    let whole = response(status, &items, usage);
    let begun = response("in_progress", &[], Value::Null);
    let mut events = vec![
        json!({"type": "response.created", "response": begun}),
        json!({"type": "response.in_progress", "response": begun}),
    ];
    for (index, item) in items.iter().enumerate() {
        let mut start = item.clone();
        let (kind, pieces) = if item["type"] == "message" {
            start["content"] = json!([]);
            (
                "response.output_text.delta",
                words(&answer.text).map(str::to_owned).collect(),
            )
        } else if let Some(input) = item["input"].as_str() {
            start["input"] = json!("");
            let kind = "response.custom_tool_call_input.delta";
            (kind, vec![input.to_owned()])
        } else {
            start["arguments"] = json!("");
            let arguments = item["arguments"].as_str().unwrap();
            (
                "response.function_call_arguments.delta",
                vec![arguments.to_owned()],
            )
        };
        events.push(
            json!({"type": "response.output_item.added", "output_index": index, "item": start}),
        );
        for piece in pieces {
            events.push(
                json!({"type": kind, "output_index": index, "item_id": item["id"], "delta": piece}),
            );
        }
        events.push(
            json!({"type": "response.output_item.done", "output_index": index, "item": item}),
        );
    }
    events.push(json!({"type": format!("response.{status}"), "response": whole}));
    (whole, events)
}
