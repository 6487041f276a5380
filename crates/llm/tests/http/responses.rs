//! OpenAI's responses.

use std::sync::Arc;

use hub::{AnswerShape, CompletionRequest, Purpose, StopReason};
use ifc::{History, Label, Labeled, redact};
use llm::{Broker, Dialect, ErrorKind, HttpConfig, HttpProvider, JsonForm, RequestOptions};
use serde_json::{Value, json};

use crate::misbehaving::{Reply, Server};
use crate::{KEY, ask, made, owned, pictured, request};

fn config(base_url: &str) -> HttpConfig {
    HttpConfig {
        dialect: Dialect::Responses,
        ..crate::config(base_url)
    }
}

fn stream(events: &[Value]) -> Reply {
    let events = events.iter();
    let events = events.map(|event| format!("event: {}\ndata: {event}\n\n", event["type"]));
    Reply::stream(&events.collect::<String>())
}

fn item(stage: &str, index: u32, item: &Value) -> Value {
    json!({"type": format!("response.output_item.{stage}"), "output_index": index, "item": item})
}

fn said(text: &str) -> Value {
    let content = json!([{"type": "output_text", "text": text, "annotations": []}]);
    json!({"type": "message", "id": "msg_1", "role": "assistant", "content": content})
}

fn call(id: &str, tool: &str, arguments: &str) -> Value {
    json!({"type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": tool, "arguments": arguments})
}

fn piece(kind: &str, index: u32, delta: &str) -> Value {
    json!({"type": format!("response.{kind}.delta"), "output_index": index, "delta": delta})
}

/// The last event, with this output.
fn end(status: &str, reason: Option<&str>, output: &[Value]) -> Value {
    let usage = json!({"input_tokens": 42, "input_tokens_details": {"cached_tokens": 30}, "output_tokens": 9});
    json!({"type": format!("response.{status}"), "response": {"object": "response", "status": status,
        "error": null, "incomplete_details": reason.map(|it| json!({"reason": it})), "output": output,
        "usage": usage}})
}

fn of(history: &History, shape: AnswerShape) -> CompletionRequest {
    CompletionRequest {
        prompt: redact(history, &Label::bottom()),
        purpose: Purpose::Step,
        shape,
        max_tokens: 7,
    }
}

/// What a server with this name is sent.
async fn sent(
    name: &str,
    request: &CompletionRequest,
    options: &RequestOptions,
    change: impl FnOnce(&mut HttpConfig),
) -> (Value, test_support::Request) {
    let events = [item("done", 0, &said("Hi")), end("completed", None, &[])];
    let server = Server::start(vec![stream(&events)]);
    let mut config = config(&server.base_url);
    name.clone_into(&mut config.name);
    change(&mut config);
    let broker = Broker::new(
        Arc::new(HttpProvider::new(config).unwrap()),
        Label::bottom(),
    );
    let mut unheard = String::new();
    let answered = broker.complete_with(request, options, &mut unheard).await;
    answered.unwrap();
    (server.request(0).json(), server.request(0))
}

#[tokio::test]
async fn the_request_is_what_the_api_asks_for() {
    let asked = request(AnswerShape::TextOrCalls);
    let (body, request) = sent("remote", &asked, &RequestOptions::default(), |_| {}).await;
    assert_eq!(
        (&*request.method, &*request.path),
        ("POST", "/v1/responses")
    );
    assert_eq!(request.header("authorization"), format!("Bearer {KEY}"));
    let expected = json!({
        "model": "some-model",
        "instructions": "Be brief.",
        "input": [
            {"type": "message", "role": "user", "content": "Grüße 東京"},
            {"type": "function_call", "call_id": "call_1", "name": "mail_send_1", "arguments": "{\"a\":1}"},
            {"type": "function_call_output", "call_id": "call_1", "output": "done"},
        ],
        "tools": [{"type": "function", "name": "mail_send_1", "description": "Sends.",
            "parameters": {"type": "object", "properties": {}}, "strict": false}],
        "tool_choice": "auto",
        "max_output_tokens": 7,
        "store": false,
        "stream": true,
    });
    assert_eq!(body, expected);

    // Images, and instructions between the messages.
    let mut history = pictured(&Label::bottom());
    history.push_system(Labeled::trusted_tcb("Note."));
    let asked = of(&history, AnswerShape::Text);
    let options = RequestOptions::default();
    let (body, _) = sent("remote", &asked, &options, |config| config.images = true).await;
    let image = json!({"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="});
    let input = body["input"].as_array().unwrap();
    assert_eq!(input[3]["output"][1], image);
    assert_eq!(
        (&input[5]["role"], &input[6]["role"]),
        (&json!("assistant"), &json!("developer"))
    );

    // JSON, beside the caller's own settings; what would bring in other text is not passed on.
    let schema =
        json!({"type": "object", "properties": {}, "required": [], "additionalProperties": false});
    let members = json!({"text": {"verbosity": "low"}, "include": ["reasoning.encrypted_content"],
        "previous_response_id": "r", "store": true});
    let options = RequestOptions {
        dialect: Dialect::Responses,
        members: serde_json::from_value(members).unwrap(),
        ..RequestOptions::default()
    };
    let asked = request_of(&schema);
    let (body, _) = sent("remote", &asked, &options, |it| it.json = JsonForm::Schema).await;
    let format = json!({"type": "json_schema", "name": "answer", "strict": true, "schema": schema});
    assert_eq!(body["text"], json!({"verbosity": "low", "format": format}));
    assert_eq!(body["include"], json!(["reasoning.encrypted_content"]));
    assert_eq!(
        (&body["store"], &body["previous_response_id"]),
        (&json!(false), &Value::Null)
    );
}

fn request_of(schema: &Value) -> CompletionRequest {
    request(AnswerShape::Json {
        schema: schema.to_string(),
    })
}

#[tokio::test]
async fn an_answer_is_put_together() {
    let thought = |id: &str, secret: Value| json!({"type": "reasoning", "id": id, "summary": [], "content": null, "encrypted_content": secret});
    let (first, kept_there, second) = (
        thought("a", json!("SIG")),
        thought("b", Value::Null),
        thought("c", json!("SIG2")),
    );
    let arguments = "function_call_arguments";
    let events = [
        json!({"type": "response.created", "response": {"error": null, "output": []}}),
        item("added", 0, &first),
        json!({"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": "hm"}),
        item("done", 0, &first),
        item("done", 1, &kept_there),
        item("added", 2, &json!({"type": "message", "content": []})),
        piece("output_text", 2, "Hé"),
        json!({"type": "keepalive"}),
        piece("output_text", 2, "llo"),
        item("done", 2, &said("Héllo")),
        item("added", 3, &call("up_1", "mail_send_1", "")),
        piece(arguments, 3, "{\"to\":"),
        piece(arguments, 3, "\"a\"}"),
        json!({"type": "response.function_call_arguments.done", "output_index": 3, "arguments": "{\"to\":\"a\"}"}),
        item("done", 3, &call("up_1", "mail_send_1", "{\"to\":\"a\"}")),
        item("done", 4, &second),
        item("added", 5, &call("up_2", "other", "")),
        item("done", 5, &call("up_2", "other", "")),
        end(
            "completed",
            None,
            &[said("Héllo"), call("up_1", "mail_send_1", "{}")],
        ),
    ];
    let replies = |last: Value| {
        let events = [&events[..events.len() - 1], &[last]].concat();
        vec![stream(&events)]
    };
    let (_, answer, streamed) = ask(config, replies(end("completed", None, &[]))).await;
    let answer = answer.unwrap();
    assert_eq!((&*answer.text, &*streamed), ("Héllo", "Héllo"));
    let expected = [("mail.send", r#"{"to":"a"}"#), ("other", "{}")];
    assert_eq!(made(&answer), expected.map(owned));
    let usage = answer.usage;
    assert_eq!(
        (
            usage.prompt_tokens,
            usage.cached_tokens,
            usage.completion_tokens
        ),
        (42, 30, 9)
    );
    assert_eq!(answer.stop, StopReason::End);
    // What the last event repeats is no second answer.
    let all = [
        said("Héllo"),
        call("up_1", "mail_send_1", "{\"to\":\"a\"}"),
        call("up_2", "other", ""),
    ];
    let (_, again, _) = ask(config, replies(end("completed", None, &all))).await;
    let again = again.unwrap();
    assert_eq!((&again.text, made(&again)), (&answer.text, made(&answer)));

    let unread = answer.unread.unwrap();
    for (name, is_own) in [("remote", true), ("other", false)] {
        let (bottom, say) = (Label::bottom(), |text: &str| Labeled::trusted_tcb(text));
        let mut history = History::new(crate::tools());
        history.push_user(say("go"));
        let calls = ["mail.send", "other"].map(|tool| (tool.to_owned(), say("{}")));
        let ids = history.push_assistant(&bottom, say("Héllo"), calls);
        history.carry(1, Some(unread.clone()));
        history.push_result(&bottom, ids[0], say("seen"));
        let asked = of(&history, AnswerShape::TextOrCalls);
        let (body, _) = sent(name, &asked, &RequestOptions::default(), |_| {}).await;
        let input = body["input"].as_array().unwrap();
        let kinds: Vec<&str> = input
            .iter()
            .map(|it| it["type"].as_str().unwrap())
            .collect();
        let ids: Vec<&str> = input
            .iter()
            .filter_map(|it| it["call_id"].as_str())
            .collect();
        let (call, result) = ("function_call", "function_call_output");
        if is_own {
            let expected = [
                "message",
                "reasoning",
                "message",
                call,
                "reasoning",
                call,
                result,
                result,
            ];
            assert_eq!(kinds, expected);
            assert_eq!((&input[1], &input[4]), (&first, &second));
            assert_eq!(ids, ["up_1", "up_2", "up_1", "up_2"]);
        } else {
            assert_eq!(kinds, ["message", "message", call, call, result, result]);
            assert_eq!(ids, ["call_1_0", "call_1_1", "call_1_0", "call_1_1"]);
        }
        assert_eq!(input.last().unwrap()["output"], "(there is no result)");
    }
}

#[tokio::test]
async fn each_end_is_read() {
    for (status, reason, expected) in [
        ("completed", None, StopReason::End),
        ("incomplete", Some("max_output_tokens"), StopReason::Length),
        ("incomplete", Some("content_filter"), StopReason::Filter),
        ("incomplete", None, StopReason::Other),
    ] {
        let last = end(status, reason, &[said("Hi")]);
        let whole = last["response"].clone();
        for reply in [stream(&[last]), Reply::json(200, "", &whole)] {
            let (_, answer, streamed) = ask(config, vec![reply]).await;
            let answer = answer.unwrap();
            assert_eq!(
                (&*answer.text, &*streamed, answer.stop),
                ("Hi", "Hi", expected)
            );
        }
    }
}

/// What comes back when every attempt is answered like this, and how many attempts there are.
async fn check(reply: Reply, attempts: usize, expected: &str) {
    let (server, answer, _) = ask(config, vec![reply.clone(), reply.clone(), reply]).await;
    let error = answer.unwrap_err().to_string();
    assert!(error.contains(expected), "{error}\nis not\n{expected}");
    assert_eq!(server.count(), attempts, "{error}");
}

#[tokio::test]
async fn errors_are_told_in_each_form() {
    let failed = |code: &str, message: &str| {
        json!({"type": "response.failed", "response": {"status": "failed", "output": [],
            "error": {"code": code, "message": message}}})
    };
    check(
        stream(&[failed("server_error", "boom")]),
        3,
        "status 500: boom",
    )
    .await;
    check(
        stream(&[failed("rate_limit_exceeded", "slow")]),
        3,
        "too many requests: slow",
    )
    .await;
    check(
        stream(&[failed("context_length_exceeded", "long")]),
        1,
        "longer than the model's context: long",
    )
    .await;
    let flat = json!({"type": "error", "code": "x", "message": "boom", "param": null});
    check(stream(&[flat]), 1, "boom").await;
    let nested = json!({"type": "error", "error": {"type": "server_error", "message": "boom"}});
    check(stream(&[nested]), 3, "status 500: boom").await;
    let whole = json!({"object": "response", "status": "failed", "output": [],
        "error": {"code": "server_error", "message": "boom"}});
    check(Reply::json(200, "", &whole), 3, "boom").await;
    let events = [piece("output_text", 0, "Hi")];
    let (_, answer, streamed) = ask(config, vec![stream(&events)]).await;
    assert_eq!(
        (answer.unwrap_err().kind, &*streamed),
        (ErrorKind::Cut, "Hi")
    );
}

/// Forms in which compatible servers write it.
#[tokio::test]
async fn odd_forms_cost_the_smallest_unit() {
    let one = r#"{"n":1.10}"#;
    let arguments = "function_call_arguments";
    let no_index = |mut event: Value| {
        event.as_object_mut().unwrap().remove("output_index");
        event
    };
    let begun = |index| item("added", index, &call("a", "look", ""));
    for (name, events, output, text, calls) in [
        (
            "only the end",
            vec![],
            vec![said("Hi"), call("a", "look", one)],
            "Hi",
            vec![("look", one)],
        ),
        (
            "text without its item",
            vec![piece("output_text", 0, "Hi")],
            vec![call("a", "look", one)],
            "Hi",
            vec![("look", one)],
        ),
        (
            "no index",
            vec![
                no_index(begun(0)),
                no_index(piece(arguments, 0, one)),
                no_index(item("added", 1, &call("b", "see", ""))),
                no_index(piece(arguments, 1, "{}")),
            ],
            vec![],
            "",
            vec![("look", one), ("see", "{}")],
        ),
        (
            "arguments at the end",
            vec![begun(0)],
            vec![call("a", "look", one)],
            "",
            vec![("look", one)],
        ),
        (
            "another index at the end",
            vec![begun(4), piece(arguments, 4, one)],
            vec![call("a", "look", one)],
            "",
            vec![("look", one)],
        ),
        (
            "another id of the item",
            vec![
                begun(0),
                item(
                    "done",
                    0,
                    &json!({"type": "function_call", "id": "new", "name": "look", "arguments": one}),
                ),
            ],
            vec![],
            "",
            vec![("look", one)],
        ),
        (
            "pieces of no call",
            vec![piece(arguments, 0, one)],
            vec![],
            "",
            vec![("", one)],
        ),
        (
            "one index for all",
            vec![begun(0), item("done", 0, &call("b", "see", one))],
            vec![],
            "",
            vec![("look", "{}"), ("see", one)],
        ),
        (
            "null",
            vec![
                item("added", 0, &Value::Null),
                json!({"type": "response.output_item.done"}),
                json!(7),
            ],
            vec![json!(null), json!({})],
            "",
            vec![],
        ),
        (
            "refusal",
            vec![piece("refusal", 0, "No.")],
            vec![],
            "No.",
            vec![],
        ),
    ] {
        let events = [&events[..], &[end("completed", None, &output)]].concat();
        let (_, answer, streamed) = ask(config, vec![stream(&events)]).await;
        let answer = answer.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!((&*answer.text, &*streamed), (text, text), "{name}");
        let expected: Vec<_> = calls.into_iter().map(owned).collect();
        assert_eq!(made(&answer), expected, "{name}");
    }
    // A call that was cut off before its arguments has none made up.
    let cut = [begun(0), end("incomplete", Some("max_output_tokens"), &[])];
    let (_, answer, _) = ask(config, vec![stream(&cut)]).await;
    assert_eq!(answer.unwrap().calls[0].arguments, "");
}
