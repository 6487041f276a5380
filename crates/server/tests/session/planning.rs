//! What the planner asks its model, and how often.

use hub::trace::Event;
use hub::{Completion, CompletionRequest, Purpose};
use llm::{Scripted, text_answer};
use server::{SessionError, SessionSetup};

use crate::stage::{Everything, Stage, echo_once, users};

/// Needs every app that the request names.
fn planner(request: &CompletionRequest) -> Completion {
    if request.purpose != Purpose::Plan {
        return text_answer("done");
    }
    let question = users(request).concat();
    let (about, query) = question.split_once("\nRequest: ").unwrap();
    let apps = about.lines().map(|line| line.split('"').nth(1).unwrap());
    let answers: Vec<(&str, bool)> = apps.map(|app| (app, query.contains(app))).collect();
    match answers.as_slice() {
        [(_, needed)] => text_answer(format!("{{\"needed\": {needed}}}")),
        _ if query.contains("confuse") => text_answer("{\"needed\": true}"),
        several => {
            let each = several.iter();
            let each = each.map(|(app, needed)| format!("\"{app}\": {needed}"));
            let each: Vec<String> = each.collect();
            text_answer(format!("{{\"needed\": {{{}}}}}", each.join(", ")))
        }
    }
}

/// Metro, quick and notes are described by the user, mail by its manifest.
fn stage() -> Stage {
    let apps = [
        ("metro", "ok"),
        ("quick", "ok"),
        ("notes", "ok"),
        ("mail", "ok"),
    ];
    Stage::with_apps_and(
        &apps,
        Everything,
        Scripted::new("scripted", planner),
        |setup| {
            for app in &mut setup.apps {
                app.described_by_user = app.spoke.app != "mail";
            }
        },
    )
}

fn consulted(stage: &Stage) -> Vec<String> {
    stage.traced(|event| match event {
        Event::Consulted { purpose, .. } => Some(purpose),
        _ => None,
    })
}

fn planned(stage: &Stage) -> Vec<String> {
    stage.traced(|event| match event {
        Event::Planned { needed, .. } => Some(needed.join(" ")),
        _ => None,
    })
}

#[tokio::test]
async fn apps_that_the_user_has_described_cost_one_question() {
    let mut stage = stage();
    stage.ask_planner("what is in notes?").await.unwrap();
    assert_eq!(consulted(&stage), ["plan metro, quick, notes", "plan mail"]);
    stage.ask_planner("quick or metro?").await.unwrap();
    assert_eq!(planned(&stage), ["notes", "metro quick"]);
}

/// What the conversations were that queries went to, and whether as follow-ups.
fn went(stage: &Stage) -> Vec<(String, bool)> {
    stage.traced(|event| match event {
        Event::Planned { apps, by, .. } => {
            let apps: Vec<String> = apps.into_iter().collect();
            Some((apps.join(" "), by.ends_with("follow-up")))
        }
        _ => None,
    })
}

/// An app that does not start would otherwise answer, with its error, all that needs no app.
#[tokio::test]
async fn nothing_follows_up_on_an_app_that_did_not_start() {
    let apps = [
        ("metro", "crash-at-start"),
        ("quick", "crash-at-start"),
        ("mail", "ok"),
    ];
    let model = Scripted::new("scripted", planner);
    let mut stage = Stage::with_apps(&apps, Everything, model);
    let vanilla = (String::new(), false);
    for failing in ["metro?", "quick or metro?"] {
        let failed = stage.ask_planner(failing).await;
        assert!(matches!(failed, Err(SessionError::Spoke(_))), "{failed:?}");
        stage.ask_planner("hello").await.unwrap();
        assert_eq!(went(&stage).last(), Some(&vanilla), "after {failing}");
    }
    // The conversation before goes on.
    stage.ask_planner("mail?").await.unwrap();
    assert!(stage.ask_planner("metro?").await.is_err());
    stage.ask_planner("and then?").await.unwrap();
    assert_eq!(went(&stage).last(), Some(&("mail".to_owned(), true)));
}

/// Needs every app that the request names, and then calls what it is offered.
fn calling(request: &CompletionRequest) -> Completion {
    match request.purpose {
        Purpose::Plan => planner(request),
        _ if request.prompt.tools().is_empty() => text_answer("done"),
        _ => echo_once(request),
    }
}

/// A follow-up would start the app anew, for a query that needs none, and nothing of what was said would be there.
#[tokio::test]
async fn nothing_follows_up_on_a_conversation_that_is_gone() {
    let check = async |mode: &str, fresh: bool, goes_on: bool| {
        let model = Scripted::new("scripted", calling);
        let change = |setup: &mut SessionSetup| setup.apps[0].fresh = fresh;
        let mut stage = Stage::with_apps_and(&[("metro", mode)], Everything, model, change);
        // The turn takes place, whatever becomes of the app.
        stage.ask_planner("metro?").await.unwrap();
        stage.ask_planner("hello").await.unwrap();
        let expected = match goes_on {
            true => ("metro".to_owned(), true),
            false => (String::new(), false),
        };
        assert_eq!(
            went(&stage).last(),
            Some(&expected),
            "{mode}, fresh: {fresh}"
        );
    };
    check("ok", false, true).await;
    check("ok", true, false).await;
    check("exit-mid-call", false, false).await;
}

#[tokio::test]
async fn an_unclear_answer_about_several_apps_opens_none_of_them() {
    let mut stage = stage();
    stage.ask_planner("confuse metro and mail").await.unwrap();
    assert_eq!(planned(&stage), ["mail"]);
    let unclear = stage.trace().into_iter().any(
        |event| matches!(event, Event::PlanUnclear { app, .. } if app == "metro, quick, notes"),
    );
    assert!(unclear);
}
