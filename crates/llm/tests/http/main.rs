//! Providers behind servers that misbehave on purpose. What is the same in each dialect is tested with chat completions.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests fail by panicking"
)]

mod forms;
mod json;
mod messages;
mod misbehaving;
mod responses;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hub::{AnswerShape, Completion, CompletionRequest, Purpose, StopReason};
use ifc::{Content, History, Image, Label, Labeled, Tool, redact};
use llm::{
    ApiKey, Broker, ErrorKind, HttpConfig, HttpConfigError, HttpProvider, ProviderError,
    RequestOptions, Retry, Timeouts,
};
use misbehaving::{Reply, Server};
use serde_json::{Value, json};

const KEY: &str = "sk-very-secret";

fn config(base_url: &str) -> HttpConfig {
    let mut config = HttpConfig::new("remote", base_url, "some-model");
    config.api_key = Some(ApiKey::new(KEY));
    config.retry = Retry {
        attempts: 2,
        base: Duration::from_millis(5),
        longest: Duration::from_secs(2),
    };
    // No test ends by one of these, but those that set their own.
    config.timeouts = Timeouts {
        connect: Duration::from_secs(60),
        read: Duration::from_secs(60),
        total: Duration::from_secs(600),
    };
    config
}

fn tools() -> Vec<Tool> {
    vec![Tool {
        label: Label::bottom(),
        name: "mail.send".to_owned(),
        description: Labeled::trusted_tcb("Sends."),
        parameters: Labeled::trusted_tcb(r#"{"type":"object"}"#),
    }]
}

fn request(shape: AnswerShape) -> CompletionRequest {
    let mut history = History::new(tools());
    history.push_system(Labeled::trusted_tcb("Be brief."));
    history.push_user(Labeled::trusted_tcb("Grüße 東京"));
    let arguments = Labeled::trusted_tcb(r#"{"a":1}"#);
    let ids = history.push_assistant(
        &Label::bottom(),
        Labeled::trusted_tcb(""),
        [("mail.send".to_owned(), arguments)],
    );
    history.push_result(&Label::bottom(), ids[0], Labeled::trusted_tcb("done"));
    CompletionRequest {
        prompt: redact(&history, &Label::bottom()),
        purpose: Purpose::Step,
        shape,
        max_tokens: 7,
    }
}

/// Asks a server that gives these replies, one per connection; the streamed text comes along.
async fn ask(
    config: impl FnOnce(&str) -> HttpConfig,
    replies: Vec<Reply>,
) -> (Server, Result<Completion, ProviderError>, String) {
    let server = Server::start(replies);
    let provider = HttpProvider::new(config(&server.base_url)).unwrap();
    let broker = Broker::new(Arc::new(provider), Label::bottom());
    let mut streamed = String::new();
    let answer = broker
        .complete(&request(AnswerShape::TextOrCalls), &mut streamed)
        .await;
    (server, answer.map(|answer| answer.completion), streamed)
}

fn chunk(delta: Value, finish: Option<&str>) -> String {
    let chunk = json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
    format!("data: {chunk}\n\n")
}

fn text_stream() -> String {
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 2,
        "prompt_tokens_details": {"cached_tokens": 4}}});
    [
        ": hello\n\n".to_owned(),
        chunk(json!({"role": "assistant", "content": ""}), None),
        chunk(json!({"content": "Hé"}), None),
        chunk(json!({"content": "llo"}), Some("stop")),
        format!("data: {usage}\n\ndata: [DONE]\n\n"),
    ]
    .concat()
}

#[tokio::test]
async fn a_stream_is_put_together_whatever_way_it_is_cut() {
    for size in [1, 3, 1000] {
        let (_, answer, streamed) = ask(config, vec![Reply::stream_in(&text_stream(), size)]).await;
        let answer = answer.unwrap();
        assert_eq!(
            (answer.text.as_str(), streamed.as_str()),
            ("Héllo", "Héllo")
        );
        assert_eq!(answer.stop, StopReason::End);
        let usage = answer.usage;
        assert_eq!(
            (
                usage.prompt_tokens,
                usage.cached_tokens,
                usage.completion_tokens
            ),
            (9, 4, 2)
        );
        assert!(usage.time_to_first_token.unwrap() <= usage.total_time);
    }
}

/// Where the network cuts a stream is nobody's choice, so what follows its end counts nowhere: in the piece that ends it
/// no more than in one that nobody reads.
#[tokio::test]
async fn what_follows_the_end_of_a_stream_counts_nowhere() {
    let small = |url: &str| {
        let mut config = config(url);
        config.limits.event = 1000;
        config.limits.response = 2000;
        config
    };
    let text = text_stream();
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 90}});
    let call = json!({"tool_calls": [{"function": {"name": "other", "arguments": "{}"}}]});
    for tail in [
        chunk(json!({"content": " and more"}), Some("length")).into_bytes(),
        chunk(call, Some("tool_calls")).into_bytes(),
        format!("data: {usage}\n\n").into_bytes(),
        b"data: {\"error\": {\"message\": \"too late\"}}\n\n".to_vec(),
        b"data: {not json\n\n".to_vec(),
        b"data: \xff\n\n".to_vec(),
        // An event above its limit, and events that are above the limit of an answer together.
        [b'x'; 1500].to_vec(),
        b": alive\n\n".repeat(300),
    ] {
        let bytes = [text.as_bytes(), &tail].concat();
        let Reply::Bytes(whole, _) = Reply::bytes(&bytes) else {
            panic!("a stream is bytes");
        };
        let end = whole.len() - tail.len();
        for size in [usize::MAX, end, 1] {
            let name = format!("{:?} in pieces of {size}", String::from_utf8_lossy(&tail));
            let reply = Reply::Bytes(whole.clone(), size);
            let (server, answer, streamed) = ask(small, vec![reply]).await;
            let answer = answer.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(
                (answer.text.as_str(), streamed.as_str()),
                ("Héllo", "Héllo"),
                "{name}"
            );
            assert_eq!(
                (answer.stop, answer.calls.len()),
                (StopReason::End, 0),
                "{name}"
            );
            assert_eq!(answer.usage.prompt_tokens, 9, "{name}");
            assert_eq!(server.count(), 1, "{name}");
        }
    }
}

/// The usage comes last, when the text has been shown.
#[tokio::test]
async fn usage_that_is_no_count_does_not_take_an_answer_back() {
    let details = json!({"cached_tokens": "all"});
    for (usage, expected) in [
        (
            json!({"prompt_tokens": null, "completion_tokens": 2}),
            (0, 0, 2),
        ),
        (
            json!({"prompt_tokens": 12.5, "completion_tokens": -1}),
            (0, 0, 0),
        ),
        (
            json!({"prompt_tokens": 1_u64 << 40, "completion_tokens": "2"}),
            (0, 0, 0),
        ),
        (
            json!({"prompt_tokens": 3, "prompt_tokens_details": details}),
            (3, 0, 0),
        ),
        (json!("none"), (0, 0, 0)),
    ] {
        let last = json!({"choices": [], "usage": usage});
        let stream = [
            chunk(json!({"content": "Hi"}), Some("stop")),
            format!("data: {last}\n\ndata: [DONE]\n\n"),
        ];
        let (_, answer, _) = ask(config, vec![Reply::stream(&stream.concat())]).await;
        let counted = answer.unwrap().usage;
        let counted = (
            counted.prompt_tokens,
            counted.cached_tokens,
            counted.completion_tokens,
        );
        assert_eq!(counted, expected, "{usage}");
    }
}

/// Tools and arguments of an answer's calls.
fn made(answer: &Completion) -> Vec<(String, String)> {
    let calls = answer.calls.iter();
    let calls = calls.map(|call| (call.tool.clone(), call.arguments.clone()));
    calls.collect()
}

fn owned((tool, arguments): (&str, &str)) -> (String, String) {
    (tool.to_owned(), arguments.to_owned())
}

#[tokio::test]
async fn pieces_of_parallel_calls_are_put_together() {
    let call = |index: u32, function: Value| {
        chunk(
            json!({"tool_calls": [{"index": index, "id": "x", "function": function}]}),
            None,
        )
    };
    let stream = [
        call(0, json!({"name": "mail_send_1", "arguments": "{\"to\":"})),
        call(1, json!({"name": "other"})),
        call(0, json!({"arguments": "\"a\"}"})),
        chunk(json!({}), Some("tool_calls")),
        "data: [DONE]\n\n".to_owned(),
    ];
    let (_, answer, streamed) = ask(config, vec![Reply::stream(&stream.concat())]).await;
    let expected = [("mail.send", r#"{"to":"a"}"#), ("other", "{}")];
    assert_eq!(made(&answer.unwrap()), expected.map(owned));
    assert_eq!(streamed, "");
}

/// An answer with this message, streamed and whole.
fn ends(message: &Value, reason: &str) -> [Reply; 2] {
    let stream = [
        chunk(message.clone(), None),
        chunk(json!({}), Some(reason)),
        "data: [DONE]\n\n".to_owned(),
    ];
    let whole = json!({"choices": [{"message": message, "finish_reason": reason}]});
    [
        Reply::stream(&stream.concat()),
        Reply::json(200, "", &whole),
    ]
}

#[tokio::test]
async fn only_a_word_that_is_known_for_it_makes_an_answer_whole() {
    for (reason, expected) in [
        ("stop", StopReason::End),
        ("tool_calls", StopReason::End),
        ("function_call", StopReason::End),
        ("eos", StopReason::End),
        ("eos_token", StopReason::End),
        ("stop_sequence", StopReason::End),
        ("end_turn", StopReason::End),
        ("STOP", StopReason::End),
        ("", StopReason::End),
        ("length", StopReason::Length),
        ("content_filter", StopReason::Filter),
        ("error", StopReason::Other),
        ("insufficient_system_resource", StopReason::Other),
    ] {
        for reply in ends(&json!({"content": "Hi"}), reason) {
            let (_, answer, _) = ask(config, vec![reply]).await;
            let answer = answer.unwrap();
            assert_eq!(
                (answer.text.as_str(), answer.stop),
                ("Hi", expected),
                "{reason}"
            );
        }
    }
    // A server that says nothing in each chunk says it at the end.
    let begun = chunk(json!({"content": "Hi"}), Some(""));
    let (_, answer, _) = ask(config, vec![Reply::stream(&begun)]).await;
    assert_eq!(answer.unwrap_err().kind, ErrorKind::Cut);
    let cut = [begun, chunk(json!({}), Some("length"))].concat();
    let (_, answer, _) = ask(config, vec![Reply::stream(&cut)]).await;
    assert_eq!(answer.unwrap().stop, StopReason::Length);
}

/// Some servers leave the index out, some have the same one for all calls.
#[tokio::test]
async fn parallel_calls_are_not_mixed_whatever_their_index() {
    let piece = |index: Option<u32>, id: Option<&str>, name: Option<&str>, arguments: &str| {
        let mut piece = json!({"function": {"name": name, "arguments": arguments}});
        if let Some(index) = index {
            piece["index"] = json!(index);
        }
        if let Some(id) = id {
            piece["id"] = json!(id);
        }
        piece
    };
    let (read, delete) = (Some("read"), Some("delete"));
    let one = r#"{"id":1}"#;
    for index in [None, Some(0)] {
        let expected = [("read", one), ("delete", "{}")].map(owned);
        let cases = [
            vec![
                piece(index, Some("a"), read, one),
                piece(index, Some("b"), delete, ""),
            ],
            // The arguments come in pieces without an id.
            vec![
                piece(index, Some("a"), read, r#"{"id""#),
                piece(index, None, None, ":1}"),
                piece(index, Some("b"), delete, ""),
                piece(index, None, None, "{}"),
            ],
            // Each piece has the id of its call, and its name.
            vec![
                piece(index, Some("a"), read, r#"{"id""#),
                piece(index, Some("b"), delete, "{"),
                piece(index, Some("a"), read, ":1}"),
                piece(index, Some("b"), delete, "}"),
            ],
            // Each piece has an id of its own.
            vec![
                piece(index, Some("a"), read, r#"{"id""#),
                piece(index, Some("c"), None, ":1}"),
                piece(index, Some("b"), delete, ""),
            ],
        ];
        for pieces in cases {
            let mut stream: Vec<String> = pieces
                .iter()
                .map(|piece| chunk(json!({"tool_calls": [piece]}), None))
                .collect();
            stream.push(chunk(json!({}), Some("tool_calls")));
            stream.push("data: [DONE]\n\n".to_owned());
            let server = Server::start(vec![Reply::stream(&stream.concat())]);
            let broker = Broker::new(
                Arc::new(HttpProvider::new(config(&server.base_url)).unwrap()),
                Label::bottom(),
            );
            let answer = broker
                .complete(&request(AnswerShape::TextOrCalls), &mut String::new())
                .await;
            let answer = answer.unwrap().completion;
            assert_eq!(made(&answer), expected, "{pieces:?}");
            let ids = answer.unread.unwrap().calls.clone().into_iter();
            let ids: Vec<_> = ids.filter_map(|(id, _)| id).collect();
            assert_eq!(ids, ["a", "b"]);
        }
        // Without ids a call is known by its name, and two of one name are none that anybody can read.
        for (second, expected) in [
            (delete, vec![("read", one), ("delete", "{}")]),
            (read, vec![("read", r#"{"id":1}{"id":1}"#)]),
        ] {
            let arguments = if second == read { one } else { "" };
            let stream = [
                chunk(json!({"tool_calls": [piece(index, None, read, one)]}), None),
                chunk(
                    json!({"tool_calls": [piece(index, None, second, arguments)]}),
                    Some("stop"),
                ),
            ];
            let (_, answer, _) = ask(config, vec![Reply::stream(&stream.concat())]).await;
            let expected: Vec<_> = expected.into_iter().map(owned).collect();
            assert_eq!(made(&answer.unwrap()), expected);
        }
        // In a whole answer each stands for itself.
        for id in [None, Some("a")] {
            let calls = [piece(index, id, read, one), piece(index, id, read, "")];
            let body =
                json!({"choices": [{"message": {"tool_calls": calls}, "finish_reason": "stop"}]});
            let (_, answer, _) = ask(config, vec![Reply::json(200, "", &body)]).await;
            let expected = [("read", one), ("read", "{}")].map(owned);
            assert_eq!(made(&answer.unwrap()), expected);
        }
    }
}

/// A call may have only arguments that can be left out, so that one without any would do what the model never wrote.
#[tokio::test]
async fn a_call_that_was_cut_off_before_its_arguments_has_none_made_up() {
    let function = json!({"name": "delete", "arguments": ""});
    let message = json!({"tool_calls": [{"index": 0, "id": "a", "function": function}]});
    for (reason, expected) in [
        ("tool_calls", "{}"),
        ("stop", "{}"),
        ("function_call", "{}"),
        ("length", ""),
        ("content_filter", ""),
        ("error", ""),
    ] {
        for reply in ends(&message, reason) {
            let (_, answer, _) = ask(config, vec![reply]).await;
            let arguments = answer.unwrap().calls.remove(0).arguments;
            assert_eq!(arguments, expected, "{reason}");
            let parsed = ifc::Arguments::parse(&arguments, &Label::bottom());
            assert_eq!(parsed.is_ok(), !expected.is_empty(), "{reason}");
        }
    }
}

#[tokio::test]
async fn the_request_is_what_the_api_asks_for() {
    let (server, answer, _) = ask(config, vec![Reply::stream(&text_stream())]).await;
    answer.unwrap();
    let request = server.request(0);
    let target = (&*request.method, &*request.path);
    assert_eq!(target, ("POST", "/v1/chat/completions"));
    assert_eq!(request.header("authorization"), format!("Bearer {KEY}"));
    assert_eq!(
        request.json(),
        json!({
            "model": "some-model",
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Grüße 東京"},
                {"role": "assistant", "content": null, "tool_calls": [{"id": "call_1",
                    "type": "function",
                    "function": {"name": "mail_send_1", "arguments": "{\"a\":1}"}}]},
                {"role": "tool", "tool_call_id": "call_1", "content": "done"},
            ],
            "tools": [{"type": "function", "function": {"name": "mail_send_1",
                "description": "Sends.", "parameters": {"type": "object", "properties": {}}}}],
            "tool_choice": "auto",
            "max_tokens": 7,
            "stream": true,
            "stream_options": {"include_usage": true},
        })
    );
}

fn png() -> Image {
    Image::read(b"\x89PNG\r\n\x1a\n".to_vec()).unwrap()
}

/// A history with two calls in a step, of which the first returned an image.
fn pictured(label: &Label) -> History {
    let mut history = History::new(Vec::new());
    history.push_user(Labeled::trusted_tcb("Look."));
    let calls = ["a", "b"].map(|tool| (tool.to_owned(), Labeled::trusted_tcb("{}")));
    let bottom = Label::bottom();
    let ids = history.push_assistant(&bottom, Labeled::trusted_tcb(""), calls);
    let mut content = Content::from(Labeled::trusted_tcb("seen"));
    content.attach(png(), label);
    history.push_result(&bottom, ids[0], content);
    history.push_result(&bottom, ids[1], Labeled::trusted_tcb("done"));
    history.push_assistant(&bottom, Labeled::trusted_tcb("Good."), []);
    history
}

/// What a server is sent of it by a provider that may see `clearance`.
async fn sent(history: &History, at: &Label, images: bool) -> Vec<Value> {
    let server = Server::start(vec![Reply::stream(&text_stream())]);
    let mut config = config(&server.base_url);
    config.images = images;
    let broker = Broker::new(
        Arc::new(HttpProvider::new(config).unwrap()),
        Label::bottom(),
    );
    let request = CompletionRequest {
        prompt: redact(history, at),
        purpose: Purpose::Step,
        shape: AnswerShape::TextOrCalls,
        max_tokens: 7,
    };
    let answer = broker.complete(&request, &mut String::new()).await;
    if answer.is_err() {
        return Vec::new();
    }
    let body: Value = server.request(0).json();
    body["messages"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_model_gets_images_if_it_takes_them_and_may_see_them() {
    let bottom = Label::bottom();
    let messages = sent(&pictured(&bottom), &bottom, true).await;
    let roles: Vec<&str> = messages
        .iter()
        .filter_map(|it| it["role"].as_str())
        .collect();
    // After the last result of the step: the API takes no other order.
    assert_eq!(
        roles,
        ["user", "assistant", "tool", "tool", "user", "assistant"]
    );
    let image = &messages[4]["content"][1];
    let expected =
        json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}});
    assert_eq!(*image, expected);
    assert_eq!(messages[2]["content"], "seen\n[image: image/png, 8 bytes]");

    // One that takes none is told what it is.
    let messages = sent(&pictured(&bottom), &bottom, false).await;
    assert_eq!(messages.len(), 5);
    assert_eq!(messages[2]["content"], "seen\n[image: image/png, 8 bytes]");

    // What a prompt does not show, no provider gets.
    let messages = sent(&pictured(&Label::top()), &bottom, true).await;
    assert_eq!(messages.len(), 5);
    assert!(
        !json!(messages).to_string().contains("image"),
        "{messages:?}"
    );
    // Nor one that is not cleared for it.
    assert_eq!(
        sent(&pictured(&Label::top()), &Label::top(), true).await,
        [] as [Value; 0]
    );
}

#[tokio::test]
async fn an_answer_that_is_not_streamed_is_read_as_well() {
    let body = json!({"choices": [{"message": {"role": "assistant", "content": "Hi"},
        "finish_reason": "length"}], "usage": {"prompt_tokens": 1, "completion_tokens": 1}});
    let (_, answer, streamed) = ask(config, vec![Reply::json(200, "", &body)]).await;
    let answer = answer.unwrap();
    assert_eq!((answer.text.as_str(), streamed.as_str()), ("Hi", "Hi"));
    assert_eq!(answer.stop, StopReason::Length);
}

#[tokio::test]
async fn busy_and_broken_servers_are_asked_again() {
    let busy = Reply::json(
        429,
        "Retry-After: 1\r\n",
        &json!({"error": {"message": "slow"}}),
    );
    let broken = Reply::json(503, "", &json!({}));
    let started = std::time::Instant::now();
    let replies = vec![busy, broken, Reply::stream(&text_stream())];
    let (server, answer, _) = ask(config, replies).await;
    assert_eq!(answer.unwrap().text, "Héllo");
    assert_eq!(server.count(), 3);
    assert!(
        started.elapsed() >= Duration::from_secs(1),
        "Retry-After was ignored"
    );

    let gone = vec![Reply::Close, Reply::Close, Reply::stream(&text_stream())];
    let (server, answer, _) = ask(config, gone).await;
    assert_eq!(answer.unwrap().text, "Héllo");
    assert_eq!(server.count(), 3);
}

/// What comes back when every attempt is answered like this, and how many attempts there are.
async fn check(reply: Reply, attempts: usize, expected: &str) {
    let (server, answer, _) = ask(config, vec![reply.clone(), reply.clone(), reply]).await;
    let error = answer.unwrap_err().to_string();
    assert!(error.contains(expected), "{error}\nis not\n{expected}");
    assert!(!error.contains(KEY), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    assert_eq!(server.count(), attempts, "{error}");
}

#[tokio::test]
async fn retries_are_bounded() {
    let error = |message: &str| json!({"error": {"message": message, "code": null}});
    check(Reply::json(500, "", &error("boom")), 3, "status 500: boom").await;
    check(
        Reply::json(429, "", &error("slow")),
        3,
        "too many requests: slow; wait and",
    )
    .await;
    let long = Reply::json(429, "Retry-After: 3600\r\n", &error("slow"));
    check(long, 1, "too many requests: slow; wait 3600 s").await;
    check(Reply::Close, 3, "unreachable").await;
}

#[tokio::test]
async fn refusals_are_not_retried() {
    let error = |message: &str, code: &str| json!({"error": {"message": message, "code": code}});
    let echo = format!("bad key {KEY}\nsorry");
    check(
        Reply::json(401, "", &error(&echo, "x")),
        1,
        "status 401: bad key (key) sorry",
    )
    .await;
    check(
        Reply::json(400, "", &error("too long", "context_length_exceeded")),
        1,
        "longer than the model's context: too long",
    )
    .await;
    check(
        Reply::json(429, "", &error("pay first", "insufficient_quota")),
        1,
        "status 429: pay first",
    )
    .await;
    check(
        Reply::json(413, "", &error("at most 1 MB", "x")),
        1,
        "the server refuses a request of this size: at most 1 MB; shorten",
    )
    .await;
    check(
        Reply::json(302, "Location: /elsewhere\r\n", &json!({})),
        1,
        "status 302",
    )
    .await;
    let reported = format!("data: {}\n\n", error("it broke", "x"));
    check(Reply::stream(&reported), 1, "it broke").await;
}

/// One odd tool costs the request, so the user must learn which it is.
#[tokio::test]
async fn a_refused_tool_is_named() {
    let named = "(it refuses the tool `mail.send`; leave that out with hidden_tools at its app)";
    for (message, expected) in [
        (
            "Invalid schema for function 'mail_send_1': array schema missing items.",
            named,
        ),
        ("tools.0.custom.input_schema: JSON schema is invalid", named),
        (
            "Unknown name at 'tools[0].function_declarations[0].parameters'",
            named,
        ),
        (
            "Invalid 'tools': array too long",
            "only_tools or hidden_tools",
        ),
        ("tools.7.name: too long", "tools.7.name: too long; check"),
    ] {
        check(
            Reply::json(400, "", &json!({"error": {"message": message}})),
            1,
            expected,
        )
        .await;
    }
}

/// Routers begin to answer before the server behind them does, so what that says comes with status 200.
#[tokio::test]
async fn a_status_that_stands_in_an_answer_counts_as_one() {
    let checked = |code: Value, kind: &'static str, attempts: usize, expected: &'static str| async move {
        let error = json!({"error": {"message": "behind", "code": code, "type": kind}});
        check(Reply::json(200, "", &error), attempts, expected).await;
        check(
            Reply::stream(&format!("data: {error}\n\n")),
            attempts,
            expected,
        )
        .await;
    };
    checked(json!(502), "x", 3, "status 502: behind; try again later").await;
    checked(json!("503"), "x", 3, "status 503: behind; try again later").await;
    checked(Value::Null, "server_error", 3, "status 500: behind").await;
    checked(json!(429), "x", 3, "too many requests: behind; wait and").await;
    let spent = "insufficient_quota";
    for code in [json!(429), json!(spent)] {
        checked(code, spent, 1, "status 429: behind; check").await;
    }
    checked(json!(401), "x", 1, "status 401: behind; check").await;
    checked(json!(413), "x", 1, "a request of this size: behind").await;
    for code in [
        json!(7),
        json!(200),
        json!(-502),
        json!(65_938),
        json!("x"),
        json!({}),
    ] {
        checked(code, "x", 1, "status 200: behind; check").await;
    }
    // What has come of an answer is not asked for again, whatever its end says.
    for code in [400, 429, 502] {
        let begun = chunk(json!({"content": "I will"}), None);
        let error = json!({"error": {"message": "no max_completion_tokens", "code": code}});
        let reply = Reply::stream(&format!("{begun}data: {error}\n\n"));
        let (server, answer, streamed) = ask(config, vec![reply.clone(), reply]).await;
        assert!(answer.is_err(), "{code}");
        assert_eq!((streamed.as_str(), server.count()), ("I will", 1), "{code}");
    }
}

#[tokio::test]
async fn the_next_provider_answers_for_one_that_reports_an_outage() {
    let error = json!({"error": {"message": "behind", "code": 502}});
    let down = Server::start(vec![Reply::json(200, "", &error); 3]);
    let up = Server::start(vec![Reply::stream(&text_stream())]);
    let mut second = config(&up.base_url);
    second.name = "second".to_owned();
    let [first, second] = [config(&down.base_url), second].map(|it| HttpProvider::new(it).unwrap());
    let broker = Broker::new(Arc::new(first), Label::bottom())
        .with_provider(Arc::new(second), Label::bottom())
        .and_then(|broker| broker.with_default_route(["remote", "second"]));
    let request = request(AnswerShape::TextOrCalls);
    let answer = broker.unwrap().complete(&request, &mut String::new()).await;
    assert_eq!(answer.unwrap().provider, "second");
    assert_eq!(down.count(), 3);
}

#[tokio::test]
async fn a_redirect_takes_neither_prompt_nor_key_to_another_host() {
    let elsewhere = Server::start(vec![Reply::stream(&text_stream())]);
    for status in [301, 302, 303, 307, 308] {
        let location = format!("Location: {}/chat/completions\r\n", elsewhere.base_url);
        let moved = Reply::json(status, &location, &json!({}));
        let (_, answer, _) = ask(config, vec![moved]).await;
        assert!(answer.is_err(), "{status}");
    }
    assert_eq!(elsewhere.connections(), 0);
}

#[tokio::test]
async fn garbage_is_refused_with_a_reason() {
    check(Reply::json(200, "", &json!(["no"])), 1, "malformed answer").await;
    check(
        Reply::json(200, "", &json!({"choices": []})),
        1,
        "there is no message in it",
    )
    .await;
    check(
        Reply::stream("data: {not json\n\n"),
        1,
        "not a chat completion",
    )
    .await;
    let many: String = (0..200)
        .map(|index| chunk(json!({"tool_calls": [{"index": index, "id": "a"}]}), None))
        .collect();
    check(Reply::stream(&many), 1, "more than 128 tool calls").await;
    let deep = format!("data: {}\n\n", "[".repeat(100_000));
    check(Reply::stream(&deep), 1, "malformed answer").await;
}

#[tokio::test]
async fn sizes_are_bounded() {
    let small = |url: &str| {
        let mut config = config(url);
        config.limits.event = 10_000;
        config.limits.response = 50_000;
        config.limits.request = 100_000;
        config
    };
    let huge = format!("data: {}", "x".repeat(20_000));
    let long: String = (0..2000)
        .map(|_| chunk(json!({"content": "xxxx"}), None))
        .collect();
    let whole = json!({"choices": [], "padding": "x".repeat(60_000)});
    for (reply, expected) in [
        (
            Reply::stream(&huge),
            "an event of the answer is larger than 10000 bytes",
        ),
        (
            Reply::stream(&long),
            "the answer is larger than 50000 bytes",
        ),
        (
            Reply::json(200, "", &whole),
            "the answer is larger than 50000 bytes",
        ),
    ] {
        let (_, answer, _) = ask(small, vec![reply]).await;
        let error = answer.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let tiny = |url: &str| {
        let mut config = config(url);
        config.limits.request = 100;
        config
    };
    let (server, answer, _) = ask(tiny, vec![]).await;
    let error = answer.unwrap_err().to_string();
    assert!(
        error.contains("the request is larger than 100 bytes"),
        "{error}"
    );
    assert_eq!(server.count(), 0);
}

#[tokio::test]
async fn a_stream_that_breaks_off_is_no_answer_and_is_not_asked_for_twice() {
    let begun = chunk(json!({"content": "I will"}), None);
    for reply in [Reply::stream(&begun), Reply::cut(&begun)] {
        let (server, answer, streamed) = ask(config, vec![reply.clone(), reply]).await;
        let error = answer.unwrap_err();
        let is_cut = matches!(error.kind, ErrorKind::Cut | ErrorKind::Unreachable(_));
        assert!(is_cut, "{error}");
        assert_eq!(streamed, "I will");
        assert_eq!(server.count(), 1, "asked again after the first piece");
    }
    // Before the first piece there is nothing to take back.
    let replies = vec![Reply::cut(""), Reply::stream(&text_stream())];
    let (server, answer, _) = ask(config, replies).await;
    assert_eq!(answer.unwrap().text, "Héllo");
    assert_eq!(server.count(), 2);
}

#[tokio::test]
async fn silence_ends_in_a_timeout() {
    let check = async |reply: Reply, expected: &str| {
        let impatient = |url: &str| {
            let mut config = config(url);
            config.timeouts.read = Duration::from_millis(300);
            config
        };
        let (server, answer, _) = ask(impatient, vec![reply.clone(), reply]).await;
        let error = answer.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        // On a busy machine the request itself may not have been read before the limit.
        assert!(server.count() <= 1);
    };
    check(
        Reply::Hang(Vec::new()),
        "the next piece of the answer took longer than 300 ms",
    )
    .await;
    let begun = Reply::hang_after(&chunk(json!({"content": "I"}), None));
    check(
        begun,
        "the next piece of the answer took longer than 300 ms",
    )
    .await;

    // A server that drips for ever passes each read's limit, but not the total one.
    let drip = ": alive\n\n".repeat(1000);
    let impatient = |url: &str| {
        let mut config = config(url);
        config.timeouts.total = Duration::from_millis(400);
        config
    };
    let (_, answer, _) = ask(impatient, vec![Reply::stream_in(&drip, 9)]).await;
    let error = answer.unwrap_err().to_string();
    assert!(
        error.contains("the complete call took longer than 400 ms"),
        "{error}"
    );
}

/// Its limit is for all of it, and a shorter one than that of an answer.
#[tokio::test]
async fn a_list_of_models_that_does_not_come_names_its_own_limit() {
    for (connect, read, expected) in [(500, 5000, 500), (5000, 300, 300)] {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n[";
        for reply in [Reply::Hang(Vec::new()), Reply::Hang(head.into())] {
            let server = Server::start(vec![reply]);
            let mut config = config(&server.base_url);
            config.timeouts.connect = Duration::from_millis(connect);
            config.timeouts.read = Duration::from_millis(read);
            let provider = HttpProvider::new(config).unwrap();
            let error = provider.models(&RequestOptions::default()).await;
            let error = error.unwrap_err().to_string();
            let expected = format!("the list of models took longer than {expected} ms");
            assert!(error.contains(&expected), "{error}");
        }
    }
}

#[tokio::test]
async fn a_check_before_each_attempt_stops_sending() {
    static CHECKS: AtomicUsize = AtomicUsize::new(0);
    // The first attempt is sent, and answered with an outage.
    let fails_later = |_: &str| match CHECKS.fetch_add(1, Ordering::SeqCst) {
        0 => Ok(()),
        _ => Err("another user listens there".to_owned()),
    };
    let with_check = |base_url: &str| HttpConfig {
        before_send: fails_later,
        ..config(base_url)
    };
    let outage = || Reply::json(503, "", &json!({}));
    let (server, answer, _) = ask(with_check, vec![outage(), outage(), outage()]).await;
    let error = answer.unwrap_err();
    assert!(error.kind.is_outage(), "{error}");
    assert!(
        error.to_string().contains("another user listens"),
        "{error}"
    );
    assert_eq!((server.count(), CHECKS.load(Ordering::SeqCst)), (1, 3));
    let provider = HttpProvider::new(with_check(&server.base_url)).unwrap();
    let list = provider.models(&RequestOptions::default()).await;
    assert!(list.unwrap_err().kind.is_outage());
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn dropping_the_call_closes_the_connection() {
    let server = Server::start(vec![Reply::Hang(Vec::new())]);
    let provider = HttpProvider::new(config(&server.base_url)).unwrap();
    let broker = Broker::new(Arc::new(provider), Label::bottom());
    let request = request(AnswerShape::Text);
    let mut sink = String::new();
    let call = broker.complete(&request, &mut sink);
    let asked = async {
        while server.count() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        _ = call => panic!("there is no answer"),
        () = asked => {}
    }
    server.closed().await;
}

#[tokio::test]
async fn a_prompt_above_the_clearance_sends_no_byte() {
    let server = Server::start(vec![Reply::stream(&text_stream())]);
    let provider = HttpProvider::new(config(&server.base_url)).unwrap();
    let broker = Broker::new(Arc::new(provider), Label::bottom());
    let mut secret = request(AnswerShape::Text);
    let mut history = History::new(Vec::new());
    history.push_user(Labeled::label_tcb("diagnosis", Label::top()));
    secret.prompt = redact(&history, &Label::top());
    let error = broker
        .complete(&secret, &mut String::new())
        .await
        .unwrap_err();
    assert!(matches!(error.kind, ErrorKind::AboveClearance), "{error}");
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(server.connections(), 0);
}

#[test]
fn unsafe_addresses_are_refused_and_keys_are_not_shown() {
    let refuse = |url: &str| HttpProvider::new(config(url)).unwrap_err();
    for url in [
        "",
        "host/v1",
        "ftp://host/v1",
        "https://user:pass@host/v1",
        "https://host/v1?key=1",
        "https://host/v1#x",
    ] {
        assert!(
            matches!(refuse(url), HttpConfigError::BaseUrl { .. }),
            "{url}"
        );
    }
    let plain = refuse("http://models.example/v1");
    assert!(matches!(plain, HttpConfigError::PlainHttp { .. }));
    for url in [
        "http://127.0.0.1:9/v1/",
        "http://localhost/v1",
        "http://[::1]:1/v1",
    ] {
        let provider = HttpProvider::new(config(url)).unwrap();
        assert!(!format!("{provider:?}").contains(KEY));
    }
    let mut bad = config("http://localhost/v1");
    bad.api_key = Some(ApiKey::new("two\nlines"));
    let error = HttpProvider::new(bad).unwrap_err();
    assert!(matches!(error, HttpConfigError::Key { .. }));
    assert!(!format!("{error} {error:?}").contains("two"));
}
