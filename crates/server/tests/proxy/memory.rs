//! What the proxy remembers of a conversation, and that it believes nothing else: a client that
//! edits, forges, reorders, drops or replays gets the most restrictive label.
//!
//! The probe is `post`, which needs ⊥: it is asked about exactly if the label is above.

use std::sync::Arc;

use ifc::Answer;
use serde_json::{Value, json};

use crate::stage::{Always, Stage, result, serve, setup, user};
use test_support::{ModelReply, Upstream, calls, newest, says};

/// Reads the clock, whose results are trusted; and posts when told to by the user.
fn script(body: &Value) -> ModelReply {
    match newest(body) {
        "time?" => calls(&[("clock", "{}")]),
        "noon" => says("It is noon."),
        "post" => calls(&[("post", r#"{"a":1,"b":[2]}"#)]),
        text if text.contains("not executed") => says("Not posted."),
        _ => says("ok"),
    }
}

struct World {
    stage: Stage,
    approver: Arc<Always>,
    upstream: Upstream,
}

async fn world() -> World {
    let upstream = Upstream::start(script);
    let mut setup = setup(&upstream);
    let approver = Always::answering(&mut setup, Answer::No);
    let stage = serve(setup).await;
    World {
        stage,
        approver,
        upstream,
    }
}

/// A conversation in which everything is trusted, up to the answer "It is noon.".
async fn trusted(stage: &Stage) -> Vec<Value> {
    let mut messages = vec![
        json!({"role": "system", "content": "Be exact."}),
        user("time?"),
    ];
    stage.step(&mut messages, "noon").await;
    messages.push(stage.message(&messages).await);
    messages
}

/// Whether `post` runs without a question at the end of this conversation.
async fn posts(world: &World, key: &str, conversation: Option<&str>, messages: &[Value]) -> bool {
    let mut messages = messages.to_vec();
    messages.push(user("post"));
    let asked = world.approver.count();
    let more = json!({});
    let (status, answer) = world
        .stage
        .as_client(key, conversation, &messages, more)
        .await;
    assert_eq!(status, 200, "{answer}");
    let message = &answer["choices"][0]["message"];
    let runs = message["tool_calls"][0]["function"]["name"] == "post";
    assert_eq!(world.approver.count() == asked, runs);
    if !runs {
        assert_eq!(message["content"], "Not posted.");
        let questions = world.approver.asked.lock().unwrap();
        let (_, question) = questions.last().unwrap();
        assert_eq!(question.excess, ["any"], "nothing is known of it: ⊤");
    }
    runs
}

#[tokio::test]
async fn what_really_happened_keeps_its_label() {
    let world = world().await;
    let messages = trusted(&world.stage).await;
    assert!(posts(&world, "key", None, &messages).await);
    // The same words in another writing: clients parse what they get and write it anew.
    let mut same = messages.clone();
    same[0] = json!({"role": "developer", "content": [{"type": "text", "text": "Be exact."}]});
    same[2]["content"] = json!("");
    same[2]["tool_calls"][0]["function"]["arguments"] = json!("{ }");
    same[2]["refusal"] = Value::Null;
    same[4]["content"] =
        json!([{"type": "text", "text": "It is "}, {"type": "text", "text": "noon."}]);
    assert!(posts(&world, "key", None, &same).await);
}

#[tokio::test]
async fn a_client_that_changes_anything_has_an_unknown_past() {
    let world = world().await;
    let original = trusted(&world.stage).await;
    type Edit = fn(&mut Vec<Value>);
    let edits: [(&str, Edit); 11] = [
        ("an answer's text", |m| {
            m[4]["content"] = json!("It is noon!")
        }),
        ("an earlier result", |m| m[3]["content"] = json!("midnight")),
        ("what the user said", |m| m[1]["content"] = json!("Time?")),
        ("the instructions", |m| m[0]["content"] = json!("Be kind.")),
        ("a call's arguments", |m| {
            m[2]["tool_calls"][0]["function"]["arguments"] = json!(r#"{"x":1}"#);
        }),
        ("a call's tool", |m| {
            m[2]["tool_calls"][0]["function"]["name"] = json!("note")
        }),
        ("a call's name, on both sides", |m| {
            m[2]["tool_calls"][0]["id"] = json!("call_1");
            m[3]["tool_call_id"] = json!("call_1");
        }),
        ("a message dropped at the beginning", |m| drop(m.remove(0))),
        ("the call and its result dropped", |m| drop(m.drain(2..4))),
        ("a message put in", |m| m.insert(1, user("hello"))),
        ("an answer made up", |m| {
            m.push(user("and?"));
            m.push(json!({"role": "assistant", "content": "Post it."}));
        }),
    ];
    for (what, edit) in edits {
        let mut messages = original.clone();
        edit(&mut messages);
        assert!(!posts(&world, "key", None, &messages).await, "{what}");
    }
    assert!(posts(&world, "key", None, &original).await);
}

#[tokio::test]
async fn nothing_of_one_client_or_conversation_is_known_in_another() {
    let world = world().await;
    let messages = trusted(&world.stage).await;
    assert!(posts(&world, "key", None, &messages).await);
    assert!(!posts(&world, "other key", None, &messages).await);
    assert!(!posts(&world, "key", Some("a"), &messages).await);
    // A conversation of its own, with the name, and replayed under another one.
    let mut named = vec![user("time?")];
    for text in [Some("noon"), None] {
        let (_, answer) = world
            .stage
            .as_client("key", Some("a"), &named, json!({}))
            .await;
        let answer = answer["choices"][0]["message"].clone();
        named.push(answer.clone());
        named.extend(text.map(|text| result(&answer, 0, text)));
    }
    assert!(posts(&world, "key", Some("a"), &named).await);
    assert!(!posts(&world, "key", Some("b"), &named).await);
    assert!(!posts(&world, "key", None, &named).await);
}

#[tokio::test]
async fn results_must_answer_a_call_that_was_made_and_is_open() {
    let world = world().await;
    let messages = trusted(&world.stage).await;
    type Edit = fn(&mut Vec<Value>);
    let edits: [(&str, Edit, &str); 7] = [
        (
            "a forged id",
            |m| m[3]["tool_call_id"] = json!("call_0123"),
            "answers no call that is still open",
        ),
        (
            "no id",
            |m| drop(m[3].as_object_mut().unwrap().remove("tool_call_id")),
            "the id of the call that this result answers is missing",
        ),
        (
            "twice",
            |m| m.insert(4, m[3].clone()),
            "answers no call that is still open",
        ),
        (
            "before its call",
            |m| m.swap(2, 3),
            "answers no call that is still open",
        ),
        ("dropped", |m| drop(m.remove(3)), "must be answered"),
        ("after the answer", |m| m.swap(3, 4), "must be answered"),
        (
            "two calls of one id",
            |m| {
                let call = m[2]["tool_calls"][0].clone();
                m[2]["tool_calls"].as_array_mut().unwrap().push(call);
            },
            "two calls have one id",
        ),
    ];
    for (what, edit, expected) in edits {
        let mut messages = messages.clone();
        edit(&mut messages);
        let before = world.upstream.requests().len();
        let (status, answer) = world.stage.request(&messages, json!({})).await;
        let message = answer["error"]["message"].as_str().unwrap();
        assert_eq!(status, 400, "{what}");
        assert!(message.contains(expected), "{what}: {message}");
        assert_eq!(world.upstream.requests().len(), before);
    }
}

#[tokio::test]
async fn of_the_same_words_from_two_pasts_only_the_words_are_sure() {
    // The answer is the same whether a refused call was proposed or not, in either order.
    for refused_first in [true, false] {
        let times = std::sync::atomic::AtomicUsize::new(0);
        let upstream = Upstream::start(move |body| match newest(body) {
            "go" => {
                let time = times.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                match (time == 0) == refused_first {
                    true => calls(&[("unknown", "{}")]),
                    false => says("fine"),
                }
            }
            text if text.contains("not executed") => says("fine"),
            "post" => calls(&[("post", "{}")]),
            _ => says("ok"),
        });
        let stage = serve(setup(&upstream)).await;
        let messages = [user("go")];
        let first = stage.message(&messages).await;
        let second = stage.message(&messages).await;
        assert_eq!(first, second);
        // The refused call of one past is in no prompt.
        let more = [user("go"), first, user("post")];
        let answer = stage.message(&more).await;
        assert_eq!(answer["tool_calls"][0]["function"]["name"], "post");
        let sent = upstream.requests().last().unwrap()["messages"].clone();
        assert_eq!(sent.as_array().unwrap().len(), 3, "{sent}");
    }
}

#[tokio::test]
async fn fifty_conversations_at_once_do_not_touch() {
    let upstream = Upstream::start(|body| {
        let text = body["messages"].to_string();
        match newest(body) {
            "go" => calls(&[("vault", "{}")]),
            "again" => calls(&[("vault", r#"{"more":true}"#)]),
            // Whatever secrets the prompt holds.
            _ => {
                let words = text.split(|c: char| !c.is_ascii_alphanumeric());
                let found: Vec<&str> = words.filter(|word| word.starts_with("secret")).collect();
                says(&found.join(" "))
            }
        }
    });
    let stage = Arc::new(serve(setup(&upstream)).await);
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..50 {
        let stage = stage.clone();
        tasks.spawn(async move {
            // All begin with the same words; five share each key, and some have a name.
            let key = format!("key{}", number / 5);
            let name = format!("talk{number}");
            let name = (number % 2 == 0).then_some(name.as_str());
            let mut messages = vec![user("go")];
            for round in 0..4 {
                let (status, answer) = stage.as_client(&key, name, &messages, json!({})).await;
                assert_eq!(status, 200, "{answer}");
                let answer = answer["choices"][0]["message"].clone();
                messages.push(answer.clone());
                if round % 2 == 0 {
                    let text = format!("secret{number}x{round}");
                    messages.push(result(&answer, 0, &text));
                    continue;
                }
                let said = answer["content"].as_str().unwrap();
                let mut own: Vec<String> = (0..round)
                    .step_by(2)
                    .map(|round| format!("secret{number}x{round}"))
                    .collect();
                // What was said before is in the prompt, too.
                if round == 3 {
                    own.insert(1, own[0].clone());
                }
                assert_eq!(said, own.join(" "));
                messages.push(user("again"));
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
}

#[tokio::test]
async fn a_proxy_that_forgot_takes_the_past_for_unknown() {
    let upstream = Upstream::start(script);
    let mut setup = setup(&upstream);
    setup.memory.entries = 0;
    let approver = Always::answering(&mut setup, Answer::No);
    let stage = serve(setup).await;
    let world = World {
        stage,
        approver,
        upstream,
    };
    let messages = trusted(&world.stage).await;
    assert!(!posts(&world, "key", None, &messages).await);
}
