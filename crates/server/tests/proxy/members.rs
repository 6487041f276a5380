//! Members of a request beside its messages: what they repeat keeps its label.

use std::sync::Arc;

use hub::Screening;
use ifc::{Answer, Label};
use llm::{Broker, HttpConfig, HttpProvider};
use serde_json::{Value, json};

use crate::stage::{Always, Nothing, Stage, result, serve, setup, tools, untrusted, user};
use test_support::{Upstream, calls, newest, says};

const SECRET: &str = "the combination of the vault is 31-7-19, and nobody else knows it";
const OTHER: &str = "it opens to the number 4711 alone, which the board has never been told";

/// An upstream with this clearance, which reads what it is told to and sends otherwise, behind a proxy.
async fn world(clearance: Label, screening: Screening) -> (Stage, Upstream, Arc<Always>) {
    let upstream = Upstream::start(|body| match newest(body) {
        "open" => calls(&[("vault", "{}")]),
        "read" => calls(&[("inbox", "{}")]),
        text if text.contains("not executed") => says("I was not allowed to."),
        _ => calls(&[("send", r#"{"to":"eve"}"#)]),
    });
    let mut setup = setup(&upstream);
    let mut config = HttpConfig::new("upstream", &upstream.url, "default");
    config.pass_through = true;
    config.retry.attempts = 0;
    let provider = Arc::new(HttpProvider::new(config).unwrap());
    setup.parts.broker = Arc::new(Broker::new(provider, clearance));
    if screening == Screening::Eager {
        setup.parts.screener = Arc::new(Nothing);
    }
    setup.parts.settings.screening = screening;
    let approver = Always::answering(&mut setup, Answer::No);
    (serve(setup).await, upstream, approver)
}

/// Every member that can carry text, with this text in it.
fn members(text: &str) -> Vec<(&'static str, Value)> {
    let schema = json!({"type": "object", "properties": {"it": {"enum": [text]}}});
    let format = |schema: &Value| json!({"type": "json_schema", "json_schema": {"name": "form", "schema": schema}});
    let name: String = text
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .take(60)
        .collect();
    let tool = |member: &str, value: Value| {
        let mut tools = tools();
        tools[4]["function"][member] = value;
        json!({ "tools": tools })
    };
    vec![
        (
            "response_format",
            json!({"response_format": format(&schema)}),
        ),
        ("stop", json!({ "stop": text })),
        ("stop", json!({"stop": ["END", text]})),
        ("model", json!({ "model": text })),
        ("tools", tool("name", json!(&name))),
        ("tools", tool("description", json!(text))),
        ("tools", tool("parameters", schema)),
        (
            "chat_template_kwargs",
            json!({"chat_template_kwargs": {"note": name}}),
        ),
        ("made_up", json!({"made_up": [1, name]})),
    ]
}

/// A conversation that has brought a result, and goes on with a request of its user.
async fn after(stage: &Stage, word: &str, text: &str) -> Vec<Value> {
    let mut messages = vec![user(word)];
    let answer = stage.message(&messages).await;
    messages.extend([answer.clone(), result(&answer, 0, text), user("go on")]);
    messages
}

/// Two worlds that differ in a secret alone: an upstream that is not cleared for it cannot tell them apart.
#[tokio::test]
async fn no_member_brings_a_secret_to_an_upstream_without_clearance() {
    for at in 0..members("").len() {
        // In the request that brings the result, in a later one, and in another conversation.
        for case in 0..3 {
            let mut sent = Vec::new();
            let mut answers = Vec::new();
            for secret in [SECRET, OTHER] {
                let (stage, upstream, _) = world(untrusted(), Screening::LAZY).await;
                let mut messages = after(&stage, "open", secret).await;
                if case > 0 {
                    stage.message(&messages).await;
                }
                if case == 2 {
                    messages = vec![user("go on")];
                }
                let (member, more) = members(secret).swap_remove(at);
                let (status, answer) = stage.request(&messages, more).await;
                let error = answer["error"]["message"].as_str().unwrap_or_default();
                assert!(
                    status == 200
                        || error.contains(&format!("`{member}` repeats text that is secret"))
                        || error.contains("no such model"),
                    "{member}, {case}: {answer}"
                );
                let all = upstream.everything();
                assert!(
                    !all.contains("31-7-19") && !all.contains("31719"),
                    "{member}, {case}: {all}"
                );
                sent.push(all);
                answers.push((status, error.to_owned()));
            }
            assert_eq!(sent[0], sent[1], "{at}, {case}");
            assert_eq!(answers[0], answers[1], "{at}, {case}");
        }
    }
}

#[tokio::test]
async fn what_a_member_repeats_stands_in_the_way_of_a_call() {
    for (member, more) in members(SECRET) {
        // Of another conversation: no message of this one has a label.
        let (stage, upstream, approver) = world(Label::top(), Screening::LAZY).await;
        let messages = after(&stage, "read", SECRET).await;
        stage.message(&messages).await;
        let (before, count) = (approver.count(), upstream.requests().len());
        let (status, answer) = stage.request(&[user("go on")], more.clone()).await;
        if status == 200 {
            let asked = approver.asked.lock().unwrap();
            assert_eq!(asked.len(), before + 1, "{member}: {answer}");
            assert_eq!(asked[before].1.excess, ["untrusted"], "{member}");
        } else {
            let error = answer["error"]["message"].as_str().unwrap();
            let named = error.contains(&format!("`{member}` repeats text that is untrusted"));
            assert!(
                named || error.contains("no such model"),
                "{member}: {answer}"
            );
            assert_eq!(upstream.requests().len(), count, "{member}");
        }

        // A step that is made from what is trusted is made without the member.
        let (stage, upstream, approver) = world(Label::top(), Screening::Eager).await;
        let messages = after(&stage, "read", SECRET).await;
        let (status, answer) = stage.request(&messages, more).await;
        if status == 200 {
            assert_eq!(approver.count(), 0, "{member}: {answer}");
            let (_, last) = upstream.last();
            let last = last.to_string();
            assert!(
                !last.contains("31-7-19") && !last.contains("31719"),
                "{member}: {last}"
            );
        }
    }
}

/// What came before a result does not depend on it.
#[tokio::test]
async fn a_tool_that_a_result_repeats_later_stays_what_it_was() {
    let (stage, _, approver) = world(Label::top(), Screening::LAZY).await;
    let more = members(SECRET).swap_remove(5).1;
    let (status, answer) = stage.request(&[user("read")], more.clone()).await;
    assert_eq!(status, 200);
    let answer = answer["choices"][0]["message"].clone();
    let messages = [user("read"), answer.clone(), result(&answer, 0, SECRET)];
    stage.request(&messages, more.clone()).await;
    let before = approver.count();
    stage.request(&[user("go on")], more).await;
    assert_eq!(approver.count(), before);
}

#[tokio::test]
async fn a_member_of_another_type_is_refused_by_its_name() {
    let (stage, upstream, _) = world(Label::top(), Screening::LAZY).await;
    let wrong = [
        ("temperature", json!("0.5")),
        ("top_p", json!([0.5])),
        ("seed", json!("7")),
        ("frequency_penalty", json!({})),
        ("presence_penalty", json!(true)),
        ("logit_bias", json!({"hunter2": 1})),
        ("logit_bias", json!({"7": "hunter2"})),
        ("stop", json!([7])),
        ("reasoning_effort", json!("hunter2")),
        ("verbosity", json!(1)),
        ("service_tier", json!("hunter2")),
        ("parallel_tool_calls", json!("yes")),
        ("response_format", json!("hunter2")),
    ];
    for (member, value) in wrong {
        let (status, answer) = stage.request(&[user("hi")], json!({ member: value })).await;
        let error = answer["error"]["message"].as_str().unwrap_or_default();
        let named = error.starts_with(&format!("`{member}` must be "));
        assert!(status == 400 && named, "{member}: {answer}");
    }
    for (member, value) in [
        ("max_tokens", json!("7")),
        ("n", json!("1")),
        ("stream", json!("no")),
        ("model", json!(7)),
    ] {
        let (status, answer) = stage.request(&[user("hi")], json!({ member: value })).await;
        assert_eq!(status, 400, "{member}: {answer}");
    }
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn only_a_model_of_the_upstream_can_be_named() {
    let (stage, upstream, _) = world(Label::top(), Screening::LAZY).await;
    for (model, expected) in [("big", 200), ("default", 200), ("hunter2", 404)] {
        let (status, answer) = stage
            .request(&[user("read")], json!({ "model": model }))
            .await;
        assert_eq!(status, expected, "{model}: {answer}");
    }
    assert!(!upstream.everything().contains("hunter2"));
    let mut setup = setup(&upstream);
    setup.any_model = true;
    let (status, answer) = serve(setup)
        .await
        .request(&[user("read")], json!({"model": "hunter2"}))
        .await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(upstream.last().1["model"], "hunter2");
}
