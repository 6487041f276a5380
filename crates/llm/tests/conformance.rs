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

#[cfg(feature = "embedded")]
#[tokio::test(flavor = "multi_thread")]
async fn embedded() {
    use llm::{
        embedded::{Embedded, EmbeddedConfig},
        models::{Cache, KNOWN},
    };
    let cache = Cache::of_user().unwrap();
    let present = KNOWN.iter().filter_map(|model| cache.open(model).ok());
    // The smallest is enough: the suite does not look at what a model knows.
    let Some(path) = present.min_by_key(|path| path.metadata().unwrap().len()) else {
        let required = std::env::var("SLUICE_REQUIRE_MODELS").is_ok_and(|value| value == "1");
        assert!(
            !required,
            "a model is required: sluice model pull smollm2-135m"
        );
        eprintln!("SKIPPED, no model is here; get one with: sluice model pull smollm2-135m");
        return;
    };
    let mut config = EmbeddedConfig::new("embedded", path);
    // Tests share the processor; threads that wait for each other would starve.
    config.threads = std::num::NonZeroUsize::MIN;
    let model = Embedded::load(config).await;
    assert_eq!(conformance(Arc::new(model.unwrap())).await, []);
}
