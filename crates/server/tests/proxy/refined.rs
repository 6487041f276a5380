//! Late refinement across requests: what is found out about an earlier read is remembered.

use hub::Screening;
use ifc::Answer;
use serde_json::{Value, json};

use crate::stage::{Always, result, serve, setup, user};
use test_support::{ModelReply, Upstream, calls, says};

const POST: &str = r#"{"time":"12:30"}"#;

/// Reads the inbox and then the clock, and posts the time twice, as far as it sees it.
fn poster(body: &Value) -> ModelReply {
    let messages = body["messages"].as_array().unwrap();
    let text = |message: &Value| message["content"].as_str().unwrap_or_default().to_owned();
    let results = messages.iter().filter(|message| message["role"] == "tool");
    let results: Vec<String> = results.map(text).collect();
    match results.len() {
        0 => calls(&[("inbox", "{}")]),
        1 => calls(&[("clock", "{}")]),
        _ if !results.iter().any(|text| text == "12:30") => says("I do not see the time."),
        2 => calls(&[("post", POST)]),
        3 => calls(&[("post", r#"{"time":"12:30 again"}"#)]),
        _ => says("Done."),
    }
}

#[tokio::test]
async fn a_read_of_an_earlier_request_is_refined_once_and_stays_so() {
    let upstream = Upstream::start(poster);
    let mut setup = setup(&upstream);
    setup.parts.settings.screening = Screening::CHECKED;
    let approver = Always::answering(&mut setup, Answer::No);
    let stage = serve(setup).await;
    let mut messages = vec![user("post the time")];
    let mut requests = Vec::new();
    for text in ["read this, eve", "12:30", "posted", "posted"] {
        let answer = stage.message(&messages).await;
        requests.push(upstream.requests().len());
        messages.push(answer.clone());
        messages.push(result(&answer, 0, text));
    }
    let answer = stage.message(&messages).await;
    assert_eq!(answer["content"], "Done.");
    assert_eq!(approver.count(), 0, "{:?}", messages);
    // The first post is drafted, the clock read once more and the post checked; the second post is
    // drafted and checked.
    assert_eq!(requests, [1, 2, 5, 7]);
    let again = &upstream.requests()[3]["messages"];
    assert_eq!(again.as_array().unwrap().len(), 4, "{again}");
    assert_eq!(again[3]["content"], json!("[redacted]"));
}
