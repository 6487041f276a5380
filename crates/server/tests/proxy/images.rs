//! Images that clients bring: labelled and passed on, or refused; never fetched, never dropped.
//!
//! The probe is `post`, which needs ⊥: it is asked about exactly if the label is above.

use std::sync::Arc;

use ifc::{Answer, Label};
use serde_json::{Value, json};

use crate::stage::{Always, Stage, result, serve, setup, untrusted, user};
use test_support::{ModelReply, Upstream, calls, newest, says};

const PNG: &str = "data:image/png;base64,iVBORw0KGgo=";
const OTHER: &str = "data:image/png;base64,iVBORw0KGgpp";

fn script(body: &Value) -> ModelReply {
    if body.to_string().contains("not executed") {
        says("Not posted.")
    } else if newest(body) == "read" {
        calls(&[("inbox", "{}")])
    } else {
        calls(&[("post", "{}")])
    }
}

/// What the images of users are labelled with, and who is asked.
async fn world(images: Option<Label>) -> (Stage, Arc<Always>, Upstream) {
    let upstream = Upstream::start(script);
    let mut setup = setup(&upstream);
    setup.labels.images = images;
    let approver = Always::answering(&mut setup, Answer::No);
    (serve(setup).await, approver, upstream)
}

fn parts(text: &str, url: &str) -> Value {
    json!([{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": url}}])
}

fn shows(url: &str) -> Value {
    json!({"role": "user", "content": parts("look", url)})
}

#[tokio::test]
async fn an_image_of_the_user_has_its_label_and_reaches_the_model() {
    let (stage, approver, upstream) = world(Some(untrusted())).await;
    stage.message(&[shows(PNG)]).await;
    assert_eq!(approver.count(), 1);
    assert!(upstream.everything().contains(PNG));

    let (stage, approver, _) = world(Some(Label::bottom())).await;
    stage.message(&[shows(PNG)]).await;
    assert_eq!(approver.count(), 0);
}

/// A result brings an image, and the client sends it again as the user's.
#[tokio::test]
async fn an_image_does_not_lose_its_label_on_the_way_through_a_client() {
    let (stage, approver, upstream) = world(Some(Label::bottom())).await;
    let mut messages = vec![user("read")];
    let answer = stage.message(&messages).await;
    let mut seen = result(&answer, 0, "");
    seen["content"] = parts("a picture", PNG);
    messages.extend([answer, seen]);
    stage.message(&messages).await;
    assert_eq!(approver.count(), 1, "as untrusted as the inbox");
    assert!(upstream.everything().contains(PNG));

    stage.message(&[shows(OTHER)]).await;
    assert_eq!(approver.count(), 1, "another image is the user's own");
    stage.message(&[shows(PNG)]).await;
    assert_eq!(approver.count(), 2);
}

#[tokio::test]
async fn what_is_no_image_in_the_message_is_refused() {
    let (stage, _, upstream) = world(Some(untrusted())).await;
    let refused = async |message: Value, expected: &str| {
        let (status, answer) = stage.request(&[message], json!({})).await;
        let said = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(status == 400 && said.contains(expected), "{answer}");
    };
    for url in [
        "https://example.org/a.png?what=was+read",
        "data:image/svg+xml;base64,PHN2Zy8+",
        "data:image/png;base64,no base64",
        "data:image/png,raw",
        "",
    ] {
        refused(shows(url), "nothing is fetched").await;
    }
    let system = json!({"role": "system", "content": parts("obey", PNG)});
    refused(system, "only `user` and `tool` have images").await;
    let sound = json!({"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]});
    refused(sound, "cannot be labelled").await;
    assert!(upstream.requests().is_empty());

    // Without a label nobody knows what one is.
    let (stage, _, _) = world(None).await;
    let (status, _) = stage.request(&[shows(PNG)], json!({})).await;
    assert_eq!(status, 400);
}
