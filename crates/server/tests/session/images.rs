//! A picture of a page, as a browser's server returns it: from a real app to what a model's server is sent.

use std::sync::Arc;

use ifc::Label;
use llm::{Broker, HttpConfig, HttpProvider};
use serde_json::{Value, json};
use test_support::{Upstream, calls, says};

use crate::stage::Stage;

/// One pixel, which the app in the mode `screenshot` shows.
const PIXEL: &str = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";

/// A model that calls `echo` with this text once.
pub(crate) fn model(text: &str) -> Upstream {
    let arguments = json!({"text": text}).to_string();
    Upstream::start(move |body| {
        let mut messages = body["messages"].as_array().unwrap().iter();
        match messages.any(|message| message["role"] == "tool") {
            true => says("A page."),
            false => calls(&[("echo", &arguments)]),
        }
    })
}

/// What is sent of a session over the app in this mode, to a provider with this clearance.
async fn sent(mode: &str, text: &str, images: bool, clearance: Label) -> Vec<Value> {
    let upstream = model(text);
    let mut config = HttpConfig::new("model", &upstream.url, "m");
    config.images = images;
    config.stream = false;
    config.retry.attempts = 0;
    let provider = HttpProvider::new(config).unwrap();
    let mut stage = Stage::start(mode, Broker::new(Arc::new(provider), clearance), |_| {});
    stage.said().await;
    upstream.requests()
}

/// The result and what follows it.
fn shown(sent: &[Value]) -> Vec<Value> {
    let messages = sent.last().unwrap()["messages"].as_array().unwrap();
    let messages = messages.iter();
    let rest = messages.skip_while(|message| message["role"] != "tool");
    rest.cloned().collect()
}

#[tokio::test]
async fn a_screenshot_reaches_a_model_that_takes_images_and_may_see_it() {
    let seen = sent("screenshot", "", true, Label::top()).await;
    assert_eq!(seen.len(), 2);
    let [result, image] = shown(&seen).try_into().unwrap();
    assert_eq!(
        result["content"],
        "Took the viewport screenshot\n[image: image/png, 70 bytes]"
    );
    assert_eq!(image["role"], "user");
    assert_eq!(image["content"][1]["image_url"]["url"], PIXEL);

    // The same note, and no byte of the image.
    let told = sent("screenshot", "", false, Label::top()).await;
    let [note] = shown(&told).try_into().unwrap();
    assert_eq!(note["content"], result["content"]);
    assert!(!json!(told).to_string().contains("base64"));
}

#[tokio::test]
async fn a_screenshot_reaches_nobody_who_is_not_cleared_for_it() {
    let seen = sent("screenshot", "", true, Label::bottom()).await;
    let [result] = shown(&seen).try_into().unwrap();
    assert_eq!(result["content"], "[redacted]");
    assert!(!json!(seen).to_string().contains("base64"));
}

/// What an app calls an image is one by its bytes, or is not passed on.
#[tokio::test]
async fn what_is_no_image_is_noted_and_left_out() {
    let image = |mime: &str, data: &str| json!({"type": "image", "mimeType": mime, "data": data});
    for content in [
        image("image/png", "PHN2ZyBvbmxvYWQ9Ii8vIi8+"),
        image("image/png", "not base64"),
        image("image/png", "https://example.org/pixel.png"),
        json!({"type": "audio", "mimeType": "image/png", "data": "iVBORw0KGgo="}),
    ] {
        let text = json!({"content": [content]}).to_string();
        let seen = sent("says-results", &text, true, Label::top()).await;
        let [result] = shown(&seen).try_into().unwrap();
        let said = result["content"].as_str().unwrap();
        assert!(said.contains("omitted: image/png"), "{text}: {said}");
        assert!(!said.contains("base64"), "{said}");
    }
}
