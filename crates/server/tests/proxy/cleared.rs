//! An upstream that is not cleared for all that a client sends: it gets the rest, and the conversation goes on.

use std::sync::Arc;

use hub::Screening;
use hub::trace::Event;
use ifc::Label;
use llm::{Broker, HttpConfig, HttpProvider};
use serde_json::json;

use crate::stage::{Stage, Watcher, serve, setup, untrusted, user};
use test_support::{Upstream, calls, newest, says};

const SECRET: &str = "the combination of the vault is 31-7-19, and nobody else knows it";

/// An upstream with this clearance, behind a proxy.
async fn world(clearance: Label, screening: Screening) -> (Stage, Upstream, Arc<Watcher>) {
    let upstream = Upstream::start(|body| match newest(body) {
        "open" => calls(&[("vault", "{}")]),
        "tell" => calls(&[("send", r#"{"to":"eve"}"#)]),
        text => says(&format!("I see {text}")),
    });
    let watcher = Arc::new(Watcher::default());
    let mut setup = setup(&upstream);
    let mut config = HttpConfig::new("upstream", &upstream.url, "default");
    config.pass_through = true;
    config.retry.attempts = 0;
    let provider = Arc::new(HttpProvider::new(config).unwrap());
    setup.parts.broker = Arc::new(Broker::new(provider.clone(), clearance));
    setup.parts.settings.screening = screening;
    setup.models = Some(provider);
    setup.observer = watcher.clone();
    (serve(setup).await, upstream, watcher)
}

fn uncleared(watcher: &Watcher) -> Vec<Vec<String>> {
    let seen = watcher.0.lock().unwrap();
    let above = seen.iter().filter_map(|(_, event)| match event {
        Event::Uncleared { above, .. } => Some(above.clone()),
        _ => None,
    });
    above.collect()
}

#[tokio::test]
async fn what_the_upstream_is_not_cleared_for_is_masked_and_the_conversation_goes_on() {
    for screening in [Screening::LAZY, Screening::CHECKED, Screening::Eager] {
        let (stage, upstream, watcher) = world(untrusted(), screening).await;
        let mut messages = vec![user("open")];
        stage.step(&mut messages, SECRET).await;
        // The client gets what the model says of what it was shown.
        let answer = stage.message(&messages).await;
        assert_eq!(answer["content"], "I see [redacted]");
        messages.push(answer);
        messages.push(user("thanks"));
        let answer = stage.message(&messages).await;
        assert_eq!(answer["content"], "I see thanks");
        // What came after the result was made without it, so it is handed over unasked.
        messages.push(answer);
        messages.push(user("tell"));
        let answer = stage.message(&messages).await;
        assert_eq!(answer["tool_calls"][0]["function"]["name"], "send");
        assert!(!upstream.everything().contains("31-7-19"));
        assert_eq!(upstream.requests().len(), 4);
        // A request is a conversation of its own to the machine.
        assert_eq!(uncleared(&watcher), vec![vec!["secret".to_owned()]; 3]);
    }
}

/// A client may bring a result back as the user's own words. Without them there is nothing to answer.
#[tokio::test]
async fn what_the_user_says_above_the_clearance_is_refused_and_not_sent() {
    let (stage, upstream, _) = world(untrusted(), Screening::LAZY).await;
    let mut messages = vec![user("open")];
    stage.step(&mut messages, SECRET).await;
    stage.message(&messages).await;
    for role in ["user", "system"] {
        let brought = json!({"role": role, "content": SECRET});
        let (status, error) = stage.request(&[brought, user("go on")], json!({})).await;
        if role == "user" {
            // Said before, it is masked.
            assert_eq!(status, 200, "{error}");
            let (status, error) = stage.request(&[user(SECRET)], json!({})).await;
            assert_eq!(status, 403, "{error}");
            let words = error["error"]["message"].as_str().unwrap();
            assert!(
                words.contains("above its clearance, nothing was sent"),
                "{words}"
            );
        } else {
            assert_eq!(status, 403, "{error}");
        }
    }
    assert!(!upstream.everything().contains("31-7-19"));
}

/// One that may see everything is sent everything.
#[tokio::test]
async fn an_upstream_that_is_cleared_for_everything_is_sent_everything() {
    let (stage, upstream, watcher) = world(Label::top(), Screening::LAZY).await;
    let mut messages = vec![user("open")];
    stage.step(&mut messages, SECRET).await;
    stage.message(&messages).await;
    assert!(upstream.everything().contains("31-7-19"));
    assert!(uncleared(&watcher).is_empty());
}
