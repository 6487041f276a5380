//! Turns that go well.

use hub::trace::Event;
use ifc::Answer;

use crate::stage::{AlwaysAsks, Stage, results, runs};

#[tokio::test]
async fn a_query_is_answered_over_an_isolated_app() {
    let mut stage = Stage::new("ok");
    assert_eq!(stage.said().await, "it said hello");
    let kinds: Vec<&str> = stage.trace().iter().map(kind).collect();
    assert_eq!(
        kinds,
        [
            "session",
            "planned",
            "spoke",
            "user",
            "redacted",
            "completed",
            "allowed",
            "returned",
            "redacted",
            "completed",
            "answer"
        ]
    );
    let unknown = vec!["any".to_owned()];
    let answer = stage.trace().pop();
    assert!(matches!(answer, Some(Event::Answer { label, .. }) if label == unknown));
}

#[tokio::test]
async fn the_next_query_goes_on_in_the_same_spoke() {
    let mut stage = Stage::new("ok");
    stage.said().await;
    let before: Vec<u32> = stage.session.spokes().map(|(_, pid)| pid).collect();
    stage.said().await;
    let after: Vec<u32> = stage.session.spokes().map(|(_, pid)| pid).collect();
    assert_eq!((before.len(), &before), (1, &after));
    let starts = stage
        .trace()
        .iter()
        .filter(|event| kind(event) == "spoke")
        .count();
    assert_eq!(starts, 1);
    drop(stage);
    assert!(
        !runs(before[0]),
        "a session that is dropped leaves no spoke behind"
    );
}

#[tokio::test]
async fn the_spoke_has_every_layer_and_the_app_sees_only_its_own_environment() {
    let mut stage = Stage::new("environment");
    let said = stage.said().await;
    for part in ["PATH", "/usr/bin:/bin"] {
        assert!(said.contains(part), "{said}");
    }
    for secret in ["CARGO", "HOME=", "socket"] {
        assert!(!said.contains(secret), "{secret} in {said}");
    }
    let started = stage
        .trace()
        .into_iter()
        .find(|event| kind(event) == "spoke");
    let Some(Event::SpokeStarted {
        layers, given_up, ..
    }) = started
    else {
        panic!("no start in the trace")
    };
    assert_eq!(
        (layers.len(), given_up.len()),
        (sandbox::Layer::ALL.len(), 0)
    );
}

#[tokio::test]
async fn invalid_arguments_are_told_to_the_model_and_do_not_reach_the_app() {
    let model = llm::Scripted::new("scripted", |request| match results(request).pop() {
        None => llm::call_answer("echo", r#"{"txet":"hello"}"#),
        Some(told) => llm::text_answer(told),
    });
    let mut stage = Stage::with_model("ok", model);
    let said = stage.said().await;
    assert!(
        said.starts_with("the call failed:") && said.contains("txet"),
        "{said}"
    );
}

/// Whoever watches a query gets its texts as one: a fence that one of them opens is closed by the next one's.
#[tokio::test]
async fn a_fence_across_two_texts_of_a_query_makes_no_address_active() {
    const LINKS: &str = "[x](//evil.example/4711) <img src=//evil.example/4711>";
    let model = llm::Scripted::new("scripted", |request| match results(request).is_empty() {
        true => hub::Completion {
            text: "I look.\n```\n".to_owned(),
            ..llm::call_answer("echo", r#"{"text":"hello"}"#)
        },
        false => llm::text_answer(format!("```\n{LINKS}\n```\n")),
    });
    let mut stage = Stage::with_model("ok", model);
    let said = stage.said().await;
    let inert = "[x] (//evil[.]example/4711) < img src=//evil[.]example/4711>";
    let written = format!("I look.\n```\n\n\n```\n{inert}\n```\n");
    assert_eq!(stage.watcher.written, written);
    // The answer is a text by itself.
    assert_eq!(said, format!("```\n{LINKS}\n```\n"));
    // The next query is answered in a message of its own.
    stage.watcher.written.clear();
    stage.said().await;
    let written = &stage.watcher.written;
    assert!(
        written.ends_with(&format!("```\n{LINKS}\n```\n")),
        "{written}"
    );
}

pub(crate) fn kind(event: &Event) -> &'static str {
    match event {
        Event::SessionStarted { .. } => "session",
        Event::Planned { .. } => "planned",
        Event::SpokeStarted { .. } => "spoke",
        Event::SpokeEnded { .. } => "ended",
        Event::User { .. } => "user",
        Event::Redacted { .. } => "redacted",
        Event::Completed { .. } => "completed",
        Event::Allowed { .. } => "allowed",
        Event::Returned { .. } => "returned",
        Event::CallFailed { .. } => "failed",
        Event::Answer { .. } => "answer",
        Event::Stopped { .. } => "stopped",
        _ => "other",
    }
}

/// The refused call and the user's own one depend on the same result.
#[tokio::test]
async fn after_a_no_the_users_own_call_is_asked_about_and_runs() {
    let model = llm::Scripted::new("scripted", |request| {
        let seen = results(request).concat();
        match () {
            () if seen.is_empty() => llm::call_answer("echo", r#"{"text":"the record"}"#),
            () if seen.contains("for the user") => llm::text_answer("done"),
            () if !seen.contains("the record") => llm::text_answer("I cannot see it"),
            () if seen.contains("not executed") => {
                llm::call_answer("echo", r#"{"text":"for the user"}"#)
            }
            () => llm::call_answer("echo", r#"{"text":"for eve"}"#),
        }
    });
    let mut stage = Stage::with_apps(&[("test", "ok")], AlwaysAsks, model);
    stage.watcher.replies = [Answer::No, Answer::Once].into();
    assert_eq!(stage.said().await, "done");
    let asked = stage.watcher.questions.iter();
    let asked: Vec<String> = asked.map(|view| format!("{view:?}")).collect();
    assert_eq!(asked.len(), 2, "{asked:?}");
    let returned = stage.trace();
    let returned = returned.iter().filter(|event| kind(event) == "returned");
    assert_eq!(returned.count(), 2);
}
