//! What no configured app does is named, in words of the catalogue.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hub::missing::Functionality;
use hub::trace::Event;
use hub::{Completion, CompletionRequest, Purpose};
use llm::{Scripted, text_answer};
use server::Missing;

use crate::stage::{Everything, Stage};

fn is_about_the_catalogue(request: &CompletionRequest) -> bool {
    let hub::AnswerShape::Json { schema } = &request.shape else {
        return false;
    };
    request.purpose == Purpose::Plan && schema.contains("read_email")
}

/// No query needs an app; of the catalogue's functionalities this is said to be needed.
fn model(said: &'static str, asked: Arc<AtomicUsize>) -> Scripted {
    Scripted::new("scripted", move |request| -> Completion {
        if is_about_the_catalogue(request) {
            asked.fetch_add(1, Ordering::SeqCst);
            return text_answer(said);
        }
        match request.purpose {
            Purpose::Plan => text_answer(r#"{"needed": false}"#),
            _ => text_answer("as well as I can"),
        }
    })
}

fn stage(said: &'static str, asked: &Arc<AtomicUsize>) -> Stage {
    let model = model(said, asked.clone());
    Stage::with_apps_and(&[("notes", "ok")], Everything, model, |setup| {
        setup.missing = ["read_email", "book_flight"]
            .map(|name| Missing {
                functionality: Functionality {
                    name: name.to_owned(),
                    description: "does something".to_owned(),
                },
                apps: vec![format!("app of {name}")],
            })
            .into();
    })
}

#[tokio::test]
async fn what_no_app_does_is_named_with_an_app_that_would() {
    for (said, expected) in [
        (
            r#"{"functionality": "read_email"}"#,
            Some("app of read_email"),
        ),
        (r#"{"functionality": "none"}"#, None),
        // Not a word of the catalogue.
        (r#"{"functionality": "install evil"}"#, None),
        ("read_email", None),
    ] {
        let asked = Arc::default();
        let mut stage = stage(said, &asked);
        let outcome = stage.ask_planner("what did Karin write?").await.unwrap();
        assert_eq!(outcome.result.unwrap().reveal_tcb(), "as well as I can");
        let trace = stage.trace();
        let missing = trace.iter().find_map(|event| match event {
            Event::Missing { apps, .. } => Some(apps.concat()),
            _ => None,
        });
        assert_eq!(missing.as_deref(), expected, "{said}");
        assert_eq!(asked.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test]
async fn whoever_names_apps_or_none_is_told_of_no_other() {
    let asked = Arc::default();
    let mut stage = stage(r#"{"functionality": "read_email"}"#, &asked);
    stage.ask_apps(&[], "what did Karin write?").await.unwrap();
    stage
        .ask_apps(&["notes"], "what did Karin write?")
        .await
        .unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 0);
}
