//! A request of any of the three APIs as one list of texts, calls and results, and its tools.

use serde_json::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Of the developer or the agent's program.
    System,
    User,
    /// What the model said.
    Own,
    Call,
    Result,
}

#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) kind: Kind,
    /// The tool of a call or a result.
    pub(crate) tool: String,
    pub(crate) text: String,
    pub(crate) arguments: Value,
    /// Of a call, and of its result.
    pub(crate) id: String,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Tool {
    /// With its namespace before it.
    pub(crate) name: String,
    pub(crate) bare: String,
    pub(crate) namespace: Option<String>,
    pub(crate) is_custom: bool,
    /// All that describes it.
    pub(crate) description: String,
}

impl Tool {
    /// Whether it has this name, with a namespace or not.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        let rest = self.name.strip_suffix(name);
        rest.is_some_and(|space| space.is_empty() || space.ends_with("__"))
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn word(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The texts of a content: a string, or blocks of any API.
fn text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(text).collect::<Vec<_>>().join("\n"),
        Value::Object(members) => {
            let named = ["text", "content", "output", "encrypted_content"];
            let found = named.iter().find_map(|name| members.get(*name));
            found.map(text).unwrap_or_default()
        }
        _ => String::new(),
    }
}

/// The name of a tool with that of its namespace.
fn qualified(namespace: &Value, name: &Value) -> String {
    match namespace.as_str() {
        None | Some("" | "functions") => word(name),
        Some(namespace) => format!("{}__{}", namespace.trim_end_matches('_'), word(name)),
    }
}

pub(crate) fn items(body: &Value) -> Vec<Item> {
    let mut items = Vec::new();
    for member in ["system", "instructions"] {
        put(&mut items, Kind::System, "", text(&body[member]));
    }
    for message in list(&body["messages"]).chain(list(&body["input"])) {
        match message["type"].as_str().unwrap_or("message") {
            "function_call" | "custom_tool_call" => {
                let given = message.get("arguments").unwrap_or(&message["input"]);
                let name = qualified(&message["namespace"], &message["name"]);
                call(&mut items, name, given, &message["call_id"]);
            }
            kind if kind.ends_with("_output") => {
                result(&mut items, &message["call_id"], &message["output"]);
            }
            // Codex's sub-agents: their task, and what they report.
            "agent_message" => {
                let said = text(&message["content"]);
                let kind = match said.contains("NEW_TASK") {
                    true => Kind::User,
                    false => Kind::Result,
                };
                put(&mut items, kind, "__agent", said);
            }
            "message" => message_items(&mut items, message),
            _ => {}
        }
    }
    items
}

fn message_items(items: &mut Vec<Item>, message: &Value) {
    let kind = match message["role"].as_str() {
        Some("tool") => {
            return result(items, &message["tool_call_id"], &message["content"]);
        }
        Some("assistant") => Kind::Own,
        Some("system" | "developer") => Kind::System,
        _ => Kind::User,
    };
    let whole = [message["content"].clone()];
    let parts = message["content"]
        .as_array()
        .map_or(&whole[..], Vec::as_slice);
    for part in parts {
        match part["type"].as_str().unwrap_or("text") {
            "tool_use" => call(items, word(&part["name"]), &part["input"], &part["id"]),
            "tool_result" => result(items, &part["tool_use_id"], &part["content"]),
            "thinking" | "redacted_thinking" => {}
            _ => put(items, kind, "", text(part)),
        }
    }
    for made in list(&message["tool_calls"]) {
        let function = &made["function"];
        call(
            items,
            word(&function["name"]),
            &function["arguments"],
            &made["id"],
        );
    }
}

fn put(items: &mut Vec<Item>, kind: Kind, tool: &str, text: String) {
    items.push(Item {
        kind,
        tool: tool.to_owned(),
        text,
        arguments: Value::Null,
        id: String::new(),
    });
}

fn call(items: &mut Vec<Item>, tool: String, given: &Value, id: &Value) {
    let read = given.as_str().map(serde_json::from_str::<Value>);
    items.push(Item {
        kind: Kind::Call,
        tool,
        text: String::new(),
        arguments: read.and_then(Result::ok).unwrap_or_else(|| given.clone()),
        id: word(id),
    });
}

fn result(items: &mut Vec<Item>, id: &Value, content: &Value) {
    let mut calls = items.iter().rev().filter(|it| it.kind == Kind::Call);
    let made = calls.find(|call| *id == *call.id);
    let tool = made.map(|call| call.tool.clone()).unwrap_or_default();
    put(items, Kind::Result, &tool, text(content));
    if let Some(result) = items.last_mut() {
        result.id = word(id);
    }
}

/// The tools that are offered; those of Codex's code mode stand in the input.
pub(crate) fn tools(body: &Value) -> Vec<Tool> {
    let inside = list(&body["input"]).filter(|item| item["type"] == "additional_tools");
    let given = list(&body["tools"]).chain(inside.flat_map(|item| list(&item["tools"])));
    let mut tools = Vec::new();
    for tool in given {
        match tool["type"] == "namespace" {
            true => {
                let (space, about) = (&tool["name"], word(&tool["description"]));
                tools.extend(list(&tool["tools"]).map(|tool| offered(tool, space, &about)));
            }
            false => tools.push(offered(
                tool.get("function").unwrap_or(tool),
                &Value::Null,
                "",
            )),
        }
    }
    tools
}

fn offered(tool: &Value, namespace: &Value, about: &str) -> Tool {
    let parameters = ["parameters", "input_schema"].map(|name| tool[name].to_string());
    let name = qualified(namespace, &tool["name"]);
    Tool {
        bare: word(&tool["name"]),
        namespace: (name != word(&tool["name"])).then(|| word(namespace)),
        is_custom: tool["type"] == "custom",
        description: format!(
            "{} {about} {}",
            word(&tool["description"]),
            parameters.concat()
        ),
        name,
    }
}
