//! Steps that another model drafts for the screener: what its failures may and may not do.

use std::sync::Arc;

use hub::{Drafter, Purpose, Screening};
use ifc::{Answer, Label};
use llm::{Broker, HttpConfig, HttpProvider};
use serde_json::{Value, json};

use crate::stage::{Always, Stage, serve, setup, user};
use test_support::{ModelReply, Upstream, calls, newest, says};

/// Reads mail when told to by the user; fails on `limit`, and goes in circles on `circles`.
fn script(body: &Value) -> ModelReply {
    let text = body["messages"].to_string();
    match newest(body) {
        "go" => calls(&[("inbox", "{}")]),
        "mail" => says("You have mail."),
        "limit" => ModelReply::Fails(429, "{}".to_owned()),
        _ => calls(&[("unknown", &format!(r#"{{"n":{}}}"#, text.len()))]),
    }
}

struct World {
    stage: Stage,
    upstream: Upstream,
    /// It is down.
    drafter: Upstream,
}

async fn world() -> World {
    let upstream = Upstream::start(script);
    let down = r#"{"error": {"message": "no drafts today"}}"#;
    let drafter = Upstream::start(|_| ModelReply::Fails(400, down.to_owned()));
    let provider = |name: &str, upstream: &Upstream| {
        let mut config = HttpConfig::new(name, &upstream.url, "default");
        config.retry.attempts = 0;
        Arc::new(HttpProvider::new(config).unwrap())
    };
    let mut setup = setup(&upstream);
    let broker = Broker::new(provider("upstream", &upstream), Label::top())
        .with_provider(provider("drafter", &drafter), Label::top())
        .unwrap();
    setup.parts.broker = Arc::new(broker.with_route(Purpose::Draft, ["drafter"]).unwrap());
    setup.parts.settings.screening = Screening::Drafted(Drafter::Other);
    setup.parts.settings.limits.steps = 3;
    World {
        stage: serve(setup).await,
        upstream,
        drafter,
    }
}

impl World {
    /// A conversation that has read mail, so that its next step is drafted.
    async fn tainted(&self) -> Vec<Value> {
        let mut messages = vec![user("go")];
        self.stage.step(&mut messages, "mail").await;
        messages.push(self.stage.message(&messages).await);
        messages
    }
}

#[tokio::test]
async fn a_turn_goes_on_without_its_draft() {
    let world = world().await;
    let messages = world.tainted().await;
    assert_eq!(messages.last().unwrap()["content"], "You have mail.");
    assert!(!world.drafter.requests().is_empty(), "no draft was wanted");
}

#[tokio::test]
async fn a_turn_without_its_draft_ends_in_its_own_way_and_is_remembered() {
    let world = world().await;
    let mut messages = world.tainted().await;
    messages.push(user("circles"));
    let answer = world.stage.message(&messages).await;
    let said = answer["content"].as_str().unwrap();
    assert!(
        said.starts_with("[stopped by Sluice: no answer after 3 steps"),
        "{said}"
    );
    // The refused calls of that turn are in the past that the model is shown next.
    messages.push(answer);
    messages.push(user("go"));
    world.stage.message(&messages).await;
    let sent = world.upstream.last().1["messages"].to_string();
    assert!(sent.contains(r#""name":"unknown""#), "{sent}");
}

#[tokio::test]
async fn the_error_of_the_step_is_told_and_not_that_of_its_draft() {
    let world = world().await;
    let mut messages = world.tainted().await;
    messages.push(user("limit"));
    let (status, answer) = world.stage.request(&messages, json!({})).await;
    assert_eq!(status, 429, "{answer}");
    let said = answer["error"]["message"].as_str().unwrap();
    assert!(said.contains("`upstream`: too many requests"), "{said}");
}

/// A draft of a call that needs a yes, and the check in its place that comes out otherwise: the draft is the step.
/// Why its answer ended, as the client is told.
async fn finish_reason(draft: ModelReply, check: ModelReply) -> Value {
    let upstream = Upstream::start(move |body| match newest(body) {
        "go" => calls(&[("inbox", "{}")]),
        _ if body["messages"]
            .to_string()
            .contains("what a stranger wrote") =>
        {
            draft.clone()
        }
        _ => check.clone(),
    });
    let mut setup = setup(&upstream);
    let approver = Always::answering(&mut setup, Answer::Once);
    setup.parts.settings.screening = Screening::CHECKED;
    let stage = serve(setup).await;
    let mut messages = vec![user("go")];
    stage.step(&mut messages, "what a stranger wrote").await;
    let (status, answer) = stage.request(&messages, json!({})).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(upstream.requests().len(), 3, "no check was made");
    assert_eq!(approver.count(), 1);
    let choice = &answer["choices"][0];
    assert_eq!(
        choice["message"]["tool_calls"][0]["function"]["name"],
        "post"
    );
    choice["finish_reason"].clone()
}

#[tokio::test]
async fn the_client_is_told_why_the_step_ended_that_it_gets() {
    let post = || vec![("post".to_owned(), "{}".to_owned())];
    let cut = ModelReply::Cut("And then".to_owned(), post());
    let whole = ModelReply::Says(String::new(), post());
    assert_eq!(finish_reason(cut, says("I do not know.")).await, "length");
    let half = ModelReply::Cut("I do not".to_owned(), Vec::new());
    assert_eq!(finish_reason(whole, half).await, "tool_calls");
}
