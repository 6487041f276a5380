//! The suite, over each provider of this crate that needs no server.

use std::sync::Arc;

use llm::{
    Scripted,
    conformance::{able_script, conformance},
};

#[tokio::test]
async fn scripted() {
    let scripted = Scripted::new("main", able_script);
    assert_eq!(conformance(Arc::new(scripted)).await, []);
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
