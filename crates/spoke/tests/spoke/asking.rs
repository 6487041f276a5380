//! What the app asks its client for, while it works on a call and otherwise.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use wire::*;

use crate::hub::*;

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn accepted() -> Reply {
    Reply::Accepted(r#"{"city":"Oslo","nights":2}"#.to_owned())
}

#[test]
fn a_question_reaches_the_hub_as_a_form_and_the_answer_reaches_the_app() {
    let mut hub = Hub::ready("ask-user");
    for (id, reply, expected) in [
        (
            1,
            accepted(),
            json!({"action": "accept", "content": {"city": "Oslo", "nights": 2}}),
        ),
        (2, Reply::Declined, json!({"action": "decline"})),
        (3, Reply::Dismissed, json!({"action": "cancel"})),
    ] {
        hub.call(id, TEXT, 15_000);
        let (request, form) = hub.request(id);
        assert_eq!(form.message, "Where do you want to go?");
        let fields: Vec<_> = form
            .fields
            .iter()
            .map(|it| (&*it.name, it.required))
            .collect();
        assert_eq!(fields, [("city", true), ("nights", false)]);
        hub.reply(request, reply);
        assert_eq!(parsed(&hub.result(id)), expected);
    }
}

#[test]
fn what_the_hub_refuses_is_an_error_for_the_app() {
    let mut hub = Hub::ready("ask-user");
    hub.call(1, TEXT, 15_000);
    let (request, _) = hub.request(1);
    hub.reply(request, Reply::Refused(Refusal::TooOften));
    assert_eq!(hub.result(1), Refusal::TooOften.to_string());
}

#[test]
fn an_app_that_works_on_no_call_is_not_heard() {
    let mut hub = Hub::ready("ask-outside");
    // The refusal reaches the app before the call does, or while it works on it.
    std::thread::sleep(Duration::from_millis(300));
    hub.call(1, TEXT, 15_000);
    let refused = [Refusal::NoCall.to_string()];
    assert_eq!(parsed(&hub.result(1)), json!(refused));
    assert_eq!(
        hub.refused,
        [(Wish::Question, Refusal::NoCall, 1, String::new())]
    );
}

#[test]
fn of_several_requests_at_once_one_is_heard() {
    let mut hub = Hub::ready("ask-at-once");
    hub.call(1, TEXT, 15_000);
    let (request, _) = hub.request(1);
    // Time for all of them to be there.
    std::thread::sleep(Duration::from_millis(300));
    hub.reply(request, accepted());
    let got = parsed(&hub.result(1));
    let got = got.as_array().unwrap();
    let busy = json!(Refusal::Busy.to_string());
    let heard = got.iter().filter(|it| **it != busy).count();
    assert_eq!((got.len(), heard), (20, 1), "{got:?}");
    // The hub hears of it, as often as it doubles.
    let times = [1, 2, 4, 8, 16];
    let told = times.map(|times| (Wish::Question, Refusal::Busy, times, String::new()));
    assert_eq!(hub.refused, told);
}

#[test]
fn with_several_calls_nobody_knows_which_one_asks() {
    let mut hub = Hub::ready("ask-user");
    hub.call(1, TEXT, 15_000);
    let (_, _) = hub.request(1);
    hub.call(2, TEXT, 15_000);
    // The app answers the second call with what came back for its second question.
    assert_eq!(hub.result(2), Refusal::NoCall.to_string());
}

#[test]
fn the_time_in_which_the_app_waits_for_us_is_not_its_own() {
    let mut hub = Hub::ready("ask-user");
    let begun = Instant::now();
    hub.call(1, TEXT, 2_000);
    let (request, _) = hub.request(1);
    std::thread::sleep(Duration::from_millis(2_500));
    hub.reply(request, accepted());
    assert!(hub.result(1).contains("Oslo"));
    assert!(begun.elapsed() >= Duration::from_millis(2_500));
    // And it is its own again afterwards.
    let mut hub = Hub::ready("ask-then-silence");
    hub.call(1, TEXT, 400);
    let (request, _) = hub.request(1);
    std::thread::sleep(Duration::from_millis(500));
    hub.reply(request, accepted());
    let timeout = FailureReason::CallTimeout(400);
    assert_eq!(hub.call_failure(1), timeout);
}

#[test]
fn a_question_ends_with_the_call_that_it_belongs_to() {
    let mut hub = Hub::ready("ask-and-answer");
    for id in 1..5 {
        hub.call(id, TEXT, 15_000);
        // The question is there before the answer, or never.
        let first = hub.next();
        let result = match first {
            Some(SpokeFrame::Request { call, .. }) => {
                assert_eq!(call, id);
                hub.next()
            }
            first => first,
        };
        assert!(matches!(result, Some(SpokeFrame::Result { id: found, .. }) if found == id));
    }
}

#[test]
fn a_cancelled_call_takes_its_question_along() {
    let mut hub = Hub::ready("ask-user");
    hub.call(1, TEXT, 15_000);
    let (request, _) = hub.request(1);
    hub.send(&HubFrame::Cancel { id: 1 });
    assert_eq!(hub.call_failure(1), FailureReason::Cancelled);
    // It crossed the end of the call.
    hub.reply(request, accepted());
    hub.call(2, TEXT, 15_000);
    let (request, _) = hub.request(2);
    hub.reply(request, Reply::Declined);
    assert_eq!(parsed(&hub.result(2)), json!({"action": "decline"}));
}

#[test]
fn what_cannot_be_shown_to_a_person_never_reaches_the_hub() {
    for (mode, words, wish, why) in [
        ("ask-url", "forms only", Wish::Question, Refusal::Unfit),
        (
            "ask-nested",
            "no such capability",
            Wish::Other,
            Refusal::NotOffered,
        ),
        ("ask-bomb", "longer than", Wish::Question, Refusal::Unfit),
        (
            "ask-model",
            "no such capability",
            Wish::Other,
            Refusal::NotOffered,
        ),
    ] {
        let mut hub = Hub::ready(mode);
        hub.call(1, TEXT, 15_000);
        let said = hub.result(1);
        assert!(said.contains(words), "{mode}: {said}");
        assert_eq!(hub.refused, [(wish, why, 1, String::new())], "{mode}");
    }
}

#[test]
fn a_result_that_needs_input_is_a_question_too() {
    let mut hub = Hub::ready("ask-by-result");
    hub.call(1, TEXT, 15_000);
    let (request, form) = hub.request(1);
    assert_eq!(form.fields.len(), 2);
    hub.reply(request, accepted());
    let got = parsed(&hub.result(1));
    let expected = json!({"action": "accept", "content": {"city": "Oslo", "nights": 2}});
    assert_eq!(got.pointer("/got/where"), Some(&expected));
    assert_eq!(got.get("state"), Some(&json!("kept")));
}

#[test]
fn only_forms_are_declared() {
    let mut hub = Hub::ready("ask-capabilities");
    hub.call(1, TEXT, 15_000);
    let expected = json!({"elicitation": {"form": {}}});
    assert_eq!(parsed(&hub.result(1)), expected);
}
