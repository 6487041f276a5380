//! OpenAI's Responses.

use hub::{StopReason, Usage};
use serde_json::{Value, json};

use super::{CallOut, Choice, now};
use crate::api::{Dialect, error::ApiError, frame::Frame, request};
use crate::conversation::{ClientTool, Conversation};

/// One answer.
pub(crate) struct OpenAiResponse {
    id: String,
    model: String,
    created_at: u64,
    /// The qualified name of each tool in a namespace, with the namespace and its name there.
    namespaces: Vec<(String, String, String)>,
    /// The number of the next event.
    number: u64,
    /// The text so far, if its item has begun.
    text: Option<String>,
}

impl OpenAiResponse {
    /// The response as it stands.
    fn response(&self, status: &str, output: Vec<Value>, usage: Option<&Usage>) -> Value {
        json!({
            "id": format!("resp_{}", self.id),
            "object": "response",
            "created_at": self.created_at,
            "status": status,
            "model": self.model,
            "output": output,
            "error": null,
            "incomplete_details": null,
            "instructions": null,
            "metadata": {},
            "parallel_tool_calls": true,
            "temperature": null,
            "top_p": null,
            "tool_choice": "auto",
            "tools": [],
            "store": false,
            "usage": usage.map(self::usage),
        })
    }

    /// The response with this answer.
    fn completed(&self, choice: &Choice, usage: &Usage) -> Value {
        let text = (!choice.text.is_empty()).then(|| self.message(&choice.text, "completed"));
        let calls = choice.calls.iter();
        let calls = calls.map(|call| self.call(call, &call.arguments, "completed"));
        let output = text.into_iter().chain(calls).collect();
        let Some(reason) = incomplete(choice) else {
            return self.response("completed", output, Some(usage));
        };
        let mut response = self.response("incomplete", output, Some(usage));
        let details = json!({ "reason": reason });
        insert(&mut response, "incomplete_details", details);
        response
    }

    fn message_id(&self) -> String {
        format!("msg_{}", self.id)
    }

    fn message(&self, text: &str, status: &str) -> Value {
        json!({
            "type": "message",
            "id": self.message_id(),
            "status": status,
            "role": "assistant",
            "content": match status {
                "in_progress" => vec![],
                _ => vec![part(text)],
            },
        })
    }

    fn call(&self, call: &CallOut, arguments: &str, status: &str) -> Value {
        let mut own = self.namespaces.iter();
        let own = own.find(|(qualified, ..)| *qualified == call.name);
        let mut item = json!({
            "type": "function_call",
            "id": item_id(call),
            "status": status,
            "call_id": call.id,
            "name": own.map_or(&call.name, |(_, _, name)| name),
            "arguments": arguments,
        });
        if let Some((_, namespace, _)) = own {
            insert(&mut item, "namespace", namespace.clone().into());
        }
        item
    }

    fn frame(&mut self, event: &'static str, mut value: Value) -> Frame {
        insert(&mut value, "sequence_number", self.number.into());
        self.number += 1;
        Frame::named(event, value)
    }

    /// An event on a part of the text.
    fn text_frame(&mut self, event: &'static str, member: &str, value: Value) -> Frame {
        let mut at = json!({"item_id": self.message_id(), "output_index": 0, "content_index": 0});
        insert(&mut at, member, value);
        self.frame(event, at)
    }

    fn item_frame(&mut self, event: &'static str, index: usize, item: Value) -> Frame {
        self.frame(event, json!({"output_index": index, "item": item}))
    }
}

impl Dialect for OpenAiResponse {
    const API: llm::Dialect = llm::Dialect::Responses;
    const PATH: &'static str = "/v1/responses";

    fn read(body: &[u8], takes: request::Takes) -> Result<Conversation, String> {
        request::responses::read(body, takes)
    }

    fn begin(id: &str, request: &Conversation) -> Self {
        let namespaces = request.tools.iter().filter_map(|tool| {
            let namespace = tool.namespace.clone()?;
            Some((tool.name.clone(), namespace, bare(tool)?))
        });
        Self {
            id: id.to_owned(),
            model: request.model.clone(),
            created_at: now(),
            namespaces: namespaces.collect(),
            number: 0,
            text: None,
        }
    }

    fn whole(&self, choice: &Choice, usage: &Usage) -> String {
        self.completed(choice, usage).to_string()
    }

    fn start(&mut self) -> Vec<Frame> {
        let response = json!({"response": self.response("in_progress", Vec::new(), None)});
        let created = self.frame("response.created", response.clone());
        vec![created, self.frame("response.in_progress", response)]
    }

    fn text(&mut self, piece: &str) -> Vec<Frame> {
        let mut frames = Vec::new();
        if self.text.is_none() {
            let item = self.message("", "in_progress");
            frames.push(self.item_frame("response.output_item.added", 0, item));
            frames.push(self.text_frame("response.content_part.added", "part", part("")));
        }
        self.text.get_or_insert_default().push_str(piece);
        frames.push(self.text_frame("response.output_text.delta", "delta", piece.into()));
        frames
    }

    fn alive(&mut self) -> Vec<Frame> {
        // Codex' clock stops for events alone, others' for comments too.
        let response = json!({"response": self.response("in_progress", Vec::new(), None)});
        vec![Frame::COMMENT, self.frame("response.in_progress", response)]
    }

    fn end(&mut self, choice: &Choice, usage: &Usage) -> Vec<Frame> {
        let mut frames = Vec::new();
        let text = self.text.take();
        if let Some(text) = &text {
            let whole = text.clone().into();
            frames.push(self.text_frame("response.output_text.done", "text", whole));
            frames.push(self.text_frame("response.content_part.done", "part", part(text)));
            let item = self.message(text, "completed");
            frames.push(self.item_frame("response.output_item.done", 0, item));
        }
        for (index, call) in (usize::from(text.is_some())..).zip(&choice.calls) {
            let at = json!({"item_id": item_id(call), "output_index": index});
            let with = |member: &str| {
                let mut event = at.clone();
                insert(&mut event, member, call.arguments.clone().into());
                event
            };
            let item = self.call(call, "", "in_progress");
            frames.push(self.item_frame("response.output_item.added", index, item));
            let delta = with("delta");
            frames.push(self.frame("response.function_call_arguments.delta", delta));
            let done = with("arguments");
            frames.push(self.frame("response.function_call_arguments.done", done));
            let item = self.call(call, &call.arguments, "completed");
            frames.push(self.item_frame("response.output_item.done", index, item));
        }
        let response = self.completed(choice, usage);
        let event = match incomplete(choice) {
            None => "response.completed",
            Some(_) => "response.incomplete",
        };
        frames.push(self.frame(event, json!({ "response": response })));
        frames
    }

    fn failed(&mut self, error: &ApiError) -> Vec<Frame> {
        let mut response = self.response("failed", Vec::new(), None);
        let code = error.code.as_ref().unwrap_or(&error.kind);
        let error = json!({"code": code, "message": error.message});
        insert(&mut response, "error", error);
        vec![self.frame("response.failed", json!({ "response": response }))]
    }

    fn last_event(error: &ApiError) -> Frame {
        let mut body = error.body();
        Frame::named(
            "error",
            body.get_mut("error").map(Value::take).unwrap_or_default(),
        )
    }
}

/// Why the answer is not whole, if it is not.
fn incomplete(choice: &Choice) -> Option<&'static str> {
    match choice.stop {
        StopReason::Length | StopReason::Other => Some("max_output_tokens"),
        StopReason::Filter => Some("content_filter"),
        StopReason::End | StopReason::Repetition => None,
    }
}

fn insert(to: &mut Value, member: &str, value: Value) {
    if let Some(members) = to.as_object_mut() {
        members.insert(member.to_owned(), value);
    }
}

/// The name of a tool in its namespace.
fn bare(tool: &ClientTool) -> Option<String> {
    let namespace = tool.namespace.as_deref()?.trim_end_matches('_');
    let own = tool.name.strip_prefix(namespace)?.strip_prefix("__")?;
    Some(own.to_owned())
}

fn item_id(call: &CallOut) -> String {
    format!("fc_{}", call.id)
}

fn part(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
}

fn usage(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.prompt_tokens.saturating_add(usage.completion_tokens),
    })
}
