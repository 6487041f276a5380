//! What no provider is cleared for: it reaches none of them, and the conversation goes on.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use hub::CompletionRequest;
use hub::trace::Event;
use ifc::{Label, Labeled};
use llm::{Broker, HttpConfig, HttpProvider, Scripted};
use serde_json::{Value, json};
use server::Choice;
use test_support::Upstream;

use crate::images::model;
use crate::stage::{Stage, echo_once};

const STOPPED: &str = "stopped: the model may not see what the apps returned (labelled secret), so there is no answer; nothing of it was sent";

const SECRET: &str = "the pin is 4711";

/// A session over an app that says this, with a model behind a server that is cleared for what is public.
fn stage() -> (Stage, Upstream) {
    let upstream = model(&json!({"content": [{"type": "text", "text": SECRET}]}).to_string());
    let mut config = HttpConfig::new("cloud", &upstream.url, "m");
    config.stream = false;
    config.retry.attempts = 0;
    let provider = Arc::new(HttpProvider::new(config).unwrap());
    let broker = Broker::new(provider, Label::bottom());
    (Stage::start("says-results", broker, |_| {}), upstream)
}

fn uncleared(stage: &Stage) -> Vec<Event> {
    let trace = stage.trace().into_iter();
    let uncleared = trace.filter(|event| matches!(event, Event::Uncleared { .. }));
    uncleared.collect()
}

#[tokio::test]
async fn a_result_that_no_provider_may_see_ends_the_turn_and_not_the_conversation() {
    let (mut stage, upstream) = stage();
    // What was made from nothing of the result is no answer. The next turns read nothing.
    for (steps, expected) in [(2, STOPPED), (3, "A page."), (4, "A page.")] {
        assert_eq!(stage.said().await, expected);
        let bodies = upstream.requests();
        assert_eq!(bodies.len(), steps);
        let messages = bodies.last().unwrap()["messages"].as_array().unwrap();
        let mut results = messages.iter().filter(|message| message["role"] == "tool");
        assert_eq!(results.next().unwrap()["content"], "[redacted]");
        // What leaves is looked at, and not what was meant to. The app was told the text by the model.
        let said = |message: &&Value| !message.to_string().contains("tool_calls");
        let all: Vec<&Value> = messages.iter().filter(said).collect();
        assert!(!json!(all).to_string().contains("4711"), "{all:?}");
    }
    // The user is told once.
    let told = Event::Uncleared {
        step: 2,
        above: vec!["any".to_owned()],
        label: Vec::new(),
    };
    assert_eq!(uncleared(&stage), [told]);
    // What was made without the result is as trusted as what it was made from.
    let answer = |event: &Event| match event {
        Event::Answer { label, .. } => Some(label.clone()),
        _ => None,
    };
    let labels: Vec<_> = stage.trace().iter().filter_map(answer).collect();
    assert_eq!(labels, vec![Vec::<String>::new(); 2]);
}

/// There is nothing to be shown without what the user has said.
#[tokio::test]
async fn what_the_user_says_above_every_clearance_is_refused_and_not_sent() {
    let (mut stage, upstream) = stage();
    let apps = BTreeSet::from(["test".to_owned()]);
    let (watcher, cancel) = (&mut stage.watcher, &stage.cancel);
    let query = Labeled::unknown(SECRET);
    let asked = stage
        .session
        .ask(query, Choice::Apps(apps), watcher, cancel);
    let stop = asked.await.unwrap().result.unwrap_err();
    let words = stop.reveal_tcb();
    assert!(
        words.contains("above its clearance, nothing was sent"),
        "{words}"
    );
    assert!(
        words.contains("configure a provider that is cleared for it"),
        "{words}"
    );
    assert_eq!(upstream.requests().len(), 0);
    // The next question is another one.
    assert_eq!(stage.said().await, STOPPED);
    let first = upstream.requests()[0].to_string();
    assert!(
        !first.contains("4711") && first.contains("[redacted]"),
        "{first}"
    );
}

/// Where one provider may see everything, it takes the step, and nothing is masked.
#[tokio::test]
async fn the_provider_that_is_cleared_for_it_takes_the_step() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let model = |name: &'static str| {
        let asked = Arc::clone(&asked);
        Arc::new(Scripted::new(name, move |request: &CompletionRequest| {
            asked.lock().unwrap().push(name);
            echo_once(request)
        }))
    };
    let broker = Broker::new(model("cloud"), Label::bottom())
        .with_provider(model("local"), Label::top())
        .unwrap()
        .with_default_route(["cloud", "local"])
        .unwrap();
    let mut stage = Stage::start("ok", broker, |_| {});
    assert_eq!(stage.said().await, "it said hello");
    assert_eq!(*asked.lock().unwrap(), ["cloud", "local"]);
    assert_eq!(uncleared(&stage), []);
}

/// So is it with a model of an app's own, whatever others are cleared for.
#[tokio::test]
async fn a_conversation_with_a_model_of_its_own_keeps_to_what_that_may_see() {
    let model = |name: &'static str| Arc::new(Scripted::new(name, echo_once));
    let broker = Broker::new(model("local"), Label::top())
        .with_provider(model("cloud"), Label::bottom())
        .unwrap();
    let mut stage = Stage::start("ok", broker, |setup| {
        setup.apps[0].provider = Some("cloud".to_owned());
    });
    assert_eq!(stage.said().await, STOPPED);
    assert_eq!(uncleared(&stage).len(), 1);
}
