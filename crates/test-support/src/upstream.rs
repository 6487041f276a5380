//! A model behind a server, whose answers are a function of the request.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::dialects::{Answer, Call, Wire};
use crate::http::{self, Reply, Request, Server};

/// What the model does.
#[derive(Clone)]
pub enum ModelReply {
    /// Text, and calls by tool and arguments.
    Says(String, Vec<(String, String)>),
    /// The answer was cut, behind these calls.
    Cut(String, Vec<(String, String)>),
    /// An error with this status and body.
    Fails(u16, String),
    /// These bytes, as JSON.
    Raw(String),
    /// Nothing, for a long time.
    Hangs,
}

/// An answer without calls.
pub fn says(text: &str) -> ModelReply {
    ModelReply::Says(text.to_owned(), Vec::new())
}

/// Calls by tool and arguments.
pub fn calls(calls: &[(&str, &str)]) -> ModelReply {
    let calls = calls.iter();
    let calls = calls.map(|(tool, arguments)| ((*tool).to_owned(), (*arguments).to_owned()));
    ModelReply::Says(String::new(), calls.collect())
}

/// The text of the newest message.
pub fn newest(body: &Value) -> &str {
    let messages = body["messages"].as_array().unwrap();
    messages.last().unwrap()["content"].as_str().unwrap_or("")
}

/// A running upstream. It lists one model, `big`, with the key of the request.
pub struct Upstream {
    /// Its base URL.
    pub url: String,
    server: Server,
}

impl Upstream {
    /// Answers by this script, which gets requests of each API as chat completions. The calls of the n-th request have the
    /// ids `up_n_0` and so on.
    pub fn start(script: impl Fn(&Value) -> ModelReply + Send + Sync + 'static) -> Self {
        Self::at(Server::start(answers(script)))
    }

    /// The same without a record of requests, for loads whose memory is measured.
    pub fn forgetful(script: impl Fn(&Value) -> ModelReply + Send + Sync + 'static) -> Self {
        Self::at(Server::forgetful(answers(script)))
    }

    fn at(server: Server) -> Self {
        let url = server.url("/v1");
        Self { url, server }
    }

    fn posted(&self) -> impl Iterator<Item = Request> {
        let requests = self.server.requests().into_iter();
        requests.filter(|request| request.method == "POST")
    }

    /// The bodies of all requests so far.
    pub fn requests(&self) -> Vec<Value> {
        self.posted().map(|request| request.json()).collect()
    }

    /// The headers of all requests so far.
    pub fn headers(&self) -> Vec<BTreeMap<String, String>> {
        self.posted().map(|request| request.headers).collect()
    }

    /// The headers and the body of the newest request.
    pub fn last(&self) -> (BTreeMap<String, String>, Value) {
        let last = self.posted().last().unwrap();
        (last.headers.clone(), last.json())
    }

    /// Everything that was ever sent, as one text.
    pub fn everything(&self) -> String {
        self.requests().iter().map(Value::to_string).collect()
    }
}

fn answers(script: impl Fn(&Value) -> ModelReply) -> impl Fn(&Request) -> Reply {
    let count = std::sync::atomic::AtomicUsize::new(0);
    move |request| {
        if request.method == "GET" {
            let key = request.headers.get("authorization");
            let model = json!({"id": "big", "key": key, "owned_by": "llamacpp"});
            // The second list is Ollama's.
            let local = json!([{"name": "big"}]);
            return http::json(json!({"object": "list", "data": [model], "models": local}));
        }
        let number = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1;
        let mut body = request.json();
        if let Some(wire) = Wire::of(&request.path) {
            match wire.as_chat(&body) {
                Ok(chat) => body = chat,
                Err(why) => {
                    let error = json!({"type": "invalid_request_error", "message": why});
                    let body = json!({"type": "error", "error": error});
                    return Reply::Whole(400, Vec::new(), body.to_string());
                }
            }
        }
        reply(request, script(&body), number)
    }
}

fn reply(request: &Request, answer: ModelReply, number: usize) -> Reply {
    let (text, calls, is_cut) = match answer {
        ModelReply::Hangs => {
            thread::sleep(Duration::from_secs(3600));
            return http::status(200);
        }
        ModelReply::Fails(status, body) => return Reply::Whole(status, Vec::new(), body),
        ModelReply::Raw(body) => return Reply::Whole(200, Vec::new(), body),
        ModelReply::Cut(text, calls) => (text, calls, true),
        ModelReply::Says(text, calls) => (text, calls, false),
    };
    let calls = calls.into_iter().enumerate();
    let calls = calls.map(|(index, (tool, arguments))| {
        let id = format!("up_{number}_{index}");
        Call::new(&id, &tool, &arguments)
    });
    let answer = Answer {
        text,
        calls: calls.collect(),
        is_cut,
        tokens: 5,
    };
    in_api(request, &answer, number)
}

/// An answer in the API of a request, as a stream if the request says so.
pub fn in_api(request: &Request, answer: &Answer, number: usize) -> Reply {
    let streams = request.json()["stream"] == true;
    let Some(wire) = Wire::of(&request.path) else {
        return chat(answer, streams);
    };
    let (whole, events) = wire.write(answer, number);
    if !streams {
        return http::json(whole);
    }
    let events = events.iter();
    let events = events.map(|event| {
        let kind = event["type"].as_str().unwrap();
        format!("event: {kind}\ndata: {event}\n\n")
    });
    let events: String = events.collect();
    http::events(move |to| to.write_all(events.as_bytes()))
}

fn chat(answer: &Answer, streams: bool) -> Reply {
    let finish = match (answer.is_cut, answer.calls.is_empty()) {
        (true, _) => "length",
        (false, true) => "stop",
        (false, false) => "tool_calls",
    };
    let calls = answer.calls.iter().enumerate().map(|(index, call)| {
        json!({"index": index, "id": call.id, "type": "function",
            "function": {"name": call.tool, "arguments": call.arguments}})
    });
    let calls: Vec<Value> = calls.collect();
    let usage = json!({"prompt_tokens": 10, "completion_tokens": answer.tokens,
        "total_tokens": 10 + answer.tokens});
    if !streams {
        let mut message = json!({"role": "assistant", "content": answer.text});
        if !calls.is_empty() {
            message["tool_calls"] = Value::from(calls);
        }
        let choice = json!({"index": 0, "message": message, "finish_reason": finish});
        return http::json(json!({"id": "x", "object": "chat.completion", "model": "m",
            "choices": [choice], "usage": usage}));
    }
    let chunk = |delta: Value, finish: Value| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
    let words = answer.text.split_inclusive(' ');
    let words = words.map(|word| chunk(json!({"content": word}), Value::Null));
    let calls = calls.into_iter();
    let calls = calls.map(|call| chunk(json!({"tool_calls": [call]}), Value::Null));
    let end = [
        chunk(json!({}), json!(finish)),
        json!({"choices": [], "usage": usage}),
    ];
    let events = words.chain(calls).chain(end);
    let text: String = events.map(|event| format!("data: {event}\n\n")).collect();
    http::events(move |to| to.write_all(format!("{text}data: [DONE]\n\n").as_bytes()))
}
