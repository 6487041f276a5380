//! The questions of an app to the user while it works on a call.

use std::sync::Arc;
use std::time::Duration;

use hub::trace::Event;
use ifc::{Call, Effect, Exceeded, Label, Labeled, Policy, PolicyError, Rule, Sink};
use llm::{Broker, Scripted};
use serde_json::{Value, json};
use server::FormAnswer;

use crate::stage::{Stage, echo_once};

fn accepted() -> FormAnswer {
    let answer = json!({"city": "Oslo", "nights": 2});
    FormAnswer::Accepted(answer.as_object().unwrap().clone())
}

/// The session's answer, which quotes what the app got.
async fn said(stage: &mut Stage) -> String {
    let said = stage.said().await;
    let got = said.strip_prefix("it said ");
    got.unwrap_or_else(|| panic!("{said}")).to_owned()
}

async fn got(stage: &mut Stage) -> Value {
    let said = said(stage).await;
    serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said}"))
}

#[tokio::test]
async fn an_apps_question_is_the_apps_and_its_answer_goes_there() {
    let mut stage = Stage::new("ask-user");
    stage.watcher.answer = Some(accepted());
    let expected = json!({"action": "accept", "content": {"city": "Oslo", "nights": 2}});
    assert_eq!(got(&mut stage).await, expected);
    let [view] = stage.watcher.forms.as_slice() else {
        panic!("{:?}", stage.watcher.forms)
    };
    assert_eq!((&*view.app, &*view.tool), ("test", "echo"));
    assert_eq!(view.form.message, "Where do you want to go?");
    assert_eq!(view.beyond, None);
    // Between the permit of the call and its result, before anything was shown or sent.
    let trace = stage.trace();
    let at = |wanted: fn(&Event) -> bool| trace.iter().position(wanted).unwrap();
    let asked = at(|event| matches!(event, Event::AppAsked { .. }));
    let answered = at(|event| matches!(event, Event::AppAnswered { .. }));
    assert!(at(|event| matches!(event, Event::Allowed { .. })) < asked);
    assert!(asked < answered);
    assert!(answered < at(|event| matches!(event, Event::Returned { .. })));
    let Event::AppAsked {
        text, label, by, ..
    } = &trace[asked]
    else {
        panic!()
    };
    assert!(text.contains("Where do you want to go?") && text.contains("Where to?"));
    assert_eq!(
        (label, &**by),
        (&vec!["any".to_owned()], "policy test.answer.limit")
    );
    let Event::AppAnswered {
        answer, content, ..
    } = &trace[answered]
    else {
        panic!()
    };
    assert_eq!(
        (&**answer, content.as_str()),
        ("accept", r#"{"city":"Oslo","nights":2}"#)
    );
}

/// What a spoke itself does not pass on is in the trace as well.
#[tokio::test]
async fn what_a_spoke_refuses_is_recorded() {
    for (mode, expected) in [
        ("ask-url", ("question", "no form that can be passed on")),
        ("ask-model", ("request", "does not offer it")),
        ("ask-outside", ("question", "exactly one call")),
        ("ask-at-once", ("question", "another request")),
    ] {
        let mut stage = Stage::new(mode);
        said(&mut stage).await;
        // The app asked before its call was answered, and the next record comes after it.
        let unheard = stage.trace().into_iter().find_map(|event| match event {
            Event::Unheard {
                app,
                request,
                reason,
                ..
            } => Some((app, request, reason.to_string())),
            _ => None,
        });
        let (app, request, reason) = unheard.unwrap_or_else(|| panic!("{mode}"));
        assert_eq!((&*app, &*request), ("test", expected.0), "{mode}");
        assert!(reason.contains(expected.1), "{mode}: {reason}");
    }
}

#[tokio::test]
async fn a_result_that_needs_input_asks_the_user_as_well() {
    let mut stage = Stage::new("ask-by-result");
    stage.watcher.answer = Some(accepted());
    let got = got(&mut stage).await;
    assert_eq!(got["got"]["where"]["content"]["city"], "Oslo");
    assert_eq!(stage.watcher.forms.len(), 1);
}

#[tokio::test]
async fn where_there_is_no_user_nobody_declines() {
    let mut stage = Stage::new("ask-user");
    assert_eq!(got(&mut stage).await, json!({"action": "cancel"}));
    let dismissed = |event: &Event| matches!(event, Event::AppAnswered { answer, content, .. } if answer == "cancel" && content.is_empty());
    assert!(stage.trace().iter().any(dismissed));
}

#[tokio::test]
async fn what_does_not_fit_the_form_is_no_answer() {
    let mut stage = Stage::new("ask-user");
    for answer in [
        json!({}),
        json!({"city": 7}),
        json!({"city": "Oslo", "nights": 31}),
        json!({"city": "Oslo", "password": "x"}),
    ] {
        let answer = answer.as_object().unwrap().clone();
        stage.watcher.answer = Some(FormAnswer::Accepted(answer));
        assert_eq!(got(&mut stage).await, json!({"action": "cancel"}));
        stage = Stage::new("ask-user");
    }
}

#[tokio::test]
async fn a_siege_of_questions_ends() {
    for (answer, shown, action) in [
        (Some(accepted()), 5, "accept"),
        // Whoever was declined does not insist.
        (Some(FormAnswer::Declined), 1, "decline"),
        (None, 1, "cancel"),
    ] {
        let mut stage = Stage::new("ask-again");
        stage.watcher.answer = answer;
        let got = got(&mut stage).await;
        let answers = got.as_array().unwrap();
        assert_eq!((answers.len(), stage.watcher.forms.len()), (20, shown));
        for (at, answer) in answers.iter().enumerate() {
            match at < shown {
                true => assert_eq!(answer["action"], action),
                false => assert!(answer.as_str().unwrap().contains("too often"), "{answer}"),
            }
        }
        let refused = |event: &&Event| matches!(event, Event::AppRefused { .. });
        assert_eq!(stage.trace().iter().filter(refused).count(), 20 - shown);
    }
}

#[tokio::test]
async fn all_at_once_is_one_question() {
    let mut stage = Stage::new("ask-at-once");
    stage.watcher.answer = Some(accepted());
    stage.watcher.pause = Duration::from_millis(300);
    assert_eq!(got(&mut stage).await.as_array().unwrap().len(), 20);
    assert_eq!(stage.watcher.forms.len(), 1);
}

#[tokio::test]
async fn what_a_person_cannot_see_whole_is_never_asked() {
    for mode in ["ask-url", "ask-nested", "ask-bomb", "ask-outside"] {
        let mut stage = Stage::new(mode);
        stage.watcher.answer = Some(accepted());
        assert!(!said(&mut stage).await.contains("Oslo"), "{mode}");
        assert!(stage.watcher.forms.is_empty(), "{mode}");
        let asked = |event: &Event| matches!(event, Event::AppAsked { .. });
        assert!(!stage.trace().iter().any(asked), "{mode}");
    }
}

/// What the app says may be shown only up to ⊥; beyond it the user is asked, or it is denied.
struct Wary(Exceeded);

impl Policy for Wary {
    fn rule(&self, sink: &Sink<'_>) -> Result<Rule, PolicyError> {
        let limit = match sink {
            Sink::Call(_) => Label::top(),
            // The final answer quotes what the app got.
            Sink::Answer(release) if release.text.reveal_tcb().starts_with("it said") => {
                Label::top()
            }
            Sink::Answer(_) => Label::bottom(),
            _ => return Err(PolicyError("no rule".to_owned())),
        };
        Ok(Rule {
            exceeded: self.0,
            ..Rule::asking("wary", Effect::Read, limit)
        })
    }

    fn label_result(&self, _: &Call, result: String, _: bool) -> Labeled {
        Labeled::unknown(result)
    }
}

fn wary(exceeded: Exceeded) -> Stage {
    let broker = Broker::new(Arc::new(Scripted::new("scripted", echo_once)), Label::top());
    Stage::start("ask-user", broker, |setup| {
        setup.parts.policy = Arc::new(Wary(exceeded));
    })
}

#[tokio::test]
async fn words_beyond_the_answers_limit_are_shown_with_the_rule_or_not_at_all() {
    let mut stage = wary(Exceeded::Ask);
    stage.watcher.answer = Some(accepted());
    assert_eq!(got(&mut stage).await["action"], "accept");
    let beyond = stage.watcher.forms[0].beyond.clone();
    assert_eq!(beyond, Some(("wary".to_owned(), vec!["any".to_owned()])));
    let trace = stage.trace();
    let settled = |event: &Event| matches!(event, Event::Answered { answer, allowed, .. } if answer == "once" && *allowed);
    assert!(
        trace
            .iter()
            .any(|event| matches!(event, Event::Asked { rule, .. } if rule == "wary"))
    );
    assert!(trace.iter().any(settled));

    let mut stage = wary(Exceeded::Deny);
    stage.watcher.answer = Some(accepted());
    assert!(said(&mut stage).await.contains("policy"));
    assert!(stage.watcher.forms.is_empty());
}

#[tokio::test]
async fn the_users_time_is_not_the_apps() {
    let broker = Broker::new(Arc::new(Scripted::new("scripted", echo_once)), Label::top());
    let mut stage = Stage::start("ask-user", broker, |setup| {
        setup.apps[0].spoke.call_timeout = Duration::from_millis(500);
    });
    stage.watcher.answer = Some(accepted());
    // Longer than the call's time and the hub's patience beyond it.
    stage.watcher.pause = Duration::from_secs(3);
    assert_eq!(got(&mut stage).await["action"], "accept");
}

#[tokio::test]
async fn an_interrupted_question_ends_with_the_turn() {
    let mut stage = Stage::new("ask-user");
    stage.watcher.pause = Duration::from_secs(3600);
    let cancel = Arc::clone(&stage.cancel);
    let asked = stage.when(|event| matches!(event, Event::AppAsked { .. }));
    tokio::spawn(async move {
        asked.await;
        cancel.notify_one();
    });
    let said = stage.said().await;
    assert!(said.starts_with("stopped: "), "{said}");
    assert_eq!(stage.watcher.forms.len(), 1);
    let unknown = |event: &Event| matches!(event, Event::CallUnknown { .. });
    assert!(stage.trace().iter().any(unknown));
}
