//! The suite, over each provider of this crate that needs no model.

#![expect(clippy::indexing_slicing, reason = "tests fail by panicking")]

use std::sync::Arc;

use llm::{
    Dialect, HttpConfig, HttpProvider, JsonForm, Scripted,
    conformance::{able_script, conformance},
};
use serde_json::Value;
use test_support::{ModelReply, Upstream, calls, newest, says};

#[tokio::test]
async fn scripted() {
    let scripted = Scripted::new("main", able_script);
    assert_eq!(conformance(Arc::new(scripted)).await, []);
}

/// Does what the suite asks.
fn able(request: &Value) -> ModelReply {
    let choice = &request["tool_choice"];
    if choice["function"]["name"] == "answer" {
        return calls(&[("answer", r#"{"ok":true}"#)]);
    }
    if choice == "required" {
        return calls(&[("get_weather", r#"{"city":"Paris"}"#)]);
    }
    if request["response_format"].is_object() || newest(request).contains("JSON Schema:") {
        return says(r#"{"ok":true}"#);
    }
    let text = "The sea is wide, “blue” and\ndeep – 海 – and nobody owns it.";
    let limit = request["max_tokens"].as_u64().unwrap_or(u64::MAX);
    let words = text.split_inclusive(' ').count() as u64;
    match usize::try_from(limit) {
        Ok(limit) if (limit as u64) < words => {
            let words = text.split_inclusive(' ').take(limit);
            ModelReply::Cut(words.collect(), Vec::new())
        }
        _ => says(text),
    }
}

#[tokio::test]
async fn servers_of_each_dialect_conform() {
    for dialect in [Dialect::Chat, Dialect::Messages, Dialect::Responses] {
        for stream in [true, false] {
            for json in [JsonForm::Schema, JsonForm::Call, JsonForm::Words] {
                let server = Upstream::start(able);
                let mut config = HttpConfig::speaking(dialect, "main", &server.url, "m");
                (config.stream, config.json) = (stream, json);
                let provider = HttpProvider::new(config).unwrap();
                let failed = conformance(Arc::new(provider)).await;
                assert_eq!(failed, [], "{dialect:?}, {stream}, {json:?}");
            }
        }
    }
}

#[tokio::test]
async fn the_suite_finds_a_provider_that_answers_nothing() {
    let silent = Scripted::new("silent", |_| llm::text_answer(""));
    let failed: Vec<&str> = conformance(Arc::new(silent))
        .await
        .into_iter()
        .map(|failure| failure.check)
        .collect();
    assert_eq!(
        failed,
        [
            "text",
            "calls",
            "round trip",
            "json",
            "token limit",
            "special text",
            "cancellation"
        ]
    );
}
