//! Several apps could do it: who chooses, what is kept, and what a question says of the plan.

use std::sync::{Arc, Mutex};

use hub::trace::Event;
use hub::{Completion, CompletionRequest, Purpose};
use ifc::{Answer, Lattice, PromptMessage};
use llm::{Scripted, call_answer, text_answer};
use server::{ChosenFor, Selection, Selections, SessionError};

use crate::stage::{AlwaysAsks, Everything, Stage, users};

const APPS: [(&str, &str); 2] = [("metro", "ok"), ("quick", "ok")];

fn said(request: &CompletionRequest) -> String {
    users(request).join("|")
}

/// A query needs the apps that it names; whoever is asked says what the user has said.
fn named(request: &CompletionRequest) -> Completion {
    let said = said(request);
    if request.purpose != Purpose::Plan {
        return text_answer(said);
    }
    let (about, query) = said.split_once("Request: ").unwrap();
    let app = about.split('"').nth(1).unwrap();
    // What is to be called is the model's affair.
    let wish = query.split("call ").next().unwrap_or_default();
    text_answer(format!(r#"{{"needed": {}}}"#, wish.contains(app)))
}

/// Kept choices, in memory.
#[derive(Default)]
struct Kept {
    choice: Mutex<Option<String>>,
    is_full: bool,
}

impl Selections for Kept {
    fn find(&self, what: ChosenFor<'_>, among: &[String]) -> Option<(String, String)> {
        assert_eq!(what, ChosenFor::Query);
        assert_eq!(among, ["metro", "quick"]);
        let choice = self.choice.lock().unwrap().clone();
        choice.map(|app| (app, "one".to_owned()))
    }

    fn keep(&self, _: ChosenFor<'_>, _: &[String], app: &str) -> Result<String, String> {
        if self.is_full {
            return Err("there is no room".to_owned());
        }
        *self.choice.lock().unwrap() = Some(app.to_owned());
        Ok("one".to_owned())
    }
}

fn stage(kept: &Arc<Kept>) -> Stage {
    let model = Scripted::new("scripted", named);
    Stage::with_apps_and(&APPS, Everything, model, |setup| {
        setup.selections = Some(kept.clone());
    })
}

/// Where each query went, and who said so.
fn plans(stage: &Stage) -> Vec<(String, bool, String)> {
    stage.traced(|event| match event {
        Event::Planned { apps, each, by, .. } => {
            let apps = apps.into_iter().collect::<Vec<_>>().join(" ");
            Some((apps, each, by))
        }
        _ => None,
    })
}

fn plan(apps: &str, each: bool, by: &str) -> (String, bool, String) {
    (apps.to_owned(), each, by.to_owned())
}

fn app(app: &str, keep: bool) -> Selection {
    let app = app.to_owned();
    Selection::App { app, keep }
}

#[tokio::test]
async fn without_anybody_to_choose_each_app_is_asked_by_itself() {
    let mut stage = stage(&Arc::default());
    let outcome = stage.ask_planner("metro or quick?").await.unwrap();
    assert_eq!(outcome.result.unwrap().reveal_tcb(), "metro or quick?");
    let by = "planner, no one can answer: there is no terminal";
    assert_eq!(plans(&stage), [plan("metro quick", true, by)]);
    assert_eq!(stage.session.spokes().count(), 2);
}

#[tokio::test]
async fn a_choice_that_is_kept_is_not_asked_about_again_until_it_is_revoked() {
    let kept = Arc::<Kept>::default();
    let mut stage = stage(&kept);
    stage
        .watcher
        .selections
        .extend([app("metro", false), app("quick", true), Selection::Each]);
    for query in [
        "one: metro or quick?",
        "two: metro or quick?",
        "three: metro or quick?",
    ] {
        stage.ask_planner(query).await.unwrap();
    }
    assert_eq!(
        stage.watcher.selections.len(),
        1,
        "the third query has the kept choice"
    );
    *kept.choice.lock().unwrap() = None;
    stage.ask_planner("four: metro or quick?").await.unwrap();
    let expected = [
        plan("metro", false, "user"),
        plan("quick", false, "user, kept as permission one"),
        plan("quick", false, "permission one"),
        plan("metro quick", true, "user"),
    ];
    assert_eq!(plans(&stage), expected);
    assert!(
        stage
            .watcher
            .selected_among
            .iter()
            .all(|view| view.can_keep)
    );
}

#[tokio::test]
async fn whoever_chooses_nothing_or_what_was_not_offered_gets_nothing() {
    for selection in [Selection::None, app("mail", false), app("mail", true)] {
        let kept = Arc::<Kept>::default();
        let mut stage = stage(&kept);
        stage.watcher.selections.push_back(selection);
        let refused = stage.ask_planner("metro or quick?").await;
        assert!(
            matches!(refused, Err(SessionError::NoChoice(_))),
            "{refused:?}"
        );
        assert_eq!(stage.session.spokes().count(), 0);
        assert!(kept.choice.lock().unwrap().is_none());
    }
    // What was kept is an app that is not needed here.
    let kept = Arc::<Kept>::default();
    *kept.choice.lock().unwrap() = Some("mail".to_owned());
    let mut stage = stage(&kept);
    stage.watcher.selections.push_back(Selection::None);
    assert!(stage.ask_planner("metro or quick?").await.is_err());
}

#[tokio::test]
async fn a_choice_for_good_that_cannot_be_kept_is_no_choice() {
    let kept = Arc::new(Kept {
        is_full: true,
        ..Kept::default()
    });
    let mut stage = stage(&kept);
    stage.watcher.selections.push_back(app("metro", true));
    let refused = stage.ask_planner("metro or quick?").await;
    assert!(
        matches!(refused, Err(SessionError::NotKept(_))),
        "{refused:?}"
    );
    assert_eq!(stage.session.spokes().count(), 0);
}

#[tokio::test]
async fn a_private_session_neither_uses_nor_keeps_a_choice() {
    let kept = Arc::<Kept>::default();
    *kept.choice.lock().unwrap() = Some("metro".to_owned());
    let model = Scripted::new("scripted", named);
    let mut stage = Stage::with_apps_and(&APPS, Everything, model, |setup| {
        setup.selections = Some(kept.clone());
        setup.private = true;
    });
    stage.watcher.selections.push_back(app("quick", true));
    let refused = stage.ask_planner("metro or quick?").await;
    assert!(
        matches!(refused, Err(SessionError::NoChoice(_))),
        "{refused:?}"
    );
    assert!(
        stage
            .watcher
            .selected_among
            .iter()
            .all(|view| !view.can_keep)
    );
    assert_eq!(kept.choice.lock().unwrap().as_deref(), Some("metro"));
}

/// "And who sent it?" needs no app by itself, and goes on where the last query went.
#[tokio::test]
async fn a_follow_up_stays_in_its_conversation() {
    let mut stage = stage(&Arc::default());
    stage.ask_planner("what does metro cost?").await.unwrap();
    let outcome = stage.ask_planner("and who says so?").await.unwrap();
    let said = outcome.result.unwrap();
    assert_eq!(said.reveal_tcb(), "what does metro cost?|and who says so?");
    let other = stage.ask_planner("what does quick cost?").await.unwrap();
    assert_eq!(other.result.unwrap().reveal_tcb(), "what does quick cost?");
    let expected = [
        plan("metro", false, "planner"),
        plan("metro", false, "planner, follow-up"),
        plan("quick", false, "planner"),
    ];
    assert_eq!(plans(&stage), expected);
}

/// Calls the tool of the app that the query names with an order, and says what came of it.
fn calls(request: &CompletionRequest) -> Completion {
    if request.purpose == Purpose::Plan {
        return named(request);
    }
    let said = said(request);
    let order = said.rsplit('|').next().unwrap_or_default();
    let is_told = matches!(
        request.prompt.messages().last(),
        Some(PromptMessage::Tool { .. })
    );
    match order.split_once("call ") {
        Some((_, tool)) if !is_told => {
            call_answer(tool.trim(), format!(r#"{{"text":"{}"}}"#, order.len()))
        }
        _ => text_answer("done"),
    }
}

fn with_group(private: bool) -> Stage {
    let model = Scripted::new("scripted", calls);
    let apps = [("metro", "ok"), ("quick", "ok"), ("notes", "ok")];
    Stage::with_apps_and(&apps, AlwaysAsks, model, |setup| {
        setup.private = private;
        setup.groups = vec![hub::planner::Group {
            name: "all".to_owned(),
            apps: apps.map(|(app, _)| app.to_owned()).into(),
        }];
        for app in &mut setup.apps {
            app.descriptions = Lattice::four_point().label("untrusted").unwrap();
        }
    })
}

#[tokio::test]
async fn a_question_says_what_the_hub_knows_of_it() {
    let mut stage = with_group(false);
    for query in [
        "metro and quick: call metro__echo",
        "metro and quick: call notes__echo",
        "metro and quick: call notes__echo",
    ] {
        stage.ask_planner(query).await.unwrap();
    }
    let said: Vec<_> = stage
        .watcher
        .assessments
        .iter()
        .map(|it| (it.unplanned, it.before.clone(), it.same))
        .collect();
    let no = || vec![Answer::No];
    let expected = [
        (false, vec![], None),
        (true, vec![], None),
        (true, no(), Some(Answer::No)),
    ];
    assert_eq!(said, expected);
}

#[tokio::test]
async fn a_private_query_is_asked_about_as_if_it_were_the_first() {
    let mut stage = with_group(true);
    for _ in 0..2 {
        let query = "metro and quick: call notes__echo";
        stage.ask_planner(query).await.unwrap();
    }
    assert_eq!(stage.watcher.assessments.len(), 2);
    assert!(
        stage
            .watcher
            .assessments
            .iter()
            .all(|it| it.before.is_empty() && it.unplanned)
    );
}
