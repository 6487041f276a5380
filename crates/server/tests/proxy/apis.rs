//! The three APIs as their clients speak them: one conversation, written and read in each.

use reqwest::Response;
use serde_json::{Value, json};

use crate::stage::{Stage, tools};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Api {
    Chat,
    Messages,
    Responses,
}

pub(crate) const APIS: [Api; 3] = [Api::Chat, Api::Messages, Api::Responses];

/// What a client makes of an answer.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Answer {
    pub(crate) text: String,
    pub(crate) calls: Vec<Call>,
    /// Why it ended, in the words of the API.
    pub(crate) stop: String,
    /// Tokens of the prompt and of the answer.
    pub(crate) usage: (u64, u64),
}

#[derive(Debug, PartialEq)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
}

pub(crate) enum Said<'a> {
    User(&'a str),
    Answer(&'a Answer),
    /// Of the call at this place of an answer.
    Result(&'a Answer, usize, &'a str),
    /// The same with a picture, in base64.
    Picture(&'a Answer, usize, &'a str),
}

impl Api {
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Chat => "chat/completions",
            Self::Messages => "messages?beta=true",
            Self::Responses => "responses",
        }
    }

    pub(crate) fn body(self, said: &[Said<'_>], streams: bool) -> Value {
        let written: Vec<Value> = said.iter().flat_map(|said| self.write(said)).collect();
        match self {
            Self::Chat => {
                let developer = json!({"role": "system", "content": "Be brief."});
                let messages: Vec<Value> = [developer].into_iter().chain(written).collect();
                let usage = streams.then(|| json!({"include_usage": true}));
                json!({"model": "big", "messages": messages, "tools": tools(), "stream": streams,
                    "stream_options": usage})
            }
            Self::Messages => {
                let tools: Vec<Value> = of_tools(|tool| {
                    json!({"name": tool["name"], "description": tool["description"],
                        "input_schema": tool["parameters"]})
                });
                let system = json!([{"type": "text", "text": "Be brief.",
                    "cache_control": {"type": "ephemeral"}}]);
                json!({"model": "big", "system": system, "messages": merged(written),
                    "tools": tools, "max_tokens": 64_000, "stream": streams})
            }
            Self::Responses => {
                let tools: Vec<Value> = of_tools(|tool| {
                    json!({"type": "function", "name": tool["name"],
                        "description": tool["description"], "parameters": tool["parameters"]})
                });
                json!({"model": "big", "instructions": "Be brief.", "input": written, "tools": tools,
                    "store": false, "stream": streams})
            }
        }
    }

    fn write(self, said: &Said<'_>) -> Vec<Value> {
        match (self, said) {
            (Self::Chat | Self::Messages, Said::User(text)) => {
                vec![json!({"role": "user", "content": text})]
            }
            (Self::Responses, Said::User(text)) => {
                let text = json!([{"type": "input_text", "text": text}]);
                vec![json!({"type": "message", "role": "user", "content": text})]
            }
            (_, Said::Answer(answer)) => self.write_answer(answer),
            (_, Said::Result(answer, at, text)) => {
                let content = match self {
                    Self::Messages => json!([{"type": "text", "text": text}]),
                    _ => json!(text),
                };
                vec![self.write_result(&answer.calls[*at].id, content)]
            }
            (_, Said::Picture(answer, at, data)) => {
                let url = format!("data:image/png;base64,{data}");
                let picture = match self {
                    Self::Chat => json!({"type": "image_url", "image_url": {"url": url}}),
                    Self::Messages => json!({"type": "image", "source": {"type": "base64",
                        "media_type": "image/png", "data": data}}),
                    Self::Responses => json!({"type": "input_image", "image_url": url}),
                };
                vec![self.write_result(&answer.calls[*at].id, json!([picture]))]
            }
        }
    }

    fn write_result(self, id: &str, content: Value) -> Value {
        match self {
            Self::Chat => json!({"role": "tool", "tool_call_id": id, "content": content}),
            Self::Messages => {
                let block = json!({"type": "tool_result", "tool_use_id": id, "content": content});
                json!({"role": "user", "content": [block]})
            }
            Self::Responses => {
                json!({"type": "function_call_output", "call_id": id, "output": content})
            }
        }
    }

    /// As clients send it back: they have parsed the arguments, and one trims the text.
    fn write_answer(self, answer: &Answer) -> Vec<Value> {
        let calls = answer.calls.iter();
        let text = answer.text.trim();
        match self {
            Self::Chat => {
                let calls = calls.map(|call| {
                    json!({"id": call.id, "type": "function",
                        "function": {"name": call.name, "arguments": call.arguments}})
                });
                let calls: Vec<Value> = calls.collect();
                let mut message = json!({"role": "assistant", "content": answer.text});
                if !calls.is_empty() {
                    message["tool_calls"] = Value::from(calls);
                }
                vec![message]
            }
            Self::Messages => {
                let text = (!text.is_empty()).then(|| json!({"type": "text", "text": text}));
                let calls = calls.map(|call| {
                    let input: Value = serde_json::from_str(&call.arguments).unwrap();
                    json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input})
                });
                let blocks: Vec<Value> = text.into_iter().chain(calls).collect();
                vec![json!({"role": "assistant", "content": blocks})]
            }
            Self::Responses => {
                let text = (!answer.text.is_empty()).then(|| {
                    let text = json!([{"type": "output_text", "text": answer.text}]);
                    json!({"type": "message", "role": "assistant", "content": text})
                });
                let calls = calls.map(|call| {
                    json!({"type": "function_call", "call_id": call.id, "name": call.name,
                        "arguments": call.arguments})
                });
                text.into_iter().chain(calls).collect()
            }
        }
    }

    pub(crate) async fn send(self, stage: &Stage, body: &Value) -> Response {
        let post = stage.client.post(format!("{}/{}", stage.url, self.path()));
        let post = match self {
            Self::Messages => post.header("x-api-key", "key"),
            _ => post.bearer_auth("key"),
        };
        let post = post.header("content-type", "application/json");
        post.body(body.to_string()).send().await.unwrap()
    }

    /// The status and the whole body.
    pub(crate) async fn raw(self, stage: &Stage, body: &Value) -> (u16, String) {
        let response = self.send(stage, body).await;
        let status = response.status().as_u16();
        (status, response.text().await.unwrap())
    }

    /// The answer to a request that must succeed.
    pub(crate) async fn answer(self, stage: &Stage, said: &[Said<'_>], streams: bool) -> Answer {
        let (status, text) = self.raw(stage, &self.body(said, streams)).await;
        assert_eq!(status, 200, "{self:?}: {text}");
        match streams {
            true => self.read_stream(&text),
            false => self.read(&serde_json::from_str(&text).unwrap()),
        }
    }

    /// The kind and the message of an error.
    pub(crate) fn error(self, body: &str) -> (String, String) {
        let body: Value = serde_json::from_str(body).unwrap();
        if self == Self::Messages {
            assert_eq!(body["type"], "error");
        }
        let error = &body["error"];
        (string(&error["type"]), string(&error["message"]))
    }

    pub(crate) fn read(self, body: &Value) -> Answer {
        let mut answer = Answer::default();
        match self {
            Self::Chat => {
                let choice = &body["choices"][0];
                answer.text = choice["message"]["content"]
                    .as_str()
                    .unwrap_or("")
                    .to_owned();
                let calls = choice["message"]["tool_calls"].as_array();
                answer.calls = calls.into_iter().flatten().map(of_chat).collect();
                answer.stop = string(&choice["finish_reason"]);
                answer.usage = usage(&body["usage"], "prompt_tokens", "completion_tokens");
            }
            Self::Messages => {
                assert_eq!(
                    (&body["type"], &body["role"]),
                    (&json!("message"), &json!("assistant"))
                );
                for block in body["content"].as_array().unwrap() {
                    match block["type"].as_str().unwrap() {
                        "text" => answer.text += block["text"].as_str().unwrap(),
                        "tool_use" => answer.calls.push(Call {
                            id: string(&block["id"]),
                            name: string(&block["name"]),
                            arguments: block["input"].to_string(),
                        }),
                        other => assert_eq!(other, "", "an unknown kind"),
                    }
                }
                answer.stop = string(&body["stop_reason"]);
                answer.usage = usage(&body["usage"], "input_tokens", "output_tokens");
            }
            Self::Responses => {
                assert_eq!(body["object"], "response");
                for item in body["output"].as_array().unwrap() {
                    match item["type"].as_str().unwrap() {
                        "message" => answer.text += item["content"][0]["text"].as_str().unwrap(),
                        "function_call" => answer.calls.push(Call {
                            id: string(&item["call_id"]),
                            name: string(&item["name"]),
                            arguments: string(&item["arguments"]),
                        }),
                        other => assert_eq!(other, "", "an unknown kind"),
                    }
                }
                answer.stop = string(&body["status"]);
                answer.usage = usage(&body["usage"], "input_tokens", "output_tokens");
            }
        }
        answer
    }

    /// Puts the events of a stream together, and checks that they come in the order of the API.
    pub(crate) fn read_stream(self, stream: &str) -> Answer {
        match self {
            Self::Chat => {
                let chunks = crate::stage::chunks(stream);
                let (message, finish) = crate::stage::assemble(&chunks, 0);
                let usage = &chunks.last().unwrap()["usage"];
                let choice = json!({"message": message, "finish_reason": finish});
                self.read(&json!({"choices": [choice], "usage": usage}))
            }
            Self::Messages => self.read(&of_message_events(&events(stream))),
            Self::Responses => self.read(&of_response_events(&events(stream))),
        }
    }
}

fn of_tools(tool: impl Fn(&Value) -> Value) -> Vec<Value> {
    let tools = tools();
    let tools = tools.as_array().unwrap().iter();
    tools.map(|own| tool(&own["function"])).collect()
}

/// Results that follow each other are one message of the user's in Anthropic's API.
fn merged(messages: Vec<Value>) -> Vec<Value> {
    let mut merged: Vec<Value> = Vec::new();
    for message in messages {
        match merged.last_mut() {
            Some(last) if last["role"] == message["role"] => {
                let blocks = message["content"].as_array().unwrap().clone();
                last["content"].as_array_mut().unwrap().extend(blocks);
            }
            _ => merged.push(message),
        }
    }
    merged
}

fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn usage(usage: &Value, input: &str, output: &str) -> (u64, u64) {
    (
        usage[input].as_u64().unwrap(),
        usage[output].as_u64().unwrap(),
    )
}

fn of_chat(call: &Value) -> Call {
    Call {
        id: string(&call["id"]),
        name: string(&call["function"]["name"]),
        arguments: string(&call["function"]["arguments"]),
    }
}

/// The events of a stream, each of which is named as its type.
pub(crate) fn events(stream: &str) -> Vec<Value> {
    let blocks = stream.split("\n\n").filter(|block| !block.is_empty());
    let events = blocks.filter(|block| !block.starts_with(':')).map(|block| {
        let (name, data) = block.split_once('\n').unwrap();
        let data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(
            name.strip_prefix("event: "),
            data["type"].as_str(),
            "{block}"
        );
        data
    });
    events.collect()
}

fn of_message_events(events: &[Value]) -> Value {
    let mut events = events.iter().filter(|event| event["type"] != "ping");
    let mut message = events.next().unwrap()["message"].clone();
    assert_eq!(message["content"], json!([]));
    assert!(message["stop_reason"].is_null());
    let mut blocks: Vec<Value> = Vec::new();
    let (mut is_open, mut input) = (false, String::new());
    for event in events.by_ref() {
        let kind = event["type"].as_str().unwrap();
        if kind.starts_with("content_block") {
            let newest = blocks.len() - usize::from(kind != "content_block_start");
            assert_eq!(event["index"], newest);
        }
        match kind {
            "content_block_start" => {
                assert!(!is_open);
                is_open = true;
                blocks.push(event["content_block"].clone());
            }
            "content_block_delta" if event["delta"]["type"] == "text_delta" => {
                let block = blocks.last_mut().unwrap();
                let text = string(&block["text"]) + event["delta"]["text"].as_str().unwrap();
                block["text"] = text.into();
            }
            "content_block_delta" => {
                assert_eq!(event["delta"]["type"], "input_json_delta");
                input += event["delta"]["partial_json"].as_str().unwrap();
            }
            "content_block_stop" => {
                assert!(is_open);
                is_open = false;
                let block = blocks.last_mut().unwrap();
                if block["type"] == "tool_use" {
                    block["input"] = serde_json::from_str(&input).unwrap();
                    input.clear();
                }
            }
            "message_delta" => {
                assert!(!is_open);
                message["stop_reason"] = event["delta"]["stop_reason"].clone();
                message["usage"] = event["usage"].clone();
            }
            "message_stop" => break,
            other => assert_eq!(other, "", "an unknown kind"),
        }
    }
    assert!(events.next().is_none());
    message["content"] = blocks.into();
    message
}

fn of_response_events(events: &[Value]) -> Value {
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], number);
    }
    assert_eq!(events[0]["type"], "response.created");
    let (mut added, mut done) = (Vec::new(), Vec::new());
    let (mut text, mut arguments) = (String::new(), String::new());
    for event in events {
        match event["type"].as_str().unwrap() {
            "response.output_item.added" => added.push(event["item"]["id"].clone()),
            "response.output_text.delta" => text += event["delta"].as_str().unwrap(),
            "response.output_text.done" => assert_eq!(event["text"], text),
            "response.function_call_arguments.delta" => {
                arguments += event["delta"].as_str().unwrap();
            }
            "response.function_call_arguments.done" => {
                assert_eq!(event["arguments"], arguments);
                arguments.clear();
            }
            "response.output_item.done" => done.push(event["item"].clone()),
            _ => {}
        }
    }
    let ids: Vec<Value> = done.iter().map(|item| item["id"].clone()).collect();
    assert_eq!(added, ids);
    let last = events.last().unwrap();
    assert!(matches!(
        last["type"].as_str(),
        Some("response.completed" | "response.incomplete")
    ));
    assert_eq!(last["response"]["output"], Value::from(done));
    last["response"].clone()
}
