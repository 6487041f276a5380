//! A model behind a real loopback server, whose answers are a function of the request, and which
//! keeps what it was sent.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Json, Router,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// What the model does.
#[derive(Clone)]
pub(crate) enum Reply {
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

pub(crate) fn says(text: &str) -> Reply {
    Reply::Says(text.to_owned(), Vec::new())
}

pub(crate) fn calls(calls: &[(&str, &str)]) -> Reply {
    let calls = calls
        .iter()
        .map(|(tool, arguments)| ((*tool).to_owned(), (*arguments).to_owned()));
    Reply::Says(String::new(), calls.collect())
}

type Script = Arc<dyn Fn(&Value) -> Reply + Send + Sync>;
type Log = Arc<Mutex<Vec<(HeaderMap, Value)>>>;

/// A running upstream.
pub(crate) struct Upstream {
    pub(crate) url: String,
    log: Log,
}

impl Upstream {
    pub(crate) async fn start(script: impl Fn(&Value) -> Reply + Send + Sync + 'static) -> Self {
        let log = Log::default();
        let script: Script = Arc::new(script);
        let router = Router::new()
            .route("/v1/chat/completions", post(answer))
            .route("/v1/models", get(models))
            .with_state((script, log.clone()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, log }
    }

    /// The bodies of all requests so far.
    pub(crate) fn requests(&self) -> Vec<Value> {
        let log = self.log.lock().unwrap();
        log.iter().map(|(_, body)| body.clone()).collect()
    }

    pub(crate) fn last(&self) -> (HeaderMap, Value) {
        self.log.lock().unwrap().last().unwrap().clone()
    }

    /// Everything that was ever sent, as one text.
    pub(crate) fn everything(&self) -> String {
        let requests = self.requests();
        requests.iter().map(Value::to_string).collect()
    }
}

/// The text of the newest message.
pub(crate) fn newest(body: &Value) -> &str {
    let messages = body["messages"].as_array().unwrap();
    messages.last().unwrap()["content"].as_str().unwrap_or("")
}

async fn models(headers: HeaderMap) -> Json<Value> {
    let key = headers
        .get("authorization")
        .map(|key| key.to_str().unwrap());
    Json(json!({"object": "list", "data": [{"id": "big", "key": key}]}))
}

async fn answer(
    State((script, log)): State<(Script, Log)>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let body: Value = serde_json::from_slice(&body).unwrap();
    let reply = script(&body);
    let streams = body["stream"] == true;
    let before = {
        let mut log = log.lock().unwrap();
        log.push((headers, body));
        log.len()
    };
    let (text, calls, finish) = match reply {
        Reply::Hangs => {
            tokio::time::sleep(Duration::from_secs(60)).await;
            return StatusCode::OK.into_response();
        }
        Reply::Fails(status, body) => {
            return (StatusCode::from_u16(status).unwrap(), body).into_response();
        }
        Reply::Raw(body) => return body.into_response(),
        Reply::Cut(text, calls) => (text, calls, "length"),
        Reply::Says(text, calls) if calls.is_empty() => (text, calls, "stop"),
        Reply::Says(text, calls) => (text, calls, "tool_calls"),
    };
    let calls: Vec<Value> = calls
        .iter()
        .enumerate()
        .map(|(index, (tool, arguments))| {
            json!({"index": index, "id": format!("up_{before}_{index}"), "type": "function",
                "function": {"name": tool, "arguments": arguments}})
        })
        .collect();
    let usage = json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15});
    if !streams {
        let mut message = json!({"role": "assistant", "content": text});
        if !calls.is_empty() {
            message["tool_calls"] = Value::from(calls);
        }
        let choice = json!({"index": 0, "message": message, "finish_reason": finish});
        return Json(json!({"id": "x", "object": "chat.completion", "model": "m",
            "choices": [choice], "usage": usage}))
        .into_response();
    }
    let chunk = |delta: Value, finish: Value| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
    let mut events: Vec<Value> = text
        .split_inclusive(' ')
        .map(|word| chunk(json!({"content": word}), Value::Null))
        .collect();
    for call in calls {
        events.push(chunk(json!({"tool_calls": [call]}), Value::Null));
    }
    events.push(chunk(json!({}), json!(finish)));
    events.push(json!({"choices": [], "usage": usage}));
    let text: String = events
        .iter()
        .map(|event| format!("data: {event}\n\n"))
        .collect();
    let body = Body::from(text + "data: [DONE]\n\n");
    ([("content-type", "text/event-stream")], body).into_response()
}
