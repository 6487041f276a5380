//! Answers as servers really send them: the form is odd, and what it says is clear.

use hub::StopReason;
use serde_json::{Value, json};

use crate::misbehaving::Reply;
use crate::{ask, check, chunk, config, made, owned, request};

/// A body under this content type.
fn body(kind: &str, body: impl AsRef<[u8]>) -> Reply {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nConnection: close\r\n\r\n");
    Reply::Bytes([head.as_bytes(), body.as_ref()].concat(), usize::MAX)
}

fn events(kind: &str, chunks: &[Value]) -> Reply {
    let events = chunks.iter().map(|chunk| format!("data: {chunk}\n\n"));
    body(kind, events.collect::<String>() + "data: [DONE]\n\n")
}

fn delta(delta: Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

fn call(index: Value, id: Value, arguments: Value) -> Value {
    let function = json!({"name": "look", "arguments": arguments});
    let call = json!({"index": index, "id": id, "type": "function", "function": function});
    delta(json!({"tool_calls": [call]}))
}

#[tokio::test]
async fn a_text_is_read_in_each_form() {
    let hello = delta(json!({"content": "Hi"}));
    let usage = json!({"choices": null, "usage": {"prompt_tokens": 3, "completion_tokens": 4}});
    let part = |text: &str| json!({"type": "text", "text": text});
    let thinking = json!({"type": "thinking", "thinking": [part("no")]});
    let second = json!({"choices": [{"index": 1, "delta": {"content": "No"}}]});
    let whole = json!({"choices": [{"message": {"content": "Hi"}, "finish_reason": null}]});
    let written = hello.to_string();
    let ended = written.replace("null", "\"stop\"");
    let half = written.replace("Hi", "H\\ud83di");
    for (name, reply, expected) in [
        (
            "no reason",
            events("text/event-stream", std::slice::from_ref(&hello)),
            "Hi",
        ),
        (
            "usage",
            events("text/event-stream", &[hello.clone(), usage]),
            "Hi",
        ),
        (
            "plain",
            events("text/plain", std::slice::from_ref(&hello)),
            "Hi",
        ),
        (
            "capitals",
            events(
                "Text/Event-Stream; Charset=UTF-8",
                std::slice::from_ref(&hello),
            ),
            "Hi",
        ),
        (
            "parts",
            events(
                "text/event-stream",
                &[delta(json!({"content": [thinking, part("H"), "i"]}))],
            ),
            "Hi",
        ),
        (
            "one part",
            events(
                "text/event-stream",
                &[delta(json!({"content": part("Hi")}))],
            ),
            "Hi",
        ),
        (
            "other choices",
            events("text/event-stream", &[hello.clone(), second]),
            "Hi",
        ),
        ("whole", body("application/json", whole.to_string()), "Hi"),
        (
            "whole as text",
            body("text/plain", format!("\n {whole}")),
            "Hi",
        ),
        (
            "lines",
            body("application/x-ndjson", format!("{written}\n{ended}\n")),
            "HiHi",
        ),
        (
            "lines with an end",
            body("application/x-ndjson", format!("{written}\n[DONE]\n")),
            "Hi",
        ),
        (
            "no field",
            body(
                "text/event-stream",
                format!(": ok\n\n{written}\n\ndata: [DONE]\n\n"),
            ),
            "Hi",
        ),
        (
            "no end",
            body(
                "text/event-stream",
                format!("data: {written}\n\ndata: [DONE]"),
            ),
            "Hi",
        ),
        (
            "one event",
            body(
                "text/event-stream",
                format!("data: {written}\ndata: {written}\ndata: [DONE]\n\n"),
            ),
            "HiHi",
        ),
        (
            "words",
            body(
                "text/event-stream",
                format!("data: ping\n\ndata: {written}\n\ndata: null\n\ndata: [DONE]\n\n"),
            ),
            "Hi",
        ),
        (
            "half",
            body(
                "text/event-stream",
                format!("data: {half}\n\ndata: [DONE]\n\n"),
            ),
            "H\u{fffd}i",
        ),
        (
            "no error",
            events(
                "text/event-stream",
                &[json!({"error": "", "choices": hello["choices"]})],
            ),
            "Hi",
        ),
        (
            "odd",
            events(
                "text/event-stream",
                &[
                    json!({"choices": [{"delta": null, "finish_reason": true}]}),
                    json!({"choices": {"delta": {"content": "Hi", "tool_calls": {}, "role": 1}}}),
                ],
            ),
            "Hi",
        ),
    ] {
        let (server, answer, streamed) = ask(config, vec![reply]).await;
        let answer = answer.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!((&*answer.text, &*streamed), (expected, expected), "{name}");
        assert_eq!(
            (answer.stop, server.count()),
            (StopReason::End, 1),
            "{name}"
        );
    }
    let bytes = written.replace("Hi", "H?i").into_bytes();
    let bytes: Vec<u8> = bytes
        .into_iter()
        .map(|it| if it == b'?' { 0xff } else { it })
        .collect();
    let stream = [b"data: ", bytes.as_slice(), b"\n\ndata: [DONE]\n\n"].concat();
    let (_, answer, _) = ask(config, vec![Reply::bytes(&stream)]).await;
    assert_eq!(answer.unwrap().text, "H\u{fffd}i");
}

#[tokio::test]
async fn a_call_is_read_in_each_form() {
    let written = r#"{"n":1.10,"n":2}"#;
    let raw = call(json!(0), json!("a"), json!("?")).to_string();
    let raw = raw.replace("\"?\"", written);
    for (name, reply, expected) in [
        (
            "number as id",
            events(
                "text/event-stream",
                &[call(json!(0), json!(7), json!("{}"))],
            ),
            vec!["{}"],
        ),
        (
            "text as index",
            events(
                "text/event-stream",
                &[
                    call(json!("0"), json!("a"), json!("{\"n\"")),
                    call(json!("1"), json!("b"), json!("{}")),
                    delta(
                        json!({"tool_calls": [{"index": "0", "function": {"arguments": ":1}"}}]}),
                    ),
                ],
            ),
            vec!["{\"n\":1}", "{}"],
        ),
        (
            "no index",
            events(
                "text/event-stream",
                &[call(Value::Null, json!("a"), json!("{}"))],
            ),
            vec!["{}"],
        ),
        (
            "nothing",
            events(
                "text/event-stream",
                &[call(json!(0), Value::Null, Value::Null)],
            ),
            vec!["{}"],
        ),
        (
            "empty list",
            events(
                "text/event-stream",
                &[call(json!(0), json!("a"), json!([]))],
            ),
            vec!["{}"],
        ),
        (
            "object",
            body(
                "text/event-stream",
                format!("data: {raw}\n\ndata: [DONE]\n\n"),
            ),
            vec![written],
        ),
    ] {
        let (_, answer, _) = ask(config, vec![reply]).await;
        let answer = answer.unwrap_or_else(|error| panic!("{name}: {error}"));
        let expected: Vec<_> = expected.into_iter().map(|it| owned(("look", it))).collect();
        assert_eq!(made(&answer), expected, "{name}");
    }
}

/// Its words are the user's only clue, and asked again it would say the same.
#[tokio::test]
async fn an_error_is_told_in_each_form() {
    let events = |text: &str| body("text/event-stream", text);
    for reply in [
        events("event: error\ndata: {\"message\": \"boom\"}\n\n"),
        events("event: error\ndata: boom\n\n"),
        events("error: {\"code\": 400, \"message\": \"boom\"}\n\n"),
        events("data: {\"object\": \"error\", \"message\": \"boom\"}\n\n"),
        events("data: [{\"error\": {\"message\": \"boom\"}}]\n\n"),
        events("data: {\"error\": \"boom\"}\n\n"),
        events("data: {\"choices\": null, \"detail\": [{\"msg\": \"boom\"}]}\n\n"),
        events("{\"error\": {\"msg\": \"boom\"}}"),
        body(
            "application/json",
            "{\"object\": \"error\", \"message\": \"boom\"}",
        ),
        body("text/html", "<html>boom</html>\n"),
        body("text/plain", "error: boom\n"),
    ] {
        check(reply, 1, "boom").await;
    }
    for error in [
        json!([{"error": {"message": "boom"}}]),
        json!({"error": "boom"}),
        json!({"errors": [{"message": "boom"}]}),
        json!({"detail": "boom"}),
        json!({"message": {"deep": "boom"}}),
        json!("boom"),
        json!({"other": "boom"}),
    ] {
        check(Reply::json(400, "", &error), 1, "boom").await;
    }
    let spent = json!({"error": {"message": "You exceeded your current quota", "status": "RESOURCE_EXHAUSTED"}});
    check(
        Reply::json(429, "", &spent),
        1,
        "status 429: You exceeded your current quota",
    )
    .await;
    check(
        Reply::json(429, "Retry-After: 0\r\n", &spent),
        3,
        "too many requests: You exceeded",
    )
    .await;
    // Cut off before its end, and nothing else.
    let begun = chunk(json!({"content": "I will"}), None);
    check(
        Reply::stream(&begun),
        1,
        "the answer broke off before its end",
    )
    .await;
    let lines = format!("{}\n", delta(json!({"content": "I will"}))).repeat(2);
    check(
        body("application/x-ndjson", lines),
        1,
        "the answer broke off before its end",
    )
    .await;
}

/// What a server gave with a step, and what it gets with the next request.
#[tokio::test]
async fn what_a_server_gave_with_a_step_goes_back_to_it_alone() {
    let google = json!({"google": {"thought_signature": "SIG"}});
    let detail = |text: &str| json!({"reasoning_content": text, "reasoning_details": [{"type": "reasoning.text", "index": 0, "text": text}]});
    let signed =
        json!({"reasoning_details": [{"type": "reasoning.text", "index": 0, "signature": "END"}]});
    let mut first = call(json!(0), json!("up-1"), json!("{}"));
    first["choices"][0]["delta"]["tool_calls"][0]["extra_content"] = google.clone();
    let stream = [
        delta(detail("I ")),
        delta(detail("think")),
        delta(signed),
        first,
    ];
    let (_, answer, _) = ask(config, vec![events("text/event-stream", &stream)]).await;
    let answer = answer.unwrap();
    assert_eq!(answer.text, "");
    let unread = answer.unread.unwrap();
    for (name, expected) in [("remote", true), ("other", false)] {
        let mut history = ifc::History::default();
        let bottom = ifc::Label::bottom();
        history.push_user(ifc::Labeled::trusted_tcb("go"));
        let made = ("look".to_owned(), ifc::Labeled::trusted_tcb("{}"));
        let ids = history.push_assistant(&bottom, ifc::Labeled::trusted_tcb(""), [made]);
        history.carry(1, Some(unread.clone()));
        history.push_result(&bottom, ids[0], ifc::Labeled::trusted_tcb("seen"));
        let server = crate::Server::start(vec![Reply::stream(&crate::text_stream())]);
        let mut config = config(&server.base_url);
        config.name = name.to_owned();
        let provider = llm::HttpProvider::new(config).unwrap();
        let broker = llm::Broker::new(std::sync::Arc::new(provider), bottom.clone());
        let mut asked = request(hub::AnswerShape::TextOrCalls);
        asked.prompt = ifc::redact(&history, &bottom);
        broker.complete(&asked, &mut String::new()).await.unwrap();
        let sent: Value = server.request(0).json();
        let step = &sent["messages"][1];
        assert_eq!(step["tool_calls"][0]["extra_content"] == google, expected);
        assert_eq!(step["reasoning_content"] == "I think", expected, "{step}");
        let details =
            json!([{"type": "reasoning.text", "index": 0, "text": "I think", "signature": "END"}]);
        assert_eq!(step["reasoning_details"] == details, expected, "{step}");
        let id = &step["tool_calls"][0]["id"];
        assert_eq!(*id == "up-1", expected);
        assert_eq!(sent["messages"][2]["tool_call_id"], *id);
    }
}
