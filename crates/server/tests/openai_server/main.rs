//! The model server over real connections: our own client against it, and requests by hand.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod raw;

use std::{sync::Arc, time::Duration};

use hub::{AnswerShape, Completion, CompletionRequest, ProposedCall, Purpose, StopReason};
use ifc::{History, Label, Labeled, PromptMessage, Tool, redact};
use llm::{
    Broker, HttpConfig, HttpProvider, NoDeltas, Provider, Scripted, call_answer,
    conformance::{able_script, conformance},
    text_answer,
};
use raw::{get, post, sent};
use serde_json::{Value, json};
use server::openai_server::{ModelServer, ModelServerConfig, ModelServerError};

/// A server of one provider on a free port of loopback, until the test ends.
async fn serve(provider: Arc<dyn Provider>) -> String {
    let broker = Arc::new(Broker::new(provider, Label::bottom()));
    let config = ModelServerConfig {
        address: "127.0.0.1:0".parse().unwrap(),
        allow_remote: false,
    };
    let server = ModelServer::bind(broker, config).await.unwrap();
    let url = server.base_url();
    tokio::spawn(server.serve(std::future::pending()));
    url
}

fn client(url: &str, model: &str, stream: bool) -> HttpProvider {
    let mut config = HttpConfig::new("client", url, model);
    config.stream = stream;
    HttpProvider::new(config).unwrap()
}

#[tokio::test]
async fn the_client_passes_the_suite_against_the_server() {
    for stream in [true, false] {
        let url = serve(Arc::new(Scripted::new("scripted", able_script))).await;
        let client = client(&url, "scripted", stream);
        assert_eq!(conformance(Arc::new(client)).await, []);
    }
}

/// Echoes the newest message.
fn echo(request: &CompletionRequest) -> Completion {
    match request.prompt.messages().last() {
        Some(PromptMessage::User(text)) => text_answer(text.clone()),
        Some(PromptMessage::Tool {
            content,
            tool,
            call,
        }) => text_answer(format!("{tool} {call} {content}")),
        other => text_answer(format!("{other:?}")),
    }
}

fn ask(history: &History, shape: AnswerShape) -> CompletionRequest {
    CompletionRequest {
        prompt: redact(history, &Label::bottom()),
        purpose: Purpose::Step,
        shape,
        max_tokens: 1_000_000,
    }
}

#[tokio::test]
async fn every_text_comes_through_unchanged() {
    let special = "Zürich 東京 🜁 e\u{301} \u{0}\u{1b}[0m \u{feff}\u{202e} \" \\ ' \r\n\r\ndata: [DONE]\n\n<|im_end|>";
    let long = special.repeat(100_000 / special.len() + 1);
    for stream in [true, false] {
        let url = serve(Arc::new(Scripted::new("echo", echo))).await;
        let broker = Broker::new(Arc::new(client(&url, "echo", stream)), Label::bottom());
        for text in [special, &long] {
            let mut history = History::new(Vec::new());
            history.push_user(Labeled::trusted_tcb(text));
            let mut streamed = String::new();
            let request = ask(&history, AnswerShape::Text);
            let answer = broker.complete(&request, &mut streamed).await.unwrap();
            assert!(answer.completion.text == text && streamed == text);
        }
        // A call and its result, there and back.
        let mut history = History::new(Vec::new());
        history.push_user(Labeled::trusted_tcb("hi"));
        let call = ("look up".to_owned(), Labeled::trusted_tcb("{}"));
        let ids = history.push_assistant(&Label::bottom(), Labeled::trusted_tcb(""), [call]);
        history.push_result(&Label::bottom(), ids[0], Labeled::trusted_tcb("äöü"));
        let request = ask(&history, AnswerShape::Text);
        let answer = broker.complete(&request, &mut NoDeltas).await.unwrap();
        // The API has no blanks in names, so another one was sent.
        assert_eq!(answer.completion.text, "look_up_1 call_1 äöü");
    }
}

#[tokio::test]
async fn calls_come_back_exactly_and_shapes_arrive() {
    let calls = [("send", r#"{"to":"a@b","n":[1,"ü"]}"#), ("other", "{}")];
    let calls = calls.map(|(tool, arguments)| ProposedCall {
        tool: tool.to_owned(),
        arguments: arguments.to_owned(),
    });
    let expected = calls.to_vec();
    let script = move |request: &CompletionRequest| match &request.shape {
        AnswerShape::Calls => Completion {
            calls: calls.to_vec(),
            ..Completion::default()
        },
        shape => text_answer(told(shape)),
    };
    let url = serve(Arc::new(Scripted::new("s", script))).await;
    let tools = ["send", "other"].map(|name| Tool {
        label: Label::bottom(),
        name: name.to_owned(),
        description: Labeled::trusted_tcb(""),
        parameters: Labeled::trusted_tcb(r#"{"type":"object"}"#),
    });
    let mut history = History::new(tools.to_vec());
    history.push_user(Labeled::trusted_tcb("hi"));
    for stream in [true, false] {
        let broker = Broker::new(Arc::new(client(&url, "s", stream)), Label::bottom());
        let request = ask(&history, AnswerShape::Calls);
        let answer = broker.complete(&request, &mut NoDeltas).await.unwrap();
        assert_eq!(answer.completion.calls, expected);
        assert_eq!(answer.completion.stop, StopReason::End);
        let schema = r#"{"type":"object"}"#.to_owned();
        for shape in [
            AnswerShape::Text,
            AnswerShape::TextOrCalls,
            AnswerShape::Json { schema },
        ] {
            let request = ask(&history, shape.clone());
            let answer = broker.complete(&request, &mut NoDeltas).await.unwrap();
            assert_eq!(answer.completion.text, told(&shape));
        }
    }
}

/// The shape that a model was asked for, in that shape.
fn told(shape: &AnswerShape) -> String {
    match shape {
        AnswerShape::Json { .. } => json!({ "shape": format!("{shape:?}") }).to_string(),
        _ => format!("{shape:?}"),
    }
}

#[tokio::test]
async fn a_client_that_goes_away_stops_the_model() {
    let slow = Scripted::new("slow", |_| text_answer("word ".repeat(1000)))
        .with_pace(Duration::from_secs(4));
    let watched = Arc::new(raw::Watched::new(slow));
    let url = serve(watched.clone()).await;
    for (count, stream) in [(1, true), (2, false)] {
        let broker = Broker::new(Arc::new(client(&url, "slow", stream)), Label::bottom());
        let mut history = History::new(Vec::new());
        history.push_user(Labeled::trusted_tcb("hi"));
        let request = ask(&history, AnswerShape::Text);
        let mut unheard = NoDeltas;
        let call = broker.complete(&request, &mut unheard);
        tokio::select! {
            _ = call => panic!("the whole answer takes an hour"),
            () = watched.begun(count) => {}
        }
        watched.idle_after(count).await;
    }
}

#[tokio::test]
async fn bad_requests_are_refused_in_the_form_of_the_api() {
    let url = serve(Arc::new(Scripted::new("s", |_| call_answer("x", "{}")))).await;
    let hi = json!([{"role": "user", "content": "hi"}]);
    let check = async |body: Value, status: u16, expected: &str| {
        let (code, answer) = sent(post(&url, &body.to_string())).await;
        let error: Value = serde_json::from_str(&answer).unwrap();
        let message = error["error"]["message"].as_str().unwrap();
        assert!(message.contains(expected), "{message}");
        assert!(error["error"]["type"].is_string());
        assert_eq!(code, status, "{message}");
    };
    let tool = json!([{"role": "tool", "tool_call_id": "x", "content": "y"}]);
    for (more, status, expected) in [
        (json!({"model": "gone"}), 404, "no such model"),
        (json!({"messages": []}), 400, "`messages` must have"),
        (json!({"n": 2}), 400, "`n` must be 1"),
        (json!({"stop": "x"}), 400, "`stop`"),
        (json!({"tool_choice": "required"}), 400, "no `tools`"),
        (json!({"messages": tool}), 400, "answers no earlier call"),
    ] {
        let mut body = json!({"model": "s", "messages": hi});
        for (name, value) in more.as_object().unwrap() {
            body[name] = value.clone();
        }
        check(body, status, expected).await;
    }
    let (code, _) = sent(post(&url, &"[".repeat(200_000))).await;
    assert_eq!(code, 400);
    let (code, _) = sent(post(&url, &" ".repeat((32 << 20) + 1))).await;
    assert_eq!(code, 413);
    let (code, answer) = sent(get(&url, "/v1/nothing")).await;
    assert_eq!(code, 404);
    assert!(serde_json::from_str::<Value>(&answer).unwrap()["error"].is_object());
}

#[tokio::test]
async fn answers_have_the_form_of_the_api() {
    let url = serve(Arc::new(Scripted::new("s", echo))).await;
    let (code, models) = sent(get(&url, "/v1/models")).await;
    assert_eq!(code, 200);
    let models: Value = serde_json::from_str(&models).unwrap();
    assert_eq!(models["data"][0]["id"], "s");
    let parts = json!([{"type": "text", "text": "a "}, {"type": "text", "text": "b"}]);
    let body = json!({"model": "s", "max_tokens": 1, "temperature": 0.5,
        "messages": [{"role": "developer", "content": "d"}, {"role": "user", "content": parts}]});
    let (code, answer) = sent(post(&url, &body.to_string())).await;
    assert_eq!(code, 200);
    let mut answer: Value = serde_json::from_str(&answer).unwrap();
    assert!(answer["created"].take().as_u64().unwrap() > 1_700_000_000);
    assert!(
        answer["id"]
            .take()
            .as_str()
            .unwrap()
            .starts_with("chatcmpl-")
    );
    assert_eq!(
        answer,
        json!({"id": null, "created": null, "object": "chat.completion", "model": "s",
            "choices": [{"index": 0, "finish_reason": "length",
                "message": {"role": "assistant", "content": "a "}}],
            "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4,
                "prompt_tokens_details": {"cached_tokens": 0}}})
    );
}

#[tokio::test]
async fn web_pages_and_other_machines_are_kept_out() {
    let provider = || Arc::new(Scripted::new("s", echo));
    let url = serve(provider()).await;
    for (host, expected) in [
        ("localhost:1234", 200),
        ("[::1]:80", 200),
        ("evil.example", 403),
        ("localhost.evil.example:80", 403),
    ] {
        let request = get(&url, "/v1/models").header("host", host);
        assert_eq!(sent(request).await.0, expected, "{host}");
    }
    let form = raw::client().post(format!("{url}/chat/completions"));
    let form = form.header("content-type", "text/plain").body("{}");
    assert_eq!(sent(form).await.0, 415);

    let config = ModelServerConfig {
        address: "0.0.0.0:0".parse().unwrap(),
        allow_remote: false,
    };
    let broker = Arc::new(Broker::new(provider(), Label::bottom()));
    let refused = ModelServer::bind(broker, config).await;
    assert!(matches!(refused, Err(ModelServerError::NotLoopback(_))));
}
