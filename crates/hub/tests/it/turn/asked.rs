//! What an app asks the user while a call runs is text of the app, and showing it is the answers' sink.

use hub::trace::{Event, Names};
use ifc::{Arguments, Call, Dimension, Label, Lattice};

use super::{EAGER, World, say, world_with};

/// A call of this tool that was made under untrusted text, with a secret argument.
fn call(tool: &str) -> Call {
    let whole = |dimension| Lattice::four_point().whole(dimension);
    Call {
        app: "app".to_owned(),
        tool: tool.to_owned(),
        arguments: Arguments::parse(r#"{"to":"x"}"#, &whole(Dimension::Confidentiality)).unwrap(),
        label: whole(Dimension::Integrity),
    }
}

fn world(answer: Option<Label>) -> World {
    world_with(EAGER, |_| say("in words"), answer)
}

fn asked(events: &[Event]) -> (&Names, &str) {
    let asked = events.iter().find_map(|event| match event {
        Event::AppAsked { label, by, .. } => Some((label, by.as_str())),
        _ => None,
    });
    asked.unwrap()
}

#[test]
fn the_question_has_the_label_of_the_apps_worst_words_and_of_the_call() {
    for (tool, expected) in [
        // What it returns is trusted and public; what it was given is not.
        ("note", vec!["untrusted", "secret"]),
        ("unlisted", vec!["any"]),
    ] {
        let mut world = world(Some(Label::top()));
        let question = world.agent.app_asks(&call(tool), "Which one?").unwrap();
        assert!(question.beyond().is_none());
        let events = world.agent.take_events();
        let (label, by) = asked(&events);
        assert_eq!(
            (label, by),
            (
                &expected.into_iter().map(str::to_owned).collect(),
                "policy answer.limit"
            )
        );
        assert!(world.agent.app_answered(question, "accept", "{}"));
        let events = world.agent.take_events();
        assert!(
            matches!(&events[..], [Event::AppAnswered { answer, content, .. }] if answer == "accept" && content.as_str() == "{}")
        );
    }
}

#[test]
fn beyond_the_answers_limit_whoever_answers_has_been_asked_about_it() {
    for (content, goes, word) in [("{}", true, "once"), ("", false, "no")] {
        let mut world = world(Some(Label::bottom()));
        let question = world.agent.app_asks(&call("note"), "Which one?").unwrap();
        let rule = question.beyond().map(|beyond| beyond.rule().name.clone());
        assert_eq!(rule.as_deref(), Some("answer.limit"));
        let events = world.agent.take_events();
        assert!(
            matches!(&events[..], [Event::Asked { .. }, Event::AppAsked { by, .. }] if by == "user")
        );
        assert_eq!(world.agent.app_answered(question, "said", content), goes);
        let events = world.agent.take_events();
        assert!(
            matches!(&events[..], [Event::Answered { answer, allowed, .. }, _] if answer == word && *allowed == goes)
        );
        // It was for once: the same is asked about again.
        let again = world.agent.app_asks(&call("note"), "Which one?").unwrap();
        assert!(again.beyond().is_some());
    }
}

#[test]
fn a_policy_that_fails_shows_nothing() {
    let mut world = world(None);
    assert!(world.agent.app_asks(&call("note"), "Which one?").is_err());
    let events = world.agent.take_events();
    assert!(matches!(&events[..], [Event::AppRefused { request, .. }] if request == "question"));
}

#[test]
fn an_app_that_serves_anothers_conversation_speaks_under_its_own_limit_too() {
    let mut world = world(Some(Label::bottom()));
    let mut call = call("note");
    call.app = "other".to_owned();
    let question = world.agent.app_asks(&call, "Which one?").unwrap();
    let apps = &question.beyond().unwrap().release().apps;
    assert!(apps.iter().eq(["app", "other"]), "{apps:?}");
}
