//! Names of tools that the configuration does not know, where a client's tools are not its own.

use std::sync::Arc;

use hub::Screening;
use serde_json::{Value, json};

use crate::stage::{Nothing, serve, setup, untrusted, user};
use test_support::{Upstream, calls, says};

fn offered(request: &Value) -> Vec<&str> {
    let tools = request["tools"].as_array().unwrap().iter();
    tools
        .map(|tool| tool["function"]["name"].as_str().unwrap())
        .collect()
}

/// The stage offers a tool called `unknown`, beside those of its policy.
async fn asked(descriptions_are_untrusted: bool, choice: Value) -> Value {
    let upstream = Upstream::start(|_| says("hello"));
    let mut setup = setup(&upstream);
    setup.parts.screener = Arc::new(Nothing);
    setup.parts.settings.screening = Screening::Eager;
    if descriptions_are_untrusted {
        setup.labels.descriptions = untrusted();
    }
    setup.labels.listed = ["inbox", "send"].map(str::to_owned).into();
    let stage = serve(setup).await;
    let more = json!({"tool_choice": choice});
    let (status, answer) = stage.request(&[user("hello")], more).await;
    assert_eq!(status, 200, "{answer}");
    upstream.requests()[0].clone()
}

#[tokio::test]
async fn a_name_that_the_configuration_does_not_list_is_as_untrusted_as_a_description() {
    let function = |name: &str| json!({"type": "function", "function": {"name": name}});
    for choice in [json!("auto"), function("unknown"), function("send")] {
        let sent = asked(true, choice.clone()).await;
        assert_eq!(offered(&sent), ["inbox", "send"]);
        assert!(!sent.to_string().contains(r#""unknown""#), "{sent}");
        // A wish is passed on where it says no more than the prompt.
        let kept = match choice == function("unknown") {
            true => json!("auto"),
            false => choice,
        };
        assert_eq!(sent["tool_choice"], kept);
    }
    let sent = asked(false, function("unknown")).await;
    assert_eq!(offered(&sent).len(), 7);
    assert_eq!(sent["tool_choice"], function("unknown"));
}

/// The model may guess, or remember what it was told elsewhere.
#[tokio::test]
async fn a_tool_above_the_prompt_cannot_be_called_from_it() {
    let upstream = Upstream::start(|body| match body["messages"].to_string() {
        text if text.contains("there is no such tool") => says("I cannot."),
        _ => calls(&[("note", "{}")]),
    });
    let mut setup = setup(&upstream);
    setup.parts.screener = Arc::new(Nothing);
    setup.parts.settings.screening = Screening::Eager;
    setup.labels.descriptions = untrusted();
    setup.labels.listed = ["inbox"].map(str::to_owned).into();
    let stage = serve(setup).await;
    let answer = stage.message(&[user("note it")]).await;
    assert_eq!(answer["content"], "I cannot.");
    assert!(answer.get("tool_calls").is_none());
}
