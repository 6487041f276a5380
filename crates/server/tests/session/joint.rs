//! Several apps in one conversation.

use hub::trace::{Event, Flow};
use hub::{Completion, CompletionRequest};
use ifc::{Call, Effect, Label, Labeled, Lattice, Policy, PolicyError, Rule, Sink};
use llm::{Scripted, call_answer, text_answer};
use server::SessionError;

use crate::stage::{Stage, results, runs, users};

/// What `notes` returns is secret, what `web` is given must not be.
struct NotesAreSecret {
    secret: Label,
}

impl NotesAreSecret {
    fn new() -> Self {
        let secret = Lattice::four_point().label("secret").unwrap();
        Self { secret }
    }
}

impl Policy for NotesAreSecret {
    fn rule(&self, sink: &Sink<'_>) -> Result<Rule, PolicyError> {
        let (name, limit) = match sink {
            Sink::Call(call) if call.app == "web" => ("web.limit", Label::bottom()),
            Sink::Call(_) => ("notes.limit", Label::top()),
            Sink::Answer(_) => ("answer.limit", Label::top()),
            _ => return Err(PolicyError("no rule".to_owned())),
        };
        Ok(Rule::asking(name.to_owned(), Effect::Write, limit))
    }

    fn label_result(&self, call: &Call, result: String, _: bool) -> Labeled {
        let label = match call.app.as_str() {
            "notes" => self.secret.clone(),
            _ => Label::bottom(),
        };
        Labeled::label_tcb(result, label)
    }
}

/// Reads from `notes`, then hands what it read to `web`.
fn hands_on(request: &CompletionRequest) -> Completion {
    match results(request).as_slice() {
        [] => call_answer("notes__echo", r#"{"text":"Heron"}"#),
        [note] => call_answer("web__echo", format!(r#"{{"text":"{note}"}}"#)),
        [.., last] => text_answer(last.clone()),
    }
}

/// What was decided, as `APP.TOOL DECISION`.
fn decisions(stage: &Stage) -> Vec<String> {
    let name = |flow: &Flow| match flow {
        Flow::Call(call) => format!("{}.{}", call.app, call.tool.as_str()),
        Flow::Message(message) => message.stage.clone(),
        Flow::Answer { .. } => "answer".to_owned(),
    };
    let trace = stage.trace();
    let decisions = trace.iter().filter_map(|event| match event {
        Event::Allowed { flow, .. } => Some(format!("{} allowed", name(flow))),
        Event::Asked { flow, .. } => Some(format!("{} asked", name(flow))),
        Event::Denied { flow, .. } => Some(format!("{} denied", name(flow))),
        _ => None,
    });
    decisions.collect()
}

/// A call says its app and the app's own name of the tool, whatever the model calls it; what one app
/// returned is decided on before another gets it.
#[tokio::test]
async fn what_one_app_returned_reaches_another_only_by_policy() {
    let apps = [("notes", "ok"), ("web", "ok")];
    let model = Scripted::new("scripted", hands_on);
    let mut stage = Stage::with_apps(&apps, NotesAreSecret::new(), model);
    let outcome = stage
        .ask_apps(&["notes", "web"], "Put my notes on the web")
        .await
        .unwrap();
    assert_eq!(outcome.refused, 1);
    assert_eq!(decisions(&stage), ["notes.echo allowed", "web.echo asked"]);
}

/// Each call runs in the spoke of its own app.
#[tokio::test]
async fn each_call_runs_at_its_own_app() {
    let apps = [("a", "ok"), ("b", "environment")];
    let model = Scripted::new("scripted", |request| match results(request).len() {
        0 => call_answer("a__echo", r#"{"text":"from a"}"#),
        1 => call_answer("b__echo", r#"{"text":"from b"}"#),
        _ => text_answer(results(request).join("|")),
    });
    let mut stage = Stage::with_apps(&apps, NotesAreSecret::new(), model);
    let outcome = stage.ask_apps(&["a", "b"], "go").await.unwrap();
    let said = outcome.result.unwrap();
    let (first, second) = said.reveal_tcb().split_once('|').unwrap();
    assert_eq!(first, "from a");
    // In this mode an app answers with its environment instead of what it was given.
    assert!(second.contains("PATH"), "{second}");
    assert_eq!(stage.session.spokes().count(), 2);
}

/// A name without its app, with another app or with more underscores is no tool.
#[tokio::test]
async fn only_qualified_names_are_tools() {
    for name in ["echo", "b__echo", "a_echo", "a__a__echo"] {
        let model = Scripted::new("scripted", move |request| match results(request).first() {
            None => call_answer(name, r#"{"text":"x"}"#),
            Some(note) => text_answer(note.clone()),
        });
        let mut stage = Stage::with_apps(&[("a", "ok"), ("c", "ok")], NotesAreSecret::new(), model);
        let outcome = stage.ask_apps(&["a", "c"], "go").await.unwrap();
        let said = outcome.result.unwrap();
        assert!(
            said.reveal_tcb().starts_with("not executed"),
            "{name}: {said:?}"
        );
        assert!(decisions(&stage).is_empty());
    }
}

/// Apps whose tools could be confused never share a conversation.
#[tokio::test]
async fn apps_with_names_of_two_readings_do_not_meet() {
    let model = Scripted::new("scripted", |_| text_answer("hello"));
    let apps = [("a", "ok"), ("a__b", "ok")];
    let mut stage = Stage::with_apps(&apps, NotesAreSecret::new(), model);
    let refused = stage.ask_apps(&["a", "a__b"], "go").await;
    assert!(matches!(refused, Err(SessionError::Names(..))));
    assert_eq!(stage.session.spokes().count(), 0);
}

/// An app that dies takes the turn and the joint conversation with it, and leaves the others running.
#[tokio::test]
async fn one_app_that_dies_ends_the_turn_and_no_other_app() {
    let apps = [("a", "ok"), ("b", "exit-mid-call")];
    let model = Scripted::new("scripted", |request| match results(request).as_slice() {
        [] => call_answer("b__echo", r#"{"text":"x"}"#),
        [first, ..] => text_answer(first.clone()),
    });
    let mut stage = Stage::with_apps(&apps, NotesAreSecret::new(), model);
    let outcome = stage.ask_apps(&["a", "b"], "go").await.unwrap();
    assert!(
        matches!(outcome.result, Err(hub::Stop::Spoke(_))),
        "{outcome:?}"
    );
    let left: Vec<(String, u32)> = stage
        .session
        .spokes()
        .map(|(app, pid)| (app.to_owned(), pid))
        .collect();
    assert_eq!(left.len(), 1);
    assert!(left[0].0 == "a" && runs(left[0].1));
    let ended = |event: &Event| matches!(event, Event::SpokeEnded { app, .. } if app == "b");
    assert!(stage.trace().iter().any(ended));
}

/// One that does not start is left out and named, and the others go on; of none, there is no answer.
#[tokio::test]
async fn one_app_that_does_not_start_is_left_out() {
    let apps = [("a", "ok"), ("b", "crash-at-start"), ("c", "ok")];
    let model = Scripted::new("scripted", |request| match results(request).as_slice() {
        [] => call_answer("c__echo", r#"{"text":"from c"}"#),
        [first, ..] => text_answer(first.clone()),
    });
    let mut stage = Stage::with_apps(&apps, NotesAreSecret::new(), model);
    let outcome = stage.ask_apps(&["a", "b", "c"], "go").await.unwrap();
    assert_eq!(outcome.result.unwrap().reveal_tcb(), "from c");
    let left_out = |event: &Event| matches!(event, Event::LeftOut { apps } if *apps == ["b"]);
    assert_eq!(stage.trace().iter().filter(|it| left_out(it)).count(), 1);
    let ended = |event: &Event| matches!(event, Event::SpokeEnded { app, .. } if app == "b");
    assert!(stage.trace().iter().any(ended));
    let error = stage.ask_apps(&["b"], "go").await;
    assert!(matches!(error, Err(SessionError::Spoke(_))));
}

/// An isolated conversation with an app knows nothing of the joint one, though both share its spoke.
#[tokio::test]
async fn conversations_share_spokes_and_no_words() {
    let model = Scripted::new("scripted", |request| text_answer(users(request).join("|")));
    let apps = [("a", "ok"), ("b", "ok")];
    let mut stage = Stage::with_apps(&apps, NotesAreSecret::new(), model);
    stage.ask_apps(&["a", "b"], "joint").await.unwrap();
    let alone = stage.ask_apps(&["a"], "alone").await.unwrap();
    assert_eq!(alone.result.unwrap().reveal_tcb(), "alone");
    let again = stage.ask_apps(&["b", "a"], "again").await.unwrap();
    assert_eq!(again.result.unwrap().reveal_tcb(), "joint|again");
    assert_eq!(stage.session.spokes().count(), 2);
}
