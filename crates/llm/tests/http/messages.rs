//! Anthropic's messages.

use std::sync::Arc;

use hub::{AnswerShape, CompletionRequest, Purpose, StopReason};
use ifc::{History, Label, Labeled, Unread, redact};
use llm::{
    ApiKey, Broker, Dialect, ErrorKind, HttpConfig, HttpProvider, RequestOptions, TokenLimit,
};
use serde_json::{Map, Value, json};

use crate::misbehaving::{Reply, Server};
use crate::{KEY, ask, made, owned, pictured, request};

fn config(base_url: &str) -> HttpConfig {
    HttpConfig {
        dialect: Dialect::Messages,
        ..crate::config(base_url)
    }
}

fn stream(events: &[Value]) -> Reply {
    let events = events.iter();
    let events = events.map(|event| format!("event: {}\ndata: {event}\n\n", event["type"]));
    Reply::stream(&events.collect::<String>())
}

fn start(index: u32, block: &Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn delta(index: u32, delta: &Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn text(index: u32, text: &str) -> [Value; 2] {
    [
        start(index, &json!({"type": "text", "text": ""})),
        delta(index, &json!({"type": "text_delta", "text": text})),
    ]
}

fn call(index: u32, id: &str, tool: &str, pieces: &[&str]) -> Vec<Value> {
    let block = json!({"type": "tool_use", "id": id, "name": tool, "input": {}});
    let pieces = pieces.iter().map(|piece| {
        delta(
            index,
            &json!({"type": "input_json_delta", "partial_json": piece}),
        )
    });
    std::iter::once(start(index, &block))
        .chain(pieces)
        .collect()
}

fn begin() -> Value {
    let usage = json!({"input_tokens": 5, "cache_read_input_tokens": 30,
        "cache_creation_input_tokens": 7, "output_tokens": 1});
    json!({"type": "message_start", "message": {"type": "message", "content": [], "usage": usage}})
}

fn end(reason: &str) -> [Value; 2] {
    [
        json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 9}}),
        json!({"type": "message_stop"}),
    ]
}

/// An answer with these events between its beginning and its end.
fn answer(events: &[Value], reason: &str) -> Reply {
    let events = [&[begin(), json!({"type": "ping"})], events, &end(reason)];
    stream(&events.concat())
}

/// What a server with this name is sent.
async fn sent(
    name: &str,
    request: &CompletionRequest,
    options: &RequestOptions,
    images: bool,
) -> (Value, test_support::Request) {
    let server = Server::start(vec![answer(&text(0, "Hi"), "end_turn")]);
    let config = HttpConfig {
        name: name.to_owned(),
        images,
        ..config(&server.base_url)
    };
    let broker = Broker::new(
        Arc::new(HttpProvider::new(config).unwrap()),
        Label::bottom(),
    );
    let mut unheard = String::new();
    let answered = broker.complete_with(request, options, &mut unheard).await;
    answered.unwrap();
    (server.request(0).json(), server.request(0))
}

fn of(history: &History, shape: AnswerShape) -> CompletionRequest {
    CompletionRequest {
        prompt: redact(history, &Label::bottom()),
        purpose: Purpose::Judge,
        shape,
        max_tokens: 7,
    }
}

fn members(members: Value) -> RequestOptions {
    RequestOptions {
        dialect: Dialect::Messages,
        members: serde_json::from_value(members).unwrap(),
        ..RequestOptions::default()
    }
}

#[tokio::test]
async fn the_token_of_a_login_is_no_key() {
    for (token, beta) in [
        (ApiKey::new("sk-ant-oat01-x"), "oauth-2025-04-20,files-api"),
        (ApiKey::bearer("own"), "files-api"),
    ] {
        let server = Server::start(vec![answer(&text(0, "Hi"), "end_turn")]);
        let provider = HttpProvider::new(HttpConfig {
            api_key: Some(token.clone()),
            ..config(&server.base_url)
        });
        let options = RequestOptions {
            beta: Some("files-api".to_owned()),
            ..members(json!({}))
        };
        let broker = Broker::new(Arc::new(provider.unwrap()), Label::bottom());
        let asked = request(AnswerShape::TextOrCalls);
        let mut unheard = String::new();
        let answered = broker.complete_with(&asked, &options, &mut unheard);
        answered.await.unwrap();
        let request = server.request(0);
        assert_eq!(request.header("x-api-key"), "");
        assert!(request.header("authorization").starts_with("Bearer "));
        assert_eq!(request.header("anthropic-beta"), beta);
    }
}

#[tokio::test]
async fn the_request_is_what_the_api_asks_for() {
    let asked = request(AnswerShape::TextOrCalls);
    let (body, request) = sent("remote", &asked, &RequestOptions::default(), false).await;
    assert_eq!((&*request.method, &*request.path), ("POST", "/v1/messages"));
    assert_eq!(request.header("x-api-key"), KEY);
    assert_eq!(request.header("authorization"), "");
    assert_eq!(request.header("anthropic-version"), "2023-06-01");
    let kept = json!({"type": "ephemeral"});
    let expected = json!({
        "model": "some-model",
        "max_tokens": 7,
        "system": [{"type": "text", "text": "Be brief.", "cache_control": kept}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Grüße 東京"}]},
            {"role": "assistant", "content": [
                {"type": "tool_use", "id": "call_1", "name": "mail_send_1", "input": {"a": 1}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1",
                "content": "done", "cache_control": kept}]},
        ],
        "tools": [{"name": "mail_send_1", "description": "Sends.", "input_schema": {"type": "object", "properties": {}}}],
        "tool_choice": {"type": "auto"},
        "stream": true,
    });
    assert_eq!(body, expected);
}

#[tokio::test]
async fn odd_histories_become_valid_requests() {
    let bottom = Label::bottom();
    let mut history = History::default();
    let say = |text: &str| Labeled::trusted_tcb(text);
    history.push_assistant(&bottom, say("The summary. "), []);
    history.push_user(say("  "));
    history.push_system(say("Be brief."));
    let calls = [("a.b", "[1.10]"), ("c", r#"{"n":21000418450200051332}"#)];
    let calls = calls.map(|(tool, arguments)| (tool.to_owned(), say(arguments)));
    let ids = history.push_assistant(&bottom, say(" "), calls);
    history.push_result(&bottom, ids[1], say("two"));
    history.push_user(say("Go on."));
    let asked = of(&history, AnswerShape::Text);
    let options = RequestOptions {
        token_limit: TokenLimit::Server,
        ..RequestOptions::default()
    };
    let (body, request) = sent("remote", &asked, &options, false).await;
    // A number keeps its digits.
    assert!(
        request.body.contains("21000418450200051332"),
        "{}",
        request.body
    );
    let messages = body["messages"].as_array().unwrap();
    let roles = messages.iter().map(|it| it["role"].as_str().unwrap());
    let roles: Vec<&str> = roles.collect();
    assert_eq!(roles, ["user", "assistant", "user"]);
    let said = &messages[1]["content"];
    assert_eq!(said[0], json!({"type": "text", "text": "The summary."}));
    assert_eq!(said[1]["input"], json!({"arguments": "[1.10]"}));
    let results = messages[2]["content"].as_array().unwrap();
    assert_eq!(results[0]["content"], "(there is no result)");
    assert_eq!(results[1]["content"], "two");
    assert_eq!(results[2]["text"], "Go on.");
    assert_eq!(body["system"][0]["text"], "Be brief.");
    // The API takes no past call without tools, and none may be called.
    let tools = body["tools"].as_array().unwrap().iter();
    let tools: Vec<&str> = tools.map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(tools, ["c", "a_b_1"]);
    assert_eq!(body["tool_choice"], json!({"type": "none"}));
    assert_eq!(body["max_tokens"], 32_000);
}

#[tokio::test]
async fn images_of_results_stay_with_them() {
    let history = pictured(&Label::bottom());
    let asked = of(&history, AnswerShape::TextOrCalls);
    let (body, _) = sent("remote", &asked, &RequestOptions::default(), true).await;
    let result = &body["messages"][2]["content"][0]["content"];
    let source = json!({"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="});
    assert_eq!(result[1], json!({"type": "image", "source": source}));
}

#[tokio::test]
async fn an_answer_is_put_together() {
    let thought = start(
        0,
        &json!({"type": "thinking", "thinking": "", "signature": ""}),
    );
    let mut events = vec![thought];
    events.push(delta(
        0,
        &json!({"type": "thinking_delta", "thinking": "I "}),
    ));
    events.push(delta(
        0,
        &json!({"type": "thinking_delta", "thinking": "think"}),
    ));
    events.push(delta(
        0,
        &json!({"type": "signature_delta", "signature": "SIG"}),
    ));
    events.push(json!({"type": "content_block_stop", "index": 0}));
    events.extend(text(1, "Hé"));
    events.push(json!({"type": "later"}));
    events.push(delta(1, &json!({"type": "text_delta", "text": "llo"})));
    events.extend(call(
        2,
        "toolu_1",
        "mail_send_1",
        &["", "{\"to\":", "\"a\"}"],
    ));
    events.push(start(
        3,
        &json!({"type": "redacted_thinking", "data": "DATA"}),
    ));
    events.extend(call(4, "toolu_2", "other", &[""]));
    let (_, answer, streamed) = ask(config, vec![answer(&events, "tool_use")]).await;
    let answer = answer.unwrap();
    assert_eq!((&*answer.text, &*streamed), ("Héllo", "Héllo"));
    let expected = [("mail.send", r#"{"to":"a"}"#), ("other", "{}")];
    assert_eq!(made(&answer), expected.map(owned));
    let usage = (answer.usage.prompt_tokens, answer.usage.cached_tokens);
    assert_eq!(usage, (42, 30));
    assert_eq!(answer.usage.completion_tokens, 9);
    assert_eq!(answer.stop, StopReason::End);

    // What was thought goes back to this server alone, in its place.
    let unread = answer.unread.unwrap();
    for (name, is_own) in [("remote", true), ("other", false)] {
        let history = thoughtful(&unread);
        let asked = of(&history, AnswerShape::TextOrCalls);
        let (body, _) = sent(name, &asked, &RequestOptions::default(), false).await;
        let said = body["messages"][1]["content"].as_array().unwrap();
        let kinds: Vec<&str> = said.iter().map(|it| it["type"].as_str().unwrap()).collect();
        let ids = said.iter().filter_map(|it| it["id"].as_str());
        let ids: Vec<&str> = ids.collect();
        if is_own {
            let expected = [
                "thinking",
                "text",
                "tool_use",
                "redacted_thinking",
                "tool_use",
            ];
            assert_eq!(kinds, expected);
            let thought = json!({"type": "thinking", "thinking": "I think", "signature": "SIG"});
            assert_eq!(said[0], thought);
            assert_eq!(ids, ["toolu_1", "toolu_2"]);
        } else {
            assert_eq!(kinds, ["text", "tool_use", "tool_use"]);
            assert_eq!(ids, ["call_1_0", "call_1_1"]);
        }
        let results = body["messages"][2]["content"].as_array().unwrap();
        assert_eq!(results[0]["tool_use_id"], ids[0]);
        assert_eq!(results[1]["tool_use_id"], ids[1]);
    }
}

/// A step of two calls that came with `unread`, and its results.
fn thoughtful(unread: &Arc<Unread>) -> History {
    let (bottom, say) = (Label::bottom(), |text: &str| Labeled::trusted_tcb(text));
    let mut history = History::new(crate::tools());
    history.push_user(say("go"));
    let calls = ["mail.send", "other"].map(|tool| (tool.to_owned(), say("{}")));
    let ids = history.push_assistant(&bottom, say("Héllo"), calls);
    history.carry(1, Some(Arc::clone(unread)));
    for id in ids {
        history.push_result(&bottom, id, say("seen"));
    }
    history
}

#[tokio::test]
async fn thoughts_are_left_out_where_the_api_refuses_them() {
    let block = json!({"type": "thinking", "thinking": "t", "signature": "s"});
    let unread = |provider: &str, members: &Value| {
        let ids = ["a", "b"].map(|id| (Some(id.to_owned()), String::new()));
        Arc::new(Unread {
            provider: provider.to_owned(),
            members: members.to_string(),
            calls: ids.into(),
        })
    };
    let own = unread("remote", &json!({"before": [block]}));
    let foreign = unread("other", &json!({"before": [block]}));
    let enabled = json!({"type": "enabled", "budget_tokens": 5});
    let (free, forced) = (AnswerShape::TextOrCalls, AnswerShape::Calls);
    for (unread, thinking, shape, expected) in [
        (&own, &enabled, &free, true),
        (&own, &enabled, &forced, false),
        // As of a step that was masked, or that another model took.
        (&foreign, &enabled, &free, false),
        (
            &own,
            &json!({"type": "enabled", "budget_tokens": 7}),
            &free,
            false,
        ),
        // The model decides itself.
        (&foreign, &json!({"type": "adaptive"}), &forced, true),
    ] {
        let edits = json!({"edits": [{"type": "clear_thinking_20251015"}]});
        let options = members(json!({"thinking": thinking, "context_management": edits}));
        let asked = of(&thoughtful(unread), shape.clone());
        let (body, request) = sent("remote", &asked, &options, false).await;
        let sent = (
            body["thinking"].is_object(),
            body["context_management"].is_object(),
        );
        assert_eq!(sent, (expected, expected), "{thinking}");
        let has_own = unread.provider == "remote" && expected;
        assert_eq!(request.body.contains("signature"), has_own, "{thinking}");
    }
}

#[tokio::test]
async fn members_go_to_a_server_of_their_dialect_only() {
    let given =
        json!({"top_k": 3, "system": "no", "max_tokens": 1, "output_config": {"effort": "low"}});
    let asked = request(AnswerShape::TextOrCalls);
    for dialect in [Dialect::Messages, Dialect::Chat, Dialect::Responses] {
        let options = RequestOptions {
            dialect,
            beta: Some("a-1,b-2".to_owned()),
            ..members(given.clone())
        };
        let (body, request) = sent("remote", &asked, &options, false).await;
        let is_own = dialect == Dialect::Messages;
        assert_eq!(body["top_k"] == 3, is_own);
        assert_eq!(body["output_config"]["effort"] == "low", is_own);
        assert_eq!(
            (&body["system"][0]["text"], &body["max_tokens"]),
            (&json!("Be brief."), &json!(7))
        );
        assert_eq!(
            request.header("anthropic-beta"),
            if is_own { "a-1,b-2" } else { "" }
        );
    }
    let options = RequestOptions {
        beta: Some("mid-conversation-system-1".to_owned()),
        ..members(Map::new().into())
    };
    let mut history = History::default();
    history.push_user(Labeled::trusted_tcb("Hi"));
    history.push_system(Labeled::trusted_tcb("Note."));
    let asked = of(&history, AnswerShape::Text);
    let (body, _) = sent("remote", &asked, &options, false).await;
    assert_eq!(body["messages"][1]["role"], "system");
}

/// What comes back when every attempt is answered like this, and how many attempts there are.
async fn check(reply: Reply, attempts: usize, expected: &str) {
    let (server, answer, _) = ask(config, vec![reply.clone(), reply.clone(), reply]).await;
    let error = answer.unwrap_err().to_string();
    assert!(error.contains(expected), "{error}\nis not\n{expected}");
    assert_eq!(server.count(), attempts, "{error}");
}

#[tokio::test]
async fn errors_keep_their_words_and_say_what_helps() {
    let error = |kind: &str, message: &str| json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "r"});
    let overloaded = error("overloaded_error", "Overloaded");
    check(
        Reply::json(529, "", &overloaded),
        3,
        "status 529: Overloaded; try again later",
    )
    .await;
    check(
        stream(&[begin(), overloaded]),
        3,
        "status 529: Overloaded; try again later",
    )
    .await;
    let limited = error("rate_limit_error", "slow");
    let asks = "Retry-After: 3600\r\n";
    check(
        Reply::json(429, asks, &limited),
        1,
        "too many requests: slow; wait 3600 s",
    )
    .await;
    check(stream(&[limited]), 3, "too many requests: slow").await;
    let long = error(
        "invalid_request_error",
        "prompt is too long: 9 tokens > 8 maximum",
    );
    check(
        Reply::json(400, "", &long),
        1,
        "longer than the model's context",
    )
    .await;
    let many = "max_tokens: 9 > 8, which is the maximum allowed number of output tokens for m";
    let many = error("invalid_request_error", many);
    check(
        Reply::json(400, "", &many),
        1,
        "write completion_tokens at this provider",
    )
    .await;
    let chat = json!({"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]});
    check(Reply::json(200, "", &chat), 1, "address and its kind").await;
    // A stream that ends without saying so is cut.
    let events = [&[begin()][..], &text(0, "Hi")].concat();
    let (server, answer, streamed) = ask(config, vec![stream(&events)]).await;
    assert_eq!(answer.unwrap_err().kind, ErrorKind::Cut);
    assert_eq!((server.count(), &*streamed), (1, "Hi"));
}

#[tokio::test]
async fn each_word_for_the_end_is_read() {
    for (reason, expected) in [
        ("end_turn", StopReason::End),
        ("stop_sequence", StopReason::End),
        ("max_tokens", StopReason::Length),
        ("model_context_window_exceeded", StopReason::Length),
        ("refusal", StopReason::Filter),
        ("pause_turn", StopReason::Other),
    ] {
        let (_, answer, _) = ask(config, vec![answer(&text(0, "Hi"), reason)]).await;
        assert_eq!(answer.unwrap().stop, expected, "{reason}");
    }
}

/// Forms in which compatible servers write it.
#[tokio::test]
async fn odd_forms_cost_the_smallest_unit() {
    let one = r#"{"n":1.10}"#;
    let input = json!({"type": "tool_use", "id": "a", "name": "look", "input": {"n": 1}});
    let piece = |index: Option<u32>, json: &str| {
        let mut piece = delta(
            0,
            &json!({"type": "input_json_delta", "partial_json": json}),
        );
        piece["index"] = json!(index);
        piece
    };
    let no_index = |mut event: Value| {
        event.as_object_mut().unwrap().remove("index");
        event
    };
    for (name, events, text, calls) in [
        (
            "input at once",
            vec![start(0, &input)],
            "",
            vec![("look", r#"{"n":1}"#)],
        ),
        (
            "input at once and in pieces",
            vec![start(0, &input), piece(Some(0), one)],
            "",
            vec![("look", one)],
        ),
        (
            "no index",
            [call(0, "a", "look", &[one]), call(1, "b", "look", &["{}"])]
                .concat()
                .into_iter()
                .map(no_index)
                .collect(),
            "",
            vec![("look", one), ("look", "{}")],
        ),
        (
            "one index for all",
            [call(0, "a", "look", &[one]), call(0, "b", "see", &["{}"])].concat(),
            "",
            vec![("look", one), ("see", "{}")],
        ),
        (
            "no beginning",
            vec![delta(0, &json!({"text": "Hi"}))],
            "Hi",
            vec![],
        ),
        (
            "pieces of no call",
            [text(0, "Hi").to_vec(), vec![piece(Some(0), one)]].concat(),
            "Hi",
            vec![("", one)],
        ),
        (
            "null",
            vec![
                start(0, &Value::Null),
                json!({"type": "content_block_delta"}),
                json!(7),
                json!([]),
            ],
            "",
            vec![],
        ),
        (
            "unknown block",
            vec![
                start(0, &json!({"type": "later", "x": 1})),
                delta(0, &json!({"x": 2})),
            ],
            "",
            vec![],
        ),
    ] {
        let (_, answer, _) = ask(config, vec![answer(&events, "end_turn")]).await;
        let answer = answer.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(answer.text, text, "{name}");
        let expected: Vec<_> = calls.into_iter().map(owned).collect();
        assert_eq!(made(&answer), expected, "{name}");
    }
    let content = json!([{"type": "thinking", "thinking": "t", "signature": "s"},
        {"type": "text", "text": "Hi"}, input]);
    let whole = json!({"type": "message", "content": content, "stop_reason": "tool_use",
        "usage": {"input_tokens": 3, "output_tokens": 2}});
    let (_, answer, streamed) = ask(config, vec![Reply::json(200, "", &whole)]).await;
    let answer = answer.unwrap();
    assert_eq!((&*answer.text, &*streamed), ("Hi", "Hi"));
    assert_eq!(made(&answer), [owned(("look", r#"{"n":1}"#))]);
    assert!(answer.unread.unwrap().members.contains("signature"));
    // A call that was cut off before its arguments has none made up.
    let begun = call(0, "a", "delete", &[]);
    let (_, cut, _) = ask(config, vec![self::answer(&begun, "max_tokens")]).await;
    assert_eq!(cut.unwrap().calls[0].arguments, "");
}

#[test]
fn the_address_may_leave_its_version_out() {
    for url in [
        "https://host.example/anthropic",
        "https://host.example/anthropic/v1/",
    ] {
        let provider = HttpProvider::new(config(url)).unwrap();
        let shown = format!("{provider:?}");
        assert!(shown.contains("/anthropic/v1/messages"), "{shown}");
        assert!(!shown.contains(KEY));
    }
}
