//! One query to several apps, each by itself.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use hub::trace::Event;
use hub::{Completion, CompletionRequest};
use ifc::{Call, Label, Labeled, Lattice, Policy, PolicyError, PromptMessage, Rule, Sink};
use llm::{Scripted, call_answer, text_answer};
use server::{Choice, SessionError};

use crate::stage::{Everything, Stage};

/// What the prompt shows, as one text.
fn shown(request: &CompletionRequest) -> String {
    let messages = request.prompt.messages().iter();
    let text = messages.map(|message| match message {
        PromptMessage::System(_) => String::new(),
        PromptMessage::User(text) => format!("user: {text}\n"),
        PromptMessage::Assistant { text, .. } => format!("assistant: {text}\n"),
        PromptMessage::Tool { tool, content, .. } => format!("{tool} says: {content}\n"),
    });
    text.collect()
}

/// Asks its app for the fare and repeats what it said; put together, all that the prompt shows.
fn fares(request: &CompletionRequest) -> Completion {
    let text = shown(request);
    let has_tools = !request.prompt.tools().is_empty();
    match (has_tools, text.contains("echo says:")) {
        (true, false) => call_answer("echo", r#"{"text":"fare"}"#),
        (true, true) => text_answer(text.lines().last().unwrap_or_default()),
        (false, _) => text_answer(text),
    }
}

async fn each(stage: &mut Stage, apps: &[&str], query: &str) -> Result<hub::Outcome, SessionError> {
    let choice = Choice::Each(apps.iter().map(|app| (*app).to_owned()).collect());
    let query = Labeled::trusted_tcb(query);
    let (watcher, cancel) = (&mut stage.watcher, &stage.cancel);
    stage.session.ask(query, choice, watcher, cancel).await
}

/// How many tools each prompt had, and what it showed.
type Prompts = Arc<Mutex<Vec<(usize, String)>>>;

/// A model, and the prompts that it was sent.
fn recorded(answer: fn(&CompletionRequest) -> Completion) -> (Scripted, Prompts) {
    let prompts = Prompts::default();
    let log = Arc::clone(&prompts);
    let model = Scripted::new("scripted", move |request| {
        let tools = request.prompt.tools().len();
        log.lock().unwrap().push((tools, shown(request)));
        answer(request)
    });
    (model, prompts)
}

#[tokio::test]
async fn no_word_of_one_app_reaches_a_prompt_with_tools_of_another() {
    let apps = [("metro", "ok"), ("quick", "environment")];
    let (model, prompts) = recorded(fares);
    let mut stage = Stage::with_apps(&apps, Everything, model);
    let outcome = each(&mut stage, &["quick", "metro"], "compare the fares")
        .await
        .unwrap();
    let said = outcome.result.unwrap();
    let said = said.reveal_tcb();
    // In this mode an app answers with its environment.
    for part in [
        "user: compare the fares",
        "metro says: echo says: fare",
        "quick says: echo says: ",
        "PATH",
    ] {
        assert!(said.contains(part), "{part} in {said}");
    }
    let prompts = prompts.lock().unwrap();
    let with_tools: Vec<_> = prompts.iter().filter(|(tools, _)| *tools > 0).collect();
    assert_eq!((prompts.len(), with_tools.len()), (5, 4));
    for (_, prompt) in with_tools {
        assert!(
            !(prompt.contains("says: fare") && prompt.contains("PATH")),
            "{prompt}"
        );
        assert!(
            !prompt.contains("metro") && !prompt.contains("quick"),
            "{prompt}"
        );
    }
    let trace = stage.trace();
    let planned = trace.iter().find_map(|event| match event {
        Event::Planned { apps, each, by, .. } => Some((apps.clone(), *each, by.as_str())),
        _ => None,
    });
    let both: BTreeSet<String> = ["metro", "quick"].map(str::to_owned).into();
    assert_eq!(planned, Some((both, true, "command line")));
    // Each app's own answer is in the trace under its name.
    let alone = stage
        .watcher
        .records
        .iter()
        .filter(|record| matches!(record.event, Event::Answer { .. }));
    let names: Vec<Option<&str>> = alone.map(|record| record.conversation.as_deref()).collect();
    assert_eq!(names, [Some("metro"), Some("quick"), None]);
}

/// Follow-ups know what was put together; each app knows its own part.
#[tokio::test]
async fn what_was_asked_before_is_known_where_it_was_said() {
    let apps = [("metro", "ok"), ("quick", "ok")];
    let (model, prompts) = recorded(fares);
    let mut stage = Stage::with_apps(&apps, Everything, model);
    each(&mut stage, &["quick", "metro"], "first")
        .await
        .unwrap();
    each(&mut stage, &["quick", "metro"], "second")
        .await
        .unwrap();
    let prompts = prompts.lock().unwrap();
    let (_, last) = prompts.last().unwrap();
    for part in ["user: first", "user: second"] {
        assert!(last.contains(part), "{last}");
    }
    assert_eq!(stage.session.spokes().count(), 2);
}

#[tokio::test]
async fn an_app_without_an_answer_keeps_no_other_from_answering() {
    for mode in ["exit-mid-call", "exit-at-start"] {
        let apps = [("metro", "ok"), ("quick", mode), ("third", "ok")];
        let (model, _) = recorded(fares);
        let mut stage = Stage::with_apps(&apps, Everything, model);
        let outcome = each(&mut stage, &["metro", "quick", "third"], "go")
            .await
            .unwrap();
        let said = outcome.result.unwrap();
        let said = said.reveal_tcb();
        for part in [
            "metro says: echo says: fare",
            "quick says: (no answer)",
            "third says: echo",
        ] {
            assert!(said.contains(part), "{mode}: {part} in {said}");
        }
        let gathered = |event: &Event| matches!(event, Event::Gathered { answered, missing } if answered.len() == 2 && *missing == ["quick"]);
        assert!(stage.trace().iter().any(gathered), "{mode}");
    }
}

#[tokio::test]
async fn a_single_answer_stands_as_it_is() {
    let apps = [("metro", "ok"), ("quick", "exit-at-start")];
    let (model, prompts) = recorded(fares);
    let mut stage = Stage::with_apps(&apps, Everything, model);
    let outcome = each(&mut stage, &["metro", "quick"], "go").await.unwrap();
    assert_eq!(outcome.result.unwrap().reveal_tcb(), "echo says: fare");
    assert!(prompts.lock().unwrap().iter().all(|(tools, _)| *tools > 0));
    let apps = [("metro", "exit-at-start"), ("quick", "exit-at-start")];
    let mut stage = Stage::with_apps(&apps, Everything, recorded(fares).0);
    let failed = each(&mut stage, &["metro", "quick"], "go").await;
    assert!(matches!(failed, Err(SessionError::Spoke(_))), "{failed:?}");
}

/// What each app returns is untrusted, and `quick` may not be answered about from it.
struct QuickIsStrict;

fn untrusted() -> Label {
    Lattice::four_point().label("untrusted").unwrap()
}

impl Policy for QuickIsStrict {
    fn rule(&self, sink: &Sink<'_>) -> Result<Rule, PolicyError> {
        let rule = Everything.rule(sink)?;
        Ok(match sink {
            Sink::Answer(release) if release.apps.contains("quick") => Rule {
                limit: Label::bottom(),
                ..rule
            },
            _ => rule,
        })
    }

    fn label_result(&self, _: &Call, result: String, _: bool) -> Labeled {
        Labeled::label_tcb(result, untrusted())
    }
}

/// The answer that is put together has the limit of each of its apps: metro's fare is shown by itself,
/// and not where quick's strict rule holds.
#[tokio::test]
async fn the_limits_of_all_apps_hold_for_what_is_put_together() {
    let apps = [("metro", "ok"), ("quick", "ok")];
    let mut stage = Stage::with_apps(&apps, QuickIsStrict, recorded(fares).0);
    let outcome = each(&mut stage, &["metro", "quick"], "go").await.unwrap();
    assert_eq!(
        outcome.refused, 2,
        "quick's own answer, and the one for both"
    );
    let said = outcome.result.unwrap();
    assert!(said.label().is_bottom());
    assert!(
        said.reveal_tcb().contains("metro says: [redacted]"),
        "{}",
        said.reveal_tcb()
    );
}
